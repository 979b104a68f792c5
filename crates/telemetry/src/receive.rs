//! What the receivers of all transports share: how much may be in memory at once, reading and unpacking a body, and the
//! way from a body to what became of its records.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use flate2::read::MultiGzDecoder;
use model::{ErrorKind, Problem, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};
use tokio_stream::StreamExt;

use crate::ingest::too_large;
use crate::{Accepted, Export, Ingest, json};

/// How long the arrival of one body may take.
const ARRIVAL: Duration = Duration::from_secs(30);

/// How long a request waits for room in memory before it is refused as one too many.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a sender is told to wait before it tries again.
pub(crate) const RETRY: Duration = Duration::from_secs(2);

/// Memory for bodies is counted in units of this size.
const UNIT: usize = 1024;

/// How a body is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Gzip,
}

/// How a request is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Protobuf,
    Json,
}

/// The entrance that all connections share.
#[derive(Clone)]
pub(crate) struct Entrance {
    ingest: Ingest,
    /// Bodies in memory, in units.
    room: Arc<Semaphore>,
}

/// Room in memory that a request holds while it is worked on.
pub(crate) struct Room(Option<OwnedSemaphorePermit>);

impl Room {
    fn add(&mut self, permit: OwnedSemaphorePermit) {
        match &mut self.0 {
            Some(held) => held.merge(permit),
            None => self.0 = Some(permit),
        }
    }
}

impl Entrance {
    pub fn new(ingest: &Ingest) -> Self {
        let units = ingest.body_memory().max(ingest.request_limit() * 2).div_ceil(UNIT);
        Self { ingest: ingest.clone(), room: Arc::new(Semaphore::new(units)) }
    }

    pub fn limit(&self) -> usize {
        self.ingest.request_limit()
    }

    /// Counts a request that is refused before its records were looked at.
    pub fn refuse(&self, export: impl Into<Option<Export>>, problem: Problem) -> Problem {
        self.ingest.refuse(export, &problem);
        problem
    }

    /// Reads a whole body. `length` is what the sender announced.
    ///
    /// # Errors
    /// `otlp.request_too_large`, `otlp.overloaded`, `otlp.request_slow`, `otlp.request_cut_off`.
    pub async fn read(&self, body: Body, length: Option<usize>) -> Result<(Bytes, Room)> {
        let limit = self.limit();
        let mut parts = body.into_data_stream();
        if let Some(length) = length.filter(|&length| length > limit) {
            discard(&mut parts).await;
            return Err(too_large(format!("{length} bytes"), limit));
        }
        let mut room = Room(None);
        if let Some(length) = length {
            room.add(self.wait_for(length).await?);
        }
        let deadline = Instant::now() + ARRIVAL;
        let mut whole = Vec::with_capacity(length.unwrap_or(0));
        let mut held = length.unwrap_or(0);
        loop {
            let part = match timeout_at(deadline, parts.next()).await {
                Ok(Some(Ok(part))) => part,
                Ok(None) => return Ok((whole.into(), room)),
                Ok(Some(Err(error))) => return Err(cut_off(&error)),
                Err(_) => return Err(slow()),
            };
            let total = whole.len() + part.len();
            if total > limit {
                discard(&mut parts).await;
                return Err(too_large(format!("more than {limit} bytes"), limit));
            }
            if total > held {
                room.add(self.wait_for(total - held).await?);
                held = total;
            }
            whole.extend_from_slice(&part);
        }
    }

    async fn wait_for(&self, bytes: usize) -> Result<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).expect("requests are limited far below 4 TiB");
        let permit = self.room.clone().acquire_many_owned(units);
        match timeout_at(Instant::now() + PATIENCE, permit).await {
            Ok(permit) => Ok(permit.expect("the semaphore is never closed")),
            Err(_) => Err(overloaded("too many requests are in memory already")),
        }
    }

    /// Unpacks a body and hands its records over. When this returns, what was accepted is in a file.
    pub async fn take(
        &self,
        export: Export,
        packing: Packing,
        encoding: Encoding,
        (body, mut room): (Bytes, Room),
    ) -> Result<Accepted> {
        let entrance = self.clone();
        blocking(move || {
            let plain;
            let body: &[u8] = match packing {
                Packing::Plain => &body,
                Packing::Gzip => {
                    plain = entrance.unpack(&body, &mut room).map_err(|problem| entrance.refuse(export, problem))?;
                    &plain
                }
            };
            match encoding {
                Encoding::Protobuf => entrance.ingest.accept(export, body),
                Encoding::Json => {
                    let protobuf =
                        json::to_protobuf(export, body).map_err(|problem| entrance.refuse(export, problem))?;
                    entrance.ingest.accept(export, &protobuf)
                }
            }
        })
        .await
    }

    /// Decompresses up to the limit of a request; a body that would grow beyond it is refused before it does.
    fn unpack(&self, packed: &[u8], room: &mut Room) -> Result<Vec<u8>> {
        const STEP: usize = 1 << 18;
        let limit = self.limit();
        let mut reader = MultiGzDecoder::new(packed);
        let mut plain = Vec::new();
        loop {
            let permit = self.room.clone().try_acquire_many_owned((STEP / UNIT) as u32);
            room.add(permit.map_err(|_| overloaded("too many requests are in memory already"))?);
            plain.reserve(STEP);
            let read = reader.by_ref().take(STEP as u64).read_to_end(&mut plain).map_err(not_gzip)?;
            if plain.len() > limit {
                return Err(too_large(format!("more than {limit} bytes in {} bytes of gzip", packed.len()), limit));
            }
            if read < STEP {
                return Ok(plain);
            }
        }
    }
}

/// Reads what is left of a body that is refused, within reason: many senders only look at the answer when they have sent everything.
async fn discard(parts: &mut BodyDataStream) {
    const MOST: usize = 64 << 20;
    let mut rest = MOST;
    let deadline = Instant::now() + PATIENCE;
    while let Ok(Some(Ok(part))) = timeout_at(deadline, parts.next()).await {
        rest = rest.saturating_sub(part.len());
        if rest == 0 {
            return;
        }
    }
}

/// Runs what blocks on a file where that holds up nobody.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Problem::internal("telemetry.task_failed", "a task ended early").cause(error)))
}

/// The problem of a sender that is faster than this store.
pub(crate) fn overloaded(found: impl Into<String>) -> Problem {
    Problem::new(ErrorKind::Busy, "otlp.overloaded", "more telemetry arrives than can be stored")
        .found(found)
        .expected("a sender that waits and tries again")
        .fix("send less at once, sample, or give the server a faster disk")
}

fn slow() -> Problem {
    let seconds = ARRIVAL.as_secs();
    Problem::new(ErrorKind::Timeout, "otlp.request_slow", "an OTLP request did not arrive in time")
        .expected(format!("a whole body within {seconds} s"))
}

fn cut_off(error: &axum::Error) -> Problem {
    Problem::new(ErrorKind::Invalid, "otlp.request_cut_off", "an OTLP request ended before its body did")
        .found(error.to_string())
}

fn not_gzip(error: std::io::Error) -> Problem {
    Problem::new(
        ErrorKind::Invalid,
        "otlp.request_not_gzip",
        "an OTLP request is marked as gzip but cannot be decompressed",
    )
    .found(error.to_string())
    .fix("correct the header of the encoding, or the sender's compression")
    .cause(error)
}
