//! Live values: compared before they change, watched by revision.

use settings::{Backend, Expect, Owner};

use crate::stand::published_stands;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_setting_changes_by_compare_and_set_and_is_watched_by_revision() {
    for stand in published_stands("a_setting_changes_by_compare_and_set_and_is_watched_by_revision").await {
        let store = &stand.store;
        let key = settings::BUILD_LIMIT;
        assert!(store.declare_catalogue().await.unwrap().contains(&key.name.to_owned()));
        assert_eq!(store.declare_catalogue().await.unwrap(), Vec::<String>::new());
        assert_eq!(settings::read(store, &key).await.unwrap(), key.default);
        let first = store.set(key.name, "3", Owner::Seed, Expect::Absent, "seed").await.unwrap();
        let taken = store.set(key.name, "4", Owner::Seed, Expect::Absent, "seed").await.unwrap_err();
        assert_eq!(taken.code, "setting.changed_meanwhile");
        let second = store.set_setting(key.name, "5", Expect::Revision(first.revision), "admin").await.unwrap();
        assert_eq!((second.owner, second.revision > first.revision), (Owner::Operator, true));
        for (value, code) in [("0", "setting.out_of_bounds"), ("x", "setting.wrong_type")] {
            assert_eq!(store.set_setting(key.name, value, Expect::Anything, "admin").await.unwrap_err().code, code);
        }
        let unknown = store.set_setting("rate_limiting.max_concurent_builds", "1", Expect::Anything, "a").await;
        assert_eq!(unknown.unwrap_err().code, "setting.unknown");
        assert_eq!(settings::read(store, &key).await.unwrap(), 5);
        assert!(store.delete(key.name, Expect::Revision(second.revision), "admin").await.unwrap());
        assert!(!store.delete(key.name, Expect::Anything, "admin").await.unwrap());
        let seen = store.changes_after(first.revision, 10).await.unwrap();
        let values: Vec<_> = seen.iter().map(|change| (change.value.as_deref(), change.previous.as_deref())).collect();
        assert_eq!(values, [(Some("5"), Some("3")), (None, Some("5"))], "{}", stand.database.kind);
        assert_eq!(store.setting_history(key.name, 1).await.unwrap()[0].revision, seen[1].revision);

        // Whoever writes at the same time, revisions are one sequence and a watch misses none.
        let mut writers = Vec::new();
        for key in [settings::BUILD_LIMIT, settings::RESTART_LIMIT, settings::EXECUTION_LIMIT] {
            let store = stand.another().await;
            writers.push(tokio::spawn(async move {
                for value in 1..=10 {
                    store.set_setting(key.name, &value.to_string(), Expect::Anything, "admin").await.unwrap();
                }
            }));
        }
        for writer in writers {
            writer.await.unwrap();
        }
        let all = store.changes_after(0, 1000).await.unwrap();
        assert_eq!(all.len(), 33);
        assert!(all.windows(2).all(|pair| pair[0].revision < pair[1].revision));
    }
}
