//! Submitting: all or nothing, once for a key; and events without a gap.

use std::collections::BTreeSet;

use model::{GroupId, PackState, RunState, TaskKind};
use store::{Effects, Finish, IncarnationId, NewEvent, NewTask, Page, RunFilter, Store};

use crate::stand::{key, new_run, stands};

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_stores_runs_tasks_and_injections_and_keeps_every_bit_of_a_seed() {
    let test = "a_submission_stores_runs_tasks_and_injections_and_keeps_every_bit_of_a_seed";
    for stand in stands(test).await {
        let store = &stand.store;
        let mut submission = stand.submission(1).await;
        submission.runs.push(new_run(u64::MAX));
        submission.runs[1].control_of = Some(submission.runs[0].id);
        let submitted = store.submit(&submission).await.unwrap();
        let stored = &submitted.runs[1];
        let run = store.run(stored.run).await.unwrap();
        assert_eq!((run.seed, run.control_of, run.state), (u64::MAX, Some(submission.runs[0].id), RunState::Pending));
        let injection = store.injection_of(run.id).await.unwrap();
        assert_eq!((injection.seed, injection.state), (u64::MAX, PackState::Initial));
        assert_eq!(injection.name, format!("ts-{:06}", injection.id.0));
        assert_eq!(run.injection_name.as_ref(), Some(&injection.name));
        assert_eq!(store.injection_named(&stored.injection_name).await.unwrap(), injection);
        assert_eq!(store.tasks_of(run.id).await.unwrap()[0].id, stored.task);
        assert_eq!(stand.event_names(run.id).await, ["task.scheduled"]);
    }
}

