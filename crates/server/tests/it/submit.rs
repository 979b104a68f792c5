//! Submitting, following, cancelling and explaining runs. Without a worker they stay where they are.

use std::time::{Duration, Instant};

use api::event::End;
use api::run::RunQuery;
use api::spec::RunSpec;
use api::submit::RunRequest;
use client::Frame;
use model::{RunState, TaskKind};
use serde_json::{Value, json};

use crate::world::World;

fn run(value: Value) -> RunRequest {
    serde_json::from_value(value).unwrap()
}

fn fault(extra: Value) -> Value {
    let mut fault = json!({
        "service": "ts-travel-service", "capability": "network_delay",
        "target": {"target_service": "ts-basic-service"}, "params": {"latency_ms": 400},
    });
    for (key, value) in extra.as_object().unwrap() {
        fault[key] = value.clone();
    }
    fault
}

fn with(extra: Value) -> Value {
    let mut request = json!({"system": "ts", "faults": [fault(json!({}))], "algorithms": ["baro"]});
    for (key, value) in extra.as_object().unwrap() {
        request[key] = value.clone();
    }
    request
}

#[test]
fn what_is_wrong_is_refused_before_anything_is_stored() {
    let world = World::start().with_ts();
    let client = world.client();
    let check = |request: Value, code: &str, place: &str, exit: u8| {
        let failure = client.submit(&run(request.clone()), None).expect_err(code);
        assert_eq!(failure.problem.code, code, "{request}: {failure}");
        assert!(failure.problem.place.as_deref().unwrap_or_default().starts_with(place), "{failure}");
        assert_eq!(failure.exit_code(), exit, "{failure}");
        failure.problem.fix
    };
    let fix = check(with(json!({"system": "tz"})), "system.unknown", "system", 7);
    assert_eq!(fix.as_deref(), Some("did you mean `ts`?"));
    let one = |extra: Value| with(json!({"faults": [fault(extra)]}));
    let fix = check(one(json!({"service": "ts-travel-servic"})), "service.unknown", "faults[0]", 7);
    assert_eq!(fix.as_deref(), Some("did you mean `ts-travel-service`?"));
    check(one(json!({"capability": "network_dealy"})), "capability.unknown", "faults[0]", 7);
    check(one(json!({"params": {"latency": 5}})), "param.unknown", "faults[0]", 7);
    check(one(json!({"params": {"latency_ms": -5}})), "param.out_of_range", "faults[0].params.latency_ms", 2);
    check(one(json!({"target": {"target_service": ["x"]}})), "target.wrong_type", "faults[0].target", 2);
    let go = json!({"service": "ts-news-service", "capability": "jvm_method_exception", "target": {}, "params": {}});
    let refused = client.submit(&run(with(json!({"faults": [go]}))), None).unwrap_err();
    assert!(refused.problem.code.starts_with("target."), "a JVM fault on Go: {refused}");
    check(with(json!({"faults": [fault(json!({})), fault(json!({}))]})), "batch.contradiction", "faults[0]", 2);
    check(with(json!({"windows": {"normal_seconds": 0}})), "window.out_of_range", "windows.normal", 2);
    check(with(json!({"windows": {"abnormal_seconds": -5}})), "window.out_of_range", "windows.abnormal", 2);
    check(with(json!({"algorithms": ["bara"]})), "algorithm.unknown", "algorithms", 7);
    check(with(json!({"algorithms": ["baro", "baro:builtin"]})), "algorithm.repeated", "algorithms", 2);
    check(
        with(json!({"windows": {"normal_seconds": 5, "abnormal_seconds": 5}, "strict": true})),
        "algorithm.insufficient_data",
        "",
        2,
    );
    for origin in [i64::MIN, -1, 0, 946_684_799, 4_102_444_800 - 120, 4_102_444_800, i64::MAX] {
        check(with(json!({"origin": origin})), "origin.out_of_range", "origin", 2);
    }
    let ambiguous = json!({"service": "ts-travel-service", "capability": "dns_error"});
    check(with(json!({"faults": [ambiguous]})), "target.ambiguous", "faults[0].target", 2);
    check(with(json!({"slot": 99})), "slot.out_of_range", "slot", 2);
    check(with(json!({"load": 0.0})), "submit.out_of_range", "load", 2);
    check(with(json!({"noise": 2.5})), "submit.out_of_range", "noise", 2);
    check(with(json!({"repeat": 0})), "submit.repeat_out_of_range", "repeat", 2);
    check(with(json!({"no_fault": true})), "submit.fault_in_control", "faults", 2);
    check(with(json!({"faults": []})), "submit.no_fault_named", "faults", 2);
    check(with(json!({"algorithms": [], "always_rank": true})), "submit.no_effect", "always_rank", 2);
    let dry = client.submit(&run(with(json!({"dry_run": true}))), None).unwrap();
    assert!(dry.dry_run && dry.items.len() == 1);
    assert_eq!(client.runs(&RunQuery::default()).unwrap().pagination.total, 0);
}

