//! A span as its instrumentation makes it: the constant parts, prepared once per run, and slots for what each request has
//! of its own.

use telemetry::otlp::common::KeyValue;
use telemetry::otlp::trace::span::SpanKind;

use crate::pod::write_uuid;
use crate::rng::Stream;

/// A value that differs from request to request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// The path, with its variable segments filled in.
    Path,
    /// The same behind scheme, host and port.
    Url,
    /// The answer's status, if there is one: as a number, as a text, with its reason.
    Status,
    StatusText,
    StatusLine,
    /// gRPC's status, which exists even when no answer came.
    GrpcStatus,
    /// Address of the other end, its port, and both.
    PeerAddress,
    PeerPort,
    Peer,
    RequestSize,
    ResponseSize,
    /// An identifier that a proxy gives the request.
    RequestId,
    ThreadId,
    ThreadName,
    /// Position of a message in its partition.
    Offset,
    /// Envoy's short words about what went wrong.
    ResponseFlags,
}

/// When a span's status is an error, and whether `error.type` says which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// OpenTelemetry's rule for HTTP: a client fails from 400 on, a server from 500 on, both without an answer.
    HttpClient {
        named: bool,
    },
    HttpServer {
        named: bool,
    },
    /// gRPC's rule: a client fails with every number but 0, a server with those that are its own doing.
    GrpcClient,
    GrpcServer,
    /// An exception passes through the span.
    Exception {
        named: bool,
    },
    /// The code that makes the span never says so.
    Never,
}

pub struct Template {
    pub name: String,
    pub kind: SpanKind,
    /// Position in its service's list of scopes.
    pub scope: u8,
    /// Position among the kinds of spans of its service: those of one name and kind count together.
    pub group: u16,
    /// In the order of their keys, so that whoever writes them in that order has nothing to sort.
    pub attributes: Vec<Attribute>,
    pub verdict: Verdict,
}

/// An attribute of a template's spans.
pub enum Attribute {
    Constant(KeyValue),
    Own(&'static str, Slot),
}

impl Attribute {
    fn key(&self) -> &str {
        match self {
            Self::Constant(pair) => &pair.key,
            Self::Own(key, _) => key,
        }
    }
}

impl Template {
    pub fn new(name: impl Into<String>, kind: SpanKind, scope: u8, verdict: Verdict) -> Self {
        Self { name: name.into(), kind, scope, group: 0, attributes: Vec::new(), verdict }
    }

    pub fn with(self, attributes: impl IntoIterator<Item = KeyValue>) -> Self {
        self.extended(attributes.into_iter().map(Attribute::Constant))
    }

    pub fn slots(self, slots: impl IntoIterator<Item = (&'static str, Slot)>) -> Self {
        self.extended(slots.into_iter().map(|(key, slot)| Attribute::Own(key, slot)))
    }

    fn extended(mut self, attributes: impl Iterator<Item = Attribute>) -> Self {
        self.attributes.extend(attributes);
        self.attributes.sort_by(|a, b| a.key().cmp(b.key()));
        self
    }
}

/// A path whose variable segments are filled in per request.
#[derive(Debug, Default)]
pub struct Path {
    /// Constant pieces; a value stands between each two.
    pieces: Vec<String>,
}

impl Path {
    pub fn new(route: &str) -> Self {
        let mut pieces = vec![String::new()];
        for segment in route.split('/').skip(1) {
            let last = pieces.last_mut().expect("there is always one");
            last.push('/');
            let variable = segment.find(['{', '*']).unwrap_or(segment.len());
            last.push_str(&segment[..variable]);
            if variable < segment.len() {
                pieces.push(String::new());
            }
        }
        Self { pieces }
    }

    /// Appends the path of one request: the values are the same on each hop of a trace.
    pub fn write(&self, trace: u64, out: &mut String) {
        let Some((first, rest)) = self.pieces.split_first() else { return };
        out.push_str(first);
        if rest.is_empty() {
            return;
        }
        let stream = Stream::new(trace, "path");
        for (place, piece) in rest.iter().enumerate() {
            write_uuid(&mut stream.at(place as u64 + 1), out);
            out.push_str(piece);
        }
    }
}
