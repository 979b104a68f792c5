//! The entrance for records from the network: acknowledged when they are in a file, turned into segments by size and age.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use model::{DataTime, ErrorKind, Problem, Result, WallTime};

use crate::convert::{Request, Route};
use crate::disk::try_lock;
use crate::journal::{self, Journal, Records};
use crate::otlp::{ExportLogsServiceRequest, ExportMetricsServiceRequest, ExportTraceServiceRequest, Message};
use crate::store::{Inner, guard};
use crate::table::Tables;
use crate::{Accepted, Export, Signal, SignalStore, Stream, segment};

/// Receives OTLP requests. Clones share it.
#[derive(Clone)]
pub struct Ingest {
    receiver: Arc<Receiver>,
}

/// The tables of what was received, by namespace.
#[derive(Default)]
struct Received(BTreeMap<String, Tables>);

impl Route for Received {
    fn tables(&mut self, namespace: &str) -> &mut Tables {
        if !self.0.contains_key(namespace) {
            self.0.insert(namespace.to_owned(), Tables::default());
        }
        self.0.get_mut(namespace).expect("inserted above")
    }
}

impl Received {
    fn bytes(&self) -> usize {
        self.0.values().map(Tables::bytes).sum()
    }

    /// Writes one chunk for each namespace. Chunks that an interrupted attempt had written stay as they are.
    fn write(self, store: &Inner, sequence: u64) -> Result<()> {
        for (namespace, tables) in self.0 {
            let stream = Stream { namespace, run: None };
            let mut chunk = store.chunk_writer()?;
            chunk.tables = tables;
            if !chunk.seal(&stream)?.is_empty() {
                store.place_received(chunk, &stream, sequence)?;
            }
        }
        Ok(())
    }
}

/// The state that all clones of an [`Ingest`] share.
pub(crate) struct Receiver {
    store: Arc<Inner>,
    /// Held for the life of the receiver: one process at a time receives.
    _lock: File,
    pending: Mutex<Pending>,
    /// Held by the one who turns a journal into segments.
    flushing: Mutex<()>,
}

struct Pending {
    journal: Journal,
    received: Received,
    since: Instant,
}

impl Pending {
    fn start(store: &Inner, after: u64) -> Result<Self> {
        // The clock makes the number one that was never used, also after its chunks have expired.
        let now = u64::try_from(WallTime::now().0).unwrap_or(0);
        let journal = Journal::create(&store.journal_folder(), now.max(after + 1))?;
        Ok(Self { journal, received: Received::default(), since: Instant::now() })
    }
}

impl Ingest {
    pub(crate) fn begin(store: &SignalStore) -> Result<Self> {
        let mut shared = guard(&store.inner.receiver);
        if let Some(receiver) = shared.upgrade() {
            return Ok(Self { receiver });
        }
        let inner = &store.inner;
        let lock = journal_lock(inner)?.ok_or_else(|| {
            Problem::new(
                ErrorKind::Conflict,
                "telemetry.journal_in_use",
                "another process receives into this signal store",
            )
            .place(inner.journal_folder().display().to_string())
            .fix("stop that process, or use another folder")
        })?;
        let last = replay_all(inner, None)?;
        let pending = Pending::start(inner, last)?;
        let receiver =
            Receiver { store: inner.clone(), _lock: lock, pending: pending.into(), flushing: Mutex::default() };
        let receiver = Arc::new(receiver);
        *shared = Arc::downgrade(&receiver);
        Ok(Self { receiver })
    }

    /// Takes a request as it came over the wire, after decompression. When this returns, its bytes are in a file.
    ///
    /// # Errors
    /// `otlp.request_too_large`, `otlp.request_malformed`, and those of the disk. Nothing of the request is kept then.
    pub fn accept(&self, export: Export, body: &[u8]) -> Result<Accepted> {
        let receiver = &self.receiver;
        let outcome = receiver.check_size(body.len()).and_then(|()| {
            let request = Request::decode(export, body).map_err(|error| malformed(export, body.len(), error))?;
            receiver.take(&request, body)
        });
        receiver.count_refused_request(export, outcome)
    }

    /// Takes spans from inside this process, as [`Self::accept`] does from the wire.
    pub fn traces(&self, request: ExportTraceServiceRequest) -> Result<Accepted> {
        let body = request.encode_to_vec();
        self.encoded(&Request::Traces(request), &body)
    }

    /// Takes data points from inside this process.
    pub fn metrics(&self, request: ExportMetricsServiceRequest) -> Result<Accepted> {
        let body = request.encode_to_vec();
        self.encoded(&Request::Metrics(request), &body)
    }

    /// Takes log records from inside this process.
    pub fn logs(&self, request: ExportLogsServiceRequest) -> Result<Accepted> {
        let body = request.encode_to_vec();
        self.encoded(&Request::Logs(request), &body)
    }

    fn encoded(&self, request: &Request, body: &[u8]) -> Result<Accepted> {
        let outcome = self.receiver.check_size(body.len()).and_then(|()| self.receiver.take(request, body));
        self.receiver.count_refused_request(request.export(), outcome)
    }

    /// Turns everything that was received into segments.
    pub fn flush(&self) -> Result<()> {
        self.receiver.flush()
    }

    /// The same, when the oldest record has waited as long as it may.
    pub fn flush_if_due(&self) -> Result<()> {
        let due = {
            let pending = guard(&self.receiver.pending);
            !pending.journal.is_empty() && pending.since.elapsed() >= self.receiver.store.options.flush_age
        };
        if due { self.flush() } else { Ok(()) }
    }

