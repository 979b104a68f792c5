//! Live values in etcd beside the store: both sides change or neither, and whatever another tool does there is taken or told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use settings::source::{Entry, INSTALLATION, Snapshot, Watch, Write};
use settings::{Etcd, Expect, Owner, Source};
use store::{Incarnation, IncarnationId, Reconciler, RegisterOptions, Standing, Store};
use uuid::Uuid;

use crate::registry::{nothing_is_left, register, registration};
use crate::stand::{Stand, published_stands};

const COUNT: &str = "injection.system.ts.count";
const AT_COUNT: &str = "global/injection.system.ts.count";

/// The stand with MariaDB and etcd, or nothing where they cannot be had.
async fn outside(test: &str) -> Option<(Stand, Reconciler)> {
    let stand = published_stands(test).await.pop().filter(|stand| stand.etcd.is_some())?;
    stand.store.declare_catalogue().await.unwrap();
    Some((stand, Reconciler::default()))
}

async fn findings(reconciler: &mut Reconciler, store: &Store) -> Vec<String> {
    let pass = reconciler.pass(store).await.unwrap().unwrap();
    pass.findings.iter().map(|finding| finding.code.to_string()).collect()
}

async fn live(store: &Store, key: &str) -> (String, Owner) {
    let live = settings::Backend::get(store, key).await.unwrap().unwrap();
    (live.value, live.owner)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_is_in_both_or_in_neither() {
    let Some((stand, mut reconciler)) = outside("a_registration_is_in_both_or_in_neither").await else { return };
    let (store, etcd) = (&stand.store, stand.etcd.as_ref().unwrap());
    register(store, "ts").await;
    assert_eq!(etcd.paths("global/injection.system.ts.").len(), 3);
    assert!(reconciler.pass(store).await.unwrap().unwrap().standing == Standing::Ours);

    // Values that were put there before the declaration: a legal one is an operator's, an illegal one refuses everything.
    etcd.put("global/injection.system.hs.count", "many");
    let refused = store.register_system(&registration("hs"), RegisterOptions::default(), "seed").await.unwrap_err();
    assert_eq!(refused.code, "setting.wrong_type", "{refused}");
    nothing_is_left(store, "hs").await;
    assert_eq!(etcd.paths("global/injection.system.hs."), ["global/injection.system.hs.count"]);
    assert_eq!(findings(&mut reconciler, store).await, ["setting.undeclared"]);
    etcd.put("global/injection.system.hs.count", "9");
    register(store, "hs").await;
    assert_eq!(live(store, "injection.system.hs.count").await, ("9".into(), Owner::Operator));
    assert_eq!(etcd.get("global/injection.system.hs.count").as_deref(), Some("9"));
    assert_eq!(findings(&mut reconciler, store).await, Vec::<String>::new());

    store.unregister_system("hs", "admin").await.unwrap();
    assert_eq!(etcd.paths("global/injection.system.hs."), Vec::<String>::new());
    // A key of what is gone, back from an old backup, goes; the same key with another value is somebody's.
    etcd.put("global/injection.system.hs.count", "9");
    assert_eq!(findings(&mut reconciler, store).await, Vec::<String>::new());
    assert_eq!(etcd.get("global/injection.system.hs.count"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_tool_does_is_accepted_healed_or_told() {
    let Some((stand, mut reconciler)) = outside("what_another_tool_does_is_accepted_healed_or_told").await else {
        return;
    };
    let (store, etcd) = (&stand.store, stand.etcd.as_ref().unwrap());
    register(store, "ts").await;
    // What the code declares is published by the first pass, which says so.
    let first = reconciler.pass(store).await.unwrap().unwrap();
    assert!(first.told.iter().any(|line| line.starts_with("published: rate_limiting.")), "{:?}", first.told);
    assert!(reconciler.pass(store).await.unwrap().unwrap().told.is_empty());

    etcd.put(AT_COUNT, "7");
    assert_eq!(findings(&mut reconciler, store).await, Vec::<String>::new());
    assert_eq!(live(store, COUNT).await, ("7".into(), Owner::Operator));
    assert_eq!(store.system("ts").await.unwrap().slot_count, 7, "the system follows");
    etcd.put("global/injection.system.ts.status", "0");
    findings(&mut reconciler, store).await;
    assert!(!store.system("ts").await.unwrap().enabled);

    etcd.put(AT_COUNT, "lots");
    etcd.put("consumer/injection.system.ts.count", "5");
    etcd.put("injection.system.ts.count", "5");
    assert_eq!(
        findings(&mut reconciler, store).await,
        ["setting.wrong_type", "setting.wrong_scope", "setting.at_root"]
    );
    assert_eq!(live(store, COUNT).await.0, "7", "the last legal value stays in force");
    store.set_setting(COUNT, "6", Expect::Anything, "admin").await.unwrap();
    assert_eq!(etcd.get(AT_COUNT).as_deref(), Some("6"), "an operator's word overwrites what is illegal");
    etcd.delete("consumer/injection");
    etcd.delete("injection");

    etcd.delete(AT_COUNT);
    let healed = reconciler.pass(store).await.unwrap().unwrap();
    assert_eq!(healed.told, [format!("restored: {COUNT}")]);
    assert_eq!(store.setting_history(COUNT, 1).await.unwrap()[0].changed_by, "aegis: restored");
    assert_eq!((live(store, COUNT).await, etcd.get(AT_COUNT)), (("6".into(), Owner::Operator), Some("6".into())));

    etcd.delete("");
    etcd.put("aegis/installation", &store.installation().await.unwrap());
    assert_eq!(findings(&mut reconciler, store).await, ["settings.mass_deletion"]);
    assert_eq!(etcd.get(AT_COUNT), None, "nothing is healed without a person");
    assert_eq!(live(store, COUNT).await.0, "6", "nor given up");
    assert_eq!(store.restore_settings().await.unwrap().len(), 10);
    assert_eq!(etcd.get(AT_COUNT).as_deref(), Some("6"));
    assert_eq!(findings(&mut reconciler, store).await, Vec::<String>::new());
    let history = store.setting_history(COUNT, 10).await.unwrap();
    let to_seven = history.iter().find(|change| change.value.as_deref() == Some("7")).unwrap().revision;
    store.roll_back_setting(COUNT, to_seven, "admin").await.unwrap();
    assert_eq!(etcd.get(AT_COUNT).as_deref(), Some("7"));
    assert_eq!(store.roll_back_setting(COUNT, 0, "admin").await.unwrap_err().code, "setting.revision_unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_of_somebody_else_is_only_read_until_it_is_adopted() {
    let Some((stand, mut reconciler)) = outside("a_tree_of_somebody_else_is_only_read").await else { return };
    let (store, etcd) = (&stand.store, stand.etcd.as_ref().unwrap());
    let theirs =
        [("consumer/rate_limiting.max_concurrent_restarts_pedestal", "40"), ("global/injection.system.x.count", "2")];
    for (path, value) in theirs {
        etcd.put(path, value);
    }
    assert_eq!(findings(&mut reconciler, store).await, ["settings.not_adopted", "setting.undeclared"]);
    let refused = store.register_system(&registration("ts"), RegisterOptions::default(), "seed").await.unwrap_err();
    assert_eq!(refused.code, "settings.not_adopted");
    nothing_is_left(store, "ts").await;
    assert_eq!(etcd.paths("").len(), 2);

    let tree = store.settings_tree().await.unwrap();
    assert_eq!((tree.live.len(), tree.standing), (2, Standing::Foreign(None)));
    etcd.put("consumer/rate_limiting.max_concurrent_restarts_pedestal", "41");
    assert_eq!(store.adopt_settings(tree.revision).await.unwrap_err().code, "settings.changed_since");
    store.adopt_settings(store.settings_tree().await.unwrap().revision).await.unwrap();
    assert_eq!(findings(&mut reconciler, store).await, ["setting.undeclared"]);
    let key = settings::RESTART_LIMIT.name;
    assert_eq!(live(store, key).await, ("41".into(), Owner::Operator));
    register(store, "ts").await;

    // Another installation does not take it over by itself.
    let other = outside("a_tree_of_somebody_else_is_only_read").await.unwrap().0.database;
    let other = Store::connect(&other.url).await.unwrap();
    other.publish_to(Arc::new(Etcd::open(&etcd.url, Duration::from_secs(5)).unwrap()));
    let marked = other.settings_tree().await.unwrap().standing;
    assert_eq!(marked, Standing::Foreign(Some(store.installation().await.unwrap())));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_daemons_may_start_on_a_fresh_database_at_once() {
    let test = "two_daemons_may_start_on_a_fresh_database_at_once";
    let Some(etcd) = testkit::Etcd::shared(test) else { return };
    for round in 0..50 {
        let Some(database) = testkit::Database::mariadb(test) else { return };
        let url = format!("{}/round{round}", etcd.url);
        let start = async || {
            let store = Store::connect(&database.url).await?;
            store.publish_to(Arc::new(Etcd::open(&url, Duration::from_secs(5))?));
            store.migrate().await?;
            let (id, folder) = (IncarnationId::random(), Uuid::new_v4());
            store.enter(&Incarnation { id, folder, host: "host".into(), pid: 1, role: "all".into() }).await?;
            store.declare_catalogue().await?;
            Reconciler::default().pass(&store).await?;
            Ok::<_, model::Problem>(store)
        };
        let (one, other) = tokio::join!(start(), start());
        let (store, other) = (one.unwrap(), other.unwrap());
        let form = registration("ts");
        let ask = async |store: &Store| store.register_system(&form, RegisterOptions::default(), "seed").await;
        let (one, two) = tokio::join!(ask(&store), ask(&other));
        let refused = match (one, two) {
            (Ok(_), Err(problem)) | (Err(problem), Ok(_)) => problem,
            both => panic!("{round}: one registers it: {both:?}"),
        };
        assert_eq!(refused.code, "system.already_registered", "{round}");
        assert_eq!(store.systems().await.unwrap().len(), 1);
        assert_eq!(store.containers(None).await.unwrap().len(), 2);
        assert_eq!(store.projects().await.unwrap().len(), 1);
        let keys = etcd.paths(&format!("round{round}/"));
        assert_eq!(keys.len(), 3 + settings::catalogue().len() + 1, "{keys:?}");
        assert_eq!(Reconciler::default().pass(&store).await.unwrap().unwrap().told, Vec::<String>::new());
        store.close().await.unwrap();
        other.close().await.unwrap();
    }
}

/// An etcd whose answer comes late: meanwhile another process registers the same system.
#[derive(Debug)]
struct Late {
    etcd: Etcd,
    other: std::sync::Mutex<Option<Other>>,
}

struct Other(Store);

impl std::fmt::Debug for Other {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("another process")
    }
}

#[async_trait::async_trait]
impl Source for Late {
    fn place(&self) -> &str {
        self.etcd.place()
    }

    async fn snapshot(&self) -> model::Result<Snapshot> {
        self.etcd.snapshot().await
    }

    async fn misplaced(&self, beginnings: &[String]) -> model::Result<BTreeMap<String, Entry>> {
        self.etcd.misplaced(beginnings).await
    }

    async fn get(&self, paths: &[String]) -> model::Result<BTreeMap<String, Entry>> {
        let seen = self.etcd.get(paths).await;
        // The question that decides what is written, and how, asks for the keys and for whose tree it is.
        let decides = paths.len() > 1 && paths.iter().any(|path| path == INSTALLATION);
        let other = if decides { self.other.lock().unwrap().take() } else { None };
        if let Some(Other(store)) = other {
            register(&store, "ts").await;
        }
        seen
    }

    async fn commit(&self, writes: &[Write], mark: Option<i64>) -> model::Result<i64> {
        self.etcd.commit(writes, mark).await
    }

    async fn discard(&self, name: &str, revision: i64) -> model::Result<()> {
        self.etcd.discard(name, revision).await
    }

    async fn watch(&self, after: i64) -> model::Result<Box<dyn Watch>> {
        self.etcd.watch(after).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_came_too_late_takes_nothing_of_the_other_one_away() {
    let test = "a_change_that_came_too_late_takes_nothing";
    let Some((stand, mut reconciler)) = outside(test).await else { return };
    reconciler.pass(&stand.store).await.unwrap();
    let etcd = stand.etcd.as_ref().unwrap();
    let other = std::sync::Mutex::new(Some(Other(stand.another().await)));
    let late = Store::connect(&stand.database.url).await.unwrap();
    late.publish_to(Arc::new(Late { etcd: Etcd::open(&etcd.url, Duration::from_secs(5)).unwrap(), other }));
    let refused = late.register_system(&registration("ts"), RegisterOptions::default(), "seed").await.unwrap_err();
    assert_eq!(refused.code, "system.already_registered", "{refused}");
    assert_eq!(etcd.paths("global/injection.system.ts.").len(), 3);
    assert_eq!(reconciler.pass(&stand.store).await.unwrap().unwrap().told, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_or_the_database_gone_in_the_middle_of_a_change_leaves_nothing_half_done() {
    let test = "etcd_or_the_database_gone_in_the_middle_of_a_change";
    let (Some(etcd), Some(database)) = (testkit::Etcd::alone(test), testkit::Database::mariadb_alone(test)) else {
        return;
    };
    let store = Store::connect_within(&database.url, Duration::from_secs(1)).await.unwrap();
    store.publish_to(Arc::new(Etcd::open(&etcd.url, Duration::from_secs(1)).unwrap()));
    store.migrate().await.unwrap();
    register(&store, "ts").await;
    let mut reconciler = Reconciler::default();
    reconciler.pass(&store).await.unwrap();
    let history = store.setting_history(COUNT, 100).await.unwrap().len();
    for (gone, expect) in [("etcd", "settings.unreachable"), ("the database", "store.unreachable")] {
        let paused = if gone == "etcd" { etcd.pause() } else { database.pause() };
        let codes = [
            store.set_setting(COUNT, "8", Expect::Anything, "admin").await.map(|_| ()).unwrap_err().code,
            store.set_system_enabled("ts", false, "admin").await.map(|_| ()).unwrap_err().code,
            store.unregister_system("ts", "admin").await.map(|_| ()).unwrap_err().code,
            store
                .register_system(&registration("hs"), RegisterOptions::default(), "seed")
                .await
                .map(|_| ())
                .unwrap_err()
                .code,
            reconciler.pass(&store).await.map(|_| ()).unwrap_err().code,
        ];
        assert!(codes.iter().all(|code| code == expect), "{gone}: {codes:?}");
        drop(paused);
        let start = std::time::Instant::now();
        // The first call may still meet a connection that broke.
        while reconciler.pass(&store).await.is_err() {
            assert!(start.elapsed() < Duration::from_secs(20), "{gone} answers again");
        }
        nothing_is_left(&store, "hs").await;
        assert_eq!(etcd.paths("global/injection.system.hs."), Vec::<String>::new());
        assert!(store.system("ts").await.unwrap().enabled);
        assert_eq!((live(&store, COUNT).await.0, etcd.get(AT_COUNT).as_deref()), ("4".into(), Some("4")));
        assert_eq!(store.setting_history(COUNT, 100).await.unwrap().len(), history);
    }
    store.set_setting(COUNT, "8", Expect::Anything, "admin").await.unwrap();
    assert_eq!(etcd.get(AT_COUNT).as_deref(), Some("8"));
}
