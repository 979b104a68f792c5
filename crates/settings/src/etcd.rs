//! etcd as the source of live values, over its own protocol (gRPC).
//!
//! Every call has a time-out. A connection is made when it is first needed and again when it broke. A login's token is
//! fetched when etcd asks for one, and once more when it has expired.

mod address;
mod message;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use model::{ErrorKind, Problem, Result};
use prost::Message;
use tokio::sync::Mutex;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use self::address::{Address, Tls};
use self::message::{
    AuthenticateRequest, AuthenticateResponse, Compare, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest,
    RangeResponse, RequestOp, TARGET_MOD, TxnRequest, TxnResponse, WatchCreateRequest, WatchRequest, WatchResponse,
};
use crate::source::{Batch, Entry, Event, INSTALLATION, Snapshot, Source, Watch, Write};
use crate::{Expect, Scope};

const RANGE: &str = "/etcdserverpb.KV/Range";
const TXN: &str = "/etcdserverpb.KV/Txn";
const WATCH: &str = "/etcdserverpb.Watch/Watch";
const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";
/// Largest answer: many times what a tree of settings holds.
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;

/// A tree below one prefix of an etcd.
pub struct Etcd {
    address: Address,
    shown: String,
    channel: Channel,
    timeout: Duration,
    token: Mutex<Option<AsciiMetadataValue>>,
}

impl Etcd {
    /// Nothing is sent yet. To be called inside a runtime.
    ///
    /// # Errors
    /// `settings.address_malformed`; `settings.certificate_unusable` for the files that it names.
    pub fn open(address: &str, timeout: Duration) -> Result<Self> {
        let address = Address::parse(address)?;
        let tls = address.tls.as_ref().map(certificates).transpose()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let endpoints = address.hosts.iter().map(|host| {
            let mut endpoint = Endpoint::from_shared(format!("{scheme}://{host}")).map_err(|error| {
                let problem = "the address of etcd cannot be read";
                Problem::new(ErrorKind::Invalid, "settings.address_malformed", problem).found(error.to_string())
            })?;
            if let (Some(tls), Some(files)) = (&tls, &address.tls) {
                endpoint = endpoint.tls_config(tls.clone()).map_err(|error| unusable(&files.ca, &deepest(&error)))?;
            }
            // A watch may be silent for hours, so it is asked now and then whether anybody is still there.
            Ok(endpoint
                .connect_timeout(timeout)
                .http2_keep_alive_interval(timeout)
                .keep_alive_timeout(timeout)
                .keep_alive_while_idle(true)
                .tcp_nodelay(true))
        });
        let endpoints: Vec<Endpoint> = endpoints.collect::<Result<_>>()?;
        let channel = match endpoints.as_slice() {
            [only] => only.connect_lazy(),
            several => Channel::balance_list(several.iter().cloned()),
        };
        let shown = address.shown();
        Ok(Self { address, shown, channel, timeout, token: Mutex::new(None) })
    }

    fn changed_meanwhile(&self, places: String) -> Problem {
        let message = "the setting was changed meanwhile";
        Problem::new(ErrorKind::Conflict, "setting.changed_meanwhile", message)
            .place(format!("{}: {places}", self.shown))
            .fix("read it again and repeat the change")
    }

    fn whole(&self, path: &str) -> Vec<u8> {
        format!("{}/{path}", self.address.prefix).into_bytes()
    }