    /// Counts a request that the transport stopped before it came here.
    pub(crate) fn refuse(&self, export: Export, problem: &Problem) {
        guard(&self.receiver.store.counters).request_refused(export, problem);
    }

    /// The largest request, bytes.
    pub fn request_limit(&self) -> usize {
        self.receiver.store.options.request_bytes
    }
}

fn malformed(export: Export, length: usize, error: prost::DecodeError) -> Problem {
    let message = "an OTLP request cannot be decoded";
    Problem::new(ErrorKind::Invalid, "otlp.request_malformed", message)
        .found(format!("{length} bytes: {error}"))
        .expected(format!("the protobuf of one whole export request for {}", export.as_str()))
        .cause(error)
}

/// The problem of a request over the limit.
pub(crate) fn too_large(found: impl Into<String>, limit: usize) -> Problem {
    Problem::new(ErrorKind::Invalid, "otlp.request_too_large", "an OTLP request is larger than the limit")
        .found(found)
        .expected(format!("at most {limit} bytes after decompression"))
        .fix("lower the batch size of the sender (`send_batch_max_size` of the collector's batch processor)")
}

impl Receiver {
    fn check_size(&self, length: usize) -> Result<()> {
        let limit = self.store.options.request_bytes;
        if length <= limit { Ok(()) } else { Err(too_large(format!("{length} bytes"), limit)) }
    }

    fn count_refused_request(&self, export: Export, outcome: Result<Accepted>) -> Result<Accepted> {
        outcome.inspect_err(|problem| guard(&self.store.counters).request_refused(export, problem))
    }

    fn take(&self, request: &Request, body: &[u8]) -> Result<Accepted> {
        let (accepted, large) = {
            let mut pending = guard(&self.pending);
            if pending.journal.is_empty() {
                pending.since = Instant::now();
            }
            pending.journal.append(request.export(), body)?;
            let (accepted, tally) = request.convert(&self.store.options.times, &mut pending.received);
            guard(&self.store.counters).records(request.export(), accepted.accepted, &tally);
            (accepted, pending.received.bytes() > self.store.options.flush_bytes)
        };
        // The sender waits for it: that is what slows down one who is faster than the disk. The request itself is
        // safe in its journal, which is tried again later.
        if large && let Err(problem) = self.flush() {
            tracing::warn!(problem = %problem.chain(), "received records stay in the journal for now");
        }
        Ok(accepted)
    }

    /// The latest timestamp of a namespace among what is in no segment yet.
    pub fn latest(&self, namespace: &str) -> Option<DataTime> {
        let pending = guard(&self.pending);
        let tables = pending.received.0.values();
        let extents = tables.flat_map(|tables| Signal::ALL.map(|signal| segment::extents(tables.get(signal))));
        extents.filter_map(|mut extents| extents.remove(namespace)).map(|extent| extent.last).max()
    }

    pub fn flush(&self) -> Result<()> {
        let _one = guard(&self.flushing);
        let full = {
            let mut pending = guard(&self.pending);
            if pending.journal.is_empty() {
                None
            } else {
                let next = Pending::start(&self.store, pending.journal.sequence)?;
                Some(std::mem::replace(&mut *pending, next))
            }
        };
        if let Some(Pending { journal, received, .. }) = full {
            received.write(&self.store, journal.sequence)?;
            journal::delete(&self.store.journal_folder(), journal.sequence)?;
        }
        // Journals that could not be turned into segments earlier.
        let active = guard(&self.pending).journal.sequence;
        replay_all(&self.store, Some(active)).map(|_| ())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let outcome = self.flush().and_then(|()| {
            let pending = guard(&self.pending);
            journal::delete(&self.store.journal_folder(), pending.journal.sequence)
        });
        if let Err(problem) = outcome {
            tracing::warn!(problem = %problem.chain(), "received records stay in the journal until the store is opened again");
        }
    }
}

fn journal_lock(store: &Inner) -> Result<Option<File>> {
    try_lock(&store.journal_folder().join("lock"))
}

/// Turns journals of a process that is gone into segments; nothing when another process still receives.
pub(crate) fn recover(store: &Inner) -> Result<()> {
    match journal_lock(store)? {
        Some(_lock) => replay_all(store, None).map(|_| ()),
        None => Ok(()),
    }
}

/// Turns every journal but the active one into segments and deletes it. Gives the highest number seen.
fn replay_all(store: &Inner, active: Option<u64>) -> Result<u64> {
    let folder = store.journal_folder();
    let sequences = journal::sequences(&folder)?;
    for &sequence in sequences.iter().filter(|&&sequence| Some(sequence) != active) {
        replay(store, sequence)?;
        journal::delete(&folder, sequence)?;
    }
    Ok(sequences.last().copied().unwrap_or(0))
}

fn replay(store: &Inner, sequence: u64) -> Result<()> {
    let records = Records::load(&store.journal_folder(), sequence)?;
    let mut received = Received::default();
    for (export, body) in records.whole() {
        match Request::decode(export, body) {
            Ok(request) => drop(request.convert(&store.options.times, &mut received)),
            Err(error) => {
                return Err(Problem::internal(
                    "telemetry.journal_corrupt",
                    "a journal holds what was never acknowledged",
                )
                .cause(error));
            }
        }
    }
    received.write(store, sequence)
}
