//! Sample datapacks, about one a second: the simulated world, the telemetry store and the builder, without a daemon around them.
//!
//! For tests and measurements that need many packs of many faults. A pack of a campaign is made by the daemon.
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::Environment;
use datapack::{Builder, PackInput, Profile};
use fault::{Capability, Filter, Point, Resolved, Spec, capabilities, points, resolve};
use model::{DataTime, InjectionId, Problem, Result, RunId, Slot, Truth, Windows};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Map, Value, json};
use sim::{Plan, Sink, World};
use system::SystemData;
use telemetry::otlp::{ExportLogsServiceRequest, ExportMetricsServiceRequest, ExportTraceServiceRequest};
use telemetry::{SignalStore, StepWriter, Stream};
use worker::source::TelemetrySource;

const SECOND: i64 = 1_000_000_000;
const ORIGIN: i64 = 1_790_000_000;
const WARM_UP_S: i64 = 60;

/// What to make.
pub struct Order<'a> {
    pub system: &'a SystemData,
    /// `None` for a control.
    pub fault: Option<Resolved>,
    pub seed: u64,
    /// Journeys a second.
    pub load: f64,
    /// Seconds of each of the two windows.
    pub window_s: u64,
    /// Makes the name.
    pub number: i32,
}

/// What was made.
pub struct Made {
    pub folder: PathBuf,
    /// Whether the fault touched anything; a pack that it did not touch is not scored. Of a control: never.
    pub exposed: bool,
}

/// A run whose telemetry is in a store: everything that a pack is built from.
pub struct Recorded {
    source: TelemetrySource,
    input: PackInput,
    /// Whether the fault touched anything.
    pub exposed: bool,
}

impl Recorded {
    /// Builds and publishes the pack in `packs`; gives its folder.
    ///
    /// # Errors
    /// Those of the builder.
    pub fn build(&self, packs: &Path) -> Result<PathBuf> {
        let built = Builder::new(packs, self.input.clone())?.build(&self.source).map_err(|refusal| refusal.problem)?;
        Ok(packs.join(built.publish()?.name()))
    }

    pub fn windows(&self) -> Windows {
        self.input.windows
    }
}

