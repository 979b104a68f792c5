//! Users, keys, scoped tokens, and answers that are handed over.

use model::{
    Answer, ExecutionId, ExecutionState, GroupId, InjectionId, Level, PackState, RunId, RunState, TaskKind, Verdict,
    WallTime,
};
use serde_json::json;
use store::{
    Effects, Findings, Finish, IncarnationId, InjectionChange, NewApiKey, NewExecution, NewRanking, NewTask, NewToken,
    Pack, RankingSubmission, Role, TokenOrigin, TokenRole, Wait, secret_hash,
};

use crate::stand::{Stand, key, stands};

fn later() -> WallTime {
    WallTime::now().plus(std::time::Duration::from_secs(3600))
}

fn findings() -> Findings {
    let answer = Answer { level: Level::Service, name: "ts-order-service".into(), rank: 1, score: Some(0.5) };
    Findings { answers: vec![answer], detector: vec![] }
}

/// A datapack with a verdict, made by a run that has ended.
async fn pack(stand: &Stand) -> InjectionId {
    let owner = IncarnationId::random();
    let claimed = stand.claimed(owner).await;
    let change = |state| InjectionChange { state: Some(state), ..InjectionChange::default() };
    let built = InjectionChange {
        verdict: Some(Verdict::Anomaly),
        pack: Some(Pack { path: "ts-000001".into(), digest: "d".repeat(64) }),
        ..change(PackState::BuildSuccess)
    };
    for change in [change(PackState::InjectSuccess), built, change(PackState::DetectorSuccess)] {
        let effects = Effects { injection: Some(change), ..Effects::default() };
        stand.store.record(&claimed.claim, effects).await.unwrap();
    }
    let effects = Effects { finish: Some(Finish::completed()), ..Effects::default() };
    stand.store.complete_task(&claimed.claim, effects).await.unwrap();
    claimed.run.injection.unwrap()
}

