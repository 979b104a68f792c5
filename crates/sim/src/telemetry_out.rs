//! Where a simulated run's telemetry is kept, step by step.

use model::{DataTime, Problem, Result};
use telemetry::otlp::{ExportLogsServiceRequest, ExportMetricsServiceRequest, ExportTraceServiceRequest};
use telemetry::{Accepted, SignalStore, StepWriter, Stream};

use crate::Sink;

/// Takes whole steps: what a step holds becomes visible with its commit, and a repeated step replaces the earlier one.
pub trait Telemetry: Send + Sync {
    /// # Errors
    /// Those of the receiver.
    fn step(&self, stream: &Stream, from: DataTime, to: DataTime) -> Result<Box<dyn StepSink>>;
}

pub trait StepSink: Sink {
    /// # Errors
    /// Those of the receiver.
    fn commit(self: Box<Self>) -> Result<()>;
}

impl Telemetry for SignalStore {
    fn step(&self, stream: &Stream, from: DataTime, to: DataTime) -> Result<Box<dyn StepSink>> {
        Ok(Box::new(SignalStore::step(self, stream, from, to)?))
    }
}

impl Sink for StepWriter {
    fn traces(&mut self, request: &ExportTraceServiceRequest) -> Result<()> {
        all_taken(&StepWriter::traces(self, request)?, telemetry::Export::Traces)
    }

    fn metrics(&mut self, request: &ExportMetricsServiceRequest) -> Result<()> {
        all_taken(&StepWriter::metrics(self, request)?, telemetry::Export::Metrics)
    }

    fn logs(&mut self, request: &ExportLogsServiceRequest) -> Result<()> {
        all_taken(&StepWriter::logs(self, request)?, telemetry::Export::Logs)
    }
}

impl StepSink for StepWriter {
    fn commit(self: Box<Self>) -> Result<()> {
        StepWriter::commit(*self).map(drop)
    }
}

/// The simulator's own records are never bad.
fn all_taken(accepted: &Accepted, export: telemetry::Export) -> Result<()> {
    if accepted.refused_total() == 0 {
        return Ok(());
    }
    Err(Problem::internal("simulation.record_refused", "the store refused a record of the simulator")
        .found(accepted.message(export)))
}

/// Keeps nothing: what is replayed was handed over before.
pub struct Nowhere;

impl Sink for Nowhere {
    fn traces(&mut self, _: &ExportTraceServiceRequest) -> Result<()> {
        Ok(())
    }

    fn metrics(&mut self, _: &ExportMetricsServiceRequest) -> Result<()> {
        Ok(())
    }

    fn logs(&mut self, _: &ExportLogsServiceRequest) -> Result<()> {
        Ok(())
    }
}
