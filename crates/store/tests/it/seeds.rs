//! Applying seeds: everything that was agreed to in one transaction, by one owner at a time.

use std::collections::BTreeMap;

use model::Problem;
use serde_json::json;
use settings::{Expect, Owner, ValueType};
use store::{
    APPLY_DUTY, Acquired, ContainerKind, IncarnationId, Lease, NewSeedRevision, Removal, SeedLive, SeedObject,
    SeedWrites, SettingWrite, Store, SystemWrite,
};
use uuid::Uuid;

use crate::registry::{registration, setting};
use crate::stand::{TTL, code, stands};

fn seed(digest: char) -> NewSeedRevision {
    NewSeedRevision {
        env: "prod".into(),
        system: None,
        digest: digest.to_string().repeat(64),
        files: BTreeMap::from([("data.yaml".into(), "{}".into())]),
        commit: Some("abc".into()),
        dirty: true,
        by: "admin".into(),
        consents: json!({"prune": false}),
    }
}

/// A system with its containers, a setting of all, and what the seed says of them.
fn writes(limit: &str, overwrite: bool) -> SeedWrites {
    let whole = registration("ts");
    let settings = whole.settings.into_iter().chain([setting("a.limit", limit, ValueType::Int)]);
    SeedWrites {
        projects: vec![("pair".into(), "A project".into())],
        settings: settings.map(|setting| SettingWrite { setting, overwrite }).collect(),
        systems: vec![SystemWrite { system: whole.system, telemetry: whole.telemetry }],
        containers: whole.containers,
        links: vec![(
            code("ts"),
            vec![(ContainerKind::Pedestal, "ts".into()), (ContainerKind::Benchmark, "clickhouse".into())],
        )],
        objects: vec![
            SeedObject { kind: "setting".into(), name: "a.limit".into(), system: None, content: limit.into() },
            SeedObject { kind: "system".into(), name: "ts".into(), system: Some("ts".into()), content: "{}".into() },
        ],
        changes: json!([{"name": "a.limit"}]),
        change_count: 1,
        ..SeedWrites::default()
    }
}

async fn duty(store: &Store, owner: IncarnationId) -> Lease {
    match store.acquire(APPLY_DUTY, owner, TTL, "a test").await.unwrap() {
        Acquired::Yes(lease) => lease,
        Acquired::No(held) => panic!("{held:?}"),
    }
}

async fn apply(store: &Store, lease: &Lease, writes: SeedWrites) -> i32 {
    let revision = store.begin_seed(lease, &seed('a')).await.unwrap();
    store.apply_seed(lease, revision, "admin", &|_| Ok(writes.clone())).await.unwrap();
    revision
}

