//! The messages of `google.rpc` in which a receiver says what is wrong and when to come again, for both sides.

use std::time::Duration;

use prost::Message;

/// Type of the detail that says when to come again.
pub(crate) const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// `google.rpc.Status`, as gRPC carries it in a trailer and OTLP/HTTP in the body of an error.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<Delay>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, Copy, PartialEq, Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

impl Status {
    pub fn new(code: i32, message: String, retry: Option<Duration>) -> Self {
        let detail = |retry: Duration| {
            let seconds = i64::try_from(retry.as_secs()).expect("seconds, not ages");
            let nanos = i32::try_from(retry.subsec_nanos()).expect("below a second");
            let info = RetryInfo { retry_delay: Some(Delay { seconds, nanos }) };
            Any { type_url: RETRY_INFO.into(), value: info.encode_to_vec() }
        };
        Self { code, message, details: retry.map(detail).into_iter().collect() }
    }

    /// How long the sender is asked to wait.
    pub fn retry_delay(&self) -> Option<Duration> {
        let info = self.details.iter().find(|any| any.type_url.ends_with("/google.rpc.RetryInfo"))?;
        let delay = RetryInfo::decode(info.value.as_slice()).ok()?.retry_delay?;
        Some(Duration::new(u64::try_from(delay.seconds).ok()?, u32::try_from(delay.nanos).ok()?))
    }
}
