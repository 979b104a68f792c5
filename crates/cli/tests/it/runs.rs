//! Submitting, following and printing runs.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use sha2::Digest;

use crate::canned::{Canned, Home, Request, data, page, problem, raw};

const RUN: &str = "7a1c2f60-0000-4000-8000-000000000001";

fn run(state: &str) -> Value {
    json!({
        "id": RUN, "type": "FullPipeline", "state": state, "status": "enabled", "group_id": RUN, "project_id": 1,
        "project_name": "default", "leaf_num": 1, "last_event": "datapack.build.started",
        "start_time": "2026-01-01T00:00:00Z", "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z", "system": "ts", "fault_type": "pod_kill", "services": "ts-order-service",
        "seed": 17, "origin_kind": "simulated",
    })
}

fn event(number: u32, name: &str) -> String {
    let data = json!({
        "timestamp": 1_700_000_000_000_i64 + i64::from(number), "task_id": RUN, "task_type": 2, "event_name": name,
        "message": "in words", "file_name": "", "function_name": "", "line": 0,
    });
    format!("id:{number}\nevent:update\ndata:{data}\n\n")
}

fn stream(frames: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n: hello\n\n{frames}")
        .into_bytes()
}

fn end(state: &str) -> String {
    format!("event:end\ndata:{{\"state\":\"{state}\",\"reason\":\"not_exposed\"}}\n\n")
}

#[test]
fn a_watch_goes_on_after_a_broken_connection_and_ends_with_the_runs_state() {
    for (state, code) in [("Completed", 0), ("Failed", 5), ("Cancelled", 5)] {
        let connections = AtomicUsize::new(0);
        let server = Canned::start(move |request: &Request| match connections.fetch_add(1, Ordering::SeqCst) {
            0 => stream(&(event(1, "task.started") + &event(2, "fault.injection.started") + "id:3\nevent:upd")),
            // The second connection repeats one event, as a server may.
            _ => {
                assert_eq!(request.header("last-event-id"), Some("2"));
                stream(&(event(2, "fault.injection.started") + &event(3, "fault.injection.completed") + &end(state)))
            }
        });
        let home = Home::new();
        let ran = home.run(&["--server", &server.address, "-o", "json", "run", "watch", RUN]);
        let names: Vec<String> =
            ran.json()["events"].as_array().unwrap().iter().map(|event| event["event_name"].to_string()).collect();
        assert_eq!(names, ["\"task.started\"", "\"fault.injection.started\"", "\"fault.injection.completed\""]);
        assert_eq!((ran.code, ran.json()["end"]["state"].as_str()), (code, Some(state)));
    }
}

#[test]
fn a_watch_of_a_run_that_is_not_there_ends_at_once_and_a_silent_one_by_its_timeout() {
    let server = Canned::start(|_| problem(404, "not_found", "run.unknown", false));
    let home = Home::new();
    let ran = home.run(&["--server", &server.address, "-o", "json", "trace", "watch", RUN]);
    assert_eq!((ran.code, server.requests().len()), (7, 1));
    let endless = Canned::start(|_| stream(""));
    let ran = home.run(&["--server", &endless.address, "-o", "json", "run", "watch", RUN, "--timeout", "1s"]);
    assert_eq!((ran.code, ran.error()["code"].as_str()), (6, Some("run.watch_timed_out")));
}

#[test]
fn a_submission_is_sent_as_it_was_typed() {
    let server = Canned::start(|_| {
        data(json!({
            "group_id": RUN, "original_count": 1, "deduplicated": true, "dry_run": false, "notes": ["short"],
            "items": [{"index": 0, "trace_id": RUN, "task_id": RUN, "injection_id": 4, "seed": 17}],
        }))
    });
    let typed = "inject submit --system ts --service a --capability network_delay --target direction=to --param latency_ms=200 \
        --normal 2m --abnormal=-5s --algorithm baro --algorithm nsigma --seed 17 --paired-control --idempotency-key k1";
    let mut arguments = vec!["--server", &server.address];
    arguments.extend(typed.split_whitespace());
    let ran = Home::new().run(&arguments);
    assert_eq!(ran.code, 9, "a known key is an outcome of its own: {}", ran.err);
    insta::assert_snapshot!("submitted", ran.out);
    let request = server.requests().remove(0);
    let seen = (request.method.as_str(), request.path.as_str(), request.header("idempotency-key"));
    assert_eq!(seen, ("POST", "/api/v2/runs", Some("k1")));
    insta::assert_json_snapshot!("submission", serde_json::from_str::<Value>(&request.body).unwrap());
}

