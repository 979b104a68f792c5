//! Cancel, pause, retry, kill switch.

use model::{DataTime, PackState, RunState, TaskKind, TaskState, Verdict, WallTime, Windows};
use store::{Claim, Effects, Finish, IncarnationId, InjectionChange, NewTask, Store, TaskError, Wait};

use crate::stand::{Stand, TTL, stands};

fn next(kind: TaskKind) -> Effects {
    Effects { children: vec![NewTask::new(kind)], ..Effects::default() }
}

fn windows() -> Windows {
    let second = std::time::Duration::from_secs(60);
    Windows::new(DataTime::from_seconds(1_700_000_000), second, second).unwrap()
}

/// Runs a submitted run up to its detector and returns the detector's claim.
async fn up_to_detector(stand: &Stand, owner: IncarnationId) -> Claim {
    let store = &stand.store;
    let restart = stand.claim(owner).await.claim;
    store.complete_task(&restart, next(TaskKind::FaultInjection)).await.unwrap();
    let inject = stand.claim(owner).await.claim;
    let change = InjectionChange {
        state: Some(PackState::InjectSuccess),
        windows: Some(windows()),
        exposed: Some(true),
        ..InjectionChange::default()
    };
    let effects = Effects { injection: Some(change), ..next(TaskKind::BuildDatapack) };
    store.complete_task(&inject, effects).await.unwrap();
    let build = stand.claim(owner).await.claim;
    let pack = store::Pack { path: "datapacks/one".into(), digest: "d".repeat(64) };
    let change =
        InjectionChange { state: Some(PackState::BuildSuccess), pack: Some(pack), ..InjectionChange::default() };
    let effects = Effects { injection: Some(change), ..next(TaskKind::RunAlgorithm) };
    store.complete_task(&build, effects).await.unwrap();
    stand.claim(owner).await.claim
}

