//! `aegis sim run`: a simulated system as a load generator for a telemetry pipeline.
//!
//! Data time never runs ahead of the wall: at speed 1 both are the same; faster, the data starts as far in the past as
//! it needs for the last record to be of this moment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cluster::Environment;
use fault::{Resolved, Spec};
use model::{DataTime, ErrorKind, Problem, Result, RunId, SystemCode, WallTime, counted};
use serde_json::{Value, json};
use sim::{Plan, Sink, World};
use system::{Catalog, SystemData};
use telemetry::otlp::{ExportLogsServiceRequest, ExportMetricsServiceRequest, ExportTraceServiceRequest};
use telemetry::{OtlpClient, OtlpProtocol, OtlpTarget, SendReport};

/// Stretch of data time that is simulated and sent at once.
const SLICE: Duration = Duration::from_secs(1);
/// Time between two lines about the progress.
const TELL: Duration = Duration::from_secs(10);
/// Longest time that one request may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// When a fault starts and how long it lasts, where nothing is said.
const FAULT_AT: Duration = Duration::from_secs(120);
const FAULT_FOR: Duration = Duration::from_secs(60);
/// Groups of refusals that are shown.
const SHOWN: usize = 10;
/// A week; memory does not grow with the length.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);
const LARGEST_LOAD: f64 = 2000.0;
const LARGEST_SPEED: f64 = 10_000.0;

/// What `aegis sim run` takes.
#[derive(clap::Args)]
#[command(
    after_help = "Data time: at speed 1 it is the time of the wall. At speed S the data starts (1 - 1/S) of its \
    length in the past and has caught up with the wall when the last record is sent; at `max` all of it lies in the past. \
    No record is ever of the future.\n\nThe report on standard output is one JSON object. The exit code is 0 when every \
    record was taken, 5 when some were refused, 10 when the receiver did not answer."
)]
pub struct Args {
    /// Short code of the system.
    system: String,
    /// Folder of systems that adds to the built-in ones.
    #[arg(long, value_name = "DIR")]
    systems: Option<PathBuf>,
    /// Receiver, for example http://127.0.0.1:4318 or grpc://127.0.0.1:4317.
    #[arg(long, value_name = "ENDPOINT")]
    otlp: String,
    /// How to send; by default gRPC for port 4317 and `grpc://`, HTTP for everything else.
    #[arg(long, value_parser = ["grpc", "http"])]
    protocol: Option<String>,
    /// Header of every request; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = header)]
    header: Vec<(String, String)>,
    /// How many times faster than real time, from 0.1, or `max` for as fast as the receiver takes it.
    #[arg(long, default_value = "1")]
    speed: Speed,
    /// Length of the data.
    #[arg(long, value_name = "TIME", default_value = "240s", value_parser = length)]
    duration: Duration,
    /// Journeys per second [default: what the system is normally used with].
    #[arg(long, value_name = "RATE")]
    load: Option<f64>,
    /// Strength of the noise, 0 to 2.
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    noise: f64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Namespace that the records carry; by default the system's first slot.
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Fault to inject; `aegisctl fault list` shows them.
    #[arg(long, value_name = "NAME", requires = "service", conflicts_with = "point")]
    fault: Option<String>,
    /// Service to hit.
    #[arg(long, value_name = "NAME", requires = "fault")]
    service: Option<String>,
    /// Point to hit, in the place of fault, service and target.
    #[arg(long, value_name = "ID")]
    point: Option<String>,
    /// Where on the service; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", requires = "fault", value_parser = pair)]
    target: Vec<(String, String)>,
    /// Strength of the fault; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    param: Vec<(String, String)>,
    /// When the fault starts [default: 120s].
    #[arg(long, value_name = "TIME", value_parser = length)]
    fault_at: Option<Duration>,
    /// How long it lasts [default: 60s].
    #[arg(long, value_name = "TIME", value_parser = length)]
    fault_for: Option<Duration>,
    /// How long to wait for a receiver that takes nothing.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = length)]
    patience: Duration,
    /// No lines about the progress.
    #[arg(short, long)]
    quiet: bool,
}

/// Data time over wall time; `None` is as fast as it goes.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Speed(Option<f64>);

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if text == "max" {
            return Ok(Self(None));
        }
        match text.parse::<f64>() {
            Ok(speed) if (0.1..=LARGEST_SPEED).contains(&speed) => Ok(Self(Some(speed))),
            _ => Err(format!("a number from 0.1 to {LARGEST_SPEED}, or `max`")),
        }
    }
}

