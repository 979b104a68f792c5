//! One try to hand a message over, and what the answer means.

use std::time::{Duration, SystemTime};

use model::{ErrorKind, Problem, Result};
use prost::Message;
use prost::bytes::{Buf, Bytes};
use tokio::runtime::Handle;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use super::OtlpTarget;
use crate::otlp::{ExportLogsServiceResponse, ExportMetricsServiceResponse, ExportTraceServiceResponse};
use crate::{Export, rpc};

/// How OTLP travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtlpProtocol {
    Grpc,
    /// Protobuf bodies over HTTP.
    Http,
}

impl OtlpProtocol {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Grpc => "gRPC",
            Self::Http => "HTTP",
        }
    }
}

/// What one try came to.
#[derive(Debug)]
pub enum Answer {
    /// Taken, but for `refused` records.
    Taken { refused: u64, message: String },
    /// Refused for good, all of it.
    Refused(String),
    /// To be tried again, after the time that the receiver asks for. `reached`: the receiver itself said so.
    Later { after: Option<Duration>, message: String, reached: bool },
}

pub enum Transport {
    Grpc { channel: Channel, runtime: Handle, headers: Vec<(AsciiMetadataKey, AsciiMetadataValue)>, timeout: Duration },
    Http { agent: ureq::Agent, base: String, headers: Vec<(String, String)> },
}

impl Transport {
    pub fn new(target: OtlpTarget, runtime: &Handle) -> Result<Self> {
        let base = target.endpoint.trim_end_matches('/').to_owned();
        let (scheme, rest) = base.split_once("://").ok_or_else(|| malformed(&target.endpoint))?;
        let is_plain =
            rest.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
                || (!rest.is_empty() && !rest.contains(':'));
        if !matches!(scheme, "http" | "https" | "grpc") || rest.contains('/') || !is_plain {
            return Err(malformed(&target.endpoint));
        }
        let is_grpc = scheme == "grpc" || base.ends_with(":4317");
        let protocol = target.protocol.unwrap_or(if is_grpc { OtlpProtocol::Grpc } else { OtlpProtocol::Http });
        match protocol {
            OtlpProtocol::Http if scheme == "grpc" => Err(malformed(&target.endpoint)),
            OtlpProtocol::Http => Ok(Self::http(base, target)),
            OtlpProtocol::Grpc if scheme == "https" => Err(Problem::new(
                ErrorKind::Missing,
                "otlp.tls_unsupported",
                "telemetry is sent over gRPC without TLS only",
            )
            .place(target.endpoint)
            .fix("send it over HTTP with `--protocol http`, or to a collector on this machine")),
            OtlpProtocol::Grpc => Self::grpc(&format!("http://{rest}"), target, runtime),
        }
    }

    fn http(base: String, target: OtlpTarget) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .user_agent(concat!("aegis/", env!("CARGO_PKG_VERSION")))
            .proxy(None)
            .max_redirects(0)
            .timeout_global(Some(target.timeout));
        Self::Http { agent: config.build().new_agent(), base, headers: target.headers }
    }

    fn grpc(address: &str, target: OtlpTarget, runtime: &Handle) -> Result<Self> {
        let endpoint = Endpoint::from_shared(address.to_owned()).map_err(|_| malformed(&target.endpoint))?;
        let header = |(name, value): &(String, String)| {
            let name = AsciiMetadataKey::from_bytes(name.to_ascii_lowercase().as_bytes()).ok();
            Some((name?, AsciiMetadataValue::try_from(value.as_str()).ok()?))
        };
        let headers = target.headers.iter().map(header).collect::<Option<Vec<_>>>().ok_or_else(|| {
            Problem::new(ErrorKind::Invalid, "otlp.header_malformed", "a header cannot be sent over gRPC")
                .expected("a name of letters, digits, `-`, `_` and `.`, and a printable ASCII value")
        })?;
        // The channel is made inside the runtime, which then drives it.
        let _inside = runtime.enter();
        let channel = endpoint.connect_timeout(target.timeout).connect_lazy();
        Ok(Self::Grpc { channel, runtime: runtime.clone(), headers, timeout: target.timeout })
    }

    pub const fn protocol(&self) -> OtlpProtocol {
        match self {
            Self::Grpc { .. } => OtlpProtocol::Grpc,
            Self::Http { .. } => OtlpProtocol::Http,
        }
    }

    pub fn send(&self, export: Export, body: &[u8]) -> Answer {
        match self {
            Self::Http { agent, base, headers } => {
                let mut request = agent.post(format!("{base}/v1/{}", export.as_str()));
                for (name, value) in headers {
                    request = request.header(name, value);
                }
                match request.header("content-type", "application/x-protobuf").send(body) {
                    Ok(response) => http_answer(export, response),
                    Err(error) => Answer::Later { after: None, message: error.to_string(), reached: false },
                }
            }
            Self::Grpc { channel, runtime, headers, timeout } => {
                let mut request = Request::new(Bytes::copy_from_slice(body));
                request.set_timeout(*timeout);
                for (name, value) in headers {
                    request.metadata_mut().insert(name.clone(), value.clone());
                }
                let mut client = tonic::client::Grpc::new(channel.clone());
                let sent = runtime.block_on(async {
                    client.ready().await.map_err(|error| Status::unavailable(words(&error)))?;
                    client.unary(request, PathAndQuery::from_static(method(export)), Raw).await
                });
                match sent {
                    Ok(response) => taken(export, &response.into_inner()),
                    Err(status) => grpc_answer(&status),
                }
            }
        }
    }
}

