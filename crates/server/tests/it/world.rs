//! A server in this process, and ways to talk to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::system::RegisterRequest;
use client::{Client, Connection};
use serde_json::Value;
use server::ChartOptions;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::needy::Needy;

/// With this variable the whole suite runs on MariaDB, with its settings in etcd; without it on SQLite alone.
const SERVERS: &str = "AEGIS_TEST_SERVERS";

pub struct World {
    pub folder: tempfile::TempDir,
    _servers: Option<Servers>,
    pub address: String,
    pub store: store::Store,
    runtime: Runtime,
    stop: Option<oneshot::Sender<()>>,
}

/// Where state is kept when it is not in the folder.
struct Servers {
    database: testkit::Database,
    etcd: testkit::Etcd,
}

impl Servers {
    fn start() -> Self {
        let test = "the server's suite";
        let database = testkit::Database::mariadb(test).expect("MariaDB was asked for");
        Self { database, etcd: testkit::Etcd::shared(test).expect("etcd was asked for") }
    }
}

/// What came back.
pub struct Answer {
    pub status: u16,
    pub request_id: String,
    pub body: Value,
}

impl World {
    pub fn start() -> Self {
        // Nothing is fetched by most of this suite; a program that is not there says so.
        Self::start_with(|folder| ChartOptions {
            place: folder.join("charts").into(),
            helm: Some(folder.join("no-helm")),
            limit: Duration::from_secs(30),
            mirrors: chart::Mirrors::default(),
            logins: chart::Logins::default(),
            platforms: Vec::new(),
        })
    }

    /// With charts kept and fetched as `charts` says; it gets the data folder.
    pub fn start_with(charts: impl FnOnce(&Path) -> ChartOptions) -> Self {
        Self::start_on(|cluster| Arc::new(cluster), charts)
    }

    /// The same on a cluster that installs from fetched archives.
    pub fn start_needy(charts: impl FnOnce(&Path) -> ChartOptions) -> Self {
        Self::start_on(|cluster| Arc::new(Needy(cluster)), charts)
    }

    fn start_on(
        cluster: impl FnOnce(sim::SimCluster) -> Arc<dyn cluster::Cluster>,
        charts: impl FnOnce(&Path) -> ChartOptions,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = Runtime::new().unwrap();
        let servers = std::env::var_os(SERVERS).is_some_and(|value| !value.is_empty()).then(Servers::start);
        let (address, store, stop) =
            runtime.block_on(serve(folder.path(), servers.as_ref(), cluster, charts(folder.path())));
        Self { folder, _servers: servers, address, store, runtime, stop: Some(stop) }
    }

    pub fn token(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("admin.token")).unwrap().trim().to_owned()
    }

    pub fn client(&self) -> Client {
        Client::new(Connection {
            server: self.address.clone(),
            token: Some(self.token()),
            timeout: Duration::from_secs(30),
            ca_pem: None,
            insecure: false,
        })
        .unwrap()
    }

    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Asks the server to end.
    pub fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    pub fn call(&self, method: &str, path: &str, token: Option<&str>, body: &str) -> Answer {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.address));
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.header("x-request-id", "my-own-id").body(body.to_owned()).unwrap();
        let mut response = agent.run(request).unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        Answer {
            status: response.status().as_u16(),
            request_id: response.headers()["x-request-id"].to_str().unwrap().to_owned(),
            body: serde_json::from_str(&text).unwrap_or_else(|error| panic!("{method} {path}: {error}: {text}")),
        }
    }

    /// Registers `ts` from the project's own seed and enables it.
    pub fn with_ts(self) -> Self {
        self.client().register(&request("ts", "demo", own_seed())).unwrap();
        self
    }
}

pub fn request(name: &str, env: &str, files: BTreeMap<String, String>) -> RegisterRequest {
    RegisterRequest { name: name.into(), env: env.into(), files, seed_revision: None, force: false, dry_run: false }
}

/// The YAML files of a folder.
pub fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(&path).unwrap()))
        .collect()
}

pub fn own_seed() -> BTreeMap<String, String> {
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../seeds/demo"))
}

/// A folder of systems in which `hs` is no more than its registration.
fn systems(folder: &Path) -> PathBuf {
    let systems = folder.join("systems");
    std::fs::create_dir_all(systems.join("hs")).unwrap();
    let registration = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systems/hs/system.yaml");
    std::fs::copy(registration, systems.join("hs/system.yaml")).unwrap();
    systems
}

async fn serve(
    folder: &Path,
    servers: Option<&Servers>,
    cluster: impl FnOnce(sim::SimCluster) -> Arc<dyn cluster::Cluster>,
    charts: ChartOptions,
) -> (String, store::Store, oneshot::Sender<()>) {
    let file = format!("sqlite:{}", folder.join("aegis.db").display());
    let store = store::Store::connect(servers.map_or(&file, |servers| &servers.database.url)).await.unwrap();
    if let Some(servers) = servers {
        let source = settings::Etcd::open(&servers.etcd.url, Duration::from_secs(5)).unwrap();
        store.publish_to(Arc::new(source));
    }
    store.migrate().await.unwrap();
    let incarnation = store::IncarnationId::random();
    let catalog = Arc::new(system::Catalog::with_folder(&systems(folder)).unwrap());
    let signals = telemetry::SignalStore::open(folder.join("telemetry")).unwrap();
    let simulated =
        sim::SimCluster::open(&folder.join("sim"), Arc::clone(&catalog), Arc::new(signals.clone())).unwrap();
    let app = server::App::new(server::Parts {
        store: store.clone(),
        catalog,
        cluster: cluster(simulated),
        signals,
        clickhouse: None,
        packs: folder.join("packs"),
        charts,
        limits: server::ExecutionLimits { seconds: 300, memory_mib: 2048 },
        data: folder.to_owned(),
        incarnation,
        // Queries have their tests where the program is.
        program: PathBuf::new(),
        isolation: None,
    })
    .await
    .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel();
    tokio::spawn(server::serve(listener, app, async { drop(stopped.await) }));
    (address, store, stop)
}