/// A length of time, as `90`, `90s`, `4m` or `1h`.
fn length(text: &str) -> std::result::Result<Duration, String> {
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err("a whole number of seconds, or one with the unit s, m or h".into()),
    };
    let seconds = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(factor));
    seconds.filter(|&seconds| seconds > 0 && seconds <= LONGEST.as_secs()).map(Duration::from_secs).ok_or_else(|| {
        format!("a whole number of seconds, or one with the unit s, m or h, from 1 s to {} h", LONGEST.as_secs() / 3600)
    })
}

fn pair(text: &str) -> std::result::Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    pair.map(|(key, value)| (key.to_owned(), value.to_owned())).ok_or_else(|| "not of the form KEY=VALUE".into())
}

/// # Errors
/// What is wrong with the arguments; `otlp.unreachable`, `otlp.busy`; `otlp.records_refused` after the report.
pub fn run(args: &Args) -> Result<()> {
    args.check()?;
    let catalog = match &args.systems {
        Some(folder) => Catalog::with_folder(folder)?,
        None => Catalog::builtin()?,
    };
    let system = catalog.get(&SystemCode::parse(&args.system)?)?;
    let fault = args.fault(&system)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| Problem::internal("daemon.runtime", error.to_string()))?;
    let client = OtlpClient::new(args.target(), runtime.handle())?;
    let interrupted = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&interrupted);
    runtime.spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            told.store(true, Ordering::Relaxed);
        }
    });
    let mut sender = Sender { client };
    let (facts, sent) = args.stream(&system, fault.as_ref(), &mut sender, &interrupted);
    let report = sender.client.report();
    println!("{}", document(&facts, report));
    sent?;
    match report.refused() {
        0 => Ok(()),
        refused => Err(refused_problem(refused, report, &args.otlp)),
    }
}

impl Args {
    fn check(&self) -> Result<()> {
        let wrong = |place: &str, found: String, expected: String| {
            let problem =
                Problem::new(ErrorKind::Invalid, "sim.argument_wrong", "an argument of the simulation is wrong");
            Err(problem.place(place.to_owned()).found(found).expected(expected))
        };
        if let Some(load) = self.load.filter(|load| !(*load > 0.0 && *load <= LARGEST_LOAD)) {
            return wrong("--load", load.to_string(), format!("more than 0, at most {LARGEST_LOAD}"));
        }
        if !(0.0..=2.0).contains(&self.noise) {
            return wrong("--noise", self.noise.to_string(), "0 to 2".into());
        }
        let has_fault = self.fault.is_some() || self.point.is_some();
        let of_a_fault = [
            ("--param", self.param.first().map(|(key, _)| key.clone())),
            ("--fault-at", self.fault_at.map(|at| format!("{} s", at.as_secs()))),
            ("--fault-for", self.fault_for.map(|length| format!("{} s", length.as_secs()))),
        ];
        for (place, found) in of_a_fault {
            if let (false, Some(found)) = (has_fault, found) {
                return wrong(place, found, "a fault, named by `--fault` or `--point`".into());
            }
        }
        let end = self.fault_end();
        if has_fault && end > self.duration {
            let found = format!("the fault ends after {} s of {}", end.as_secs(), self.duration.as_secs());
            return wrong("--fault-at", found, "an end inside `--duration`".into());
        }
        Ok(())
    }

    fn target(&self) -> OtlpTarget {
        OtlpTarget {
            endpoint: self.otlp.clone(),
            protocol: self.protocol.as_deref().map(|name| match name {
                "grpc" => OtlpProtocol::Grpc,
                _ => OtlpProtocol::Http,
            }),
            headers: self.header.clone(),
            timeout: TIMEOUT,
            patience: self.patience,
        }
    }

    fn fault(&self, system: &SystemData) -> Result<Option<Resolved>> {
        let params: BTreeMap<String, Value> = self.param.iter().map(|(key, text)| (key.clone(), value(text))).collect();
        let spec = if let Some(id) = &self.point {
            let point = fault::point(system, id)?;
            Spec { capability: point.capability.to_owned(), service: point.service, target: point.target, params }
        } else if let (Some(capability), Some(service)) = (&self.fault, &self.service) {
            let target = self.target.iter().cloned().collect();
            Spec { capability: capability.clone(), service: service.clone(), target, params }
        } else {
            return Ok(None);
        };
        fault::resolve(&spec, system).map(Some)
    }

