//! A batch of which one fault cannot be started: the others are taken back, and the run says which one it was.

use cluster::Cluster;
use model::{PackState, RunState};
use serde_json::json;

use crate::stand::Stand;

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_cannot_start_as_a_whole_leaves_nothing_behind() {
    let stand = Stand::new("cpu_stress").await;
    let delay = json!({"target_service": "ts-basic-service", "latency_ms": 500});
    let faults = [
        ("ts-travel-service", "network_delay", delay),
        ("ts-order-service", "cpu_stress", json!({"workers": 1, "load_pct": 50})),
    ];
    let run = stand.submit(&faults).await;
    let ended = stand.work(run).await;
    assert_eq!((ended.state, ended.reason.as_deref()), (RunState::Failed, Some("fault.rejected")), "{ended:?}");
    let message = ended.message.unwrap();
    assert!(message.contains("fault 2 of 2 (cpu_stress on ts-order-service)"), "{message}");

    let journal = stand.cluster.journal().await.unwrap();
    let effects: Vec<&str> = journal.iter().map(|entry| entry.effect.as_str()).collect();
    assert_eq!(effects, ["release_installed", "fault_started", "fault_ended", "namespace_removed"]);
    assert_eq!(stand.cluster.faults().await.unwrap(), []);
    assert_eq!(stand.store.leases_of_ended_runs(9).await.unwrap().total, 0);
    assert_eq!(stand.store.held_leases().await.unwrap(), 0);

    let injection = stand.store.injection_of(run).await.unwrap();
    assert_eq!((injection.state, injection.exposed), (PackState::InjectFailed, None));
    let receipt = injection.recovery.unwrap();
    assert_eq!(receipt["removed"].as_array().unwrap().len(), 1, "{receipt:#}");
    assert_eq!(receipt["removed"][0]["capability"], "network_delay");
    assert!(receipt["removed"][0]["ended_at"].is_i64(), "{receipt:#}");
}