async fn fail_detector(store: &Store, claim: &Claim) {
    let error = TaskError::from(&model::Problem::internal("algorithm.killed", "the detector was killed"));
    let change = InjectionChange {
        state: Some(PackState::DetectorFailed),
        verdict: Some(Verdict::DetectorFailed),
        ..InjectionChange::default()
    };
    let effects = Effects {
        injection: Some(change),
        verdict: Some(Verdict::DetectorFailed),
        finish: Some(Finish::failed(&error)),
        ..Effects::default()
    };
    store.fail_task(claim, error, None, effects).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_repeats_the_step_that_failed_and_what_follows_it() {
    for stand in stands("a_retry_repeats_the_step_that_failed_and_what_follows_it").await {
        let store = &stand.store;
        let owner = IncarnationId::random();
        let run = stand.submit(1).await.runs[0].run;
        let detector = up_to_detector(&stand, owner).await;
        assert_eq!(store.retry_run(run, None).await.unwrap_err().code, "run.not_retryable", "it still runs");
        fail_detector(store, &detector).await;
        let failed = store.run(run).await.unwrap();
        assert_eq!((failed.state, failed.verdict), (RunState::Failed, Some(Verdict::DetectorFailed)));
        assert!(failed.ended_at.is_some());

        let retried = store.retry_run(run, None).await.unwrap();
        assert_eq!((retried.from, retried.task), (TaskKind::RunAlgorithm, detector.task));
        assert_eq!((retried.run.state, retried.run.reason, retried.run.ended_at), (RunState::Running, None, None));
        let again = stand.claim(owner).await;
        assert_eq!((again.task.id, again.task.error, again.task.attempt), (detector.task, None, 1));
        fail_detector(store, &again.claim).await;

        // From an earlier step that succeeded: a copy runs, the history stays, the pack goes back to that step.
        let retried = store.retry_run(run, Some(TaskKind::BuildDatapack)).await.unwrap();
        let injection = store.injection_of(run).await.unwrap();
        assert_eq!((injection.state, injection.pack_path), (PackState::InjectSuccess, None));
        assert_eq!((injection.windows, injection.exposed), (Some(windows()), Some(true)));
        let build = stand.claim(owner).await;
        assert_eq!((build.task.id, build.task.kind), (retried.task, TaskKind::BuildDatapack));
        let tasks = store.tasks_of(run).await.unwrap();
        let builds: Vec<_> = tasks.iter().filter(|task| task.kind == TaskKind::BuildDatapack).collect();
        assert_eq!(
            builds.iter().map(|task| task.state).collect::<Vec<_>>(),
            [TaskState::Completed, TaskState::Running]
        );
        assert_eq!(builds[0].payload, builds[1].payload);

        // A run whose pack was not built cannot start from the detector.
        let error = TaskError::from(&model::Problem::internal("pack.empty", "a required file is empty"));
        let change = InjectionChange { state: Some(PackState::BuildFailed), ..InjectionChange::default() };
        let effects = Effects { injection: Some(change), finish: Some(Finish::failed(&error)), ..Effects::default() };
        store.fail_task(&build.claim, error, None, effects).await.unwrap();
        let refused = store.retry_run(run, Some(TaskKind::RunAlgorithm)).await.unwrap_err();
        assert!(["run.step_not_reached", "run.step_unknown"].contains(&&*refused.code), "{refused}");
        // From the beginning: nothing of the fault is left.
        store.retry_run(run, Some(TaskKind::RestartPedestal)).await.unwrap();
        let injection = store.injection_of(run).await.unwrap();
        assert_eq!((injection.state, injection.windows, injection.exposed), (PackState::Initial, None, None));
        assert_eq!(store.run(run).await.unwrap().retry_count, 3);
        assert_eq!(up_to_detector(&stand, owner).await.kind, TaskKind::RunAlgorithm);
        let numbers = stand.event_numbers(run).await;
        assert_eq!(numbers, (1..=numbers.len() as i64).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_undoes_what_it_began_and_starts_nothing_new() {
    for stand in stands("a_cancelled_run_undoes_what_it_began_and_starts_nothing_new").await {
        let store = &stand.store;
        let owner = IncarnationId::random();
        // Nothing has begun: it ends at once.
        let fresh = stand.submit(1).await.runs[0].clone();
        let receipt = store.request_cancel(fresh.run).await.unwrap();
        assert_eq!((receipt.state, receipt.cancelled), (RunState::Cancelled, vec![fresh.task]));
        assert_eq!(
            store.request_cancel(fresh.run).await.unwrap().state,
            RunState::Cancelled,
            "asking again is no error"
        );
        assert!(store.claim_task(owner, TTL).await.unwrap().is_none());
        // A fault is live: its step is woken and undoes it.
        let claimed = stand.claimed(owner).await;
        let later = WallTime::now().plus(std::time::Duration::from_secs(3600));
        let wait = Wait::new("window.open", "the abnormal window is open");
        store.reschedule_task(&claimed.claim, wait, later, Effects::default()).await.unwrap();
        let receipt = store.request_cancel(claimed.claim.run).await.unwrap();
        assert_eq!((receipt.state, receipt.unwinding), (RunState::Running, vec![claimed.task.id]));
        let woken = stand.claim(owner).await;
        let finish = Effects { finish: Some(Finish::cancelled()), ..Effects::default() };
        store.cancel_task(&woken.claim, finish).await.unwrap();
        let run = store.run(claimed.claim.run).await.unwrap();
        assert_eq!((run.state, run.reason.as_deref()), (RunState::Cancelled, Some("run.cancelled")));
        assert_eq!(stand.event_names(run.id).await.last().map(String::as_str), Some("trace.cancelled"));
        // A run that is complete cannot be cancelled any more.
        let done = stand.claimed(owner).await.claim;
        store.complete_task(&done, Effects { finish: Some(Finish::completed()), ..Effects::default() }).await.unwrap();
        assert_eq!(store.request_cancel(done.run).await.unwrap_err().code, "run.already_ended");
        assert_eq!(store.retry_run(done.run, None).await.unwrap_err().code, "run.not_retryable");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_run_begins_no_new_step_and_the_kill_switch_wakes_the_waiting() {
    for stand in stands("a_paused_run_begins_no_new_step_and_the_kill_switch_wakes_the_waiting").await {
        let store = &stand.store;
        let owner = IncarnationId::random();
        let run = stand.submit(1).await.runs[0].run;
        store.pause_run(run).await.unwrap();
        assert!(store.claim_task(owner, TTL).await.unwrap().is_none());
        store.resume_run(run).await.unwrap();
        let claimed = stand.claim(owner).await;
        // A step that has begun goes on although the run is paused again.
        store.pause_run(run).await.unwrap();
        let later = WallTime::now().plus(std::time::Duration::from_secs(3600));
        store.reschedule_task(&claimed.claim, Wait::new("a.b", "waits"), later, Effects::default()).await.unwrap();
        assert!(!store.kill_switch().await.unwrap().engaged);
        let engaged = store.set_kill_switch(true, "drill", "admin").await.unwrap();
        assert_eq!((engaged.engaged, engaged.reason.as_str()), (true, "drill"));
        let woken = stand.claim(owner).await.claim;
        store.complete_task(&woken, next(TaskKind::FaultInjection)).await.unwrap();
        assert!(store.claim_task(owner, TTL).await.unwrap().is_none(), "the next step is a new one");
        assert!(!store.set_kill_switch(false, "over", "admin").await.unwrap().engaged);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_step_ends_its_siblings_and_their_late_answers_are_refused() {
    for stand in stands("a_failed_step_ends_its_siblings_and_their_late_answers_are_refused").await {
        let store = &stand.store;
        let owner = IncarnationId::random();
        let parent = stand.claimed(owner).await.claim;
        let children = vec![NewTask::new(TaskKind::RunAlgorithm); 3];
        store.complete_task(&parent, Effects { children, ..Effects::default() }).await.unwrap();
        let (one, other) = (stand.claim(owner).await.claim, stand.claim(owner).await.claim);
        let error = TaskError::from(&model::Problem::internal("disk.full", "no room"));
        let finish = Effects { finish: Some(Finish::failed(&error)), ..Effects::default() };
        store.fail_task(&one, error, None, finish.clone()).await.unwrap();
        assert_eq!(store.complete_task(&other, finish).await.unwrap_err().code, "fence.stale");
        let states: Vec<TaskState> = store.tasks_of(parent.run).await.unwrap().iter().map(|task| task.state).collect();
        use TaskState::{Cancelled, Completed, Error};
        assert_eq!(states, [Completed, Error, Cancelled, Cancelled], "{}", stand.database.kind);
        assert_eq!(store.run(parent.run).await.unwrap().state, RunState::Failed);
        assert!(store.claim_task(owner, TTL).await.unwrap().is_none());
    }
}
