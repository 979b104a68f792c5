//! The parts that the server works with. What it does with them is in one file per resource.

pub mod access;
mod algorithm;
mod answers;
mod board;
mod chart;
mod container;
mod datapack;
mod dataset;
mod difficulty;
mod doctor;
pub mod download;
mod evaluation;
pub mod event;
mod execute;
mod fault;
mod guided;
mod health;
mod helm;
mod injection;
mod kill_switch;
mod label;
mod otel;
mod pedestal;
mod project;
mod query;
mod register;
mod release;
mod run;
mod scores;
mod seed;
pub use seed::WatchedSeed;
mod setting;
mod submit;
mod system;
mod task;
mod upload;
mod why;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use api::{Page, PageQuery, Pagination};
use cluster::Cluster;
use model::{Problem, Result, WallTime};
use tokio::sync::watch;

use crate::auth::{Access, Tokens};
pub use difficulty::effect;
pub use scores::board as wire;

/// What a detector or an algorithm may use, unless a run says otherwise.
#[derive(Debug, Clone, Copy)]
pub struct ExecutionLimits {
    pub seconds: u64,
    pub memory_mib: u64,
}

/// Where charts are kept, and how they are fetched and rendered.
#[derive(Debug, Clone)]
pub struct ChartOptions {
    /// Where the archives are kept, each named by its SHA-256.
    pub place: ::chart::Place,
    /// The program `helm`; absent = the first on `PATH`.
    pub helm: Option<PathBuf>,
    /// Longest time that one call of `helm` may take.
    pub limit: std::time::Duration,
    pub mirrors: ::chart::Mirrors,
    /// How repositories and registries are logged in to.
    pub logins: ::chart::Logins,
    /// Platforms of the nodes, `linux/amd64`; empty = nobody said.
    pub platforms: Vec<String>,
}

/// What the server is made of.
pub struct Parts {
    pub store: store::Store,
    pub catalog: Arc<::system::Catalog>,
    pub cluster: Arc<dyn Cluster>,
    pub signals: telemetry::SignalStore,
    /// Where a collector writes what it receives, instead of sending it here.
    pub clickhouse: Option<telemetry::ClickHouse>,
    /// Folder of the published datapacks.
    pub packs: PathBuf,
    pub charts: ChartOptions,
    pub limits: ExecutionLimits,
    /// The data folder; the file with the administrator's token is in it.
    pub data: PathBuf,
    /// This life of this process, which owns what is leased here.
    pub incarnation: store::IncarnationId,
    /// The daemon's own program: what is asked in SQL is answered in a process of its own, `PROGRAM query`.
    pub program: PathBuf,
    /// Why this machine cannot keep a command apart from the rest, if it cannot.
    pub isolation: Option<Problem>,
}

/// The server's work, independent of HTTP. A handle: clones share everything.
#[derive(Clone)]
pub struct App {
    inner: Arc<Inner>,
}

struct Inner {
    parts: Parts,
    tokens: Tokens,
    access: Access,
    started: Instant,
    started_at: WallTime,
    closing: watch::Sender<bool>,
    /// Held while a seed is applied here; the duty's lease keeps other processes out.
    applying: tokio::sync::Mutex<()>,
    charts: ::chart::Charts,
    /// Held while a chart is installed here: a slot's lease is this process's, whichever request took it.
    installing: tokio::sync::Mutex<()>,
    followed: watch::Sender<setting::Followed>,
    watched: watch::Sender<Option<seed::Looked>>,
    seen: Mutex<HashMap<String, api::chart::RenderCheck>>,
}

impl App {
    /// Makes sure that there is an administrator's token, and that every key which the program reads is declared.
    ///
    /// # Errors
    /// Whatever the store or the file of the token fails with.
    pub async fn new(parts: Parts) -> Result<Self> {
        let fresh = parts.store.declare_catalogue().await?;
        if !fresh.is_empty() {
            tracing::info!("declared settings: {}", fresh.join(", "));
        }
        datapack::forget_scratch(&parts.data)?;
        let tokens = Tokens::open(parts.store.clone(), &parts.data).await?;
        let access = Access::open(&parts.data)?;
        let (closing, _) = watch::channel(false);
        let (followed, _) = watch::channel(setting::Followed::default());
        let (watched, _) = watch::channel(None);
        let seen = Mutex::default();
        let (started, started_at) = (Instant::now(), WallTime::now());
        let charts = ::chart::Charts::open(parts.charts.place.clone());
        let (applying, installing) = (tokio::sync::Mutex::new(()), tokio::sync::Mutex::new(()));
        let inner = Inner {
            parts,
            tokens,
            access,
            started,
            started_at,
            closing,
            applying,
            charts,
            installing,
            followed,
            watched,
            seen,
        };
        let app = Self { inner: Arc::new(inner) };
        app.reserve_namespaces().await?;
        Ok(app)
    }