#[test]
fn a_batch_of_which_a_part_failed_ends_with_5_and_one_that_failed_whole_with_its_first_error() {
    let server = Canned::start(|request| {
        if request.body.contains("good") {
            data(
                json!({"group_id": RUN, "original_count": 0, "deduplicated": false, "dry_run": false, "notes": [], "items": []}),
            )
        } else {
            problem(404, "not_found", "system.unknown", false)
        }
    });
    let home = Home::new();
    let submit = |text: &str| {
        home.write("batch.yaml", text);
        home.run(&["--server", &server.address, "-o", "json", "inject", "submit", "-f", "batch.yaml"])
    };
    let mixed = submit("- {system: good, no_fault: true}\n- {system: bad, no_fault: true}\n");
    assert_eq!((mixed.code, mixed.json()[1]["error"]["code"].as_str()), (5, Some("system.unknown")));
    assert_eq!(submit("- {system: bad, no_fault: true}\n- {system: bad, no_fault: true}\n").code, 7);
    assert_eq!(submit("- {system: good, no_fault: true}\n- {system: good, no_fault: true}\n").code, 0);
}

#[test]
fn a_list_is_printed_in_four_forms() {
    let server = Canned::start(|_| page(json!([run("Running")])));
    let home = Home::new();
    let list = |form: &str| home.run(&["--server", &server.address, "-o", form, "run", "list"]);
    insta::assert_snapshot!("list_table", list("table").out);
    insta::assert_snapshot!("list_yaml", list("yaml").out);
    let lines = list("ndjson");
    assert_eq!(serde_json::from_str::<Value>(&lines.out).unwrap(), run("Running"));
    assert_eq!(lines.error()["_meta"]["total"], 1);
    assert_eq!(list("json").json()["items"][0], run("Running"));
}

/// Names come from charts and telemetry of others, messages from programs of others.
#[test]
fn what_would_steer_a_terminal_is_shown_to_people_and_kept_for_programs() {
    const SLY: &str = "a\u{1b}[2J\u{9b}31mb\u{202e}c\r";
    let server = Canned::start(|request: &Request| {
        if request.path.contains("/traces") {
            let mut run = run("Completed");
            run["services"] = json!(SLY);
            return page(json!([run]));
        }
        problem(404, "not_found", SLY, false)
    });
    let home = Home::new();
    let steers = |text: &str| text.chars().any(|one| one.is_control() && one != '\n' || one == '\u{202e}');
    let table = home.run(&["--server", &server.address, "run", "list"]);
    assert!(!steers(&table.out) && table.out.contains("a\\u{1b}[2J\\u{9b}31mb\\u{202e}c\\u{d}"), "{:?}", table.out);
    let json = home.run(&["--server", &server.address, "-o", "json", "run", "list"]);
    assert_eq!(json.json()["items"][0]["services"], SLY);
    let failed = home.run(&["--server", &server.address, "system", "show", "ts"]);
    assert!(!steers(&failed.err) && failed.err.contains("a\\u{1b}[2J"), "{:?}", failed.err);
}

#[test]
fn every_page_is_fetched_when_all_are_wanted() {
    let server = Canned::start(|request| {
        let number = if request.path.contains("page=2") { 2 } else { 1 };
        let pagination = json!({"page": number, "size": 100, "total": 2, "total_pages": 2});
        data(json!({"items": [run("Failed")], "pagination": pagination}))
    });
    let ran = Home::new().run(&["--server", &server.address, "-o", "ndjson", "run", "list", "--all", "--state", "0"]);
    assert_eq!((ran.code, ran.out.lines().count(), ran.err.as_str()), (0, 2, ""));
    let paths: Vec<String> = server.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/api/v2/traces?page=1&size=100&state=0", "/api/v2/traces?page=2&size=100&state=0"]);
}

