//! The entrance for records from the network: acknowledged when they are in a file, turned into segments by size and age.
//!
//! A request is appended to the active journal and its rows are held in memory. When they are many or old, a thread of its own swaps both for
//! new ones, writes the rows as segments and deletes the journal, while requests go on. Memory is bounded: when the next rows are too many
//! before the last ones are written, requests wait a moment and are then told to come back.

mod kind;
mod received;

use std::fs::File;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::{DataTime, ErrorKind, Problem, Result, WallTime};

use crate::convert::{self, Done, Pass};
use crate::disk::try_lock;
use crate::journal::{self, Journal, Record, Records};
use crate::limits::Cardinality;
use crate::otlp::{ExportLogsServiceRequest, ExportMetricsServiceRequest, ExportTraceServiceRequest, Message};
use crate::receive::overloaded;
use crate::status::Queue;
use crate::store::{Inner, guard};
use crate::table::Tables;
use crate::{Accepted, Export, SignalStore};
pub(crate) use kind::of_another_kind;
use received::Received;

/// How often the writer looks whether something is due.
const TICK: Duration = Duration::from_millis(500);

/// How long a request waits for the writer before it is told to come back.
const PATIENCE: Duration = Duration::from_secs(2);

/// The longest pause between attempts to write what could not be written.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Receives OTLP requests. Clones share it.
#[derive(Clone)]
pub struct Ingest {
    receiver: Arc<Receiver>,
}

/// The state that all clones of an [`Ingest`] share, and the thread that writes segments.
pub(crate) struct Receiver {
    core: Arc<Core>,
    writer: Option<JoinHandle<()>>,
}

struct Core {
    store: Arc<Inner>,
    /// Held for the life of the receiver: one process at a time receives.
    _lock: File,
    state: Mutex<State>,
    /// Told when the writer should look.
    work: Condvar,
    /// Told when the active rows were taken away.
    swapped: Condvar,
    /// Held by the one who turns a journal into segments.
    flushing: Mutex<()>,
}

struct State {
    /// Nothing until the first request, and after one that could not be written.
    active: Option<Pending>,
    /// The memory of rows that were written, for the next ones: fresh pages cost more than their use.
    spare: Tables,
    cardinality: Cardinality,
    /// The highest journal number that was used.
    last: u64,
    /// Bytes of journals that could not be turned into segments yet, and why.
    backlog: u64,
    failure: Option<String>,
    stop: bool,
}

/// Requests that are in a journal and not yet in segments.
struct Pending {
    journal: Journal,
    received: Received,
    since: Instant,
}

impl State {
    fn bytes(&self) -> usize {
        self.active.as_ref().map_or(0, |pending| pending.received.bytes())
    }

    /// Takes what was received away, and says up to which number journals are not being written any more.
    fn swap(&mut self) -> (Option<Pending>, u64) {
        let full = self.active.take_if(|pending| !pending.journal.is_empty());
        (full, if self.active.is_some() { self.last - 1 } else { self.last })
    }

    fn due(&self, store: &Inner) -> bool {
        let old = |pending: &Pending| !pending.journal.is_empty() && pending.since.elapsed() >= store.options.flush_age;
        self.backlog > 0 || self.bytes() > store.options.flush_bytes || self.active.as_ref().is_some_and(old)
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
        let last = replay_all(inner, u64::MAX)?;
        let state = State {
            active: None,
            spare: Tables::default(),
            cardinality: Cardinality::new(inner.options.limits),
            last,
            backlog: 0,
            failure: None,
            stop: false,
        };
        let core = Arc::new(Core {
            store: inner.clone(),
            _lock: lock,
            state: state.into(),
            work: Condvar::new(),
            swapped: Condvar::new(),
            flushing: Mutex::default(),
        });
        let thread = std::thread::Builder::new().name("telemetry-writer".into());
        let writer = thread.spawn({
            let core = core.clone();
            move || core.tend()
        });
        let writer = writer.map_err(|error| {
            Problem::internal("telemetry.no_thread", "the writer of segments cannot start").cause(error)
        })?;
        let receiver = Arc::new(Receiver { core, writer: Some(writer) });
        *shared = Arc::downgrade(&receiver);
        Ok(Self { receiver })
    }

    /// Takes a request as it came over the wire, after decompression. When this returns, its bytes are in a file.
    ///
    /// # Errors
    /// `otlp.request_too_large`, `otlp.request_malformed`, `otlp.overloaded`, and those of the disk. Nothing of the request is kept then.
    pub fn accept(&self, export: Export, body: &[u8]) -> Result<Accepted> {
        let limit = self.request_limit();
        let outcome = if body.len() > limit {
            Err(too_large(format!("{} bytes", body.len()), limit))
        } else {
            self.receiver.core.take(export, body)
        };
        outcome.inspect_err(|problem| self.refuse(export, problem))
    }

    /// Takes spans from inside this process, as [`Self::accept`] does from the wire.
    pub fn traces(&self, request: ExportTraceServiceRequest) -> Result<Accepted> {
        self.accept(Export::Traces, &request.encode_to_vec())
    }

