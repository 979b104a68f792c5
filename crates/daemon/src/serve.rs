//! `aegis serve`: everything in one process. Takes the data folder, opens the parts, starts API, worker and receiver,
//! tells other programs where it is, and stops cleanly.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::local::{FORMAT, ServerFile};
use client::Connection;
use model::{ErrorKind, Problem, Result};
use store::{Incarnation, IncarnationId};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::{self, Config};
use crate::folder::DataFolder;

/// A daemon that is up. Dropping it does not stop it; [`Running::stop`] does.
struct Running {
    folder: DataFolder,
    /// The lock of a database file outside of the folder.
    database: Option<std::fs::File>,
    file: ServerFile,
    announced: Vec<PathBuf>,
    stop: watch::Sender<bool>,
    tasks: Vec<(&'static str, JoinHandle<Result<()>>)>,
}

/// Serves until SIGINT or SIGTERM.
///
/// # Errors
/// When a part cannot be opened or stops answering.
pub fn run(config: &Config) -> Result<()> {
    log();
    runtime()?.block_on(async {
        // From here on a signal is a request, also one that comes in the moment after the announcement.
        let mut signals = Signals::listen()?;
        let mut running = tokio::select! {
            started = start(config) => started?,
            () = signals.received() => return Ok(()),
        };
        println!("listening on {}", running.file.address);
        println!("token file   {}", running.file.token_file.display());
        if let Some(otlp) = &running.file.otlp_grpc {
            println!("OTLP (gRPC)  {otlp}");
        }
        if let Some(otlp) = &running.file.otlp_http {
            println!("OTLP (HTTP)  http://{otlp}");
        }
        let ended = tokio::select! {
            () = signals.received() => Ok(()),
            ended = running.first_end() => ended,
        };
        running.stop().await?;
        ended
    })
}

/// Serves while `action` talks to the daemon, then stops.
///
/// # Errors
/// Those of the action, and those of [`run`].
pub fn during(config: &Config, action: impl FnOnce(Connection) -> Result<()>) -> Result<()> {
    let runtime = runtime()?;
    let running = runtime.block_on(start(config))?;
    let token = std::fs::read_to_string(&running.file.token_file)
        .map_err(|error| unwritable(&running.file.token_file, error))?;
    let connection = Connection {
        server: running.file.address.clone(),
        token: Some(token.trim().to_owned()),
        timeout: Duration::from_secs(60),
        ca_pem: None,
        insecure: false,
    };
    let done = action(connection);
    runtime.block_on(running.stop())?;
    done
}

/// The runtime of everything that waits.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Problem::internal("daemon.runtime", error.to_string()))
}

/// Logs go to standard error; `AEGIS_LOG` filters them as the `tracing` crates do.
fn log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("AEGIS_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn,worker=info,server=info,daemon=info"));
    // Colours are for eyes: a file or a pipe gets none.
    let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(color).with_writer(std::io::stderr).init();
}

