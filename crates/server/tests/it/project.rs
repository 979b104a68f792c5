//! The public forms within a project: runs from guided faults, executions, uploads, labels, containers.

use model::{InjectionId, PackState, Verdict};
use serde_json::{Value, json};
use store::{Effects, Finish, IncarnationId, InjectionChange, NewToken, Pack, TokenOrigin, TokenRole};

use crate::world::{Answer, World};

fn ask(world: &World, method: &str, path: &str, body: &Value) -> Answer {
    world.call(method, &format!("/api/v2{path}"), Some(&world.token()), &body.to_string())
}

#[track_caller]
fn data(world: &World, method: &str, path: &str, body: &Value) -> Value {
    let answer = ask(world, method, path, body);
    assert!(answer.status < 300, "{method} {path}: {}", answer.body);
    answer.body["data"].clone()
}

fn guided() -> Value {
    json!({
        "system": "ts0", "system_type": "ts", "namespace": "ts0", "app": "ts-travel-service",
        "chaos_type": "NetworkDelay", "target_service": "ts-basic-service", "latency": 500, "duration": 1,
    })
}

fn request(specs: &Value) -> Value {
    json!({
        "pedestal": {"name": "ts", "version": "1.0.0"}, "benchmark": {"name": "clickhouse", "version": "1.0.0"},
        "specs": specs, "algorithms": [{"name": "baro"}], "labels": [{"key": "team", "value": "a"}],
    })
}

#[test]
fn batches_of_guided_faults_become_runs_of_their_project_or_nothing_is_stored() {
    let world = World::start().with_ts();
    let mine = data(&world, "POST", "/projects", &json!({"name": "mine", "description": "d"}));
    assert_eq!(ask(&world, "POST", "/projects", &json!({"name": "mine"})).body["data"]["code"], "project.exists");
    assert_eq!(ask(&world, "POST", "/projects", &json!({"name": "12"})).body["data"]["code"], "project.name_malformed");
    assert_eq!(data(&world, "GET", "/projects/mine", &json!({})), mine);
    let inject = |body: &Value| ask(&world, "POST", "/projects/mine/injections/inject", body);

    let mut second = guided();
    second["latency"] = json!(700);
    second["duration"] = json!(2);
    let answer = inject(&request(&json!([[guided()], [second]])));
    let reply = &answer.body["data"];
    assert_eq!((answer.status, &reply["original_count"]), (200, &2.into()), "{}", answer.body);
    for (at, seconds) in [(0, 60), (1, 120)] {
        let run =
            data(&world, "GET", &format!("/traces/{}", reply["items"][at]["trace_id"].as_str().unwrap()), &json!({}));
        assert_eq!((&run["project_name"], &run["group_id"]), (&"mine".into(), &reply["group_id"]));
        assert_eq!(
            (&run["spec"]["slots"], &run["spec"]["windows"]["abnormal_seconds"]),
            (&json!([0]), &seconds.into())
        );
        assert_eq!(run["tasks"][0]["project_name"], "mine");
    }
    let injections = data(&world, "GET", "/projects/mine/injections?size=100", &json!({}));
    assert_eq!(injections["pagination"]["total"], 2);
    assert_eq!(injections["items"][0]["labels"], json!([{"key": "team", "value": "a"}]));
    assert_eq!(data(&world, "GET", "/projects/default/injections", &json!({}))["pagination"]["total"], 0);
    assert_eq!(data(&world, "GET", "/traces?project_id=mine", &json!({}))["pagination"]["total"], 2);

    let with = |key: &str, value: Value| {
        let mut body = request(&json!([[guided()]]));
        body[key] = value;
        body
    };
    let of = |key: &str, value: Value| {
        let mut fault = guided();
        fault[key] = value;
        request(&json!([[guided()], [fault]]))
    };
    for (body, status, code, place) in [
        (with("pedestal", json!({"name": "hs"})), 400, "pedestal.of_another_system", "specs[0]"),
        (
            with("pedestal", json!({"name": "ts", "version": "9"})),
            400,
            "pedestal.version_not_installed",
            "specs[0].pedestal.version",
        ),
        (with("benchmark", json!({"name": "clickhous"})), 404, "benchmark.unknown", "benchmark.name"),
        (with("skip_restart_pedestal", json!(true)), 400, "submit.restart_not_skippable", "skip_restart_pedestal"),
        (with("project_name", json!("default")), 400, "project.contradicted", "project_name"),
        (with("interval", json!(5)), 400, "submit.interval_contradicted", "specs[0].interval"),
        (with("specs", json!([[]])), 400, "submit.no_fault_named", "specs[0]"),
        (of("cpu_load", json!(5)), 400, "guided.key_has_no_effect", "specs[1][0].cpu_load"),
        (of("app", json!("ts-travel-servic")), 404, "service.unknown", "specs[1].faults[0].service"),
    ] {
        let answer = inject(&body);
        let found = &answer.body["data"];
        assert_eq!((answer.status, &found["code"], &found["place"]), (status, &code.into(), &place.into()), "{found}");
    }
    assert_eq!(data(&world, "GET", "/injections", &json!({}))["pagination"]["total"], 2, "nothing of it is stored");
}