    fn fault_start(&self) -> Duration {
        self.fault_at.unwrap_or(FAULT_AT)
    }

    fn fault_end(&self) -> Duration {
        self.fault_start() + self.fault_for.unwrap_or(FAULT_FOR)
    }

    /// The first instant of the data.
    fn origin(&self) -> DataTime {
        let now = WallTime::now().seconds();
        let total = self.duration.as_secs_f64();
        let ahead = self.speed.0.map_or(total, |speed| (total - total / speed).max(0.0));
        #[expect(clippy::cast_possible_truncation, reason = "a length is at most a week")]
        let back = ahead.ceil() as i64;
        DataTime::from_seconds(now - back)
    }

    /// Simulates and sends slice by slice, no faster than the speed says.
    fn stream(
        &self,
        system: &SystemData,
        fault: Option<&Resolved>,
        sender: &mut Sender,
        interrupted: &AtomicBool,
    ) -> (Facts, Result<()>) {
        let started = Instant::now();
        let mut facts = Facts {
            system: self.system.clone(),
            seed: self.seed,
            origin: self.origin(),
            passed: Duration::ZERO,
            wall: Duration::ZERO,
            journeys: 0,
            fault: None,
        };
        let done = self.slices(system, fault, sender, interrupted, started, &mut facts);
        facts.wall = started.elapsed();
        (facts, done)
    }

    fn slices(
        &self,
        system: &SystemData,
        fault: Option<&Resolved>,
        sender: &mut Sender,
        interrupted: &AtomicBool,
        started: Instant,
        facts: &mut Facts,
    ) -> Result<()> {
        let code = system.code().as_str();
        let topology = system.topology()?;
        let load = self.load.unwrap_or(topology.usual_load());
        let plan = Plan::new(code, &system.registration.app_label_key, topology)?;
        let namespace = self.namespace.clone().unwrap_or_else(|| format!("{code}0"));
        let run: RunId = format!("00000000-0000-4000-8000-{:012x}", self.seed & 0xffff_ffff_ffff)
            .parse()
            .expect("the text has the form of a UUID");
        let environment = Environment { run, origin: facts.origin, seed: self.seed, load, noise: self.noise };
        let mut world = World::new(plan.into(), &namespace, environment);
        let mut told = started;
        while facts.passed < self.duration && !interrupted.load(Ordering::Relaxed) {
            let next = self.next_stop(fault.is_some(), facts.passed);
            self.wait(started, next);
            world.run(i64::try_from(next.as_nanos()).expect("a length is at most a week"), sender)?;
            facts.passed = next;
            facts.journeys = world.journeys();
            if let Some(fault) = fault {
                self.turn(fault, &mut world, facts)?;
            }
            if told.elapsed() >= TELL && !self.quiet {
                told = Instant::now();
                let refused = sender.client.report().refused();
                let (of, refused) = (self.duration.as_secs(), counted(refused, "record"));
                eprintln!("{} s of {of} s sent, {refused} refused", facts.passed.as_secs());
            }
        }
        Ok(())
    }

    /// Starts or ends the fault when its time has come.
    fn turn(&self, fault: &Resolved, world: &mut World, facts: &mut Facts) -> Result<()> {
        const NAME: &str = "fault";
        if facts.passed == self.fault_start() {
            let pods = world.start_fault(NAME, fault)?;
            facts.fault = Some(json!({
                "point": fault.point, "capability": fault.capability().name, "service": fault.service(), "pods": pods,
                "start": world.data_time(world.now()).to_string(),
            }));
        }
        if facts.passed == self.fault_end() {
            world.end_fault(NAME)?;
            if let Some(fault) = facts.fault.as_mut() {
                fault["end"] = json!(world.data_time(world.now()).to_string());
            }
        }
        Ok(())
    }

    /// The end of the next slice; the fault's start and end are ends of slices.
    fn next_stop(&self, has_fault: bool, passed: Duration) -> Duration {
        let stops = if has_fault { vec![self.fault_start(), self.fault_end()] } else { Vec::new() };
        let next = stops.into_iter().filter(|stop| *stop > passed).min().unwrap_or(self.duration);
        (passed + SLICE).min(next).min(self.duration)
    }

