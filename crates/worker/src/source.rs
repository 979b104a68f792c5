//! A datapack's source of telemetry: the embedded store, one run's stream, one window at a time.

use datapack::{Batches, Source};
use model::{Result, RunId, Slot, Window, Windows};
use telemetry::{Query, Signal, SignalStore};

pub struct TelemetrySource {
    signals: SignalStore,
    namespace: String,
    run: RunId,
    windows: Windows,
}

impl TelemetrySource {
    pub fn new(signals: &SignalStore, slot: &Slot, run: RunId, windows: Windows) -> Self {
        Self { signals: signals.clone(), namespace: slot.namespace(), run, windows }
    }
}

impl Source for TelemetrySource {
    fn batches(&self, window: Window, signal: datapack::Signal) -> Result<Batches<'_>> {
        let signal = match signal {
            datapack::Signal::Traces => Signal::Traces,
            datapack::Signal::Logs => Signal::Logs,
            datapack::Signal::Metrics => Signal::Gauge,
            datapack::Signal::MetricsSum => Signal::Sum,
            datapack::Signal::MetricsHistogram => Signal::Histogram,
            // Derived by the builder from the traces that it exports.
            datapack::Signal::TraceIdTs => return Ok(Box::new(std::iter::empty())),
        };
        let (from, to) = self.windows.bounds(window);
        let query = Query { signal, namespace: self.namespace.clone(), run: Some(self.run), from, to };
        Ok(Box::new(self.signals.scan(&query)?.map(Ok)))
    }

    fn why_empty(&self, window: Window, _signal: datapack::Signal) -> Result<Option<String>> {
        let (from, _) = self.windows.bounds(window);
        Ok(match self.signals.freshness(&self.namespace, Some(self.run))? {
            None => Some(format!("no record of namespace `{}` has arrived at all", self.namespace)),
            Some(newest) if newest < from => {
                Some(format!("the newest record is of {newest}, before this window starts at {from}"))
            }
            Some(_) => None,
        })
    }
}
