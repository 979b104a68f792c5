//! The source of live values against a real etcd.

use std::time::{Duration, Instant};

use settings::source::Write;
use settings::{Etcd, Expect, Source};

const TIMEOUT: Duration = Duration::from_secs(1);

fn put(path: &str, value: &str, expect: Expect) -> Write {
    Write { path: path.into(), value: Some(value.into()), expect }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_compared_made_together_and_watched_from_any_revision() {
    let Some(etcd) = testkit::Etcd::shared("changes_are_compared_made_together_and_watched_from_any_revision") else {
        return;
    };
    let source = Etcd::open(&etcd.url, TIMEOUT).unwrap();
    let empty = source.snapshot().await.unwrap();
    assert!(empty.entries.is_empty());
    let first = source
        .commit(&[put("global/a", "1", Expect::Absent), put("global/b", "2", Expect::Absent)], None)
        .await
        .unwrap();
    assert_eq!(etcd.get("global/b").as_deref(), Some("2"), "another tool reads what was written");

    // One of two is not as expected: neither is made.
    let wrong = [put("global/a", "5", Expect::Revision(first)), put("global/b", "5", Expect::Absent)];
    assert_eq!(source.commit(&wrong, None).await.unwrap_err().code, "setting.changed_meanwhile");
    etcd.put("global/a", "3");
    let stale = source.commit(&[put("global/a", "4", Expect::Revision(first))], None).await.unwrap_err();
    assert_eq!(stale.code, "setting.changed_meanwhile");
    let both = source.get(&["global/a".into(), "global/b".into(), "global/c".into()]).await.unwrap();
    assert_eq!(
        both.iter().map(|(path, entry)| (&**path, &*entry.value)).collect::<Vec<_>>(),
        [("global/a", "3"), ("global/b", "2")]
    );
    let gone = Write { path: "global/b".into(), value: None, expect: Expect::Revision(first) };
    source.commit(&[gone], None).await.unwrap();

    // A watch that starts late misses nothing.
    let mut watch = source.watch(first).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.extend(watch.next().await.unwrap().events);
    }
    let seen: Vec<_> = seen.into_iter().map(|event| (event.path, event.entry.map(|entry| entry.value))).collect();
    assert_eq!(seen, [("global/a".to_owned(), Some("3".to_owned())), ("global/b".to_owned(), None)]);
    etcd.put("consumer/later", "x");
    assert_eq!(watch.next().await.unwrap().events[0].path, "consumer/later");

    // What other tools put where nothing reads it.
    etcd.ctl(&["put", "/global/injection.system.zz.count", "1"]);
    etcd.ctl(&["put", "injection.system.zz.count", "2"]);
    let misplaced = source.misplaced(&["injection.system.zz.".to_owned()]).await.unwrap();
    assert_eq!(
        misplaced.keys().collect::<Vec<_>>(),
        ["/global/injection.system.zz.count", "injection.system.zz.count"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_that_was_compacted_away_is_told_and_a_snapshot_goes_on() {
    let Some(etcd) = testkit::Etcd::alone("a_revision_that_was_compacted_away_is_told_and_a_snapshot_goes_on") else {
        return;
    };
    let source = Etcd::open(&etcd.url, TIMEOUT).unwrap();
    for value in ["1", "2", "3"] {
        etcd.put("global/a", value);
    }
    let now = source.snapshot().await.unwrap();
    etcd.ctl(&["compact", &now.revision.to_string()]);
    let compacted = match source.watch(now.revision - 2).await {
        Ok(mut watch) => watch.next().await.map(|_| ()),
        Err(problem) => Err(problem),
    };
    assert_eq!(compacted.unwrap_err().code, "settings.compacted");
    let mut watch = source.watch(now.revision).await.unwrap();
    etcd.put("global/a", "4");
    assert_eq!(watch.next().await.unwrap().events[0].entry.as_ref().unwrap().value, "4");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_stands_still_is_told_in_time_and_used_again_when_it_goes_on() {
    let Some(etcd) = testkit::Etcd::alone("an_etcd_that_stands_still_is_told_in_time") else { return };
    let source = Etcd::open(&etcd.url, TIMEOUT).unwrap();
    let before = source.commit(&[put("global/a", "1", Expect::Absent)], None).await.unwrap();
    let mut watch = source.watch(before).await.unwrap();
    let paused = etcd.pause();
    let start = Instant::now();
    for problem in [
        source.snapshot().await.map(|_| ()).unwrap_err(),
        source.commit(&[put("global/b", "1", Expect::Absent)], None).await.map(|_| ()).unwrap_err(),
        // A silent watch notices it as well.
        watch.next().await.map(|_| ()).unwrap_err(),
    ] {
        assert_eq!(problem.code, "settings.unreachable", "{problem}");
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    drop(paused);
    let entry = testkit::process::until("etcd answers again", Duration::from_secs(20), || {
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(source.get(&["global/a".to_owned()])).ok()
        })
    });
    assert_eq!(entry["global/a"].value, "1");
}

#[tokio::test]
async fn an_address_where_nobody_listens_is_told_without_its_password() {
    let source = Etcd::open("etcd://me:hunter2@127.0.0.1:9/x", TIMEOUT).unwrap();
    let problem = source.snapshot().await.unwrap_err();
    assert_eq!(problem.code, "settings.unreachable");
    assert!(!problem.chain().contains("hunter2"), "{}", problem.chain());
}