impl Order<'_> {
    /// Builds the pack in `packs`; `scratch` holds the telemetry meanwhile.
    ///
    /// # Errors
    /// Those of the simulator, the store and the builder.
    pub fn make(&self, packs: &Path, scratch: &Path) -> Result<Made> {
        let recorded = self.record(scratch)?;
        Ok(Made { folder: recorded.build(packs)?, exposed: recorded.exposed })
    }

    /// Simulates the run; its telemetry goes into a store in `scratch`.
    ///
    /// # Errors
    /// Those of the simulator and the store.
    pub fn record(&self, scratch: &Path) -> Result<Recorded> {
        let slot = Slot::new(self.system.code().clone(), 0);
        let run: RunId = format!("00000000-0000-4000-8000-{:012x}", self.seed & 0xffff_ffff_ffff)
            .parse()
            .map_err(|error| Problem::internal("quick.run", format!("{error:?}")))?;
        let origin = DataTime::from_seconds(ORIGIN);
        let label = &self.system.registration.app_label_key;
        let plan = Plan::new(slot.system.as_str(), label, self.system.topology()?)?;
        let environment = Environment { run, origin, seed: self.seed, load: self.load, noise: 1.0 };
        let mut world = World::new(plan.into(), &slot.namespace(), environment);

        let store = SignalStore::open(scratch)?;
        let stream = Stream { namespace: slot.namespace(), run: Some(run) };
        let window = self.window_s as i64;
        let (onset, end) = (WARM_UP_S + window, WARM_UP_S + 2 * window);
        let at = |second: i64| DataTime::from_seconds(ORIGIN + second);
        let mut step = Step(store.step(&stream, at(0), at(end))?);
        world.run(onset * SECOND, &mut step)?;
        let entries = match &self.fault {
            Some(fault) => fault::truth(fault, self.system, &world.start_fault("fault", fault)?)?,
            None => Vec::new(),
        };
        world.run(end * SECOND, &mut step)?;
        step.0.commit()?;
        let exposed = self.fault.is_some() && world.witness("fault")?.exposed;

        let seconds = Duration::from_secs(self.window_s);
        let windows = Windows::new(at(WARM_UP_S), seconds, seconds)?;
        let source = TelemetrySource::new(&store, &slot, run, windows);
        let input = self.input(slot, windows, Truth { entries }, object(world.snapshot()), exposed)?;
        Ok(Recorded { source, input, exposed })
    }

    fn input(
        &self,
        slot: Slot,
        windows: Windows,
        truth: Truth,
        k8s: Map<String, Value>,
        exposed: bool,
    ) -> Result<PackInput> {
        let resolved = self.fault.iter().map(serde_json::to_value).collect::<std::result::Result<Vec<_>, _>>();
        let faults =
            resolved.map_err(|error| Problem::internal("quick.fault", "the fault cannot be written").cause(error))?;
        let fault_type = self.fault.as_ref().map_or("none", |fault| fault.effect.name());
        Ok(PackInput {
            slot,
            number: InjectionId(self.number),
            windows,
            // A pack with a silent signal is still a pack to rank.
            profile: Profile { required: BTreeSet::new() },
            k8s,
            injection: object(json!({ "id": self.number, "fault_type": fault_type })),
            truth,
            faults,
            witness: json!({ "exposed": exposed }),
            receipt: json!({}),
            provenance: Map::new(),
            forbidden: Vec::new(),
        })
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

/// A random point of the system for each of these capabilities, over and over, as long as something is asked for.
///
/// `parameters` gives what a capability is set to; one that it does not know is left out.
pub struct Faults<'a> {
    system: &'a SystemData,
    rows: Vec<(&'static Capability, Vec<Point>, BTreeMap<String, Value>)>,
    random: StdRng,
}

impl<'a> Faults<'a> {
    /// # Errors
    /// `system.no_simulation_data`.
    pub fn new(
        system: &'a SystemData,
        seed: u64,
        parameters: impl Fn(&str) -> Option<BTreeMap<String, Value>>,
    ) -> Result<Self> {
        let mut rows = Vec::new();
        for row in capabilities() {
            let filter = Filter { capability: Some(row.name), on_path: true, ..Filter::default() };
            let found = points(system, &filter)?;
            if let Some(parameters) = parameters(row.name).filter(|_| !found.is_empty()) {
                rows.push((row, found, parameters));
            }
        }
        Ok(Self { system, rows, random: StdRng::seed_from_u64(seed) })
    }

    /// A capability by its place, and a point of it at random; the seed of its run.
    ///
    /// # Errors
    /// Those of [`fault::resolve`].
    pub fn draw(&mut self, place: usize) -> Result<(Resolved, u64)> {
        let (row, points, parameters) = &self.rows[place % self.rows.len()];
        // Evenly over services first: some have a hundred methods.
        let mut services: Vec<&str> = points.iter().map(|point| point.service.as_str()).collect();
        services.dedup();
        services.sort_unstable();
        services.dedup();
        let service = *services.choose(&mut self.random).expect("a row has points");
        let of_service: Vec<&Point> = points.iter().filter(|point| point.service == service).collect();
        let point = of_service.choose(&mut self.random).expect("the service has a point");
        let target = point.target.iter().filter(|(key, _)| *key != "service");
        let spec = Spec {
            capability: row.name.to_owned(),
            service: point.service.clone(),
            target: target.map(|(key, value)| (key.clone(), value.clone())).collect(),
            params: parameters.clone(),
        };
        Ok((resolve(&spec, self.system)?, self.random.random_range(1..1 << 40)))
    }
}

/// What each capability is set to in a list like `docs/exposed-points.md`: its first row.
pub fn parameters(list: &str) -> BTreeMap<String, BTreeMap<String, Value>> {
    let mut all = BTreeMap::new();
    for line in list.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [capability, _, _, _, parameters, ..] = cells.as_slice() else { continue };
        let pairs = parameters.split(' ').filter_map(|pair| pair.split_once('='));
        let value = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
        all.entry((*capability).to_owned())
            .or_insert_with(|| pairs.map(|(key, text)| (key.to_owned(), value(text))).collect());
    }
    all
}

/// The simulator's telemetry into the store.
struct Step(StepWriter);

impl Sink for Step {
    fn traces(&mut self, request: &ExportTraceServiceRequest) -> Result<()> {
        self.0.traces(request).map(drop)
    }

    fn metrics(&mut self, request: &ExportMetricsServiceRequest) -> Result<()> {
        self.0.metrics(request).map(drop)
    }

    fn logs(&mut self, request: &ExportLogsServiceRequest) -> Result<()> {
        self.0.logs(request).map(drop)
    }
}