#[test]
fn a_run_carries_everything_that_its_worker_needs() {
    let world = World::start().with_ts();
    let client = world.client();
    let wanted = with(
        json!({"repeat": 2, "paired_control": true, "seed": 7, "origin": 1_767_603_600, "windows": {"normal_seconds": 5}}),
    );
    let reply = client.submit(&run(wanted), None).unwrap();
    let seeds: Vec<(u64, bool)> = reply.items.iter().map(|item| (item.seed, item.control_of.is_some())).collect();
    assert_eq!(seeds, [(7, false), (7, true), (8, false), (8, true)]);
    assert!(reply.notes.iter().any(|note| note.contains("too short")), "{:?}", reply.notes);
    let spec = |index: usize| -> RunSpec {
        RunSpec::from_json(&client.run(reply.items[index].trace_id).unwrap().spec.to_string()).unwrap()
    };
    let (first, control) = (spec(0), spec(1));
    assert_eq!((first.faults.len(), control.faults.len()), (1, 0));
    assert_eq!(control.control_of, Some(reply.items[0].trace_id));
    assert_eq!((first.environment, &first.release), (control.environment, &control.release));
    assert_eq!(first.environment.origin.seconds(), 1_767_603_600);
    // Each slot has the values that the seed's template gives it, and a digest of its own.
    let last = *first.slots.last().unwrap();
    let (values, digest) = first.release.values_for(last).unwrap();
    assert_eq!(values["services"]["tsUiDashboard"]["nodePort"], json!(31000 + last));
    assert!(last == 0 || digest != first.release.values_for(0).unwrap().1);
    let detail = client.run(reply.items[0].trace_id).unwrap();
    assert_eq!((detail.run.state, detail.tasks[0].kind), (RunState::Pending, TaskKind::RestartPedestal));
    let pack = client.injection(detail.run.injection_name.as_deref().unwrap()).unwrap();
    assert_eq!(pack.ground_truth[0].service, ["ts-travel-service"]);
    assert!(!pack.injection.name.contains("delay"), "a datapack's name gives nothing away");
}

#[test]
fn the_same_key_gives_the_same_runs_and_no_more() {
    let world = World::start().with_ts();
    let client = world.client();
    let first = client.submit(&run(with(json!({}))), Some("k")).unwrap();
    let again = client.submit(&run(with(json!({}))), Some("k")).unwrap();
    assert_eq!((first.deduplicated, again.deduplicated), (false, true));
    assert_eq!((first.group_id, first.items), (again.group_id, again.items));
    let other = client.submit(&run(with(json!({"load": 30.0}))), Some("k")).unwrap_err();
    assert_eq!((other.problem.code.as_ref(), other.exit_code()), ("idempotency.key_reused", 8));
    assert_eq!(client.runs(&RunQuery::default()).unwrap().pagination.total, 1);
    let without = client.submit(&run(with(json!({}))), None).unwrap();
    assert!(!without.deduplicated, "only a key deduplicates");
}

