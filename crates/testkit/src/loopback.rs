//! A small HTTP/1.1 server on loopback: one answer a connection, whatever a handler says.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// What was asked.
pub(crate) struct Request {
    pub method: String,
    /// Without the query.
    pub path: String,
    pub query: HashMap<String, String>,
    /// As it was written.
    pub raw_query: String,
    /// `Host`.
    pub host: String,
    pub body: Vec<u8>,
    /// `Content-Type`.
    pub kind: String,
    /// `Authorization`.
    pub login: String,
}

/// What is answered.
pub(crate) struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }
}

/// The first byte of a client that speaks TLS (RFC 8446, 5.1).
const TLS_HANDSHAKE: u8 = 22;

type Handler = dyn Fn(Request) -> Answer + Send + Sync;

/// Serves until it is dropped.
pub(crate) struct Loopback {
    pub address: SocketAddr,
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Loopback {
    pub fn start(handler: impl Fn(Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let closing = Arc::new(AtomicBool::new(false));
        let (stop, handler): (_, Arc<Handler>) = (Arc::clone(&closing), Arc::new(handler));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let handler = Arc::clone(&handler);
                // Whoever asks and goes away gets no answer.
                std::thread::spawn(move || stream.and_then(|stream| serve(stream, &*handler)).ok());
            }
        });
        Self { address, closing, thread: Some(thread) }
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        // A last connection wakes the thread.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            thread.join().ok();
        }
    }
}

fn serve(stream: TcpStream, handler: &Handler) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    if reader.fill_buf()?.first() == Some(&TLS_HANDSHAKE) {
        // As servers answer who begins with TLS where none is spoken.
        (&stream).write_all(b"HTTP/1.0 400 Bad Request\r\n\r\nthis server speaks HTTP")?;
        return stream.shutdown(Shutdown::Write);
    }
    let mut line = Vec::new();
    reader.by_ref().take(8192).read_until(b'\n', &mut line)?;
    let line = String::from_utf8_lossy(&line);
    let mut words = line.split_whitespace();
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return Ok(()) };
    let (method, target) = (method.to_owned(), target.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let body = match headers.get("content-length").and_then(|length| length.parse::<u64>().ok()) {
        Some(length) => {
            let mut body = Vec::new();
            reader.by_ref().take(length).read_to_end(&mut body)?;
            body
        }
        None if headers.get("transfer-encoding").is_some_and(|how| how == "chunked") => chunks(&mut reader)?,
        None => Vec::new(),
    };
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pair = |pair: &str| pair.split_once('=').map(|(name, value)| (name.to_owned(), value.replace("%3A", ":")));
    let request = Request {
        method: method.clone(),
        path: path.to_owned(),
        raw_query: query.to_owned(),
        host: headers.remove("host").unwrap_or_default(),
        query: query.split('&').filter_map(pair).collect(),
        body,
        kind: headers.remove("content-type").unwrap_or_default(),
        login: headers.remove("authorization").unwrap_or_default(),
    };
    let answer = handler(request);
    let mut stream = stream;
    let mut head = format!("HTTP/1.1 {} -\r\nConnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !answer.headers.iter().any(|(name, _)| *name == "Content-Length") {
        head.push_str(&format!("Content-Length: {}\r\n", answer.body.len()));
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    if method != "HEAD" {
        stream.write_all(&answer.body)?;
    }
    stream.shutdown(Shutdown::Write)
}

fn chunks(reader: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let length = u64::from_str_radix(line.trim(), 16).unwrap_or(0);
        if length == 0 {
            return Ok(body);
        }
        reader.by_ref().take(length).read_to_end(&mut body)?;
        reader.read_line(&mut String::new())?;
    }
}