#[test]
fn a_download_that_is_cut_short_leaves_nothing_behind() {
    let server = Canned::start(|_| {
        b"HTTP/1.1 200 OK\r\ncontent-type: application/zip\r\ncontent-length: 100\r\nconnection: close\r\n\r\nhalf"
            .to_vec()
    });
    let bytes = archive("a", &sum_of("a"));
    let (size, sent) = (bytes.len() as u64, bytes.clone());
    let whole = Canned::start(move |_| raw(200, "application/zip", &sent));
    let home = Home::new();
    let get = |server: &Canned| {
        home.run(&[
            "--server",
            &server.address,
            "-o",
            "json",
            "datapack",
            "download",
            "ts0-1",
            "--output-file",
            "p.zip",
        ])
    };
    assert_eq!(get(&server).code, 10);
    let left: Vec<_> = std::fs::read_dir(home.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let ran = get(&whole);
    assert_eq!((ran.code, ran.json()["size"].as_u64()), (0, Some(size)));
    assert_eq!(std::fs::read(home.path().join("p.zip")).unwrap(), bytes);

    home.write("p.zip", "mine");
    let again = get(&whole);
    assert_eq!((again.code, again.error()["code"].as_str()), (8, Some("download.exists")));
    assert_eq!(std::fs::read_to_string(home.path().join("p.zip")).unwrap(), "mine");
    let arguments = ["datapack", "download", "ts0-1", "--output-file", "p.zip", "--force"];
    assert_eq!(home.run(&[&["--server", &whole.address], &arguments[..]].concat()).code, 0);
    assert_eq!(std::fs::read(home.path().join("p.zip")).unwrap(), bytes);
}

/// A datapack of one file and its checksums, as the server sends it.
fn archive(file: &str, sums: &str) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, text) in [("ts0-1/env.json", file), ("ts0-1/sha256sum.txt", sums)] {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn sum_of(text: &str) -> String {
    format!("{}  env.json\n", hex::encode(sha2::Sha256::digest(text)))
}

#[test]
fn a_download_that_differs_from_its_checksums_is_refused_and_not_kept() {
    let pack = json!({
        "id": 1, "name": "ts0-1", "source": "injection", "fault_type": "pod_kill", "category": "ts", "state": "build_success",
        "status": "enabled", "pre_duration": 60, "labels": [], "created_at": "t", "updated_at": "t", "trace_id": RUN,
        "display_config": {}, "engine_config": [], "roots": [], "ground_truth": [], "groundtruth_source": "auto", "witness": [],
    });
    let check = |file: &'static str, sums: String, code: i32, problem: Option<&str>| {
        let files = ["env.json", "sha256sum.txt"];
        let node = |path: &&str| json!({"path": path, "name": path, "size": "1 B", "bytes": 1});
        let tree = json!({"files": files.iter().map(node).collect::<Vec<_>>()});
        let pack = pack.clone();
        let server = Canned::start(move |request| match request.path.rsplit('/').next().unwrap() {
            "files" => data(tree.clone()),
            "download?path=env.json" => raw(200, "application/json", file),
            "download?path=sha256sum.txt" => raw(200, "text/plain", &sums),
            "download" => raw(200, "application/zip", archive(file, &sums)),
            _ => data(pack.clone()),
        });
        for (to, target) in [("--output-file", "p.zip"), ("--output-dir", "packs")] {
            let home = Home::new();
            let arguments = ["--server", &server.address, "-o", "json", "datapack", "download", "ts0-1", to, target];
            let ran = home.run(&arguments);
            assert_eq!(ran.code, code, "{to}: {}{}", ran.out, ran.err);
            if let Some(problem) = problem {
                assert_eq!(ran.error()["code"], problem, "{to}");
                let left = std::fs::read_dir(home.path()).unwrap().flatten().filter(|entry| entry.path().is_file());
                let packs = std::fs::read_dir(home.path().join("packs")).into_iter().flatten().flatten();
                assert_eq!(left.chain(packs).count(), 0, "{to}: nothing may look like a datapack");
            }
        }
    };
    check("{}", sum_of("{}"), 0, None);
    check("{}", sum_of("{ }"), 5, Some("download.checksum_mismatch"));
    check("{}", sum_of("{}").replace("env", "k8s"), 5, Some("download.file_missing"));
    check("{}", String::new(), 5, Some("download.file_unexpected"));
    check("{}", "nonsense".into(), 5, Some("download.checksums_missing"));
}

#[test]
fn all_pages_have_the_form_of_one_page() {
    let server = Canned::start(|request| {
        let number = if request.path.contains("page=2") { 2 } else { 1 };
        let pagination = json!({"page": number, "size": 100, "total": 2, "total_pages": 2});
        data(json!({"items": [run("Failed")], "pagination": pagination}))
    });
    let ran = Home::new().run(&["--server", &server.address, "-o", "json", "run", "list", "--all"]);
    assert_eq!(ran.json()["items"].as_array().unwrap().len(), 2);
    assert_eq!(ran.json()["pagination"], json!({"page": 1, "size": 2, "total": 2, "total_pages": 1}));
    let nothing = Canned::start(|_| page(json!([])));
    let ran = Home::new().run(&["--server", &nothing.address, "-o", "json", "run", "list", "--all"]);
    assert_eq!(ran.json()["pagination"], json!({"page": 1, "size": 0, "total": 0, "total_pages": 0}));
}

