//! What the tests start from: migrated stores, submissions and workers.

use std::time::Duration;

use model::{DataTime, GroupId, RunId, SystemCode, TaskKind, Truth};
use serde_json::json;
use store::{
    ClaimedTask, IdempotencyKey, Incarnation, IncarnationId, NewInjection, NewRun, NewTask, Store, Submission,
    Submitted,
};
use testkit::Database;
use uuid::Uuid;

pub const TTL: Duration = Duration::from_secs(30);

/// A migrated store on a database of its own.
pub struct Stand {
    pub store: Store,
    pub database: Database,
    /// Where live values are published, if they are.
    pub etcd: Option<testkit::Etcd>,
}

/// One stand for each back end. Names the back end, so that a failure says where it happened.
pub async fn stands(test: &str) -> Vec<Stand> {
    let mut stands = Vec::new();
    for database in testkit::databases(test) {
        let store = Store::connect(&database.url).await.unwrap();
        store.migrate().await.unwrap();
        stands.push(Stand { store, database, etcd: None });
    }
    stands
}

/// SQLite with its settings in SQL, and MariaDB with its settings in etcd: for what changes settings.
pub async fn published_stands(test: &str) -> Vec<Stand> {
    let mut stands = stands(test).await;
    for stand in stands.iter_mut().filter(|stand| stand.database.kind == "MariaDB") {
        stand.etcd = testkit::Etcd::shared(test);
        stand.publish(&stand.store);
    }
    stands
}

/// How long etcd may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

pub fn code(text: &str) -> SystemCode {
    SystemCode::parse(text).unwrap()
}

pub fn new_run(seed: u64) -> NewRun {
    NewRun {
        id: RunId::random(),
        system: code("ts"),
        spec: r#"{"format":1}"#.into(),
        seed,
        control_of: None,
        origin_kind: "simulated".into(),
        injection: NewInjection {
            fault_type: 7,
            fault_name: "network_delay".into(),
            services: "ts-order-service".into(),
            faults: json!([{"capability": "network_delay"}]),
            truth: Truth::default(),
            display_config: json!({"latency_ms": 300}),
            labels: json!({}),
            pre_duration: 1,
            origin: DataTime::from_seconds(1_700_000_000),
        },
        first: NewTask::new(TaskKind::RestartPedestal),
    }
}

impl Stand {
    fn publish(&self, store: &Store) {
        if let Some(etcd) = &self.etcd {
            store.publish_to(std::sync::Arc::new(settings::Etcd::open(&etcd.url, PATIENCE).unwrap()));
        }
    }

    /// Another process's view of the same state.
    pub async fn another(&self) -> Store {
        let store = Store::connect(&self.database.url).await.unwrap();
        self.publish(&store);
        store
    }

    pub async fn submission(&self, runs: u64) -> Submission {
        let project = self.store.project("default").await.unwrap().id;
        let runs = (0..runs).map(new_run).collect();
        Submission { group: GroupId::random(), project, runs, key: None }
    }

    pub async fn submit(&self, runs: u64) -> Submitted {
        self.store.submit(&self.submission(runs).await).await.unwrap()
    }

    /// Submits one run and takes up its first task.
    pub async fn claimed(&self, owner: IncarnationId) -> ClaimedTask {
        self.submit(1).await;
        self.claim(owner).await
    }

    pub async fn claim(&self, owner: IncarnationId) -> ClaimedTask {
        self.store.claim_task(owner, TTL).await.unwrap().expect("a task is due")
    }

    /// A process in a data folder.
    pub async fn enter(&self, folder: Uuid) -> IncarnationId {
        let id = IncarnationId::random();
        let incarnation = Incarnation { id, folder, host: "host".into(), pid: 1, role: "all".into() };
        self.store.enter(&incarnation).await.unwrap();
        id
    }

    /// Numbers of a run's events.
    pub async fn event_numbers(&self, run: RunId) -> Vec<i64> {
        self.store.events_after(run, 0, 10_000).await.unwrap().iter().map(|event| event.number).collect()
    }

    pub async fn event_names(&self, run: RunId) -> Vec<String> {
        self.store.events_after(run, 0, 10_000).await.unwrap().into_iter().map(|event| event.name).collect()
    }
}

pub fn key(key: &str, request: char) -> Option<IdempotencyKey> {
    Some(IdempotencyKey { key: key.into(), fingerprint: request.to_string().repeat(64) })
}
