//! SQL over datapacks: which ones, within which limits, one query after the other.

use std::path::PathBuf;
use std::time::Duration;

use ::query::child::{Question, ask};
use ::query::{Limits, PackFolder};
use api::datapack::QueryRequest;
use model::{ErrorKind, Problem, Result};
use store::{InjectionFilter, Page};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::App;
use super::download::Download;
use super::injection::blocking;

const MIB: u64 = 1024 * 1024;

/// Disk for what does not fit into memory, for each query.
const SPILL: u64 = 4096 * MIB;

/// Queries that compute at the same time; a further one waits for its turn.
const AT_ONCE: usize = 2;

/// How long it waits; whoever asks waits a little longer than its own limit of time.
const PATIENCE: Duration = Duration::from_secs(20);

static TURNS: Semaphore = Semaphore::const_new(AT_ONCE);

impl App {
    /// The answer as lines of JSON. What is wrong with the query is an error before the first line.
    ///
    /// # Errors
    /// `query.limit_out_of_range`, `query.busy`, `datapack.unknown`, `datapack.not_built`, `system.unknown`, and those of the query.
    pub async fn query(&self, request: QueryRequest) -> Result<Download> {
        let limits = limits(&request)?;
        let packs = self.asked(&request).await?;
        let (root, program) = (self.packs().to_owned(), self.inner.parts.program.clone());
        let scratch = self.scratch()?;
        let turn = turn().await?;
        let question = Question { sql: request.sql, root, packs, limits };
        // Who goes away drops the leash, here or with the body.
        let (asking, leash) = blocking(move || ask(&program, &["query"], question, &scratch)).await?;
        let asked = blocking(move || asking.first()).await?;
        let answer = Download::new("application/x-ndjson", "answer.ndjson".into(), None, move |sink| asked.write(sink));
        Ok(answer.keeping((leash, turn)))
    }

    /// The open parts that a query is about, in the order of their numbers.
    async fn asked(&self, request: &QueryRequest) -> Result<Vec<PackFolder>> {
        if !request.packs.is_empty() {
            let mut folders: Vec<PackFolder> = Vec::with_capacity(request.packs.len());
            for name in &request.packs {
                let pack = self.pack(name).await?;
                let folder = folder(pack.name().to_owned(), pack.name());
                if !folders.contains(&folder) {
                    folders.push(folder);
                }
            }
            return Ok(folders);
        }
        self.require_known_system(request.system.as_deref()).await?;
        let filter = InjectionFilter { system: request.system.clone(), ..InjectionFilter::default() };
        let mut folders = Vec::new();
        for number in 1.. {
            let page = self.store().injections(&filter, Page::new(number, LARGEST_PAGE)).await?;
            let built =
                page.items.iter().filter_map(|pack| Some(folder(pack.name.clone(), pack.pack_path.as_deref()?)));
            folders.extend(built);
            if page.items.len() < LARGEST_PAGE as usize {
                break;
            }
        }
        folders.reverse();
        Ok(folders)
    }
}

async fn turn() -> Result<SemaphorePermit<'static>> {
    let Ok(turn) = tokio::time::timeout(PATIENCE, TURNS.acquire()).await else {
        return Err(Problem::new(ErrorKind::Unavailable, "query.busy", "other queries are answered")
            .found(format!(
                "{AT_ONCE} queries, or answers that are not read to their end, for {} s",
                PATIENCE.as_secs()
            ))
            .fix("ask again later"));
    };
    turn.map_err(|error| Problem::internal("query.no_turn", "the query cannot be started").cause(error))
}

/// Rows of the store that are read at a time.
const LARGEST_PAGE: u32 = 500;

fn folder(name: String, path: &str) -> PackFolder {
    PackFolder { name, open: PathBuf::from(path).join("open") }
}

fn limits(request: &QueryRequest) -> Result<Limits> {
    let within = |what: &str, value: Option<u64>, default: u64, range: std::ops::RangeInclusive<u64>| {
        let value = value.unwrap_or(default);
        if range.contains(&value) {
            return Ok(value);
        }
        Err(Problem::new(ErrorKind::Invalid, "query.limit_out_of_range", "a limit of the query is out of range")
            .place(what)
            .found(value.to_string())
            .expected(format!("{} to {}", range.start(), range.end())))
    };
    let seconds = within("seconds", request.seconds, 60, 1..=600)?;
    let memory = within("memory_mib", request.memory_mib, 512, 16..=4096)?;
    let memory = usize::try_from(memory * MIB).unwrap_or(usize::MAX);
    let rows = within("rows", request.rows, 1_000_000, 1..=1_000_000_000)?;
    Ok(Limits { memory, spill: SPILL, time: Duration::from_secs(seconds), rows })
}