async fn start(config: &Config) -> Result<Running> {
    let folder = DataFolder::take(&config.data)?;
    let listener = bind(config.listen).await?;
    let address = listener.local_addr().map_err(|error| Problem::internal("listen.no_address", error.to_string()))?;
    let incarnation = incarnation(&folder)?;

    let url = config.store.clone().unwrap_or_else(|| format!("sqlite:{}", folder.path().join("aegis.db").display()));
    let database = config.store.as_ref().and_then(|url| store::sqlite_file(url)).map(crate::folder::lock_database);
    let database = database.transpose()?;
    let store = store::Store::connect_within(&url, config.answer()).await?;
    if let Some(source) = config.source()? {
        store.publish_to(source);
    }
    store.migrate().await?;
    // Only one process can hold the data folder, so whoever worked here before is gone.
    store.enter(&incarnation).await?;
    store.claim_predecessors(incarnation.id).await?;

    let catalog = Arc::new(match &config.systems {
        Some(systems) => system::Catalog::with_folder(systems)?,
        None => system::Catalog::builtin()?,
    });
    let signals = telemetry::SignalStore::open_with(folder.inner("telemetry")?, received(config))?;
    let cluster: Arc<dyn cluster::Cluster> =
        Arc::new(sim::SimCluster::open(&folder.inner("sim")?, Arc::clone(&catalog), Arc::new(signals.clone()))?);
    let packs = folder.inner("packs")?;

    let scratch = folder.inner("scratch")?;
    let isolation = crate::confine::probe(&scratch).err();
    if let Some(problem) = &isolation {
        tracing::warn!("commands as algorithms: {}", problem.chain());
    }
    let program =
        std::env::current_exe().map_err(|error| Problem::internal("daemon.own_program", error.to_string()))?;
    let app = server::App::new(server::Parts {
        store: store.clone(),
        catalog: Arc::clone(&catalog),
        cluster: Arc::clone(&cluster),
        signals: signals.clone(),
        clickhouse: config.telemetry.as_deref().map(telemetry::ClickHouse::open).transpose()?,
        packs: packs.clone(),
        charts: config.chart_options(charts(config, &folder)?),
        limits: server::ExecutionLimits { seconds: config.algorithm_seconds, memory_mib: config.algorithm_memory_mib },
        data: folder.path().to_owned(),
        incarnation: incarnation.id,
        program: program.clone(),
        isolation,
    })
    .await?;
    let token_file = app.admin_token_file().to_owned();

    let parts = worker::Parts {
        store,
        cluster,
        signals: signals.clone(),
        catalog,
        packs,
        scratch,
        program,
        incarnation: incarnation.id,
        capacity: config.workers,
        server: Some(format!("127.0.0.1:{}", address.port())).filter(|_| address.is_ipv4()),
    };

    let (stop, stopped) = watch::channel(false);
    let mut tasks = Vec::new();
    let (mut otlp_grpc, mut otlp_http) = (None, None);
    if config.otlp_grpc.is_some() || config.otlp_http.is_some() {
        let listen = telemetry::Listen { grpc: config.otlp_grpc, http: config.otlp_http };
        let listening = telemetry::serve(listen, signals.ingest()?, until(stopped.clone())).await?;
        tasks.push(("OTLP receiver", listening.task));
        otlp_grpc = listening.grpc.map(|address| address.to_string());
        otlp_http = listening.http.map(|address| address.to_string());
    }
    tasks.push(("telemetry upkeep", tokio::spawn(upkeep(signals, keep(config), until(stopped.clone())))));
    let following = app.clone().follow_settings(incarnation.clone(), until(stopped.clone()));
    tasks.push(("settings", tokio::spawn(following)));
    if let Some(seed) = &config.seed {
        let seed = server::WatchedSeed { folder: seed.folder.clone(), auto: seed.auto };
        let watching = app.clone().watch_seed(seed, until(stopped.clone()));
        tasks.push(("seed", tokio::spawn(watching)));
    }
    tasks.push(("API", tokio::spawn(server::serve(listener, app, until(stopped.clone())))));
    tasks.push(("worker", tokio::spawn(worker::run(parts, stopped))));

    let file = ServerFile {
        format: FORMAT,
        address: format!("http://{address}"),
        pid: i32::try_from(std::process::id()).expect("a process id fits in 31 bits"),
        token_file,
        otlp_grpc,
        otlp_http,
        data: folder.path().to_owned(),
    };
    let announced = announce(&folder, &file)?;
    Ok(Running { folder, database, file, announced, stop, tasks })
}

/// Where chart archives are kept; a folder is made when it is not there.
fn charts(config: &Config, folder: &DataFolder) -> Result<chart::Place> {
    if config.charts.is_none() {
        return Ok(folder.inner("charts")?.into());
    }
    let place = config.charts_place()?;
    if let chart::Place::Folder(charts) = &place {
        std::fs::create_dir_all(charts).map_err(|error| unwritable(charts, error))?;
    }
    Ok(place)
}

/// The limits of what is received.
fn received(config: &Config) -> telemetry::Options {
    let mut options = telemetry::Options::default();
    options.limits.past = Duration::from_secs(config.otlp_past_hours * 3600);
    options.limits.future = Duration::from_secs(config.otlp_future_minutes * 60);
    options
}

/// How long and how much telemetry is kept.
fn keep(config: &Config) -> telemetry::Keep {
    telemetry::Keep {
        age: Some(Duration::from_secs(config.telemetry_hours * 3600)),
        bytes: Some(config.telemetry_gib << 30),
    }
}

