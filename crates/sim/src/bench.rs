//! A run of the simulator alone, timed by whoever calls it.

use std::time::{Duration, Instant};

use cluster::Environment;
use model::{DataTime, Problem, RunId};
use system::SystemData;
use telemetry::otlp::{ExportLogsServiceRequest, ExportMetricsServiceRequest, ExportTraceServiceRequest, Message};

use crate::engine::SECOND;
use crate::{Plan, Sink, World};

/// What a timed run did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stats {
    pub journeys: u64,
    pub spans: u64,
    pub logs: u64,
    pub points: u64,
    pub events: u64,
    pub virtual_s: f64,
    pub wall_s: f64,
}

impl Stats {
    /// Virtual over wall time.
    pub fn speed(&self) -> f64 {
        self.virtual_s / self.wall_s
    }
}

/// Lets `duration` of virtual time pass from `origin` on at `journeys_per_s`, handing everything to `sink` as a run does.
///
/// # Errors
/// `system.no_simulation_data`, and those of the sink.
pub fn run(
    system: &SystemData,
    journeys_per_s: f64,
    duration: Duration,
    origin: DataTime,
    seed: u64,
    sink: &mut dyn Sink,
) -> Result<Stats, Problem> {
    let code = system.code().as_str();
    let plan = Plan::new(code, &system.registration.app_label_key, system.topology()?)?;
    let run: RunId = format!("00000000-0000-4000-8000-{:012x}", seed & 0xffff_ffff_ffff)
        .parse()
        .expect("the text has the form of a UUID");
    let environment = Environment { run, origin, seed, load: journeys_per_s, noise: 1.0 };
    let started = Instant::now();
    let mut world = World::new(plan.into(), &format!("{code}0"), environment);
    world.run((duration.as_secs_f64() * SECOND as f64) as i64, sink)?;
    let wall_s = started.elapsed().as_secs_f64();
    let counts = world.counts();
    Ok(Stats {
        journeys: world.journeys(),
        spans: counts.spans,
        logs: counts.logs,
        points: counts.points,
        events: world.events_planned(),
        virtual_s: duration.as_secs_f64(),
        wall_s,
    })
}

/// A sink that only counts encoded bytes.
#[derive(Debug, Default)]
pub struct Weigh {
    pub bytes: u64,
}

impl Sink for Weigh {
    fn traces(&mut self, request: &ExportTraceServiceRequest) -> Result<(), Problem> {
        self.bytes += request.encoded_len() as u64;
        Ok(())
    }

    fn metrics(&mut self, request: &ExportMetricsServiceRequest) -> Result<(), Problem> {
        self.bytes += request.encoded_len() as u64;
        Ok(())
    }

    fn logs(&mut self, request: &ExportLogsServiceRequest) -> Result<(), Problem> {
        self.bytes += request.encoded_len() as u64;
        Ok(())
    }
}