#[test]
fn the_beginning_of_an_id_is_enough_and_nonsense_is_refused_in_words() {
    let server = Canned::start(|request| {
        if request.path.ends_with("/why") {
            data(json!({"id": RUN, "state": "Running", "answer": "nothing", "facts": []}))
        } else {
            data(json!({
                "id": RUN, "type": "FullPipeline", "state": "Running", "status": "enabled", "group_id": RUN, "project_id": 1,
                "project_name": "default", "leaf_num": 1, "last_event": "x", "start_time": "t", "created_at": "t",
                "updated_at": "t", "system": "ts", "fault_type": "pod_kill", "services": "a", "seed": 17, "origin_kind": "simulated", "tasks": [],
                "spec": {},
            }))
        }
    });
    let home = Home::new();
    let ran = home.run(&["--server", &server.address, "run", "why", "7a1c"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let paths: Vec<String> = server.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/api/v2/traces/7a1c".to_owned(), format!("/api/v2/traces/{RUN}/why")]);
    for wrong in
        [&["run", "get", "7a"][..], &["run", "get", "latest"], &["execution", "get", "x"], &["execution", "get", "-1"]]
    {
        let ran = home.run(&[&["-o", "json", "--server", &server.address], wrong].concat());
        assert_eq!(ran.code, 2, "{wrong:?}");
        let message = ran.error()["message"].as_str().unwrap().to_owned();
        assert!(!message.contains("digit") && !message.contains("parse"), "{message}");
    }
}

#[test]
fn a_control_reads_as_a_run_without_a_fault() {
    let detail = |control_of: Value| {
        json!({
            "id": RUN, "type": "FullPipeline", "state": "Running", "status": "enabled", "group_id": RUN, "project_id": 1,
            "project_name": "default", "leaf_num": 1, "last_event": "x", "start_time": "t", "created_at": "t",
            "updated_at": "t", "system": "ts", "fault_type": "none", "services": "none", "seed": 17,
            "origin_kind": "simulated", "tasks": [], "spec": {}, "control_of": control_of,
        })
    };
    let get = |control_of: Value| {
        let server = Canned::start(move |_| data(detail(control_of.clone())));
        Home::new().run(&["--server", &server.address, "run", "get", RUN]).out
    };
    let alone = get(Value::Null);
    assert!(alone.contains("none: a run without a fault\n") && alone.contains("Its control: -\n"), "{alone}");
    assert!(get(json!(RUN)).contains(&format!("Control of: {RUN}\n")), "{}", get(json!(RUN)));
}

#[test]
fn the_kill_switch_reports_until_nothing_is_left() {
    let asked = AtomicUsize::new(0);
    let fault = |name: &str| json!({"name": name, "namespace": "ts0", "run": RUN, "pods": ["p"]});
    let server = Canned::start(move |request: &Request| {
        let left = match asked.fetch_add(1, Ordering::SeqCst) {
            0 => vec![fault("a"), fault("b")],
            1 => vec![fault("b")],
            _ => vec![],
        };
        assert_eq!(request.path, "/api/v2/kill-switch");
        data(
            json!({"engaged": true, "reason": "drill", "changed_by": "admin", "changed_at": "t", "active_faults": left}),
        )
    });
    let home = Home::new();
    let ran = home.run(&["--server", &server.address, "-o", "json", "kill-switch", "on", "--reason", "drill"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let names: Vec<&str> = ran.json()["recovered"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fault| fault["name"].as_str().unwrap())
        .map(|name| if name == "a" { "a" } else { "b" })
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!((server.requests()[0].method.as_str(), server.requests()[1].method.as_str()), ("PUT", "GET"));
    assert!(ran.err.contains("still on: 1 fault\n"), "{}", ran.err);

    let stuck = Canned::start(move |_| data(json!({"engaged": true, "reason": "", "active_faults": [fault("a")]})));
    let ran = home.run(&["--server", &stuck.address, "-q", "-o", "json", "fault", "stop-all", "--timeout", "1s"]);
    assert_eq!((ran.code, ran.error()["code"].as_str()), (6, Some("kill_switch.not_done")));
}