    /// Calls and waits for the answer, but never longer than the time-out.
    async fn call<I, O>(&self, method: &'static str, message: I) -> Result<O>
    where
        I: Message + Clone + 'static,
        O: Message + Default + 'static,
    {
        self.log_in_once().await?;
        match self.try_call(method, message.clone()).await {
            Err(status) if self.should_log_in(&status) => {
                self.log_in().await?;
                self.try_call(method, message).await.map_err(|status| self.problem(status))
            }
            other => other.map_err(|status| self.problem(status)),
        }
    }

    async fn try_call<I, O>(&self, method: &'static str, message: I) -> std::result::Result<O, Status>
    where
        I: Message + 'static,
        O: Message + Default + 'static,
    {
        let request = self.request(message).await;
        let mut client = Grpc::new(self.channel.clone()).max_decoding_message_size(LARGEST_ANSWER);
        let answer = async {
            client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            let codec = ProstCodec::<I, O>::default();
            client.unary(request, PathAndQuery::from_static(method), codec).await
        };
        let answer = tokio::time::timeout(self.timeout, answer).await;
        answer.map_err(|_| Status::deadline_exceeded("no answer in time"))?.map(tonic::Response::into_inner)
    }

    async fn request<I>(&self, message: I) -> Request<I> {
        let mut request = Request::new(message);
        if let Some(token) = &*self.token.lock().await {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }

    fn should_log_in(&self, status: &Status) -> bool {
        // Without a token etcd answers `invalid argument: user name is empty`; with an old one `unauthenticated`.
        let asks = status.code() == Code::Unauthenticated
            || (status.code() == Code::InvalidArgument && status.message().contains("user name is empty"));
        self.address.login.is_some() && asks
    }

    /// An etcd that asks for certificates takes whoever comes without a token for the one that the certificate names.
    async fn log_in_once(&self) -> Result<()> {
        let is_named = self.address.tls.as_ref().is_some_and(|tls| tls.own.is_some());
        let is_open = !is_named || self.address.login.is_none() || self.token.lock().await.is_some();
        if is_open { Ok(()) } else { self.log_in().await }
    }

    async fn log_in(&self) -> Result<()> {
        let Some(login) = &self.address.login else { return Ok(()) };
        *self.token.lock().await = None;
        let request = AuthenticateRequest { name: login.user.clone(), password: login.password.clone() };
        let answer: AuthenticateResponse =
            self.try_call(AUTHENTICATE, request).await.map_err(|status| self.problem(status))?;
        let token = answer.token.parse().map_err(|_| {
            Problem::internal("settings.refused", "etcd gave a token that cannot be sent back")
                .place(self.shown.clone())
        })?;
        *self.token.lock().await = Some(token);
        Ok(())
    }

    fn problem(&self, status: Status) -> Problem {
        let problem = |kind, code, message: &str| {
            Problem::new(kind, code, message).place(self.shown.clone()).found(status.message().to_owned())
        };
        match status.code() {
            Code::Unauthenticated | Code::PermissionDenied | Code::InvalidArgument => {
                problem(ErrorKind::Unavailable, "settings.refused", "etcd refuses the call")
                    .fix("check user, password and rights in the address of etcd")
            }
            Code::OutOfRange => {
                problem(ErrorKind::Unavailable, "settings.compacted", "etcd no longer knows this revision")
            }
            Code::ResourceExhausted => {
                problem(ErrorKind::Unavailable, "settings.full", "etcd takes no more").fix("free or raise etcd's quota")
            }
            Code::DeadlineExceeded | Code::Unavailable | Code::Cancelled | Code::Unknown => {
                problem(ErrorKind::Unavailable, "settings.unreachable", "etcd does not answer")
                    .expected(format!("an answer within {} ms", self.timeout.as_millis()))
                    .fix("check that etcd runs and that its address is right; nothing needs to be restarted here")
            }
            _ => problem(ErrorKind::Internal, "settings.failed", "etcd could not do what was asked"),
        }
    }

    /// Runs several reads at one revision.
    async fn ranges(&self, ranges: Vec<RangeRequest>) -> Result<(i64, Vec<KeyValue>)> {
        let success = ranges.into_iter().map(|range| operation(message::Request::Range(range))).collect();
        let answer: TxnResponse = self.call(TXN, TxnRequest { compare: Vec::new(), success }).await?;
        let found = answer.responses.into_iter().filter_map(|response| response.range).flat_map(|range| range.kvs);
        Ok((revision(answer.header), found.collect()))
    }
}

/// Reads the files of an address.
fn certificates(files: &Tls) -> Result<ClientTlsConfig> {
    let read = |file: &Path| std::fs::read(file).map_err(|error| unusable(file, &error.to_string()));
    let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(&files.ca)?));
    if let Some((cert, key)) = &files.own {
        tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
    }
    Ok(tls)
}

fn unusable(file: &Path, found: &str) -> Problem {
    let message = "the certificates for etcd cannot be used";
    Problem::new(ErrorKind::Missing, "settings.certificate_unusable", message)
        .place(file.display().to_string())
        .found(found.to_owned())
        .expected("a PEM file that this user can read")
}

/// The cause at the bottom: what is above it only says that something failed.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

fn operation(request: message::Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

fn revision(header: Option<message::ResponseHeader>) -> i64 {
    header.map_or(0, |header| header.revision)
}

/// A text that is none is shown with marks in it, so that its check fails.
fn entry(pair: &KeyValue) -> Entry {
    Entry { value: String::from_utf8_lossy(&pair.value).into_owned(), revision: pair.mod_revision }
}

/// The range of everything that begins with `prefix`.
fn below(prefix: Vec<u8>) -> RangeRequest {
    let mut end = prefix.clone();
    if let Some(last) = end.last_mut() {
        // Our prefixes end with a character of ASCII, so the next byte exists.
        *last += 1;
    }
    RangeRequest { key: prefix, range_end: end }
}

#[async_trait]
impl Source for Etcd {
    fn place(&self) -> &str {
        &self.shown
    }

    async fn snapshot(&self) -> Result<Snapshot> {
        let prefix = self.whole("");
        let answer: RangeResponse = self.call(RANGE, below(prefix.clone())).await?;
        let entries = answer.kvs.iter().filter_map(|pair| {
            let path = String::from_utf8_lossy(pair.key.strip_prefix(prefix.as_slice())?).into_owned();
            Some((path, entry(pair)))
        });
        Ok(Snapshot { revision: revision(answer.header), entries: entries.collect() })
    }

    async fn misplaced(&self, beginnings: &[String]) -> Result<BTreeMap<String, Entry>> {
        let scopes = Scope::ALL.map(|scope| format!("{scope}/"));
        let mut heads = Vec::new();
        for root in ["", "/"] {
            for scope in std::iter::once("").chain(scopes.iter().map(String::as_str)) {
                heads.extend(beginnings.iter().map(|begin| format!("{root}{scope}{begin}")));
            }
        }
        let own = self.whole("");
        let mut found = BTreeMap::new();
        for some in heads.chunks(crate::source::MOST_WRITES) {
            let ranges = some.iter().map(|head| below(head.clone().into_bytes())).collect();
            let (_, pairs) = self.ranges(ranges).await?;
            let elsewhere = pairs.iter().filter(|pair| !pair.key.starts_with(&own));
            found.extend(elsewhere.map(|pair| (String::from_utf8_lossy(&pair.key).into_owned(), entry(pair))));
        }
        Ok(found)
    }

    async fn get(&self, paths: &[String]) -> Result<BTreeMap<String, Entry>> {
        let prefix = self.whole("");
        let mut found = BTreeMap::new();
        for some in paths.chunks(crate::source::MOST_WRITES) {
            let one = |path: &String| RangeRequest { key: self.whole(path), range_end: Vec::new() };
            let (_, pairs) = self.ranges(some.iter().map(one).collect()).await?;
            found.extend(pairs.iter().filter_map(|pair| {
                let path = String::from_utf8_lossy(pair.key.strip_prefix(prefix.as_slice())?).into_owned();
                Some((path, entry(pair)))
            }));
        }
        Ok(found)
    }

    async fn commit(&self, writes: &[Write], mark: Option<i64>) -> Result<i64> {
        let compare = writes.iter().filter_map(|write| {
            let mod_revision = match write.expect {
                Expect::Anything => return None,
                Expect::Absent => 0,
                Expect::Revision(revision) => revision,
            };
            let key = self.whole(&write.path);
            Some(Compare { result: 0, target: TARGET_MOD, key, mod_revision: Some(mod_revision) })
        });
        let mark = mark.map(|revision| Compare {
            result: 0,
            target: TARGET_MOD,
            key: self.whole(INSTALLATION),
            mod_revision: Some(revision),
        });
        let success = writes.iter().map(|write| {
            let key = self.whole(&write.path);
            operation(match &write.value {
                Some(value) => message::Request::Put(PutRequest { key, value: value.clone().into_bytes() }),
                None => message::Request::Delete(DeleteRangeRequest { key }),
            })
        });
        let request = TxnRequest { compare: compare.chain(mark).collect(), success: success.collect() };
        let answer: TxnResponse = self.call(TXN, request).await?;
        if answer.succeeded {
            return Ok(revision(answer.header));
        }
        let places: Vec<&str> = writes.iter().map(|write| write.path.as_str()).take(3).collect();
        Err(self.changed_meanwhile(places.join(", ")))
    }

    async fn discard(&self, name: &str, revision: i64) -> Result<()> {
        let key = name.as_bytes().to_vec();
        let same = Compare { result: 0, target: TARGET_MOD, key: key.clone(), mod_revision: Some(revision) };
        let delete = operation(message::Request::Delete(DeleteRangeRequest { key }));
        let answer: TxnResponse = self.call(TXN, TxnRequest { compare: vec![same], success: vec![delete] }).await?;
        if answer.succeeded { Ok(()) } else { Err(self.changed_meanwhile(name.to_owned())) }
    }

    async fn watch(&self, after: i64) -> Result<Box<dyn Watch>> {
        let prefix = self.whole("");
        let range = below(prefix.clone());
        let create = WatchCreateRequest {
            key: range.key,
            range_end: range.range_end,
            start_revision: after + 1,
            progress_notify: true,
        };
        self.log_in_once().await?;
        // The call stays open as long as the stream of requests does.
        let requests = futures::stream::iter([WatchRequest { create: Some(create) }]).chain(futures::stream::pending());
        let request = self.request(requests).await;
        let mut client = Grpc::new(self.channel.clone()).max_decoding_message_size(LARGEST_ANSWER);
        let start = async {
            client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
            let answers = client.streaming(request, PathAndQuery::from_static(WATCH), codec).await?.into_inner();
            let mut watching = Watching { answers, prefix, shown: self.shown.clone() };
            let first = watching.message().await?;
            Ok((watching, first))
        };
        let started = tokio::time::timeout(self.timeout, start).await;
        let started = started.map_err(|_| Status::deadline_exceeded("no answer in time")).and_then(|started| started);
        let (watching, first) = match started {
            Ok(started) => started,
            Err(status) => {
                if self.should_log_in(&status) {
                    // The next try has a token.
                    self.log_in().await?;
                }
                return Err(self.problem(status));
            }
        };
        watching.refuse(&first)?;
        Ok(Box::new(watching))
    }
}

struct Watching {
    answers: Streaming<WatchResponse>,
    prefix: Vec<u8>,
    shown: String,
}

impl Watching {
    async fn message(&mut self) -> std::result::Result<WatchResponse, Status> {
        let answer = self.answers.message().await?;
        answer.ok_or_else(|| Status::unavailable("the watch was ended by etcd"))
    }

    fn refuse(&self, answer: &WatchResponse) -> Result<()> {
        if !answer.canceled {
            return Ok(());
        }
        let (code, message) = if answer.compact_revision > 0 {
            ("settings.compacted", "etcd no longer knows this revision")
        } else {
            ("settings.unreachable", "etcd ended the watch")
        };
        Err(Problem::new(ErrorKind::Unavailable, code, message)
            .place(self.shown.clone())
            .found(answer.cancel_reason.clone()))
    }
}

#[async_trait]
impl Watch for Watching {
    async fn next(&mut self) -> Result<Batch> {
        let answer = self.message().await.map_err(|status| {
            Problem::new(ErrorKind::Unavailable, "settings.unreachable", "the watch on etcd broke")
                .place(self.shown.clone())
                .found(status.message().to_owned())
        })?;
        self.refuse(&answer)?;
        let events = answer.events.iter().filter_map(|event| {
            let pair = event.kv.as_ref()?;
            let path = String::from_utf8_lossy(pair.key.strip_prefix(self.prefix.as_slice())?).into_owned();
            Some(Event { path, entry: (event.kind == 0).then(|| entry(pair)) })
        });
        // While a watch catches up, the header may be ahead of the events that were sent.
        let last = answer.events.iter().filter_map(|event| event.kv.as_ref()).map(|pair| pair.mod_revision).max();
        Ok(Batch { revision: last.unwrap_or_else(|| revision(answer.header)), events: events.collect() })
    }
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Etcd").field(&self.shown).finish()
    }
}