    /// The file that holds the administrator's token, mode 0600.
    pub fn admin_token_file(&self) -> &Path {
        self.inner.tokens.file()
    }

    /// Ends what would otherwise stay open: event streams.
    pub(crate) fn close(&self) {
        self.inner.closing.send_replace(true);
    }

    fn closing(&self) -> watch::Receiver<bool> {
        self.inner.closing.subscribe()
    }

    /// What following settings came to last.
    fn followed(&self) -> &watch::Sender<setting::Followed> {
        &self.inner.followed
    }

    /// What was found in rendered charts, by what they were rendered from.
    fn seen(&self) -> &Mutex<HashMap<String, api::chart::RenderCheck>> {
        &self.inner.seen
    }

    /// The watched seed, as it was read last.
    fn watched(&self) -> &watch::Sender<Option<seed::Looked>> {
        &self.inner.watched
    }

    pub(crate) fn tokens(&self) -> &Tokens {
        &self.inner.tokens
    }

    fn access(&self) -> &Access {
        &self.inner.access
    }

    fn store(&self) -> &store::Store {
        &self.inner.parts.store
    }

    fn catalog(&self) -> &::system::Catalog {
        &self.inner.parts.catalog
    }

    fn cluster(&self) -> &dyn Cluster {
        &*self.inner.parts.cluster
    }

    fn signals(&self) -> &telemetry::SignalStore {
        &self.inner.parts.signals
    }

    fn clickhouse(&self) -> Option<&telemetry::ClickHouse> {
        self.inner.parts.clickhouse.as_ref()
    }

    fn packs(&self) -> &Path {
        &self.inner.parts.packs
    }

    fn charts(&self) -> &::chart::Charts {
        &self.inner.charts
    }

    fn chart_options(&self) -> &ChartOptions {
        &self.inner.parts.charts
    }

    fn installing(&self) -> &tokio::sync::Mutex<()> {
        &self.inner.installing
    }

    fn data(&self) -> &Path {
        &self.inner.parts.data
    }

    fn applying(&self) -> &tokio::sync::Mutex<()> {
        &self.inner.applying
    }

    fn incarnation(&self) -> store::IncarnationId {
        self.inner.parts.incarnation
    }

    fn limits(&self) -> ExecutionLimits {
        self.inner.parts.limits
    }

    /// # Errors
    /// `algorithm.no_isolation` when this machine cannot keep a command apart from the rest.
    fn isolation(&self) -> Result<()> {
        let Some(why) = &self.inner.parts.isolation else { return Ok(()) };
        let mut problem = Problem::new(why.kind, "algorithm.no_isolation", why.message.clone());
        (problem.found, problem.expected, problem.fix) = (why.found.clone(), why.expected.clone(), why.fix.clone());
        Err(problem)
    }

    fn started(&self) -> Instant {
        self.inner.started
    }

    /// Everything that is counted in memory is counted from here on.
    fn started_at(&self) -> WallTime {
        self.inner.started_at
    }
}

/// The part of a stored list that a query asks for.
fn stored_page(query: PageQuery) -> store::Page {
    let positive = |number: i32| u32::try_from(number).unwrap_or(1);
    store::Page::new(positive(query.page()), positive(query.size()))
}

fn listed<T, U>(query: PageQuery, list: &store::Listed<T>, convert: impl Fn(&T) -> U) -> Page<U> {
    Page { items: list.items.iter().map(convert).collect(), pagination: Pagination::new(query, list.total) }
}

/// One page of a list that is in memory.
fn page_of<T, U>(query: PageQuery, items: Vec<T>, convert: impl Fn(T) -> U) -> Result<Page<U>> {
    let query = query.check()?;
    let total = items.len() as u64;
    let skip = usize::try_from(query.offset()).unwrap_or(usize::MAX);
    let take = usize::try_from(query.limit()).unwrap_or(usize::MAX);
    let items = items.into_iter().skip(skip).take(take).map(convert).collect();
    Ok(Page { items, pagination: Pagination::new(query, total) })
}
