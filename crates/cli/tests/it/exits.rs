//! Exit codes, the form of errors, and how a server is found.

use serde_json::json;

use crate::canned::{Canned, Home, page, problem, raw};

#[test]
fn every_answer_has_its_exit_code() {
    let check = |answer: Vec<u8>, code: i32, class: &str, retryable: bool| {
        let server = Canned::start(move |_| answer.clone());
        let ran = Home::new().run(&["--server", &server.address, "-o", "json", "system", "list"]);
        let error = ran.error();
        let seen = (ran.code, error["type"].as_str(), error["retryable"].as_bool(), error["exit_code"].as_i64());
        assert_eq!(seen, (code, Some(class), Some(retryable), Some(i64::from(code))), "{error}");
        assert_eq!(ran.out, "", "nothing on standard output");
    };
    check(problem(400, "invalid", "a.b", false), 2, "usage", false);
    check(problem(401, "unauthenticated", "a.b", false), 3, "auth", false);
    check(problem(403, "denied", "a.b", false), 3, "auth", false);
    check(problem(404, "not_found", "a.b", false), 7, "not_found", false);
    check(problem(409, "conflict", "a.b", false), 8, "conflict", false);
    check(problem(422, "missing", "a.b", false), 4, "missing", false);
    check(problem(422, "failed", "a.b", false), 5, "failed", false);
    check(problem(429, "busy", "a.b", true), 10, "server", true);
    check(problem(500, "internal", "a.b", false), 1, "internal", false);
    check(problem(503, "unavailable", "a.b", true), 10, "server", true);
    check(problem(504, "timeout", "a.b", true), 6, "timeout", true);
    // Answers of something that is no Aegis server.
    check(raw(502, "text/html", "<html>"), 10, "server", true);
    check(raw(404, "text/html", "<html>"), 7, "not_found", false);
    check(raw(200, "text/html", "<html>"), 11, "decode", false);
    check(raw(200, "application/json", r#"{"code":200,"data":{"items":3}}"#), 11, "decode", false);
    check(b"garbage\r\n\r\n".to_vec(), 11, "decode", false);
}

#[test]
fn errors_are_words_for_people_and_one_line_for_programs() {
    let server = Canned::start(|_| problem(409, "conflict", "system.exists", false));
    let home = Home::new();
    let words = home.run(&["--server", &server.address, "system", "show", "ts"]);
    insta::assert_snapshot!("error_words", words.err);
    let line = home.run(&["--server", &server.address, "-o", "ndjson", "system", "show", "ts"]);
    insta::assert_json_snapshot!("error_line", line.error());
    let usage = home.run(&["-o", "json", "system", "lst"]);
    assert_eq!((usage.code, usage.error()["code"].as_str()), (2, Some("usage.wrong_arguments")));
    assert_eq!(home.run(&["system", "lst"]).code, 2);
    assert_eq!(home.run(&["--version"]).code, 0);
}

#[test]
fn a_server_is_found_by_flag_then_variable_then_context_then_on_this_machine() {
    let servers: Vec<Canned> = (0..4).map(|_| Canned::start(|_| page(json!([])))).collect();
    let asked = || servers.iter().map(|server| server.requests().len()).collect::<Vec<_>>();
    let home = Home::new();
    assert_eq!(home.run(&["-o", "json", "system", "list"]).code, 4, "no server anywhere");

    let token = home.write("token", "local-token\n");
    let pid = std::process::id();
    let file = json!({"format": 1, "address": servers[3].address, "pid": pid, "token_file": token, "data": "/d"});
    home.write(".local/state/aegis/server.json", &file.to_string());
    assert_eq!(home.run(&["system", "list"]).code, 0);
    assert_eq!(asked(), [0, 0, 0, 1]);
    assert_eq!(servers[3].requests()[0].header("authorization"), Some("Bearer local-token"));

    let config = format!("current-context: a\ncontexts: {{a: {{server: '{}', token: secret}}}}\n", servers[2].address);
    home.write(".aegisctl/config.yaml", &config);
    assert_eq!(home.run(&["system", "list"]).code, 0);
    assert_eq!(asked(), [0, 0, 1, 1]);
    assert_eq!(servers[2].requests()[0].header("authorization"), Some("Bearer secret"));

    let variable = [("AEGIS_SERVER", servers[1].address.as_str()), ("AEGIS_TOKEN", "from-variable")];
    assert_eq!(home.run_with(&["system", "list"], &variable).code, 0);
    assert_eq!(servers[1].requests()[0].header("authorization"), Some("Bearer from-variable"));
    let flag = ["--server", &servers[0].address, "--token", "from-flag", "system", "list"];
    assert_eq!(home.run_with(&flag, &variable).code, 0);
    assert_eq!(servers[0].requests()[0].header("authorization"), Some("Bearer from-flag"));
    assert_eq!(asked(), [1, 1, 1, 1]);
}

#[test]
fn a_server_that_is_gone_is_told_and_not_waited_for() {
    let home = Home::new();
    // The largest process number of Linux plus one cannot exist.
    let file =
        json!({"format": 1, "address": "http://127.0.0.1:1", "pid": 4_194_305, "token_file": "/t", "data": "/d"});
    home.write("state/aegis/server.json", &file.to_string());
    let state = home.path().join("state");
    let ran = home.run_with(&["-o", "json", "status"], &[("XDG_STATE_HOME", state.to_str().unwrap())]);
    assert_eq!((ran.code, ran.error()["code"].as_str()), (4, Some("server.not_running")));

    let refused = home.run(&["-o", "json", "--server", "http://127.0.0.1:1", "status"]);
    assert_eq!((refused.code, refused.error()["code"].as_str()), (10, Some("server.unreachable")));
    let malformed = home.run(&["-o", "json", "--server", "localhost", "status"]);
    assert_eq!((malformed.code, malformed.error()["code"].as_str()), (2, Some("server.address_malformed")));
}

#[test]
fn a_misspelt_key_of_the_config_file_is_an_error() {
    let home = Home::new();
    home.write(".aegisctl/config.yaml", "contexts: {a: {sever: 'http://h'}}\n");
    let ran = home.run(&["-o", "json", "system", "list"]);
    let error = ran.error();
    assert_eq!((ran.code, error["code"].as_str()), (2, Some("config.key_unknown")));
    assert_eq!(error["suggestion"], "did you mean `server`?");
}

#[test]
fn what_cannot_be_undone_is_asked_for() {
    let server = Canned::start(|_| problem(500, "internal", "a.b", false));
    let home = Home::new();
    for command in [
        &["system", "unregister", "ts"][..],
        &["system", "disable", "ts"],
        &["run", "cancel", "00000000-0000-4000-8000-000000000000"],
    ] {
        let ran = home.run(&[&["-o", "json", "--server", &server.address], command].concat());
        assert_eq!((ran.code, ran.error()["code"].as_str()), (2, Some("consent.needed")), "{command:?}");
    }
    assert!(server.requests().is_empty(), "nothing was sent without consent");
}

#[test]
fn without_a_home_the_config_file_is_not_looked_for_in_the_present_folder() {
    let home = Home::new();
    for value in ["", "relative"] {
        let ran = home.run_with(&["-o", "json", "system", "list"], &[("HOME", value)]);
        assert_eq!((ran.code, ran.error()["code"].as_str()), (4, Some("config.no_home")), "{value}");
    }
}

#[test]
fn a_login_takes_one_proof_and_reads_secrets_from_standard_input_only() {
    let home = Home::new();
    let login = |arguments: &[&str]| {
        let all = [&["--server", "http://127.0.0.1:1", "auth", "login", "--save-as", "x"], arguments].concat();
        let ran = home.run(&all);
        (ran.code, ran.err)
    };
    for arguments in [&["--username", "ann", "--password-stdin"][..], &["--key-id", "ak_1", "--key-secret-stdin"]] {
        let (code, err) = login(arguments);
        assert!(code == 2 && err.contains("secret.not_given"), "{arguments:?}: {err}");
    }
    let (code, err) = login(&["--token-file", "nowhere"]);
    assert!(code == 4 && err.contains("token.file_unreadable"), "{err}");
    for arguments in [&[][..], &["--username", "ann"], &["--token-file", "f", "--key-id", "i", "--key-secret-stdin"]] {
        let (code, err) = login(arguments);
        assert!(code == 2 && err.contains("--help"), "{arguments:?}: {err}");
    }
}
