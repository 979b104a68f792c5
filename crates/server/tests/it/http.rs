//! What holds for every route: tokens, envelopes, request ids, bounds.

use std::os::unix::fs::PermissionsExt;

use model::ExecutionId;
use serde_json::{Value, json};
use store::{NewToken, TokenOrigin, TokenRole};

use crate::world::World;

const OPEN: [&str; 5] = [
    "/api/v2/auth/api-key/token",
    "/api/v2/auth/login",
    "/api/v2/auth/refresh",
    "/api/v2/system/health",
    "/api/v2/system/ready",
];

#[test]
fn every_route_but_the_open_ones_needs_the_token() {
    let world = World::start();
    let document = serde_json::to_value(server::openapi()).unwrap();
    let mut count = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let url = filled(path);
            let open = OPEN.contains(&path.as_str());
            assert_eq!(operation["security"].is_null(), open, "{method} {path}: the document says who may call");
            for token in [None, Some("wrong"), Some("")] {
                let answer = world.call(&method.to_uppercase(), &url, token, "");
                assert_eq!(answer.status == 401, !open, "{method} {path}: {}", answer.body);
            }
            count += 1;
        }
    }
    assert!(count >= 45, "{count} operations");
    assert_eq!(world.call("GET", "/api/v2/openapi.json", None, "").status, 401);
    assert_eq!(world.call("GET", "/api/v2/auth/profile", Some(&world.token()), "").body["data"]["username"], "admin");
}

#[test]
fn every_route_asks_for_its_role() {
    let world = World::start();
    let token = |origin, role| {
        let name = format!("{origin:?}");
        let new = NewToken { name, role, origin, expires_at: None, session_at: None };
        world.block_on(world.store.issue_token(&new)).unwrap().1
    };
    let of = |role: TokenRole| token(TokenOrigin::Key(format!("ak_{}", role.as_str())), role);
    let tokens = TokenRole::ALL.map(|role| (role, of(role)));
    let execution = token(TokenOrigin::Execution(ExecutionId(7)), TokenRole::Viewer);
    let document = serde_json::to_value(server::openapi()).unwrap();
    let (mut lowest, mut uploads) = (std::collections::BTreeMap::new(), Vec::new());
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys().filter(|_| !OPEN.contains(&path.as_str())) {
            let ask = |token: &str| {
                // A body that no route takes: whoever is let in is refused for it, and nothing happens.
                let answer = world.call(&method.to_uppercase(), &filled(path), Some(token), "[");
                assert_ne!(answer.status, 401, "{method} {path}");
                answer.status != 403
            };
            let allowed: Vec<TokenRole> =
                tokens.iter().filter(|(_, token)| ask(token)).map(|(role, _)| *role).collect();
            let first = allowed[0];
            assert!(tokens.iter().all(|(role, _)| allowed.contains(role) == (*role >= first)), "{method} {path}");
            if method != "get" || first != TokenRole::Viewer {
                lowest.insert(format!("{method} {}", path.trim_start_matches("/api/v2")), first.as_str());
            }
            if ask(&execution) {
                uploads.push(path.clone());
            }
        }
    }
    let with = |role: &str| -> Vec<&str> {
        lowest.iter().filter(|(_, lowest)| **lowest == role).map(|(route, _)| route.as_str()).collect()
    };
    assert_eq!(
        with("viewer"),
        [
            "post /datasets/{name}/verify",
            "post /evaluations/datapacks",
            "post /evaluations/datasets",
            "post /injections/export",
            "post /injections/query",
            "post /injections/search",
            "post /injections/{name}/verify",
            "post /projects/{project}/injections/search",
            "post /seeds/plan",
            "post /systems/registrable"
        ]
    );
    assert_eq!(
        with("author"),
        [
            "patch /executions/{id}/labels",
            "patch /injections/{name}/labels",
            "post /algorithms",
            "post /algorithms/{name}/test",
            "post /datasets",
            "post /evaluations",
            "post /evaluations/{id}/cancel",
            "post /executions/execute",
            "post /executions/{id}/detector_results",
            "post /executions/{id}/granularity_results",
            "post /injections/{name}/convert",
            "post /projects/{project}/executions/execute"
        ]
    );
    assert_eq!(
        with("admin"),
        [
            "delete /auth/keys/{key}",
            "get /auth/keys",
            "get /auth/users",
            "post /auth/keys",
            "put /auth/users/{name}/password"
        ]
    );
    assert_eq!(uploads, Vec::<String>::new(), "number 1 is not the one that its token is for");
    let own = |token| world.call("POST", "/api/v2/executions/7/granularity_results", Some(token), "[").status;
    assert_eq!((own(&execution), own(&tokens[0].1)), (400, 403));
}