    /// Takes data points from inside this process.
    pub fn metrics(&self, request: ExportMetricsServiceRequest) -> Result<Accepted> {
        self.accept(Export::Metrics, &request.encode_to_vec())
    }

    /// Takes log records from inside this process.
    pub fn logs(&self, request: ExportLogsServiceRequest) -> Result<Accepted> {
        self.accept(Export::Logs, &request.encode_to_vec())
    }

    /// Turns everything that was received into segments.
    pub fn flush(&self) -> Result<()> {
        self.receiver.flush()
    }

    /// Counts a request that was refused as a whole; `None` for one that is for none of the three kinds.
    pub(crate) fn refuse(&self, export: impl Into<Option<Export>>, problem: &Problem) {
        guard(&self.receiver.core.store.counters).request_refused(export.into(), problem);
    }

    /// Memory for the bodies of requests that are worked on, bytes.
    pub(crate) fn body_memory(&self) -> usize {
        self.receiver.core.store.options.body_bytes
    }

    /// The largest request, bytes.
    pub fn request_limit(&self) -> usize {
        self.receiver.core.store.options.request_bytes
    }
}

pub(crate) fn malformed(export: Export, length: usize) -> Problem {
    let message = "an OTLP request cannot be decoded";
    Problem::new(ErrorKind::Invalid, "otlp.request_malformed", message)
        .found(format!("{length} bytes that are cut off or something else"))
        .expected(format!("the protobuf of one whole export request for {}", export.as_str()))
}

/// The problem of a request over the limit.
pub(crate) fn too_large(found: impl Into<String>, limit: usize) -> Problem {
    Problem::new(ErrorKind::Invalid, "otlp.request_too_large", "an OTLP request is larger than the limit")
        .found(found)
        .expected(format!("at most {limit} bytes after decompression"))
        .fix("lower the batch size of the sender (`send_batch_max_size` of the collector's batch processor)")
}

impl Receiver {
    /// The latest timestamp of a namespace among what is in no segment yet.
    pub fn latest(&self, namespace: &str) -> Option<DataTime> {
        // What is being written is in neither place for a moment.
        let _one = guard(&self.core.flushing);
        guard(&self.core.state).active.as_ref().and_then(|pending| pending.received.latest(namespace))
    }

    pub fn flush(&self) -> Result<()> {
        self.core.flush()
    }

    /// Merges small chunks of what was received; gives how many went into larger ones.
    pub fn merge(&self) -> Result<u64> {
        let core = &self.core;
        let _one = guard(&core.flushing);
        // Journals that are there still may be written again.
        let oldest = journal::sequences(&core.store.journal_folder())?.first().copied();
        core.store.merge(oldest.unwrap_or(u64::MAX).saturating_sub(1))
    }

    pub fn queue(&self) -> Queue {
        let state = guard(&self.core.state);
        Queue { waiting_bytes: state.bytes() as u64, backlog_bytes: state.backlog, failure: state.failure.clone() }
    }
}

impl Core {
    fn take(&self, export: Export, body: &[u8]) -> Result<Accepted> {
        let options = &self.store.options;
        let mut state = self.wait_for_room()?;
        let state = &mut *state;
        let arrived = WallTime::now();
        if state.active.is_none() {
            let journal = Pending::journal(&self.store, &mut state.last)?;
            state.active = Some(Pending::start(journal, std::mem::take(&mut state.spare)));
        }
        let pending = state.active.as_mut().expect("started above");
        if pending.journal.is_empty() {
            pending.since = Instant::now();
        }
        state.cardinality.refresh(&guard(&self.store.reserved));
        let times = options.limits.window(options.times, arrived);
        let pass = Pass::new(export, times, &options.limits).counting(&mut state.cardinality);
        let Done { accepted, counts, refused } =
            convert::wire(pass, body, &mut pending.received).map_err(|_| malformed(export, body.len()))?;
        if accepted.accepted == 0 {
            kind::check(export, body, accepted.refused_total())?;
        }
        pending.received.measure(counts.keys());
        if accepted.accepted > 0
            && let Err(problem) = pending.journal.append(&Record { export, arrived, refused, body })
        {
            // The rows of this request are in memory, but not in the file: the file counts.
            let Pending { journal, .. } = state.active.take().expect("was there above");
            match journal.is_empty() {
                true => journal::delete(&self.store.journal_folder(), journal.sequence)?,
                false => state.backlog += journal::length(&self.store.journal_folder(), journal.sequence)?,
            }
            return Err(problem);
        }
        guard(&self.store.counters).records(export, &counts);
        if state.bytes() > options.flush_bytes {
            self.work.notify_one();
        }
        Ok(accepted)
    }