#[test]
fn a_run_can_be_explained_followed_cancelled_and_retried() {
    let world = World::start().with_ts();
    let client = world.client();
    let id = client.submit(&run(with(json!({}))), None).unwrap().items[0].trace_id;
    let why = client.why(id).unwrap();
    assert!(why.answer.contains("waits for a worker"), "{why:?}");
    let deadline = Some(Instant::now() + Duration::from_secs(20));
    let mut watch = client.watch(id, 0, deadline);
    let Some(Ok(Frame::Update { number: 1, event })) = watch.next() else { panic!("the first event has number 1") };
    assert_eq!((event.event_name.as_str(), event.task_type), ("task.scheduled", Some(1)));

    let receipt = client.cancel(id).unwrap();
    assert_eq!((receipt.state, receipt.cancelled_tasks.len()), (RunState::Cancelled, 1));
    let rest: Vec<Frame> = watch.map(Result::unwrap).collect();
    let Some(Frame::End(End { state: RunState::Cancelled, .. })) = rest.last() else { panic!("{rest:?}") };
    let numbers: Vec<u64> = rest
        .iter()
        .filter_map(|frame| match frame {
            Frame::Update { number, .. } => Some(*number),
            Frame::End(_) => None,
        })
        .collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1) && numbers.first() == Some(&2), "{numbers:?}");
    let resumed: Vec<Frame> = client.watch(id, *numbers.last().unwrap(), deadline).map(Result::unwrap).collect();
    assert!(matches!(resumed.as_slice(), [Frame::End(_)]), "nothing is told twice: {resumed:?}");
    assert_eq!(client.cancel(id).unwrap().state, RunState::Cancelled, "asking again changes nothing");
    assert!(client.why(id).unwrap().answer.contains("cancelled"));

    let wrong = client.retry(id, &api::run::RetryRequest { from: Some("BuildDatapak".into()) }).unwrap_err();
    assert_eq!((wrong.problem.code.as_ref(), wrong.exit_code()), ("task.kind_unknown", 2));
    // Nothing was observed yet that a pack could be built from.
    let early = client.retry(id, &api::run::RetryRequest { from: Some("BuildDatapack".into()) }).unwrap_err();
    assert_eq!((early.problem.code.as_ref(), early.exit_code()), ("run.step_unknown", 8));
    // The slot was given back when the run ended, so there is nothing to inject into before a new installation.
    let retried = client.retry(id, &api::run::RetryRequest { from: Some("FaultInjection".into()) }).unwrap();
    assert_eq!((retried.state, retried.from), (RunState::Running, TaskKind::RestartPedestal));
    let again = client.retry(id, &api::run::RetryRequest::default()).unwrap_err();
    assert_eq!((again.problem.code.as_ref(), again.exit_code()), ("run.not_retryable", 8));
}

#[test]
fn a_stream_does_not_hold_up_the_servers_end() {
    let mut world = World::start().with_ts();
    let client = world.client();
    let id = client.submit(&run(with(json!({}))), None).unwrap().items[0].trace_id;
    let mut watch = client.watch(id, 0, Some(Instant::now() + Duration::from_secs(20)));
    assert!(matches!(watch.next(), Some(Ok(Frame::Update { .. }))));
    world.stop();
    let end = watch.last();
    assert!(matches!(end, Some(Err(_))), "the run has not ended, so there is no end frame: {end:?}");
    assert!(client.health().is_err(), "the server is gone");
}

#[test]
fn a_point_stands_for_its_service_capability_and_target() {
    let world = World::start().with_ts();
    let client = world.client();
    let query = api::fault::PointQuery {
        service: Some("ts-travel-service".into()),
        capability: Some("network_delay".into()),
        ..Default::default()
    };
    let listed = client.points("ts", &query).unwrap();
    let point = listed.items.iter().find(|point| point.target["target_service"] == "ts-basic-service").unwrap();
    assert_eq!(&client.point(&point.id).unwrap(), point);
    let by_id = |extra: Value| {
        let mut request = json!({
            "faults": [{"point": point.id, "params": {"latency_ms": 400}}], "algorithms": ["baro"], "seed": 1, "dry_run": true,
        });
        for (key, value) in extra.as_object().unwrap() {
            request[key] = value.clone();
        }
        client.submit(&run(request), None)
    };
    let stored = |request: RunRequest| {
        let id = client.submit(&RunRequest { dry_run: false, ..request }, None).unwrap().items[0].trace_id;
        client.run(id).unwrap().spec["faults"].clone()
    };
    let named = run(json!({"faults": [{"point": point.id, "params": {"latency_ms": 400}}]}));
    assert_eq!(stored(named), stored(run(with(json!({})))), "both ways give one fault");
    // Whoever has anything ranked gets the trivial baselines too, each once.
    let ranks = |names: Value| -> Vec<String> {
        let id = client.submit(&run(with(json!({"algorithms": names}))), None).unwrap().items[0].trace_id;
        let chosen = client.run(id).unwrap().spec["algorithms"].as_array().unwrap().clone();
        chosen.iter().map(|choice| choice["name"].as_str().unwrap().to_owned()).collect()
    };
    let five = ["random", "constant", "most-frequent", "loudest-metric", "max-change"];
    assert_eq!(ranks(json!(["baro"]))[..], [&["baro"][..], &five].concat());
    assert_eq!(ranks(json!(["constant"])).len(), 5);
    assert!(ranks(json!([])).is_empty(), "who asks for none gets the detector's verdict");
    assert!(by_id(json!({})).unwrap().dry_run);
    let code = |extra: Value| by_id(extra).unwrap_err().problem.code.into_owned();
    let faults = |fault: Value| json!({"faults": [fault]});
    assert_eq!(code(json!({"system": "ob"})), "point.of_another_system");
    assert_eq!(code(faults(json!({"point": point.id, "service": "x"}))), "point.repeated_in_words");
    assert_eq!(code(faults(json!({"point": "ts-000000000000"}))), "point.unknown");
    assert_eq!(code(faults(json!({"point": "tz-000000000000"}))), "system.unknown");
    assert_eq!(code(faults(json!({"point": "7f3a9c2e41b0"}))), "point.id_malformed");
    assert_eq!(code(faults(json!({"service": "a", "capability": "pod_kill"}))), "submit.system_missing");
}