async fn ranking(stand: &Stand, on: InjectionId) -> RankingSubmission {
    let execution = NewExecution {
        algorithm: "mine".into(),
        version: "1.0".into(),
        role: Role::Algorithm,
        injection: on,
        seed: 1,
        remote: true,
    };
    let mut first = NewTask::new(TaskKind::RunAlgorithm);
    first.algorithm = Some("mine".into());
    let ranking = NewRanking {
        id: RunId::random(),
        spec: r#"{"format":1}"#.into(),
        execution,
        labels: json!({"team": "a"}),
        first,
    };
    RankingSubmission {
        group: GroupId::random(),
        project: stand.store.project("default").await.unwrap().id,
        rankings: vec![ranking],
        key: key("execute/k", 'a'),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_only_ranks_waits_for_the_upload_and_leaves_the_datapack_alone() {
    for stand in stands("a_run_that_only_ranks_waits_for_the_upload_and_leaves_the_datapack_alone").await {
        let store = &stand.store;
        let on = pack(&stand).await;
        let before = store.injection(on).await.unwrap();
        let submission = ranking(&stand, on).await;
        let submitted = store.submit_rankings(&submission).await.unwrap();
        assert_eq!(store.submit_rankings(&submission).await.unwrap(), submitted, "the key gives the first answer");
        let one = &submitted.rankings[0];
        let run = store.run(one.run).await.unwrap();
        assert!(run.ranks_only && run.injection == Some(on) && run.verdict == Some(Verdict::Anomaly), "{run:?}");
        assert_eq!(store.injection_of(one.run).await.unwrap(), before);
        let execution = store.execution(one.execution).await.unwrap();
        assert_eq!(
            (execution.state, execution.remote, &execution.labels["team"]),
            (ExecutionState::Initial, true, &json!("a"))
        );

        let claimed = stand.claim(IncarnationId::random()).await;
        assert_eq!(claimed.task.id, one.task);
        let wait = Wait::new("execution.awaits_upload", "it is uploaded");
        store.reschedule_task(&claimed.claim, wait, later(), Effects::default()).await.unwrap();
        assert!(store.claim_task(IncarnationId::random(), crate::stand::TTL).await.unwrap().is_none());
        store.upload(one.execution, &findings(), 2.5).await.unwrap();
        let execution = store.execution(one.execution).await.unwrap();
        assert_eq!((execution.state, execution.duration_s, execution.candidates), (ExecutionState::Success, 2.5, None));
        assert_eq!(store.answers(&[one.execution]).await.unwrap()[&one.execution], findings().answers);
        let again = store.upload(one.execution, &findings(), 2.5).await.unwrap_err();
        assert_eq!(again.code, "execution.already_ended");

        let woken = stand.claim(IncarnationId::random()).await;
        let effects = Effects { finish: Some(Finish::completed()), ..Effects::default() };
        store.complete_task(&woken.claim, effects).await.unwrap();
        assert_eq!(store.run(one.run).await.unwrap().state, RunState::Completed);
        assert_eq!(store.injection(on).await.unwrap(), before, "{}", stand.database.kind);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_ranking_takes_no_answer_and_can_be_retried() {
    for stand in stands("a_cancelled_ranking_takes_no_answer_and_can_be_retried").await {
        let store = &stand.store;
        let on = pack(&stand).await;
        let one = store.submit_rankings(&ranking(&stand, on).await).await.unwrap().rankings.remove(0);
        store.request_cancel(one.run).await.unwrap();
        let late = store.upload(one.execution, &findings(), 1.0).await.unwrap_err();
        assert_eq!(late.code, "run.already_ended");
        let pack = store.injection(on).await.unwrap();
        store.retry_run(one.run, None).await.unwrap();
        let claimed = stand.claim(IncarnationId::random()).await;
        assert_eq!(claimed.task.id, one.task);
        store.upload(one.execution, &findings(), 1.0).await.unwrap();
        assert_eq!(store.injection(on).await.unwrap(), pack);
        let missing = ranking(&stand, InjectionId(9999)).await;
        assert_eq!(
            store.submit_rankings(&RankingSubmission { key: None, ..missing }).await.unwrap_err().code,
            "datapack.unknown"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attended_program_hands_over_once_and_its_token_ends() {
    for stand in stands("an_attended_program_hands_over_once_and_its_token_ends").await {
        let store = &stand.store;
        let claimed = stand.claimed(IncarnationId::random()).await;
        let new = NewExecution {
            algorithm: "mine".into(),
            version: "1.0".into(),
            role: Role::Algorithm,
            injection: claimed.run.injection.unwrap(),
            seed: 1,
            remote: false,
        };
        let id = store.start_execution(&claimed.claim, &new).await.unwrap();
        let (_, secret) = store.issue_token(&NewToken::of_execution(id, later())).await.unwrap();
        let token = store.authenticate(&secret_hash(&secret)).await.unwrap();
        assert_eq!(token.origin, TokenOrigin::Execution(id));
        assert_eq!(store.upload_of(id).await.unwrap(), None);
        store.upload(id, &findings(), 1.5).await.unwrap();
        assert_eq!(store.authenticate(&secret_hash(&secret)).await.unwrap_err().code, "token.revoked");
        let kept = store.upload_of(id).await.unwrap().unwrap();
        assert_eq!((kept.findings, kept.duration_s), (findings(), 1.5));
        assert_eq!(store.execution(id).await.unwrap().state, ExecutionState::Initial, "its worker ends it");
        assert_eq!(store.upload(id, &findings(), 1.5).await.unwrap_err().code, "execution.already_uploaded");
        assert_eq!(store.upload(ExecutionId(9999), &findings(), 1.5).await.unwrap_err().code, "execution.unknown");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_and_a_changed_password_end_what_they_gave() {
    for stand in stands("a_revoked_key_and_a_changed_password_end_what_they_gave").await {
        let store = &stand.store;
        let new = NewApiKey {
            key_id: "ak_1".into(),
            name: "laptop".into(),
            role: TokenRole::Author,
            sealed_secret: "sealed".into(),
            created_by: "admin".into(),
            expires_at: None,
        };
        let made = store.add_key(&new).await.unwrap();
        assert_eq!(store.key("ak_1").await.unwrap(), Some(made));
        assert_eq!(store.key("AK_1").await.unwrap(), None);
        store.use_key("ak_1", "n", later()).await.unwrap();
        assert_eq!(store.use_key("ak_1", "n", later()).await.unwrap_err().code, "key.nonce_used");
        store.use_key("ak_1", "over", WallTime(1)).await.unwrap();
        store.use_key("ak_1", "over", later()).await.unwrap();
        store.put_user("ann", TokenRole::Viewer, "hash 1").await.unwrap();
        let session = |origin| NewToken {
            name: "ann".into(),
            role: TokenRole::Viewer,
            origin,
            expires_at: Some(later()),
            session_at: Some(WallTime::now()),
        };
        let (_, by_key) = store.issue_token(&session(TokenOrigin::Key("ak_1".into()))).await.unwrap();
        let (_, by_password) = store.issue_token(&session(TokenOrigin::Password("ann".into()))).await.unwrap();
        let state = async |secret: &str| store.authenticate(&secret_hash(secret)).await.map(|_| ()).map_err(|p| p.code);
        assert_eq!((state(&by_key).await, state(&by_password).await), (Ok(()), Ok(())));
        assert!(store.revoke_key("ak_1").await.unwrap().revoked_at.is_some());
        assert_eq!((state(&by_key).await, state(&by_password).await), (Err("token.revoked".into()), Ok(())));
        let user = store.put_user("ann", TokenRole::Author, "hash 2").await.unwrap();
        assert_eq!((user.role, store.users().await.unwrap().len()), (TokenRole::Author, 1));
        assert_eq!(state(&by_password).await, Err("token.revoked".into()));
        assert_eq!(store.revoke_key("ak_2").await.unwrap_err().code, "key.unknown");
    }
}
