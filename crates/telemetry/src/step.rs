//! Writing one step of a simulated run.

use std::collections::BTreeMap;

use model::{DataTime, ErrorKind, Problem, Result};

use crate::chunk::ChunkWriter;
use crate::convert::{self, Done, Pass};
use crate::otlp::{ExportLogsServiceRequest, ExportMetricsServiceRequest, ExportTraceServiceRequest};
use crate::status::Counters;
use crate::store::guard;
use crate::{Accepted, Export, Signal, SignalStore, Stream};

/// What a committed step holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepStats {
    pub rows: BTreeMap<Signal, u64>,
    /// Bytes of segments, compressed.
    pub bytes: u64,
}

/// One step of a run, not yet visible. Dropping it without [`StepWriter::commit`] leaves nothing.
///
/// Records go into the step's stream whatever namespace their resource names; that only decides what a read finds.
pub struct StepWriter {
    store: SignalStore,
    stream: Stream,
    from: DataTime,
    to: DataTime,
    chunk: ChunkWriter,
    counters: Counters,
}

impl StepWriter {
    pub(crate) fn begin(store: SignalStore, stream: Stream, from: DataTime, to: DataTime) -> Result<Self> {
        let found = || format!("{from} to {to}");
        if from >= to {
            return Err(Problem::new(ErrorKind::Invalid, "step.window_empty", "a step has no time in it")
                .found(found())
                .expected("an end after the start"));
        }
        let times = store.inner.options.times;
        if !times.contains(from) || to > times.latest {
            return Err(Problem::new(
                ErrorKind::Invalid,
                "step.time_out_of_range",
                "a step is outside the accepted time",
            )
            .found(found())
            .expected(format!("{} to {}", times.earliest, times.latest)));
        }
        let chunk = store.inner.chunk_writer()?;
        Ok(Self { store, stream, from, to, chunk, counters: Counters::default() })
    }

    /// Adds spans. Bad ones are refused and counted, the others kept.
    ///
    /// # Errors
    /// Only those of the disk.
    pub fn traces(&mut self, request: &ExportTraceServiceRequest) -> Result<Accepted> {
        let options = &self.store.inner.options;
        let pass = Pass::new(Export::Traces, options.times, &options.limits);
        let done = convert::traces(pass, request, &mut self.chunk.tables);
        self.count(Export::Traces, done, &[Signal::Traces])
    }

    /// Adds data points, as [`Self::traces`] does spans.
    pub fn metrics(&mut self, request: &ExportMetricsServiceRequest) -> Result<Accepted> {
        let options = &self.store.inner.options;
        let pass = Pass::new(Export::Metrics, options.times, &options.limits);
        let done = convert::metrics(pass, request, &mut self.chunk.tables);
        self.count(Export::Metrics, done, &[Signal::Gauge, Signal::Sum, Signal::Histogram])
    }

    /// Adds log records, as [`Self::traces`] does spans.
    pub fn logs(&mut self, request: &ExportLogsServiceRequest) -> Result<Accepted> {
        let options = &self.store.inner.options;
        let pass = Pass::new(Export::Logs, options.times, &options.limits);
        let done = convert::logs(pass, request, &mut self.chunk.tables);
        self.count(Export::Logs, done, &[Signal::Logs])
    }

    fn count(&mut self, export: Export, done: Done, signals: &[Signal]) -> Result<Accepted> {
        self.counters.records(export, &done.counts);
        self.chunk.spill(signals)?;
        Ok(done.accepted)
    }

    /// Makes the step visible, whole and at once, in the place of any earlier attempt of the same start and of later steps that it
    /// overlaps. It is on disk when this returns.
    ///
    /// # Errors
    /// `step.overlaps_earlier` when a step that began before this one reaches into it, and those of the disk. Nothing changes then.
    pub fn commit(mut self) -> Result<StepStats> {
        let mut stats = StepStats::default();
        for segment in self.chunk.seal(&self.stream)? {
            *stats.rows.entry(segment.signal).or_default() += segment.rows;
            stats.bytes += segment.bytes;
        }
        let inner = &self.store.inner;
        inner.place_step(self.chunk, &self.stream, self.from, self.to)?;
        guard(&inner.counters).merge(&self.counters);
        Ok(stats)
    }
}
