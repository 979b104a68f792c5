//! Injections, executions, logs, tokens and data sets.

use std::collections::BTreeMap;

use model::{Answer, ExecutionState, Level, PackState, TaskKind, Truth, TruthEntry, WallTime};
use serde_json::json;
use store::{
    DetectorRow, Effects, ExecutionResult, Findings, IncarnationId, InjectionChange, LogLevel, NewExecution, NewToken,
    Page, Role, TaskError, TokenOrigin, TokenRole,
};

use crate::stand::{Stand, stands};

pub fn ended(duration_s: f64, candidates: Vec<String>, outcome: Result<Findings, TaskError>) -> ExecutionResult {
    ExecutionResult { duration_s, peak_memory: Some(1 << 33), isolation: None, candidates, outcome }
}

async fn algorithm(stand: &Stand) -> store::ClaimedTask {
    let owner = IncarnationId::random();
    let first = stand.claimed(owner).await;
    let children = vec![store::NewTask::new(TaskKind::RunAlgorithm)];
    stand.store.complete_task(&first.claim, Effects { children, ..Effects::default() }).await.unwrap();
    stand.claim(owner).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_is_one_per_task_and_has_its_result_once() {
    for stand in stands("an_execution_is_one_per_task_and_has_its_result_once").await {
        let store = &stand.store;
        let task = algorithm(&stand).await;
        let new = NewExecution {
            algorithm: "nsigma".into(),
            version: "builtin".into(),
            role: Role::Algorithm,
            injection: task.run.injection.unwrap(),
            seed: 1 << 63,
            remote: false,
        };
        let id = store.start_execution(&task.claim, &new).await.unwrap();
        assert_eq!(store.start_execution(&task.claim, &new).await.unwrap(), id, "a repeated start finds it");
        let error = TaskError::from(&model::Problem::internal("algorithm.timed_out", "it did not end in time"));
        let failed = ended(1.5, vec![], Err(error));
        let effects = |result| Effects { execution: Some(result), ..Effects::default() };
        store.record(&task.claim, effects(failed)).await.unwrap();
        let read = store.execution(id).await.unwrap();
        assert_eq!((read.state, read.reason.as_deref()), (ExecutionState::Failed, Some("algorithm.timed_out")));
        assert_eq!(store.start_execution(&task.claim, &new).await.unwrap(), id, "a failed one starts again");
        // 500 answers are more than one statement may hold.
        let answer = |rank: u32| Answer {
            level: Level::Service,
            name: format!("ts-service-{rank}"),
            rank,
            score: Some(1.0 / f64::from(rank)),
        };
        let answers: Vec<Answer> = (1..=500).map(answer).collect();
        let figures = BTreeMap::from([("abnormal_p99".to_owned(), Some(12.5)), ("normal_p99".to_owned(), None)]);
        let detector = vec![DetectorRow { span_name: "GET /".into(), issues: json!({}), figures }];
        let findings = Findings { answers: answers.clone(), detector: detector.clone() };
        let candidates = vec!["ts-service-1".to_owned()];
        let good = ended(2.25, candidates.clone(), Ok(findings));
        store.record(&task.claim, effects(good.clone())).await.unwrap();
        let again = store.record(&task.claim, effects(good)).await.unwrap_err();
        assert_eq!(again.code, "execution.already_ended");
        assert_eq!(store.start_execution(&task.claim, &new).await.unwrap_err().code, "execution.already_ended");
        let read = store.execution_of(task.task.id).await.unwrap().unwrap();
        assert_eq!((read.state, read.duration_s, read.seed), (ExecutionState::Success, 2.25, 1 << 63));
        assert_eq!((read.candidates, read.reason), (Some(candidates), None));
        assert_eq!(store.answers(&[id]).await.unwrap().remove(&id), Some(answers), "{}", stand.database.kind);
        assert_eq!(store.detector_rows(id).await.unwrap(), detector);
        let listed = store::ExecutionFilter { algorithm: Some("nsigma".into()), ..Default::default() };
        assert_eq!(store.executions(&listed, Page::ALL).await.unwrap().total, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_datapack_changes_by_legal_steps_only_and_all_or_nothing() {
    for stand in stands("a_datapack_changes_by_legal_steps_only_and_all_or_nothing").await {
        let store = &stand.store;
        let claim = stand.claimed(IncarnationId::random()).await.claim;
        let entry = TruthEntry {
            fault: 0,
            role: model::Role::Root,
            service: "ts-food-service".into(),
            pod: vec![],
            container: vec![],
            metric: vec![],
            function: vec![],
            span: vec![],
        };
        let truth = Truth { entries: vec![entry] };
        let change = |state, change: &InjectionChange| Effects {
            injection: Some(InjectionChange { state, ..change.clone() }),
            ..Effects::event(store::NewEvent::new("told", "told"))
        };
        let filled = InjectionChange {
            truth: Some(truth.clone()),
            witness: Some(json!([{"share": 0.4}])),
            visible: Some(false),
            ..InjectionChange::default()
        };
        let skipped = store.record(&claim, change(Some(PackState::DetectorSuccess), &filled)).await.unwrap_err();
        assert_eq!(skipped.code, "state.illegal_change");
        let before = store.injection_of(claim.run).await.unwrap();
        assert_eq!((before.state, before.witness, before.visible), (PackState::Initial, None, None));
        assert!(!stand.event_names(claim.run).await.contains(&"told".to_owned()), "{}", stand.database.kind);
        store.record(&claim, change(Some(PackState::InjectSuccess), &filled)).await.unwrap();
        let after = store.injection_of(claim.run).await.unwrap();
        assert_eq!((after.state, after.truth, after.visible), (PackState::InjectSuccess, truth, Some(false)));
        // The same state again is no change, and what is not named stays.
        store.record(&claim, change(Some(PackState::InjectSuccess), &InjectionChange::default())).await.unwrap();
        assert_eq!(store.injection_of(claim.run).await.unwrap().witness, Some(json!([{"share": 0.4}])));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_read_page_by_page_in_their_order() {
    for stand in stands("logs_are_read_page_by_page_in_their_order").await {
        let store = &stand.store;
        let claim = stand.claimed(IncarnationId::random()).await.claim;
        let lines: Vec<_> = (0..250).map(|number| (LogLevel::Info, format!("line {number} ✓"))).collect();
        store.log(claim.run, claim.task, &lines).await.unwrap();
        let (mut read, mut after) = (Vec::new(), 0);
        loop {
            let page = store.logs_after(claim.task, after, 100).await.unwrap();
            let Some(last) = page.last() else { break };
            after = last.id;
            read.extend(page.into_iter().map(|line| (line.level, line.line)));
        }
        assert_eq!(read, lines, "{}", stand.database.kind);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_known_until_it_expires_or_is_revoked() {
    for stand in stands("a_token_is_known_until_it_expires_or_is_revoked").await {
        let store = &stand.store;
        let hash = |c: char| c.to_string().repeat(64);
        let new = |name: &str, role, expires_at| NewToken {
            name: name.into(),
            role,
            origin: TokenOrigin::File,
            expires_at,
            session_at: None,
        };
        let id = store.add_token(&new("first start", TokenRole::Admin, None), &hash('a')).await.unwrap();
        store.add_token(&new("old", TokenRole::Viewer, Some(WallTime(1))), &hash('b')).await.unwrap();
        let token = store.authenticate(&hash('a')).await.unwrap();
        assert_eq!((token.id, token.role), (id, TokenRole::Admin));
        assert!(store.tokens().await.unwrap()[0].last_used_at.is_some());
        assert_eq!(store.authenticate(&hash('b')).await.unwrap_err().code, "token.expired");
        assert_eq!(store.authenticate(&hash('A')).await.unwrap_err().code, "token.unknown");
        assert!(store.revoke_token(id).await.unwrap());
        assert!(!store.revoke_token(id).await.unwrap());
        assert_eq!(store.authenticate(&hash('a')).await.unwrap_err().code, "token.revoked");
    }
}
