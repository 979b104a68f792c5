//! The schema: repeated, concurrent, and newer than the program.

use sea_orm::{ConnectionTrait, Database};
use store::Store;

use crate::stand::stands;

#[tokio::test(flavor = "multi_thread")]
async fn migrating_twice_changes_nothing() {
    for stand in stands("migrating_twice_changes_nothing").await {
        assert_eq!(stand.store.migrate().await.unwrap(), Vec::<&str>::new(), "{}", stand.database.kind);
        assert_eq!(stand.store.pending_migrations().await.unwrap(), Vec::<&str>::new());
        assert_eq!(stand.store.projects().await.unwrap().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_may_migrate_a_fresh_database_at_once() {
    let test = "two_processes_may_migrate_a_fresh_database_at_once";
    for round in 0..20 {
        for database in testkit::databases(test) {
            let (one, other) = tokio::join!(Store::connect(&database.url), Store::connect(&database.url));
            let (one, other) = (one.unwrap(), other.unwrap());
            let all = one.pending_migrations().await.unwrap();
            let (first, second) = tokio::join!(one.migrate(), other.migrate());
            let (first, second) = (first.unwrap(), second.unwrap());
            // Each step was applied by exactly one of them.
            let mut applied: Vec<&str> = first.into_iter().chain(second).collect();
            applied.sort_unstable();
            let mut expect = all.clone();
            expect.sort_unstable();
            assert_eq!(applied, expect, "round {round} on {}", database.kind);
            assert_eq!(one.projects().await.unwrap().len(), 1);
            one.close().await.unwrap();
            other.close().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_a_newer_version_is_left_alone() {
    for stand in stands("a_database_of_a_newer_version_is_left_alone").await {
        let raw = Database::connect(&stand.database.url).await.unwrap();
        raw.execute_unprepared("INSERT INTO schema_steps (name, applied_at) VALUES ('of the future', 1)")
            .await
            .unwrap();
        assert_eq!(stand.store.migrate().await.unwrap_err().code, "store.schema_newer", "{}", stand.database.kind);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_somebody_else_is_left_alone() {
    for database in testkit::databases("a_database_of_somebody_else_is_left_alone") {
        let store = Store::connect(&database.url).await.unwrap();
        let raw = Database::connect(&database.url).await.unwrap();
        raw.execute_unprepared("CREATE TABLE containers (id INTEGER)").await.unwrap();
        assert_eq!(store.migrate().await.unwrap_err().code, "store.foreign_database", "{}", database.kind);
        assert!(!store.pending_migrations().await.unwrap().is_empty(), "nothing was applied");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_tables_says_what_to_do() {
    for database in testkit::databases("a_database_without_tables_says_what_to_do") {
        let store = Store::connect(&database.url).await.unwrap();
        assert_eq!(store.run_counts().await.unwrap_err().code, "store.not_migrated", "{}", database.kind);
    }
}

#[tokio::test]
async fn an_address_that_cannot_be_used_is_refused_without_telling_its_password() {
    let code = |url: &'static str| async move { Store::connect(url).await.unwrap_err() };
    assert_eq!(code("postgres://u:secret@h/d").await.code, "store.address_unknown");
    assert_eq!(code("mysql://u:secret@h:port/d").await.code, "store.address_malformed");
    assert_eq!(code("sqlite:/nowhere/at/all.db").await.code, "store.unreadable");
    for problem in [code("postgres://u:secret@h/d").await, code("mysql://u:secret@h:port/d").await] {
        assert!(!problem.chain().contains("secret"), "{}", problem.chain());
    }
}