/// A number is in the name of a datapack, so it must not say which of a pair is the control.
#[tokio::test(flavor = "multi_thread")]
async fn the_numbers_of_a_run_and_its_control_do_not_tell_which_is_which() {
    const PAIRS: u64 = 64;
    for stand in stands("the_numbers_of_a_run_and_its_control_do_not_tell_which_is_which").await {
        let mut submission = stand.submission(0).await;
        for seed in 0..PAIRS {
            let (run, mut control) = (new_run(seed), new_run(seed));
            control.control_of = Some(run.id);
            submission.runs.extend([run, control]);
        }
        let stored = stand.store.submit(&submission).await.unwrap().runs;
        let asked: Vec<_> = submission.runs.iter().map(|run| (run.id, run.control_of)).collect();
        let told: Vec<_> = stored.iter().map(|run| (run.run, run.control_of)).collect();
        assert_eq!(told, asked, "the answer is in the order of the request");
        let numbers: Vec<i32> = stored.iter().map(|run| run.injection.0).collect();
        for (pair, place) in numbers.chunks(2).zip(0..) {
            let lower = numbers.iter().min().unwrap() + 2 * place;
            assert!(pair == [lower, lower + 1] || pair == [lower + 1, lower], "pairs stay together: {numbers:?}");
        }
        // Outside of this by chance: less than once in a hundred million times.
        let first = numbers.chunks(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((10..=54).contains(&first), "{}: {first} of {PAIRS}", stand.database.kind);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_that_fails_in_the_middle_leaves_nothing() {
    for stand in stands("a_submission_that_fails_in_the_middle_leaves_nothing").await {
        let mut submission = stand.submission(3).await;
        submission.runs[2].id = submission.runs[0].id;
        submission.key = key("k", 'a');
        stand.store.submit(&submission).await.unwrap_err();
        let listed = stand.store.runs(&RunFilter::default(), Page::ALL).await.unwrap();
        assert_eq!((listed.total, listed.items.len()), (0, 0), "{}", stand.database.kind);
        assert_eq!(stand.store.injections(&Default::default(), Page::ALL).await.unwrap().total, 0);
        // The key was not used up.
        submission.runs.pop();
        assert!(!stand.store.submit(&submission).await.unwrap().deduplicated);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_key_stores_one_submission_even_when_used_at_the_same_time() {
    for stand in stands("one_key_stores_one_submission_even_when_used_at_the_same_time").await {
        for round in 0..5 {
            let mut asking = Vec::new();
            for _ in 0..4 {
                let store = Store::connect(&stand.database.url).await.unwrap();
                let mut submission = stand.submission(2).await;
                submission.key = key(&format!("key {round}"), 'a');
                asking.push(tokio::spawn(async move { store.submit(&submission).await.unwrap() }));
            }
            let mut answers = Vec::new();
            for asked in asking {
                answers.push(asked.await.unwrap());
            }
            assert_eq!(answers.iter().filter(|answer| !answer.deduplicated).count(), 1, "{}", stand.database.kind);
            let groups: BTreeSet<GroupId> = answers.iter().map(|answer| answer.group).collect();
            assert_eq!(groups.len(), 1);
            assert!(answers.iter().all(|answer| answer.runs == answers[0].runs));
        }
        assert_eq!(stand.store.runs(&RunFilter::default(), Page::ALL).await.unwrap().total, 10);
        let mut other = stand.submission(1).await;
        other.key = key("key 0", 'b');
        assert_eq!(stand.store.submit(&other).await.unwrap_err().code, "idempotency.key_reused");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn events_are_numbered_without_a_gap_and_the_last_of_parallel_tasks_ends_the_run() {
    let test = "events_are_numbered_without_a_gap_and_the_last_of_parallel_tasks_ends_the_run";
    for stand in stands(test).await {
        for _ in 0..5 {
            let store = &stand.store;
            let parent = stand.claimed(IncarnationId::random()).await;
            let children = vec![NewTask::new(TaskKind::RunAlgorithm); 6];
            store.complete_task(&parent.claim, Effects { children, ..Effects::default() }).await.unwrap();
            let mut workers = Vec::new();
            for _ in 0..6 {
                let claim = stand.claim(IncarnationId::random()).await.claim;
                let store = Store::connect(&stand.database.url).await.unwrap();
                workers.push(tokio::spawn(async move {
                    for number in 0..4 {
                        let event = NewEvent::new("algorithm.note", format!("note {number}"));
                        store.record(&claim, Effects::event(event)).await.unwrap();
                    }
                    let finish = Effects { finish: Some(Finish::completed()), ..Effects::default() };
                    store.complete_task(&claim, finish).await.unwrap();
                }));
            }
            for worker in workers {
                worker.await.unwrap();
            }
            let run = store.run(parent.claim.run).await.unwrap();
            assert_eq!((run.state, run.leaf_num), (RunState::Completed, 6), "{}", stand.database.kind);
            let numbers = stand.event_numbers(run.id).await;
            assert_eq!(numbers, (1..=run.last_event).collect::<Vec<_>>(), "{}", stand.database.kind);
            let names = stand.event_names(run.id).await;
            assert_eq!(names.iter().filter(|name| *name == "algorithm.note").count(), 24);
            assert_eq!(names.last().map(String::as_str), Some("trace.completed"));
            assert_eq!(names.iter().filter(|name| *name == "trace.completed").count(), 1);
            let rest = store.events_after(run.id, run.last_event - 2, 10).await.unwrap();
            assert_eq!(rest.len(), 2, "a stream goes on where it stopped");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_paged_and_filtered() {
    for stand in stands("lists_are_paged_and_filtered").await {
        let store = &stand.store;
        let first = stand.submit(5).await;
        stand.submit(2).await;
        let page = store.runs(&RunFilter::default(), Page::new(2, 3)).await.unwrap();
        assert_eq!((page.total, page.items.len()), (7, 3));
        let group = RunFilter { group: Some(first.group), ..RunFilter::default() };
        let listed = store.runs(&group, Page::new(1, 100)).await.unwrap();
        assert_eq!((listed.total, listed.items.len()), (5, 5));
        let none = RunFilter { system: Some("TS".into()), ..RunFilter::default() };
        assert_eq!(store.runs(&none, Page::ALL).await.unwrap().total, 0, "names differ by case on every back end");
        let injections = store::InjectionFilter { group: Some(first.group), ..Default::default() };
        assert_eq!(store.injections(&injections, Page::new(1, 2)).await.unwrap().total, 5);
        let tasks = store::TaskFilter { kind: Some(TaskKind::BuildDatapack), ..Default::default() };
        assert_eq!(store.tasks(&tasks, Page::ALL).await.unwrap().total, 0);
    }
}