/// Looks after the telemetry store once a minute. What fails is tried again: no telemetry is lost by it.
async fn upkeep(
    signals: telemetry::SignalStore,
    keep: telemetry::Keep,
    stopped: impl Future<Output = ()>,
) -> Result<()> {
    let mut minute = tokio::time::interval(Duration::from_secs(60));
    tokio::pin!(stopped);
    loop {
        tokio::select! {
            () = &mut stopped => return Ok(()),
            _ = minute.tick() => {}
        }
        let signals = signals.clone();
        let done = tokio::task::spawn_blocking(move || signals.upkeep(keep)).await;
        match done.map_err(|error| Problem::internal("daemon.part_panicked", error.to_string()))? {
            Ok(()) => {}
            Err(problem) => tracing::warn!(problem = %problem.chain(), "old telemetry stays for now"),
        }
    }
}

/// This life of this process, in this data folder.
fn incarnation(folder: &DataFolder) -> Result<Incarnation> {
    let host =
        std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|error| format!("unknown ({error})"));
    Ok(Incarnation {
        id: IncarnationId::random(),
        folder: folder.identity()?,
        host: host.trim().to_owned(),
        pid: std::process::id(),
        role: "all".into(),
    })
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // The sender lives as long as the daemon; its end is a stop as well.
    let _ended = stopped.wait_for(|stop| *stop).await;
}

async fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        let (code, message) = match error.kind() {
            std::io::ErrorKind::AddrInUse => ("listen.port_taken", "another program listens on this address"),
            _ => ("listen.failed", "this address cannot be listened on"),
        };
        Problem::new(ErrorKind::Conflict, code, message)
            .place(address.to_string())
            .found(error.to_string())
            .expected("a free port")
            .fix("choose another one with `--listen`, or port 0 for any free one")
    })
}

/// Writes `server.json` into this user's state folder and into the data folder, readable by this user only. The data
/// folder's comes last: whoever sees it can rely on the other.
fn announce(folder: &DataFolder, file: &ServerFile) -> Result<Vec<PathBuf>> {
    let text = serde_json::to_vec_pretty(file).map_err(|error| Problem::internal("server_file", error.to_string()))?;
    let state = config::state_home().join("aegis");
    let mut written = Vec::new();
    for place in [state, folder.path().to_owned()] {
        std::fs::create_dir_all(&place).map_err(|error| unwritable(&place, error))?;
        let path = place.join("server.json");
        write_private(&path, &text)?;
        written.push(path);
    }
    Ok(written)
}

/// Replaces the file in one step, so that a reader never sees half of it.
fn write_private(path: &Path, text: &[u8]) -> Result<()> {
    use std::io::Write;
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&temporary)
        .map_err(|error| unwritable(&temporary, error))?;
    file.write_all(text).map_err(|error| unwritable(&temporary, error))?;
    std::fs::rename(&temporary, path).map_err(|error| unwritable(path, error))
}

fn unwritable(path: &Path, error: std::io::Error) -> Problem {
    Problem::new(ErrorKind::Unavailable, "data.unusable", "a file of the daemon cannot be used")
        .place(path.display().to_string())
        .found(error.to_string())
        .cause(error)
}

/// SIGINT and SIGTERM: both ask for a clean end.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).map_err(|error| Problem::internal("daemon.signal", error.to_string()));
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

impl Running {
    /// Waits until a part ends by itself, which none of them should.
    async fn first_end(&mut self) -> Result<()> {
        loop {
            if let Some(index) = self.tasks.iter().position(|(_, task)| task.is_finished()) {
                let (name, task) = self.tasks.remove(index);
                let ended = task.await.map_err(|error| Problem::internal("daemon.part_panicked", error.to_string()))?;
                ended?;
                return Err(Problem::internal("daemon.part_ended", format!("the {name} ended by itself")));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Lets running steps end, then removes the announcements that are still this process's own.
    async fn stop(self) -> Result<()> {
        self.stop.send_replace(true);
        for (name, task) in self.tasks {
            task.await.map_err(|error| Problem::internal("daemon.part_panicked", format!("{name}: {error}")))??;
        }
        let own = serde_json::to_vec_pretty(&self.file)
            .map_err(|error| Problem::internal("server_file", error.to_string()))?;
        for path in &self.announced {
            if std::fs::read(path).is_ok_and(|text| text == own) {
                std::fs::remove_file(path).map_err(|error| unwritable(path, error))?;
            }
        }
        drop(self.database);
        tracing::info!(data = %self.folder.path().display(), "stopped");
        Ok(())
    }
}
