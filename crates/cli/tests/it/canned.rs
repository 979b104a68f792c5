//! A server that answers what a test tells it, and the program under test in a home of its own.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// One request as it arrived.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

type Answer = dyn Fn(&Request) -> Vec<u8> + Send + Sync;

/// Answers every request by one function and remembers the requests. Lives as long as the test process.
pub struct Canned {
    pub address: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Canned {
    pub fn start(answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (answer, seen): (Arc<Answer>, _) = (Arc::new(answer), Arc::clone(&requests));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
                std::thread::spawn(move || serve(stream.unwrap(), &*answer, &seen));
            }
        });
        Self { address, requests }
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

/// One request a connection: every answer closes it.
fn serve(mut stream: TcpStream, answer: &Answer, seen: &Mutex<Vec<Request>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return };
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let request = Request { method, path, headers, body: String::from_utf8(body).unwrap() };
    seen.lock().unwrap().push(request.clone());
    // The program may have gone away, which is its right.
    let _ = stream.write_all(&answer(&request));
}

pub fn raw(status: u16, kind: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let (body, length) = (body.as_ref(), body.as_ref().len());
    let head = format!(
        "HTTP/1.1 {status} Canned\r\ncontent-type: {kind}\r\nx-request-id: req-1\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// A success in the envelope.
pub fn data(data: Value) -> Vec<u8> {
    raw(200, "application/json", json!({"code": 200, "message": "Success", "data": data, "timestamp": 1}).to_string())
}

/// An error as the server sends it.
pub fn problem(status: u16, kind: &str, code: &str, retryable: bool) -> Vec<u8> {
    let data = json!({
        "type": format!("urn:aegis:problem:{code}"), "title": "t", "status": status, "detail": "d", "instance": "/x",
        "kind": kind, "code": code, "message": "it is wrong", "place": "the place", "found": "this", "expected": "that",
        "fix": "do so", "request_id": "req-1", "retryable": retryable,
    });
    let body = json!({"code": status, "message": "d", "data": data, "timestamp": 1}).to_string();
    raw(status, "application/json", &body)
}

pub fn page(items: Value) -> Vec<u8> {
    let total = items.as_array().unwrap().len();
    data(json!({"items": items, "pagination": {"page": 1, "size": 20, "total": total, "total_pages": 1}}))
}

/// A home folder in which the program runs with nothing of this machine's settings.
pub struct Home {
    folder: tempfile::TempDir,
}

pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// The one line on standard error, as JSON.
    pub fn error(&self) -> Value {
        assert_eq!(self.err.lines().count(), 1, "one line on standard error: {}", self.err);
        serde_json::from_str(&self.err).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {} {}", self.out, self.err))
    }
}

impl Home {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, file: &str, text: &str) -> PathBuf {
        let path = self.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, &[])
    }

    pub fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
        let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_aegisctl"))
            .args(arguments)
            .env_clear()
            .env("HOME", self.path())
            .envs(variables.iter().copied())
            .current_dir(self.path())
            .output()
            .unwrap();
        Ran {
            code: status.code().unwrap(),
            out: String::from_utf8(stdout).unwrap(),
            err: String::from_utf8(stderr).unwrap(),
        }
    }
}
