//! Evaluations as leased work, commands and their passes, data sets.

use model::{Answer, ExecutionState, Level, Onset, Problem};
use serde_json::json;
use store::{
    Acquired, BoardFilter, Findings, IncarnationId, Item, ItemEnd, Lease, NewDataset, NewEvaluation, Page, TaskError,
    evaluation_resource,
};

use crate::results::ended;
use crate::stand::{Stand, TTL, stands};

fn item(injection: model::InjectionId, algorithm: &str, onset: Onset) -> Item {
    Item { injection, algorithm: algorithm.into(), version: "builtin".into(), onset, execution: None }
}

fn answered(item: &Item) -> ItemEnd {
    let answer = Answer { level: Level::Service, name: "cart".into(), rank: 1, score: None };
    let findings = Findings { answers: vec![answer], detector: vec![] };
    ItemEnd { item: item.clone(), seed: 7, result: ended(0.5, vec!["cart".into()], Ok(findings)) }
}

fn failed(item: &Item) -> ItemEnd {
    let error = TaskError::from(&Problem::internal("algorithm.timed_out", "it did not end in time"));
    ItemEnd { item: item.clone(), seed: 7, result: ended(0.0, vec![], Err(error)) }
}

async fn lease(stand: &Stand, owner: IncarnationId, resource: &str) -> Lease {
    match stand.store.acquire(resource, owner, TTL, "").await.unwrap() {
        Acquired::Yes(lease) => lease,
        Acquired::No(held) => panic!("held: {held:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_is_leased_by_the_pack_and_outlives_its_workers() {
    for stand in stands("an_evaluation_is_leased_by_the_pack_and_outlives_its_workers").await {
        let store = &stand.store;
        let packs: Vec<_> = stand.submit(3).await.runs.iter().map(|run| run.injection).collect();
        let project = store.project("default").await.unwrap().id;
        let items = vec![
            item(packs[0], "baro", Onset::Known),
            item(packs[0], "baro", Onset::Early),
            item(packs[1], "baro", Onset::Known),
        ];
        let new = NewEvaluation {
            project,
            name: "first".into(),
            definition: json!({"k": 1}),
            packs: vec![(packs[0], None), (packs[1], None), (packs[2], Some("not exposed".into()))],
            items: items.clone(),
        };
        let id = store.add_evaluation(&new).await.unwrap();
        assert_eq!(store.open_evaluation_packs(10).await.unwrap(), [(id, packs[0]), (id, packs[1])]);
        assert_eq!(store.open_items(id, packs[0]).await.unwrap().len(), 2);

        // The first worker starts an item that needs a number, and dies. Its lease is taken over by whoever watches.
        let (dead, alive) = (IncarnationId::random(), IncarnationId::random());
        let resource = evaluation_resource(id, packs[0]);
        let old = lease(&stand, dead, &resource).await;
        let started = store.start_item(&old, id, &items[0], 7).await.unwrap();
        let held = store.leases("evaluation:").await.unwrap();
        assert!(matches!(store.acquire(&resource, alive, TTL, "").await.unwrap(), Acquired::No(_)));
        assert!(store.take_over(&held[0]).await.unwrap());
        let new = lease(&stand, alive, &resource).await;
        assert_eq!(store.start_item(&new, id, &items[0], 7).await.unwrap(), started, "it goes on with the same one");
        let late = store.end_items(&old, id, &[answered(&items[0])], 1.0).await.unwrap_err();
        assert_eq!(late.code, "fence.stale", "{}", stand.database.kind);
        assert_eq!(store.evaluation(id).await.unwrap().progress.done, 0, "nothing of it was stored");

        store.end_items(&new, id, &[answered(&items[0]), failed(&items[1])], 1.0).await.unwrap();
        // The same end again changes nothing.
        store.end_items(&new, id, &[failed(&items[0])], 0.0).await.unwrap();
        store.release(&new).await.unwrap();
        assert_eq!(store.execution(started).await.unwrap().state, ExecutionState::Success);
        let half = store.evaluation(id).await.unwrap();
        assert_eq!((half.progress.items, half.progress.done, half.progress.failed), (3, 2, 1));
        assert_eq!((half.progress.packs, half.progress.excluded["not exposed"]), (2, 1));
        assert!(half.ended_at.is_none() && half.reading_s == 1.0 && half.ranking_s == 0.5, "{half:?}");

        let last = lease(&stand, alive, &evaluation_resource(id, packs[1])).await;
        store.end_items(&last, id, &[answered(&items[2])], 1.0).await.unwrap();
        assert!(store.evaluation(id).await.unwrap().ended_at.is_some());
        assert_eq!(store.open_evaluation_packs(10).await.unwrap(), []);
        assert!(!store.cancel_evaluation(id).await.unwrap(), "it has ended");

        let filter = BoardFilter { origin_kind: "simulated".into(), evaluation: Some(id), ..BoardFilter::default() };
        assert_eq!(store.board_cases(&filter).await.unwrap().len(), 3, "the excluded one is in the funnel");
        let executions = store.board_executions(&filter).await.unwrap();
        assert_eq!(executions.len(), 3);
        assert_eq!(executions[0].peak_memory, Some(1 << 33));
        let everything = BoardFilter { origin_kind: "simulated".into(), ..BoardFilter::default() };
        assert_eq!(store.board_executions(&everything).await.unwrap().len(), 2, "a shifted onset is no plain result");
        assert_eq!(store.evaluations(Page::ALL).await.unwrap().total, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_answered_already_is_found_and_a_cancelled_evaluation_starts_nothing_more() {
    for stand in stands("what_is_answered_already_is_found").await {
        let store = &stand.store;
        let packs: Vec<_> = stand.submit(1).await.runs.iter().map(|run| run.injection).collect();
        let project = store.project("default").await.unwrap().id;
        let definition = json!({});
        let evaluation = |items: Vec<Item>| NewEvaluation {
            project,
            name: "again".into(),
            definition: definition.clone(),
            packs: vec![(packs[0], None)],
            items,
        };
        let first = item(packs[0], "baro", Onset::Known);
        let id = store.add_evaluation(&evaluation(vec![first.clone()])).await.unwrap();
        let lease = lease(&stand, IncarnationId::random(), &evaluation_resource(id, packs[0])).await;
        store.end_items(&lease, id, &[answered(&first)], 0.0).await.unwrap();
        let found = store.answered(&packs).await.unwrap();
        assert_eq!((found.len(), found[0].algorithm.as_str()), (1, "baro"));
        let reused = store.add_evaluation(&evaluation(found)).await.unwrap();
        assert!(store.evaluation(reused).await.unwrap().ended_at.is_some(), "there is nothing left to do");

        let open = store.add_evaluation(&evaluation(vec![first])).await.unwrap();
        assert!(store.cancel_evaluation(open).await.unwrap());
        assert_eq!(store.open_evaluation_packs(10).await.unwrap(), []);
        assert_eq!(store.evaluation_wanted(open).await.unwrap_err().code, "evaluation.cancelled");
        assert_eq!(store.cancel_evaluation(model::EvaluationId(99)).await.unwrap_err().code, "evaluation.unknown");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_handed_over_waits_for_whoever_works_on_the_item() {
    for stand in stands("an_answer_that_is_handed_over_waits").await {
        let store = &stand.store;
        let packs: Vec<_> = stand.submit(1).await.runs.iter().map(|run| run.injection).collect();
        let project = store.project("default").await.unwrap().id;
        let items = vec![item(packs[0], "mine", Onset::Known)];
        let new = NewEvaluation {
            project,
            name: "x".into(),
            definition: json!({}),
            packs: vec![(packs[0], None)],
            items: items.clone(),
        };
        let id = store.add_evaluation(&new).await.unwrap();
        let lease = lease(&stand, IncarnationId::random(), &evaluation_resource(id, packs[0])).await;
        let execution = store.start_item(&lease, id, &items[0], 7).await.unwrap();
        let findings = answered(&items[0]).result.outcome.unwrap();
        store.upload(execution, &findings, 1.5).await.unwrap();
        assert_eq!(store.execution(execution).await.unwrap().state, ExecutionState::Initial, "{}", stand.database.kind);
        assert_eq!(store.upload_of(execution).await.unwrap().unwrap().findings, findings);
        store.end_items(&lease, id, &[answered(&items[0])], 0.0).await.unwrap();
        assert_eq!(store.upload(execution, &findings, 1.5).await.unwrap_err().code, "execution.already_ended");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_of_data_sets_and_commands_never_change() {
    for stand in stands("versions_of_data_sets_and_commands_never_change").await {
        let store = &stand.store;
        let members: Vec<_> = stand.submit(2).await.runs.iter().map(|run| run.injection).collect();
        let new = NewDataset {
            name: "pairs".into(),
            version: "1.0.0".into(),
            description: String::new(),
            manifest: json!({"license": "CC-BY-4.0"}),
            digest: "d".repeat(64),
            members: members.clone(),
        };
        store.add_dataset(&new).await.unwrap();
        assert_eq!(store.add_dataset(&new).await.unwrap_err().code, "dataset.exists");
        let kept = store.datasets().await.unwrap();
        assert_eq!((&kept[0].members, &kept[0].manifest), (&members, &Some(new.manifest)));

        let command = json!({"command": ["python3", "a.py"]});
        assert!(store.add_command("mine", "1", &command, &"e".repeat(64)).await.unwrap());
        assert!(!store.add_command("mine", "1", &command, &"e".repeat(64)).await.unwrap(), "the same is no change");
        let other = store.add_command("mine", "1", &json!({"command": ["x"]}), &"f".repeat(64)).await.unwrap_err();
        assert_eq!(other.code, "algorithm.version_exists");
        assert_eq!(store.commands().await.unwrap().len(), 1);
        assert_eq!(store.command("mine", "1").await.unwrap().unwrap().definition, command);
        assert!(store.command("mine", "2").await.unwrap().is_none());
        assert_eq!(store.project("defualt").await.unwrap_err().fix.as_deref(), Some("did you mean `default`?"));
    }
}