    /// The state, once there is room for another request.
    fn wait_for_room(&self) -> Result<std::sync::MutexGuard<'_, State>> {
        let options = &self.store.options;
        let state = guard(&self.state);
        let full = |state: &State| state.bytes() > options.queue_bytes || state.backlog > options.backlog_bytes;
        if !full(&state) {
            return Ok(state);
        }
        self.work.notify_one();
        let waited = self.swapped.wait_timeout_while(state, PATIENCE, |state| full(state));
        let (state, timeout) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        match (&state.failure, timeout.timed_out()) {
            (_, false) => Ok(state),
            (Some(failure), true) => {
                let problem = Problem::new(
                    ErrorKind::Unavailable,
                    "otlp.store_stuck",
                    "received telemetry cannot be written into segments, and no more is taken",
                );
                Err(problem.found(failure.clone()).fix("correct that; what was accepted is kept"))
            }
            (None, true) => Err(overloaded(format!("{} bytes wait to be written", state.bytes()))),
        }
    }

    /// Turns everything that was received into segments.
    fn flush(&self) -> Result<()> {
        let _one = guard(&self.flushing);
        let (full, until) = guard(&self.state).swap();
        self.swapped.notify_all();
        let folder = self.store.journal_folder();
        let written = match full {
            Some(Pending { journal, received, .. }) => {
                let written = received.write(&self.store, journal.sequence);
                written.and_then(|spare| {
                    guard(&self.state).spare = spare;
                    journal::delete(&folder, journal.sequence)
                })
            }
            None => Ok(()),
        };
        // Journals that could not be turned into segments earlier.
        let written = written.and_then(|()| self.replay_backlog(until));
        let backlog = journals(&self.store, until)?
            .into_iter()
            .try_fold(0, |sum, sequence| Ok::<_, Problem>(sum + journal::length(&folder, sequence)?))?;
        let mut state = guard(&self.state);
        state.backlog = backlog;
        state.failure = written.as_ref().err().map(ToString::to_string);
        drop(state);
        self.swapped.notify_all();
        written
    }

    fn replay_backlog(&self, until: u64) -> Result<()> {
        if guard(&self.state).backlog == 0 { Ok(()) } else { replay_all(&self.store, until).map(drop) }
    }

    /// The life of the writer.
    fn tend(&self) {
        let mut pause = TICK;
        let mut not_before = Instant::now();
        loop {
            {
                let state = guard(&self.state);
                let idle = |state: &mut State| !state.stop && (Instant::now() < not_before || !state.due(&self.store));
                let waited = self.work.wait_timeout_while(state, TICK, idle);
                let (state, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
                if state.stop {
                    return;
                }
                if Instant::now() < not_before || !state.due(&self.store) {
                    continue;
                }
            }
            match self.flush() {
                Ok(()) => pause = TICK,
                Err(problem) => {
                    tracing::warn!(problem = %problem.chain(), "received records stay in the journal for now");
                    not_before = Instant::now() + pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }
}

impl Pending {
    fn start(journal: Journal, spare: Tables) -> Self {
        Self { journal, received: Received::with(spare), since: Instant::now() }
    }

    fn journal(store: &Inner, last: &mut u64) -> Result<Journal> {
        // The clock makes the number one that was never used, also after its chunks have expired.
        let now = u64::try_from(WallTime::now().0).unwrap_or(0);
        let sequence = now.max(*last + 1);
        let journal = Journal::create(&store.journal_folder(), sequence)?;
        *last = sequence;
        Ok(journal)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        guard(&self.core.state).stop = true;
        self.core.work.notify_all();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the writer of segments has panicked");
        }
        let outcome = self.flush().and_then(|()| match guard(&self.core.state).active.take() {
            Some(pending) => journal::delete(&self.core.store.journal_folder(), pending.journal.sequence),
            None => Ok(()),
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
        Some(_lock) => replay_all(store, u64::MAX).map(drop),
        None => Ok(()),
    }
}

/// The numbers of the journals up to one, ascending.
fn journals(store: &Inner, until: u64) -> Result<Vec<u64>> {
    let mut sequences = journal::sequences(&store.journal_folder())?;
    sequences.retain(|&sequence| sequence <= until);
    Ok(sequences)
}

/// Turns the journals up to one into segments and deletes them. Gives the highest number seen.
fn replay_all(store: &Inner, until: u64) -> Result<u64> {
    let sequences = journals(store, until)?;
    for &sequence in &sequences {
        replay(store, sequence)?;
        journal::delete(&store.journal_folder(), sequence)?;
    }
    Ok(sequences.last().copied().unwrap_or(0))
}

/// What was taken when it arrived is taken again, whatever the clock and the names seen say now.
fn replay(store: &Inner, sequence: u64) -> Result<()> {
    let records = Records::load(&store.journal_folder(), sequence)?;
    let options = &store.options;
    let mut received = Received::default();
    for Record { export, refused, body, .. } in records.whole() {
        let pass = Pass::new(export, options.times, &options.limits).again(&refused);
        convert::wire(pass, body, &mut received).map_err(|_| {
            Problem::internal("telemetry.journal_corrupt", "a journal holds what was never acknowledged")
        })?;
    }
    received.write(store, sequence).map(drop)
}