fn malformed(endpoint: &str) -> Problem {
    Problem::new(ErrorKind::Invalid, "otlp.endpoint_malformed", "this is not the address of an OTLP receiver")
        .place("--otlp")
        .found(format!("`{endpoint}`"))
        .expected("`http://HOST:PORT`, `https://HOST:PORT` or `grpc://HOST:PORT`, without a path")
}

/// An error with its causes, which say more than it does.
fn words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

const fn method(export: Export) -> &'static str {
    match export {
        Export::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        Export::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        Export::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    }
}

/// The meaning of an answer of success: it may refuse some of the records.
fn taken(export: Export, body: &[u8]) -> Answer {
    let partial = match export {
        Export::Traces => ExportTraceServiceResponse::decode(body)
            .map(|answer| answer.partial_success.map(|partial| (partial.rejected_spans, partial.error_message))),
        Export::Metrics => ExportMetricsServiceResponse::decode(body)
            .map(|answer| answer.partial_success.map(|partial| (partial.rejected_data_points, partial.error_message))),
        Export::Logs => ExportLogsServiceResponse::decode(body)
            .map(|answer| answer.partial_success.map(|partial| (partial.rejected_log_records, partial.error_message))),
    };
    match partial {
        Ok(None) => Answer::Taken { refused: 0, message: String::new() },
        Ok(Some((refused, message))) => match u64::try_from(refused) {
            Ok(refused) => Answer::Taken { refused, message },
            Err(_) => Answer::Refused(format!("the answer says that {refused} records were refused")),
        },
        Err(error) => Answer::Refused(format!("the answer is no OTLP: {error}")),
    }
}

fn http_answer(export: Export, mut response: ureq::http::Response<ureq::Body>) -> Answer {
    let status = response.status().as_u16();
    let is_proto = response.headers().get("content-type").is_some_and(|kind| kind == "application/x-protobuf");
    let after = response.headers().get("retry-after").and_then(|value| retry_after(value.to_str().ok()?));
    let body = match response.body_mut().read_to_vec() {
        Ok(body) => body,
        Err(error) => return Answer::Later { after: None, message: error.to_string(), reached: true },
    };
    if (200..300).contains(&status) {
        // An empty body is an answer without a word; anything else must be what was asked for.
        return if is_proto || body.is_empty() {
            taken(export, &body)
        } else {
            Answer::Refused(format!("HTTP {status}, but the answer is no OTLP"))
        };
    }
    let said = if is_proto {
        rpc::Status::decode(body.as_slice()).map(|status| status.message).unwrap_or_default()
    } else {
        String::from_utf8_lossy(&body).chars().take(200).collect()
    };
    let message = format!("HTTP {status} {}", said.trim()).trim_end().to_owned();
    match status {
        429 | 502 | 503 | 504 => Answer::Later { after, message, reached: true },
        _ => Answer::Refused(message),
    }
}

/// Seconds, or an instant (RFC 9110, section 10.2.3).
fn retry_after(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    Some(at.duration_since(SystemTime::now()).unwrap_or_default())
}

