//! Every route needs a token, except health, readiness, and those that issue tokens.

use std::time::Duration;

use serde_json::Value;
use testkit::process::Site;

const OPEN: &[&str] = &[
    "/api/v2/auth/api-key/token",
    "/api/v2/auth/login",
    "/api/v2/auth/refresh",
    "/api/v2/system/health",
    "/api/v2/system/ready",
];

#[test]
fn every_route_but_the_open_ones_answers_401_without_a_token() {
    let site = Site::new();
    let daemon = site.serve(&[]);
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(30)))
        .build()
        .into();
    let address = format!("{}/api/v2/openapi.json", daemon.address());
    assert_eq!(agent.get(&address).call().unwrap().status(), 401, "the document itself needs a token");
    let token = format!("Bearer {}", daemon.token());
    let answer =
        agent.get(&address).header("authorization", token).call().unwrap().into_body().read_to_string().unwrap();
    let document: Value = serde_json::from_str(&answer).unwrap();
    let (mut asked, mut open) = (0, Vec::new());
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|key| METHODS.contains(&key.as_str())) {
            for token in [None, Some("not-the-token")] {
                let mut request = ureq::http::Request::builder().method(method.to_uppercase().as_str()).uri(format!(
                    "{}{}",
                    daemon.address(),
                    filled(path)
                ));
                if let Some(token) = token {
                    request = request.header("authorization", format!("Bearer {token}"));
                }
                let mut response = agent.run(request.body("").unwrap()).unwrap();
                let status = response.status().as_u16();
                asked += 1;
                if status == 401 {
                    let body: Value = serde_json::from_str(&response.body_mut().read_to_string().unwrap()).unwrap();
                    assert_eq!((&body["code"], &body["data"]["kind"]), (&401.into(), &"unauthenticated".into()));
                } else {
                    // Who gives tokens asks for something else first.
                    let expect = if path.starts_with("/api/v2/auth/") { 400 } else { 200 };
                    assert_eq!(status, expect, "{method} {path} without a right token");
                    open.push(path.clone());
                }
            }
        }
    }
    assert!(asked > 40, "the document lists the routes: {asked}");
    open.sort();
    open.dedup();
    assert_eq!(open, OPEN);
}

const METHODS: &[&str] = &["get", "put", "post", "delete", "patch"];

/// The path with something in the place of its parameters.
fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { "1" } else { part });
    parts.collect::<Vec<_>>().join("/")
}
