//! Tasks are taken up once, whoever asks; and only whoever holds one may say something about it.

use std::collections::BTreeSet;
use std::process::Stdio;

use model::{TaskId, TaskState};
use store::{Effects, Failed, IncarnationId, NewEvent, NewTask, Store, TaskError, Wait};

use crate::stand::{Stand, TTL, stands};

async fn claim_all(store: Store) -> Vec<TaskId> {
    let owner = IncarnationId::random();
    let mut claimed = Vec::new();
    while let Some(task) = store.claim_task(owner, TTL).await.unwrap() {
        claimed.push(task.task.id);
        store.complete_task(&task.claim, Effects::default()).await.unwrap();
    }
    claimed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_workers_with_connections_of_their_own_get_each_task_once() {
    for stand in stands("eight_workers_with_connections_of_their_own_get_each_task_once").await {
        let submitted = stand.submit(60).await;
        let mut workers = Vec::new();
        for _ in 0..8 {
            let store = Store::connect(&stand.database.url).await.unwrap();
            workers.push(tokio::spawn(claim_all(store)));
        }
        let mut claimed = Vec::new();
        for worker in workers {
            claimed.extend(worker.await.unwrap());
        }
        let expect: BTreeSet<TaskId> = submitted.runs.iter().map(|run| run.task).collect();
        assert_eq!(claimed.len(), expect.len(), "{}", stand.database.kind);
        assert_eq!(claimed.into_iter().collect::<BTreeSet<_>>(), expect, "{}", stand.database.kind);
    }
}

/// Environment variable that makes [`worker_process`] a worker on this database.
const WORKER: &str = "AEGIS_STORE_TEST_WORKER";

#[test]
fn worker_process() {
    let Ok(url) = std::env::var(WORKER) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let claimed = runtime.block_on(async { claim_all(Store::connect(&url).await.unwrap()).await });
    for task in claimed {
        println!("claimed {task}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_on_one_database_get_each_task_once() {
    for stand in stands("two_processes_on_one_database_get_each_task_once").await {
        let submitted = stand.submit(80).await;
        let start = || {
            std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "claims::worker_process", "--nocapture"])
                .env(WORKER, &stand.database.url)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let mut claimed = Vec::new();
        for child in [start(), start()] {
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success(), "{text}");
            // The harness may write on the same line before the first one.
            let tasks = text.split_whitespace().skip_while(|word| *word != "claimed").collect::<Vec<_>>();
            claimed.extend(tasks.chunks(2).take_while(|pair| pair[0] == "claimed").map(|pair| pair[1].to_owned()));
        }
        let expect: BTreeSet<String> = submitted.runs.iter().map(|run| run.task.to_string()).collect();
        assert_eq!(claimed.len(), expect.len(), "{}", stand.database.kind);
        assert_eq!(claimed.into_iter().collect::<BTreeSet<_>>(), expect, "{}", stand.database.kind);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_waits_until_it_is_due_and_keeps_what_it_recorded() {
    for stand in stands("a_task_waits_until_it_is_due_and_keeps_what_it_recorded").await {
        let store = &stand.store;
        let owner = IncarnationId::random();
        let first = stand.claimed(owner).await;
        let progress = serde_json::json!({"installed": true});
        store.record(&first.claim, Effects { progress: Some(progress.clone()), ..Effects::default() }).await.unwrap();
        let wait = Wait::new("slot.none_free", "every slot is taken").resource("slot:ts0").holder("another run");
        let later = model::WallTime::now().plus(std::time::Duration::from_secs(3600));
        store.reschedule_task(&first.claim, wait.clone(), later, Effects::default()).await.unwrap();
        assert!(store.claim_task(owner, TTL).await.unwrap().is_none(), "it is not due");
        assert_eq!(store.next_due().await.unwrap(), Some(later));
        let waiting = store.task(first.task.id).await.unwrap();
        assert_eq!((waiting.state, waiting.wait, waiting.owner), (TaskState::Rescheduled, Some(wait), None));
        // A cancellation wakes it.
        store.request_cancel(first.claim.run).await.unwrap();
        let second = stand.claim(owner).await;
        assert!(second.run.cancel_requested);
        assert_eq!((second.task.attempt, second.task.progress), (2, Some(progress)));
        assert!(second.claim.fence > first.claim.fence);
    }
}

async fn every_verb_is_refused(stand: &Stand, claim: &store::Claim) {
    let store = &stand.store;
    let error = TaskError::from(&model::Problem::internal("test.failed", "it failed"));
    let wait = Wait::new("test.waits", "it waits");
    let due = model::WallTime::now();
    let told = [
        store.record(claim, Effects::event(NewEvent::new("late", "late"))).await,
        store.complete_task(claim, Effects::default()).await,
        store.cancel_task(claim, Effects::default()).await,
        store.reschedule_task(claim, wait, due, Effects::default()).await,
        store.fail_task(claim, error, Some(due), Effects::default()).await.map(|_| ()),
        store.acquire_slot(claim, &[]).await.map(|_| ()),
        store.acquire_limit(claim, "build", 1).await.map(|_| ()),
        store.release_limit(claim, "build").await,
        store.check_claim(claim).await,
    ];
    for (place, result) in told.into_iter().enumerate() {
        assert_eq!(result.unwrap_err().code, "fence.stale", "verb {place} on {}", stand.database.kind);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_callback_never_overwrites_what_came_after_it() {
    for stand in stands("a_late_callback_never_overwrites_what_came_after_it").await {
        let store = &stand.store;
        // The task ended.
        let done = stand.claimed(IncarnationId::random()).await;
        store.check_claim(&done.claim).await.unwrap();
        store.complete_task(&done.claim, Effects::default()).await.unwrap();
        let events = stand.event_numbers(done.claim.run).await;
        every_verb_is_refused(&stand, &done.claim).await;
        assert_eq!(store.task(done.task.id).await.unwrap().state, TaskState::Completed);
        assert_eq!(stand.event_numbers(done.claim.run).await, events, "a refused write leaves no event");
        // Somebody else took it over.
        let lost = stand.claimed(IncarnationId::random()).await;
        let seen = store.leases("task:").await.unwrap().remove(0);
        assert!(store.take_over(&seen).await.unwrap());
        every_verb_is_refused(&stand, &lost.claim).await;
        let next = stand.claim(IncarnationId::random()).await;
        assert_eq!(next.task.id, lost.task.id);
        every_verb_is_refused(&stand, &lost.claim).await;
        store.check_claim(&next.claim).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_bounded_and_the_last_one_ends_the_run() {
    for stand in stands("failures_are_bounded_and_the_last_one_ends_the_run").await {
        let store = &stand.store;
        let owner = IncarnationId::random();
        let error = TaskError::from(&model::Problem::internal("chart.unreachable", "no chart").found("timeout"));
        let run = stand.submit(1).await.runs[0].run;
        for failures in 1..=NewTask::MAX_FAILURES {
            let claimed = stand.claim(owner).await;
            assert_eq!(claimed.task.failures, failures - 1);
            let effects = Effects {
                finish: Some(store::Finish::failed(&error)),
                ..Effects::event(NewEvent::new("last", "last"))
            };
            let due = model::WallTime::now();
            let failed = store.fail_task(&claimed.claim, error.clone(), Some(due), effects).await.unwrap();
            assert_eq!(failed, if failures < NewTask::MAX_FAILURES { Failed::Retried(due) } else { Failed::GivenUp });
        }
        let run = store.run(run).await.unwrap();
        assert_eq!((run.state, run.reason.as_deref()), (model::RunState::Failed, Some("chart.unreachable")));
        assert!(run.message.unwrap().contains("timeout"));
        let task = store.tasks_of(run.id).await.unwrap().remove(0);
        assert_eq!((task.state, task.error), (TaskState::Error, Some(error)));
        let names = stand.event_names(run.id).await;
        let retries = NewTask::MAX_FAILURES as usize - 1;
        assert_eq!(names.iter().filter(|name| *name == "task.retry.status").count(), retries);
        assert_eq!(names.iter().filter(|name| *name == "last").count(), 1, "effects of a retried failure do not apply");
    }
}