    /// Until the wall is where the data is to be at `passed`.
    fn wait(&self, started: Instant, passed: Duration) {
        let Some(speed) = self.speed.0 else { return };
        let due = started + Duration::from_secs_f64(passed.as_secs_f64() / speed);
        // Not a wait for something to happen: keeping pace with the clock is what was asked for.
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// A value that reads as a number or a truth value is one.
fn value(text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(scalar @ (Value::Number(_) | Value::Bool(_) | Value::String(_))) => scalar,
        _ => Value::String(text.to_owned()),
    }
}

fn header(text: &str) -> std::result::Result<(String, String), String> {
    pair(text)
}

/// What was simulated.
#[derive(Debug)]
struct Facts {
    system: String,
    seed: u64,
    origin: DataTime,
    passed: Duration,
    wall: Duration,
    journeys: u64,
    fault: Option<Value>,
}

fn document(facts: &Facts, report: &SendReport) -> Value {
    let (passed, wall) = (facts.passed.as_secs_f64(), facts.wall.as_secs_f64());
    let records: BTreeMap<&str, Value> = telemetry::Export::ALL
        .iter()
        .map(|export| {
            // The report lists what was sent; of a kind that it does not list nothing was.
            let delivery = report.records.get(export).copied().unwrap_or_default();
            (export.as_str(), json!({"sent": delivery.sent, "refused": delivery.refused}))
        })
        .collect();
    let (groups, left) = report.reasons.largest(SHOWN);
    let groups: Vec<Value> =
        groups.into_iter().map(|(reason, records)| json!({"reason": reason, "records": records})).collect();
    json!({
        "system": facts.system,
        "seed": facts.seed,
        "origin": facts.origin.to_string(),
        "data_s": passed,
        "wall_s": wall,
        "speed": passed / wall.max(f64::MIN_POSITIVE),
        "journeys": facts.journeys,
        "fault": facts.fault,
        "records": records,
        "requests": report.requests,
        "bytes": report.bytes,
        "retried": report.retried,
        "waited_s": report.waited.as_secs_f64(),
        "refusals": {"records": report.reasons.total(), "groups": groups, "groups_not_shown": left},
    })
}

fn refused_problem(refused: u64, report: &SendReport, place: &str) -> Problem {
    let (groups, left) = report.reasons.largest(SHOWN);
    let mut reasons: Vec<String> = groups.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    if left > 0 {
        reasons.push(format!("and {}", counted(left, "more reason")));
    }
    Problem::new(ErrorKind::Failed, "otlp.records_refused", "the receiver refused a part of the telemetry")
        .place(place)
        .found(format!("{} refused ({})", counted(refused, "record"), reasons.join("; ")))
        .expected("every record taken")
}

/// Hands the simulator's requests to the receiver.
struct Sender {
    client: OtlpClient,
}

impl Sink for Sender {
    fn traces(&mut self, request: &ExportTraceServiceRequest) -> Result<()> {
        self.client.traces(request)
    }

    fn metrics(&mut self, request: &ExportMetricsServiceRequest) -> Result<()> {
        self.client.metrics(request)
    }

    fn logs(&mut self, request: &ExportLogsServiceRequest) -> Result<()> {
        self.client.logs(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_and_lengths_are_read_and_bounded() {
        assert_eq!("max".parse::<Speed>(), Ok(Speed(None)));
        assert_eq!("2.5".parse::<Speed>(), Ok(Speed(Some(2.5))));
        for wrong in ["0", "-1", "nan", "inf", "fast", "99999"] {
            assert!(wrong.parse::<Speed>().is_err(), "{wrong}");
        }
        assert_eq!(length("4m"), Ok(Duration::from_secs(240)));
        assert_eq!(length("90"), Ok(Duration::from_secs(90)));
        for wrong in ["", "0", "-5s", "1.5s", "4w", "9999999h", "99999999999999999999"] {
            assert!(length(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_data_ends_now_and_never_later() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        let back = |speed: &str| {
            let line = ["x", "ts", "--otlp", "http://h:1", "--duration", "100s", "--speed", speed];
            let line = <Line as clap::Parser>::try_parse_from(line).unwrap_or_else(|error| panic!("{error}"));
            WallTime::now().seconds() - line.args.origin().seconds()
        };
        assert!((0..=1).contains(&back("1")));
        assert!((0..=1).contains(&back("0.5")), "slower than the wall, the data falls behind it");
        assert!((90..=91).contains(&back("10")));
        assert!((100..=101).contains(&back("max")));
    }
}
