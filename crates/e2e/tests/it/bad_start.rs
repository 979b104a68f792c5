//! What keeps a daemon from starting: a taken port, a folder in use, a misspelt key. And a receiver that stays up.

use std::net::{TcpListener, TcpStream};

use testkit::process::{Ran, Site, finish};

use crate::round::{self, CONTROL};

/// Asserts that `aegis` said in words what is wrong, with this code.
#[track_caller]
fn refused(ran: &Ran, exit: i32, code: &str) {
    assert_eq!(ran.code, exit, "{}{}", ran.out, ran.err);
    assert!(ran.err.starts_with("error: ") && ran.err.contains(&format!("[{code}]")), "{}", ran.err);
    assert!(ran.err.contains("\n  fix "), "it says what to do: {}", ran.err);
}

#[test]
fn a_taken_port_is_named() {
    let site = Site::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data = site.data();
    let ran = site.aegis(&["serve", "--data", data.to_str().unwrap(), "--listen", &address]);
    refused(&ran, 8, "listen.port_taken");
    assert!(ran.err.contains(&address), "{}", ran.err);
    assert!(!data.join("server.json").exists() && !data.join("aegis.db").exists(), "nothing is stored");
    let ran = finish(site.serve_command().args(["--otlp-grpc", &address]));
    assert!(ran.code == 8 && ran.err.contains("otlp.address_in_use"), "{}", ran.err);
    drop(taken);
    site.serve(&[]).stop();
}

#[test]
fn a_folder_has_one_daemon() {
    let site = Site::new();
    let first = site.serve(&[]);
    let second = finish(&mut site.serve_command());
    refused(&second, 8, "data.locked");
    assert!(second.err.contains(&first.pid().to_string()), "the owner is named: {}", second.err);
    site.ctl(&["status"]).ok();
    first.stop();
    site.serve(&[]).stop();
}

#[test]
fn a_misspelt_key_of_the_configuration_is_an_error() {
    let site = Site::new();
    let file = site.write("aegis.toml", "workers = 2\nalgoritm_seconds = 30\n");
    let file = file.to_str().unwrap();
    for ran in [site.aegis(&["config", "check", file]), finish(site.serve_command().args(["--config", file]))] {
        refused(&ran, 2, "config.unknown_key");
        assert!(
            ran.err.contains("aegis.toml:2") && ran.err.contains("did you mean `algorithm_seconds`?"),
            "{}",
            ran.err
        );
    }
    assert!(!site.data().exists(), "nothing is made");
    site.write("aegis.toml", "workers = 2\n");
    site.aegis(&["config", "check", file]).ok();
}

#[test]
fn the_receiver_of_telemetry_stays_up() {
    let site = Site::new();
    let daemon = site.serve(&["--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0"]);
    let address = round::text(&daemon.server["otlp_grpc"]);
    for _ in 0..2 {
        let mut stream = TcpStream::connect(address.trim_start_matches("http://")).unwrap();
        std::io::Write::write_all(&mut stream, b"this is not HTTP/2\r\n\r\n").unwrap();
    }
    let mut stream = TcpStream::connect(round::text(&daemon.server["otlp_http"])).unwrap();
    let head = "POST /v1/traces HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n";
    std::io::Write::write_all(&mut stream, format!("{head}content-length: 2\r\n\r\n[]").as_bytes()).unwrap();
    let answer = std::io::read_to_string(stream).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("[otlp.request_malformed]"), "{answer}");
    round::register(&site);
    round::run(&site, CONTROL, &["--seed", "8"], 0);
    let ingest = site.ctl(&["status"]).ok().json()["ingest"].clone();
    assert_eq!(ingest["requests_refused"]["traces"]["otlp.request_malformed"], 1, "{ingest:#}");
    let spans = ingest["records"].as_array().unwrap().iter().find(|part| part["signal"] == "traces").unwrap();
    assert!(spans["accepted"].as_i64().unwrap() > 0, "{ingest:#}");
    TcpStream::connect(address.trim_start_matches("http://")).unwrap();
    daemon.stop();
}