fn live_value(live: &SeedLive, key: &str) -> Option<String> {
    let setting = live.settings.iter().find(|setting| setting.declaration.key == key)?;
    setting.live.as_ref().map(|live| live.value.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seed_is_written_whole_and_what_it_said_is_remembered() {
    for stand in stands("a_seed_is_written_whole_and_what_it_said_is_remembered").await {
        let store = &stand.store;
        let owner = stand.enter(Uuid::new_v4()).await;
        let lease = duty(store, owner).await;
        let first = apply(store, &lease, writes("5", false)).await;
        let live = store.seed_live().await.unwrap();
        assert_eq!(live_value(&live, "a.limit").as_deref(), Some("5"));
        assert!(live.projects.contains(&("pair".into(), "A project".into())));
        assert_eq!((live.systems.len(), live.containers.len(), live.objects.len()), (1, 2, 2));
        let pedestal = live.containers.iter().find(|one| one.kind == ContainerKind::Pedestal).unwrap();
        assert_eq!((pedestal.systems.as_slice(), pedestal.prerequisites.len()), (&["ts".to_owned()][..], 1));
        let overlay = pedestal.versions[0].overlay_hash.as_ref().unwrap();
        assert_eq!(live.overlays[overlay], ("ts.yaml".into(), b"code: ts\n".to_vec()));
        assert_eq!(store.layers("ts").await.unwrap().chart.len(), 1);

        // An operator's value stays, unless it is said otherwise.
        store.set_setting("a.limit", "9", Expect::Anything, "operator").await.unwrap();
        apply(store, &lease, writes("6", false)).await;
        assert_eq!(live_value(&store.seed_live().await.unwrap(), "a.limit").as_deref(), Some("9"));
        let last = apply(store, &lease, writes("6", true)).await;
        let live = store.seed_live().await.unwrap();
        let limit = live.settings.iter().find(|setting| setting.declaration.key == "a.limit").unwrap();
        assert_eq!(limit.live.as_ref().map(|live| (live.value.as_str(), live.owner)), Some(("6", Owner::Seed)));
        assert_eq!(live.objects.iter().find(|object| object.name == "a.limit").unwrap().content, "6");

        let removed = SeedWrites {
            removed: vec![
                Removal::Setting("a.limit".into()),
                Removal::Prerequisite("ts".into(), "ts-operator".into()),
                Removal::Version(ContainerKind::Benchmark, "clickhouse".into(), "1.0.0".into()),
                Removal::System("ts".into()),
            ],
            forgotten: vec![("setting".into(), "a.limit".into())],
            changes: json!([]),
            ..SeedWrites::default()
        };
        apply(store, &lease, removed).await;
        let live = store.seed_live().await.unwrap();
        assert!(live.systems.is_empty() && live.objects.is_empty() && live.containers.is_empty(), "{live:#?}");
        assert_eq!(live_value(&live, "a.limit"), None);

        let history = store.seed_revisions().await.unwrap();
        let states: Vec<&str> = history.iter().map(|revision| revision.state.as_str()).collect();
        assert_eq!(states, ["applied"; 4]);
        assert!(history[0].id > last && history[3].id == first && history[3].seed == seed('a'));
        assert_eq!((history[3].change_count, &history[3].changes), (1, &json!([{"name": "a.limit"}])));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seed_that_is_refused_or_late_writes_nothing() {
    for stand in stands("a_seed_that_is_refused_or_late_writes_nothing").await {
        let store = &stand.store;
        let owner = stand.enter(Uuid::new_v4()).await;
        let lease = duty(store, owner).await;
        let before = store.seed_live().await.unwrap();
        let revision = store.begin_seed(&lease, &seed('a')).await.unwrap();
        let refused =
            store.apply_seed(&lease, revision, "admin", &|_| Err(Problem::internal("test.refused", "no"))).await;
        assert_eq!(refused.unwrap_err().code, "test.refused");
        // The last of the writes cannot be done: a version of another chart under a name that is taken.
        apply(store, &lease, writes("5", false)).await;
        let there = store.seed_live().await.unwrap();
        let mut wrong = writes("7", false);
        wrong.containers[1].versions[0].image_ref = "builder:2".into();
        let revision = store.begin_seed(&lease, &seed('b')).await.unwrap();
        let problem = store.apply_seed(&lease, revision, "admin", &|_| Ok(wrong.clone())).await.unwrap_err();
        assert_eq!((problem.code.as_ref(), store.seed_live().await.unwrap()), ("version.immutable", there.clone()));
        store.abandon_seed(revision).await.unwrap();

        // The duty goes to another process while this one sleeps.
        let revision = store.begin_seed(&lease, &seed('c')).await.unwrap();
        store.release(&lease).await.unwrap();
        let other = stand.enter(Uuid::new_v4()).await;
        let taken = duty(store, other).await;
        let late = store.apply_seed(&lease, revision, "admin", &|_| Ok(writes("8", false))).await.unwrap_err();
        assert_eq!((late.code.as_ref(), store.seed_live().await.unwrap()), ("fence.stale", there));
        assert!(store.begin_seed(&lease, &seed('d')).await.is_err());
        apply(store, &taken, writes("6", false)).await;
        let states: Vec<String> = store.seed_revisions().await.unwrap().into_iter().map(|one| one.state).collect();
        assert_eq!(states, ["applied", "interrupted", "applied", "interrupted"]);
        assert!(before.objects.is_empty());
    }
}