#[test]
fn a_repetition_is_answered_before_anything_is_checked() {
    let world = World::start().with_ts();
    let client = world.client();
    let first = client.submit(&run(with(json!({}))), Some("k")).unwrap();
    client.set_enabled("ts", false).unwrap();
    assert_eq!(client.submit(&run(with(json!({}))), None).unwrap_err().problem.code, "system.disabled");
    let again = client.submit(&run(with(json!({}))), Some("k")).unwrap();
    assert!(again.deduplicated && again.group_id == first.group_id && again.items == first.items, "{again:?}");
    let other = client.submit(&run(with(json!({"load": 30.0}))), Some("k")).unwrap_err();
    assert_eq!(other.problem.found.as_deref(), Some("`k`"), "the key as the caller knows it");
}

#[test]
fn a_run_is_found_by_the_beginning_of_its_id() {
    let world = World::start().with_ts();
    let client = world.client();
    let reply = client.submit(&run(with(json!({"repeat": 40}))), None).unwrap();
    let ids: Vec<String> = reply.items.iter().map(|item| item.trace_id.to_string()).collect();
    assert_eq!(client.find_run(&ids[0].to_uppercase()[..23]).unwrap().to_string(), ids[0]);
    let token = world.token();
    let code = |path: &str| {
        let answer = world.call("GET", &format!("/api/v2/traces/{path}"), Some(&token), "");
        answer.body["data"]["code"].as_str().unwrap_or("ok").to_owned()
    };
    assert_eq!(code(&format!("{}/why", &ids[1][..13])), "ok");
    assert_eq!(code(&format!("{}/stream", &ids[1][..3])), "run.id_malformed");
    assert_eq!(code("zzzz"), "run.id_malformed");
    let unused = (0..).map(|n: u32| format!("{n:08x}")).find(|text| !ids.iter().any(|id| id.starts_with(text)));
    assert_eq!(code(&unused.unwrap()), "run.unknown");
    // All have the version digit at the same place, so only the first digits tell them apart; two of 40 share one.
    let shared = world.block_on(world.store.runs_starting(&ids[0][..1], 100)).unwrap();
    assert_eq!(shared.len(), ids.iter().filter(|id| id.starts_with(&ids[0][..1])).count());
}

#[test]
fn a_list_of_a_system_that_nobody_knows_is_an_error() {
    let world = World::start().with_ts();
    let token = world.token();
    for list in ["traces?system=", "injections?category=", "board?system="] {
        let get = |code: &str| world.call("GET", &format!("/api/v2/{list}{code}"), Some(&token), "");
        let wrong = get("tss");
        let data = &wrong.body["data"];
        assert_eq!(
            (wrong.status, &data["code"], &data["fix"]),
            (404, &json!("system.unknown"), &json!("did you mean `ts`?"))
        );
        assert_eq!(get("ts").status, 200, "{list}");
        assert_eq!(get("ob").status, 200, "{list}: known, and not registered");
    }
}

#[test]
fn while_the_kill_switch_is_on_no_fault_is_accepted() {
    let world = World::start().with_ts();
    let client = world.client();
    let off = client.kill_switch().unwrap();
    assert!(!off.engaged && off.changed_by.is_none() && off.active_faults.is_empty(), "{off:?}");
    let request = api::kill_switch::KillSwitchRequest { engaged: true, reason: "a drill".into() };
    let on = client.set_kill_switch(&request).unwrap();
    assert_eq!((on.engaged, on.reason.as_str(), on.changed_by.as_deref()), (true, "a drill", Some("admin")));
    let refused = client.submit(&run(with(json!({}))), None).unwrap_err();
    assert_eq!((refused.problem.code.as_ref(), refused.exit_code()), ("fault.kill_switch", 8));
    assert!(refused.problem.found.unwrap().contains("a drill"));
    client.submit(&run(json!({"system": "ts", "no_fault": true})), None).unwrap();
    client.set_kill_switch(&api::kill_switch::KillSwitchRequest { engaged: false, reason: String::new() }).unwrap();
    client.submit(&run(with(json!({}))), None).unwrap();
}