#[test]
fn injections_are_searched_and_labelled() {
    let world = World::start().with_ts();
    let reply = data(&world, "POST", "/projects/1/injections/inject", &request(&json!([[guided()], [guided()]])));
    let name = reply["items"][0]["injection_name"].as_str().unwrap().to_owned();
    let labels = |body: Value| ask(&world, "PATCH", &format!("/injections/{name}/labels"), &body);
    let answer =
        labels(json!({"add_labels": [{"key": "k", "value": "v\"%_"}, {"key": "l"}], "remove_labels": ["team"]}));
    assert_eq!(answer.body["data"]["labels"], json!([{"key": "k", "value": "v\"%_"}, {"key": "l", "value": ""}]));
    assert_eq!(labels(json!({"add_labels": [{"key": "", "value": "v"}]})).body["data"]["code"], "label.malformed");
    let search = |body: Value| {
        let page = data(&world, "POST", "/injections/search", &body);
        let items = page["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned());
        assert_eq!(data(&world, "POST", "/projects/default/injections/search", &body)["items"], page["items"]);
        items.collect::<Vec<_>>()
    };
    assert_eq!(search(json!({})).len(), 2);
    assert_eq!(search(json!({"name_pattern": &name[3..]})), [name.as_str()]);
    assert_eq!(search(json!({"name_pattern": "s_0"})).len(), 0, "no wildcards");
    assert_eq!(search(json!({"labels": [{"key": "k", "value": "v\"%_"}]})), [name.as_str()]);
    assert_eq!(search(json!({"labels": [{"key": "k", "value": "v"}]})).len(), 0);
    assert_eq!(search(json!({"states": [0], "names": [name]})), [name.as_str()]);
    assert_eq!(search(json!({"states": [6]})).len(), 0);
    let code = |body: Value| ask(&world, "POST", "/injections/search", &body).body["data"]["code"].clone();
    assert_eq!(code(json!({"states": [9]})), "state.unknown");
    assert_eq!(code(json!({"fault_types": [1]})), "request.malformed", "a filter without effect is refused");
}

#[test]
fn containers_are_listed_by_kind_with_the_built_in_methods() {
    let world = World::start().with_ts();
    let list = |query: &str| data(&world, "GET", &format!("/containers?size=100{query}"), &json!({}));
    let names = |page: &Value| -> Vec<String> {
        page["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    let algorithms = list("&type=0");
    assert!(names(&algorithms).contains(&"baro".to_owned()) && algorithms["items"][0]["type"] == "algorithm");
    assert_eq!(names(&list("&type=benchmark")), ["clickhouse"]);
    assert_eq!(names(&list("&type=2")), ["ts"]);
    let baro = data(&world, "GET", "/containers/baro", &json!({}));
    assert_eq!((&baro["versions"][0]["name"], &baro["versions"][0]["usage"]), (&"builtin".into(), &0.into()));
    assert_eq!(data(&world, "GET", &format!("/containers/{}", baro["id"]), &json!({})), baro);
    assert_eq!(
        ask(&world, "GET", "/containers?type=pedestl", &json!({})).body["data"]["code"],
        "container.kind_unknown"
    );
    assert_eq!(ask(&world, "GET", "/containers/bar", &json!({})).body["data"]["code"], "container.unknown");
}

/// A datapack with a verdict, as the worker would store it.
fn pack(world: &World) -> String {
    let reply = data(world, "POST", "/projects/1/injections/inject", &request(&json!([[guided()]])));
    let id = InjectionId(i32::try_from(reply["items"][0]["injection_id"].as_i64().unwrap()).unwrap());
    world.block_on(async {
        let claimed =
            world.store.claim_task(IncarnationId::random(), std::time::Duration::from_secs(30)).await.unwrap().unwrap();
        let change = |state| InjectionChange { state: Some(state), ..InjectionChange::default() };
        let built = InjectionChange {
            verdict: Some(Verdict::Anomaly),
            pack: Some(Pack { path: "none".into(), digest: "d".repeat(64) }),
            ..change(PackState::BuildSuccess)
        };
        for change in [change(PackState::InjectSuccess), built, change(PackState::DetectorSuccess)] {
            let effects = Effects { injection: Some(change), ..Effects::default() };
            world.store.record(&claimed.claim, effects).await.unwrap();
        }
        let effects = Effects { finish: Some(Finish::completed()), ..Effects::default() };
        world.store.complete_task(&claimed.claim, effects).await.unwrap();
        world.store.injection(id).await.unwrap().name
    })
}

#[test]
fn an_answer_is_handed_over_once_by_whoever_may() {
    let world = World::start().with_ts();
    let name = pack(&world);
    let body =
        |algorithm: Value| json!({"project_name": "default", "specs": [{"algorithm": algorithm, "datapack": name}]});
    let execute = |algorithm: Value| ask(&world, "POST", "/executions/execute", &body(algorithm));
    for (algorithm, code) in [
        (json!({"name": "mine", "version": "1.0"}), "algorithm.unknown"),
        (json!({"name": "mine", "payload": {"remote": true}}), "algorithm.version_malformed"),
        (json!({"name": "baro", "version": "1", "payload": {"remote": true}}), "algorithm.name_taken"),
        (json!({"name": "baro", "payload": {"seed": 1}}), "algorithm.payload_not_taken"),
        (json!({"name": "baro", "version": "2"}), "algorithm.version_unknown"),
        (json!({"name": "detector"}), "algorithm.unknown"),
    ] {
        let answer = execute(algorithm);
        assert_eq!((answer.status >= 400, &answer.body["data"]["code"]), (true, &code.into()), "{}", answer.body);
    }
    let none = ask(
        &world,
        "POST",
        "/executions/execute",
        &json!({"project_name": "default", "specs": [{"algorithm": {"name": "baro"}, "datapack": "ts-999999"}]}),
    );
    assert_eq!((none.status, &none.body["data"]["place"]), (404, &"specs[0]".into()), "{}", none.body);

    let remote = data(
        &world,
        "POST",
        "/projects/default/executions/execute",
        &body(json!({"name": "mine", "version": "1.0", "payload": {"remote": true}})),
    );
    let item = &remote["items"][0];
    assert!(item["upload_until"].is_string() && item["datapack_name"] == name.as_str(), "{item}");
    let number = item["execution_id"].as_i64().unwrap();
    let path = format!("/executions/{number}/granularity_results");
    let upload = json!({"duration": 2, "results": [{"level": "service", "result": "ts-order-service", "rank": 1}]});
    let by = |role, origin| {
        let new = NewToken { name: "x".into(), role, origin, expires_at: None, session_at: None };
        let token = world.block_on(world.store.issue_token(&new)).unwrap().1;
        let answer = world.call("POST", &format!("/api/v2{path}"), Some(&token), &upload.to_string());
        (answer.status, answer.body["data"]["code"].clone())
    };
    let other = TokenOrigin::Execution(model::ExecutionId(i32::try_from(number).unwrap() + 1));
    assert_eq!(by(TokenRole::Viewer, TokenOrigin::Password("v".into())), (403, "token.role_too_low".into()));
    assert_eq!(by(TokenRole::Viewer, other), (403, "token.scope_too_narrow".into()));
    assert_eq!(ask(&world, "POST", &path, &json!({"duration": 2, "results": []})).status, 400);
    assert_eq!(by(TokenRole::Author, TokenOrigin::Password("a".into())).0, 200);
    assert_eq!(by(TokenRole::Author, TokenOrigin::Password("a".into())), (409, "execution.already_ended".into()));
    let read = data(&world, "GET", &format!("/executions/{number}"), &json!({}));
    assert_eq!(
        (&read["state"], &read["granularity_results"][0]["result"]),
        (&"Success".into(), &"ts-order-service".into())
    );
    assert_eq!(data(&world, "GET", "/projects/1/executions", &json!({}))["pagination"]["total"], 1);

    let built_in = data(&world, "POST", "/executions/execute", &body(json!({"name": "baro"})));
    let path = format!("/executions/{}/granularity_results", built_in["items"][0]["execution_id"]);
    let answer = ask(&world, "POST", &path, &upload);
    assert_eq!((answer.status, &answer.body["data"]["code"]), (409, &"execution.not_remote".into()));
}
