//! Following a run's event stream to its end, over as many connections as it takes.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use api::event::{END, End, Event, UPDATE};
use model::{ErrorKind, Problem, RunId};
use ureq::BodyReader;

use crate::failure::{Class, Failure, Result};
use crate::transport::{Client, accepted};

/// Longest silence on a stream. The server sends a comment every ten seconds.
const SILENCE: Duration = Duration::from_secs(35);
/// Connections in a row that brought nothing before the watch gives up.
const FRUITLESS: u32 = 5;

/// One frame of the stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    Update { number: u64, event: Event },
    End(End),
}

/// The frames of a run, in order and each once. Ends after [`Frame::End`] or an error.
pub struct Watch {
    client: Client,
    run: RunId,
    /// Number of the newest event that was handed out.
    last: u64,
    deadline: Option<Instant>,
    stream: Option<BufReader<BodyReader<'static>>>,
    fruitless: u32,
    done: bool,
}

impl Client {
    /// Follows a run from the event after `last` (0: from the first) until it ends or the deadline passes.
    pub fn watch(&self, run: RunId, last: u64, deadline: Option<Instant>) -> Watch {
        Watch { client: self.clone(), run, last, deadline, stream: None, fruitless: 0, done: false }
    }
}

impl Iterator for Watch {
    type Item = Result<Frame>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let item = self.advance();
        self.done = matches!(item, Ok(Frame::End(_)) | Err(_));
        Some(item)
    }
}

impl Watch {
    fn advance(&mut self) -> Result<Frame> {
        loop {
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(deadline_passed());
            }
            let attempt = self.attempt();
            match attempt {
                Ok(Some(frame)) => {
                    self.fruitless = 0;
                    return Ok(frame);
                }
                Err(failure) if !may_reconnect(&failure) => return Err(failure),
                broken => {
                    self.stream = None;
                    self.fruitless += 1;
                    if self.fruitless >= FRUITLESS {
                        return Err(broken.err().unwrap_or_else(cut_short));
                    }
                    self.pause();
                }
            }
        }
    }

    /// One frame, or `None` when the connection ended before the stream did.
    fn attempt(&mut self) -> Result<Option<Frame>> {
        if self.stream.is_none() {
            self.stream = Some(self.connect()?);
        }
        let stream = self.stream.as_mut().expect("it was opened just now");
        loop {
            let Some(raw) = read_frame(stream) else { return Ok(None) };
            match raw.name.as_str() {
                UPDATE => {
                    let number = raw.id.parse().map_err(|error| Failure::decode("a numbered event", None, error))?;
                    let event = parse(&raw.data)?;
                    // A server may repeat what it sent before the connection broke.
                    if number > self.last {
                        self.last = number;
                        return Ok(Some(Frame::Update { number, event }));
                    }
                }
                END => return Ok(Some(Frame::End(parse(&raw.data)?))),
                _ => {}
            }
        }
    }

    fn connect(&self) -> Result<BufReader<BodyReader<'static>>> {
        let path = format!("{}/traces/{}/stream", api::PREFIX, self.run);
        let mut request = self.client.agent.get(self.client.url(&path)).header("accept", "text/event-stream");
        if let Some(value) = self.client.authorization() {
            request = request.header("authorization", value);
        }
        if self.last > 0 {
            request = request.header("last-event-id", self.last.to_string());
        }
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let config = request.config().timeout_global(left).timeout_per_read(Some(SILENCE));
        let response = accepted(self.client.judge(config.build().call())?)?;
        Ok(BufReader::new(response.into_body().into_with_config().limit(u64::MAX).reader()))
    }

    /// Waits a little longer after each connection that brought nothing, and never past the deadline.
    fn pause(&self) {
        let mut pause = Duration::from_millis(100 << self.fruitless.min(5));
        if let Some(deadline) = self.deadline {
            pause = pause.min(deadline.saturating_duration_since(Instant::now()));
        }
        std::thread::sleep(pause);
    }
}

fn may_reconnect(failure: &Failure) -> bool {
    match failure.class {
        Class::Transport => true,
        Class::Answer => failure.retryable(),
        Class::Tls | Class::Decode => false,
    }
}

fn deadline_passed() -> Failure {
    Problem::new(ErrorKind::Timeout, "run.watch_timed_out", "the run did not end in time")
        .fix("it goes on; look again with `aegisctl run watch ID`, or ask `aegisctl run why ID`")
        .into()
}

fn cut_short() -> Failure {
    Problem::new(
        ErrorKind::Unavailable,
        "server.stream_broken",
        "the event stream ended again and again before the run did",
    )
    .into()
}

fn parse<T: serde::de::DeserializeOwned>(data: &str) -> Result<T> {
    serde_json::from_str(data).map_err(|error| Failure::decode("an event in the expected form", None, error))
}

#[derive(Default)]
struct RawFrame {
    id: String,
    name: String,
    data: String,
}

/// Reads up to the blank line that ends a frame (WHATWG HTML, server-sent events). `None` when the stream ended.
fn read_frame(stream: &mut impl BufRead) -> Option<RawFrame> {
    let mut frame = RawFrame::default();
    let mut line = String::new();
    loop {
        line.clear();
        // A read error means the same as the end: the connection is gone, and the caller opens another.
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let text = line.trim_end_matches(['\n', '\r']);
        if text.is_empty() {
            if !frame.name.is_empty() || !frame.data.is_empty() {
                return Some(frame);
            }
            continue;
        }
        let (field, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => value.clone_into(&mut frame.id),
            "event" => value.clone_into(&mut frame.name),
            "data" => {
                if !frame.data.is_empty() {
                    frame.data.push('\n');
                }
                frame.data.push_str(value);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_cut_at_blank_lines_and_comments_are_skipped() {
        let text = ": hello\n\nid: 7\nevent:update\ndata: {\"a\":\ndata: 1}\n\nevent:end\r\ndata:{}\r\n\r\nid: 9\n";
        let mut stream = text.as_bytes();
        let first = read_frame(&mut stream).unwrap();
        assert_eq!((first.id.as_str(), first.name.as_str(), first.data.as_str()), ("7", "update", "{\"a\":\n1}"));
        assert_eq!(read_frame(&mut stream).unwrap().name, "end");
        assert!(read_frame(&mut stream).is_none());
    }
}