/// The path with something in the place of its parameters.
fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { "1" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

#[test]
fn the_token_is_private_and_stored_as_a_hash_only() {
    let world = World::start();
    let file = world.folder.path().join("admin.token");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let token = world.token();
    let file = world.folder.path().join("aegis.db");
    if !file.exists() {
        // On a server there is no file to look into; what is written is the same.
        return;
    }
    let database = std::fs::read(file).unwrap();
    let log = std::fs::read(world.folder.path().join("aegis.db-wal")).unwrap_or_default();
    let found = |bytes: &[u8]| bytes.windows(token.len()).any(|window| window == token.as_bytes());
    assert!(!found(&database) && !found(&log), "the token itself is nowhere in the store");
}

#[test]
fn every_error_is_an_envelope_with_a_problem_and_the_callers_id() {
    let world = World::start();
    let token = world.token();
    let check = |method: &str, path: &str, body: &str, status: u16, code: &str| {
        let answer = world.call(method, path, Some(&token), body);
        let data = &answer.body["data"];
        assert_eq!((answer.status, data["code"].as_str()), (status, Some(code)), "{method} {path}: {}", answer.body);
        assert_eq!(answer.body["code"], json!(status));
        assert!(answer.body["timestamp"].as_i64().unwrap() < 10_000_000_000, "seconds");
        let ids = (answer.request_id.as_str(), data["request_id"].as_str(), data["instance"].as_str());
        assert_eq!(ids, ("my-own-id", Some("my-own-id"), path.split('?').next()));
        answer.body
    };
    check("GET", "/nowhere", "", 404, "route.unknown");
    check("GET", "/api/v2/nowhere", "", 404, "route.unknown");
    check("PATCH", "/api/v2/systems", "", 405, "route.method_unknown");
    check("POST", "/api/v2/runs", "{", 400, "request.malformed");
    let body = check("POST", "/api/v2/runs", r#"{"system": "ts", "sistem": 1}"#, 400, "request.malformed");
    assert!(body["data"]["found"].as_str().unwrap().contains("unknown field `sistem`"), "{body}");
    check("POST", "/api/v2/runs", &"x".repeat(17 * 1024 * 1024), 413, "request.too_large");
    check("GET", "/api/v2/systems?size=0", "", 400, "page.out_of_range");
    check("GET", "/api/v2/systems?page=x", "", 400, "request.query_malformed");
    check("GET", "/api/v2/traces?state=Runing", "", 400, "state.unknown");
    check("GET", "/api/v2/traces/x", "", 400, "run.id_malformed");
    check("GET", "/api/v2/traces/00000000-0000-4000-8000-000000000000", "", 404, "run.unknown");
    check("GET", "/api/v2/traces/00000000-0000-4000-8000-000000000000/stream", "", 404, "run.unknown");
    check("GET", "/api/v2/tasks/00000000-0000-4000-8000-000000000000", "", 404, "task.unknown");
    check("GET", "/api/v2/injections/ts-000001/files/download?path=../../aegis.db", "", 404, "datapack.unknown");
    check("GET", "/api/v2/executions/x", "", 400, "execution.id_malformed");
    check("GET", "/api/v2/systems/%ff%fe", "", 400, "request.path_malformed");
    check("GET", "/api/v2/capabilities/network_dealy", "", 404, "capability.unknown");
    check("GET", "/api/v2/board?rule=both", "", 400, "board.rule_unknown");
    check("GET", "/api/v2/board?evaluation=9", "", 404, "evaluation.unknown");
    check("GET", "/api/v2/board/export?format=pdf", "", 400, "board.format_unknown");
    check("GET", "/api/v2/board/export?format=md", "", 404, "board.empty");
    check("GET", "/api/v2/evaluations/x", "", 400, "evaluation.id_malformed");
    check("POST", "/api/v2/evaluations/9/cancel", "", 404, "evaluation.unknown");
    check("GET", "/api/v2/evaluations/compare?first=1&second=2", "", 404, "evaluation.unknown");
    check("POST", "/api/v2/evaluations", "{}", 400, "evaluation.no_datapack");
    check("POST", "/api/v2/evaluations", r#"{"algorithms": ["brao"]}"#, 404, "algorithm.unknown");
    check("POST", "/api/v2/evaluations", r#"{"part": "open"}"#, 400, "dataset.part_without_set");
    check("GET", "/api/v2/datasets/x", "", 404, "dataset.unknown");
    check("GET", "/api/v2/datasets/x/versions", "", 404, "dataset.unknown");
    check("GET", "/api/v2/datasets/x/manifest", "", 404, "dataset.unknown");
    check("POST", "/api/v2/datasets/x/verify", "", 404, "dataset.unknown");
    check("GET", "/api/v2/datasets/x/download", "", 404, "dataset.unknown");
    check("GET", "/api/v2/datasets/x/versions/1/download", "", 404, "dataset.unknown");
    check("POST", "/api/v2/evaluations/datapacks", r#"{"specs": []}"#, 400, "evaluation.specs_out_of_range");
    check("POST", "/api/v2/evaluations/datasets", r#"{"specs": []}"#, 400, "evaluation.specs_out_of_range");
    let dataset = |name: &str, license: &str, share: &str| {
        format!(r#"{{"name": "{name}", "version": "1", "license": "{license}", "held_out": {share}}}"#)
    };
    check("POST", "/api/v2/datasets", &dataset("../x", "MIT", "0"), 400, "dataset.name_malformed");
    check("POST", "/api/v2/datasets", &dataset("17", "MIT", "0"), 400, "dataset.name_malformed");
    check("POST", "/api/v2/datasets", &dataset("x", "", "0"), 400, "dataset.license_missing");
    check("POST", "/api/v2/datasets", &dataset("x", "MIT", "1"), 400, "dataset.split_out_of_range");
    check("POST", "/api/v2/datasets", &dataset("x", "MIT", "0.5"), 400, "dataset.empty");
    check("GET", "/api/v2/algorithms/brao", "", 404, "algorithm.unknown");
    check("POST", "/api/v2/algorithms/baro/test", r#"{"datapack": "ts-000001"}"#, 404, "datapack.unknown");
    check("POST", "/api/v2/algorithms", r#"{"name": "x", "version": "1"}"#, 400, "algorithm.no_command");
    let image = r#"{"name": "x", "version": "1", "image": "a/b:1"}"#;
    check("POST", "/api/v2/algorithms", image, 422, "algorithm.no_container_runtime");
    let answer = r#"{"duration": 1, "results": [{"level": "service", "result": "a", "rank": 1}]}"#;
    check("POST", "/api/v2/executions/5/granularity_results", answer, 404, "execution.unknown");
}

#[test]
fn an_empty_installation_answers_everything() {
    let world = World::start();
    let client = world.client();
    assert!(client.ready().unwrap().ready);
    assert_eq!(client.health().unwrap().status, "healthy");
    assert_eq!(client.status().unwrap().cluster, "simulated");
    assert_eq!(client.systems(api::PageQuery::default()).unwrap().pagination.total, 0);
    assert_eq!(client.capabilities().unwrap().len(), 32);
    assert!(client.capability("network_delay").unwrap().available);
    let skew = client.capability("time_skew").unwrap();
    assert!(skew.available && skew.simulated && skew.reason.is_none() && !skew.contract.is_null(), "{skew:?}");
    assert!(client.algorithms().unwrap().iter().any(|one| one.name == "baro" && one.runnable));
    assert!(client.board(&api::board::BoardQuery::default()).unwrap().rows.is_empty());
    let points = client.points("ts", &api::fault::PointQuery { size: Some(5), ..Default::default() }).unwrap();
    assert!(points.items.len() == 5 && points.pagination.total > 1000, "{:?}", points.pagination);
    let report = client.doctor().unwrap();
    use api::doctor::CheckState::{Ok, Skipped};
    let odd: Vec<_> = report.checks.iter().filter(|check| !matches!(check.state, Ok | Skipped)).collect();
    // Nothing is registered yet, and that is all.
    let ids: Vec<&str> = odd.iter().map(|check| check.id.as_str()).collect();
    assert!(report.ok && ids == ["systems.enabled"], "{odd:#?}");
}

#[test]
fn the_document_names_every_schema_that_it_refers_to() {
    let document = serde_json::to_value(server::openapi()).unwrap();
    let mut missing = Vec::new();
    visit(&document, &mut |reference| {
        let name = reference.rsplit('/').next().unwrap();
        if document["components"]["schemas"][name].is_null() {
            missing.push(reference.to_owned());
        }
    });
    assert_eq!(missing, Vec::<String>::new());
}

fn visit(value: &Value, found: &mut impl FnMut(&str)) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                found(reference);
            }
            members.values().for_each(|member| visit(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| visit(item, found)),
        _ => {}
    }
}

#[test]
fn an_algorithm_is_added_once_in_a_version() {
    let world = World::start();
    let client = world.client();
    let mut request = api::algorithm::AddAlgorithmRequest {
        name: "mine".into(),
        version: "1".into(),
        command: vec!["python3".into(), "rank.py".into()],
        image: None,
        env: std::collections::BTreeMap::new(),
        timeout_seconds: None,
        memory_mib: Some(512),
        network: api::algorithm::Network::None,
        no_isolation: false,
    };
    let added = client.add_algorithm(&request).unwrap();
    let command = added.command.as_ref().unwrap();
    assert_eq!((added.kind.as_str(), command.timeout_seconds, command.memory_mib), ("command", 300, 512));
    assert_eq!(client.add_algorithm(&request).unwrap(), added, "the same again is no change");
    request.command[1] = "other.py".into();
    assert_eq!(client.add_algorithm(&request).unwrap_err().problem.code, "algorithm.version_exists");
    request.version = "2".into();
    client.add_algorithm(&request).unwrap();
    assert_eq!(client.algorithm("mine").unwrap().version, "2", "the newest");
    assert_eq!(client.algorithm("mine:1").unwrap().version, "1");
    assert_eq!(client.algorithm("mine:3").unwrap_err().problem.code, "algorithm.version_unknown");
}