/// By the table of the OTLP specification; an exhausted receiver is tried again only when it says when.
fn grpc_answer(status: &Status) -> Answer {
    let after = rpc::Status::decode(status.details()).ok().and_then(|status| status.retry_delay());
    let message = format!("{:?}: {}", status.code(), status.message());
    let broken = std::error::Error::source(status).is_some_and(|source| source.is::<tonic::transport::Error>());
    let later = match status.code() {
        // The connection broke under the call: nobody has answered, so nobody has refused.
        Code::Unknown if broken => true,
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => true,
        Code::ResourceExhausted => after.is_some(),
        _ => false,
    };
    if !later {
        return Answer::Refused(message);
    }
    let reached = after.is_some() || !matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded);
    Answer::Later { after, message, reached }
}

/// Messages that are encoded already, and answers as they come.
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, out: &mut EncodeBuf<'_>) -> std::result::Result<(), Status> {
        use prost::bytes::BufMut;
        out.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, body: &mut DecodeBuf<'_>) -> std::result::Result<Option<Bytes>, Status> {
        Ok(Some(body.copy_to_bytes(body.remaining())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::ExportTracePartialSuccess;

    fn target(endpoint: &str, protocol: Option<OtlpProtocol>) -> OtlpTarget {
        let second = Duration::from_secs(1);
        OtlpTarget { endpoint: endpoint.into(), protocol, headers: vec![], timeout: second, patience: second }
    }

    #[test]
    fn the_protocol_follows_from_the_address_unless_it_is_said() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let protocol = |endpoint, said| {
            Transport::new(target(endpoint, said), runtime.handle()).map(|transport| transport.protocol())
        };
        assert_eq!(protocol("http://h:4317", None).unwrap(), OtlpProtocol::Grpc);
        assert_eq!(protocol("grpc://h:1", None).unwrap(), OtlpProtocol::Grpc);
        assert_eq!(protocol("http://h:4318/", None).unwrap(), OtlpProtocol::Http);
        assert_eq!(protocol("https://h", None).unwrap(), OtlpProtocol::Http);
        assert_eq!(protocol("http://h:1", Some(OtlpProtocol::Grpc)).unwrap(), OtlpProtocol::Grpc);
        assert_eq!(protocol("https://h:4317", None).unwrap_err().code, "otlp.tls_unsupported");
        for wrong in
            ["h:4318", "ftp://h:1", "http://h:1/v1/traces", "http://", "http://:1", "http://h:99999", "grpc://h:1"]
        {
            let said = (wrong == "grpc://h:1").then_some(OtlpProtocol::Http);
            assert_eq!(protocol(wrong, said).unwrap_err().code, "otlp.endpoint_malformed", "{wrong}");
        }
    }

    #[test]
    fn a_receiver_may_say_when_to_come_again() {
        assert_eq!(retry_after(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO), "an instant in the past");
        assert_eq!(retry_after("soon"), None);
        let details = rpc::Status::new(8, "full".into(), Some(Duration::from_millis(2500))).encode_to_vec();
        let asked = Status::with_details(Code::ResourceExhausted, "full", details.into());
        let Answer::Later { after, reached: true, .. } = grpc_answer(&asked) else { panic!("it is to be tried again") };
        assert_eq!(after, Some(Duration::from_millis(2500)));
        assert!(matches!(grpc_answer(&Status::resource_exhausted("too large")), Answer::Refused(_)));
        assert!(matches!(grpc_answer(&Status::invalid_argument("no")), Answer::Refused(_)));
        assert!(matches!(grpc_answer(&Status::unavailable("no")), Answer::Later { after: None, reached: false, .. }));
    }

    #[test]
    fn what_a_receiver_cannot_mean_is_no_success() {
        let partial_success = Some(ExportTracePartialSuccess { rejected_spans: -1, error_message: String::new() });
        let answer = ExportTraceServiceResponse { partial_success }.encode_to_vec();
        assert!(matches!(taken(Export::Traces, &answer), Answer::Refused(_)));
    }

    #[test]
    fn a_connection_that_breaks_under_a_call_is_no_refusal() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("grpc://{}", listener.local_addr().unwrap());
        let receiver = std::thread::spawn(move || {
            use std::io::{Read, Write};
            let (mut connection, _) = listener.accept().unwrap();
            // HTTP/2 begins: empty settings; then what was sent is read and the connection is gone.
            connection.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).unwrap();
            let mut some = [0; 4096];
            assert!(connection.read(&mut some).unwrap() > 0);
        });
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let transport = Transport::new(target(&endpoint, None), runtime.handle()).unwrap();
        let answer = transport.send(Export::Traces, b"");
        receiver.join().unwrap();
        assert!(matches!(answer, Answer::Later { .. }), "{answer:?}");
    }
}
