//! What must hold before a run is stored.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ::fault::{Resolved, Spec};
use ::system::SystemData;
use api::spec::{AlgorithmChoice, Release};
use api::submit::{FaultRequest, RunRequest, WindowsRequest};
use model::{DataTime, ErrorKind, Problem, Result, SystemCode, WallTime, Windows};
use serde_json::{Map, Value};
use telemetry::TimeBounds;

use crate::app::App;
use crate::app::algorithm::too_short;

/// Most runs of one submission.
const MOST_RUNS: u32 = 100;
const LARGEST_LOAD: f64 = 2000.0;
const LARGEST_NOISE: f64 = 2.0;
/// Longer in data time than any run: warm-up, two windows of an hour, recovery.
const LONGEST_RUN_S: i64 = 86_400;

/// A submission that passed.
pub struct Checked {
    pub system: SystemCode,
    pub data: Arc<SystemData>,
    pub faults: Vec<Resolved>,
    pub windows: Windows,
    pub origin: DataTime,
    pub load: f64,
    pub noise: f64,
    pub algorithms: Vec<AlgorithmChoice>,
    pub slots: Vec<u32>,
    pub release: Release,
    /// What deserves a second look, in words.
    pub notes: Vec<String>,
}

impl App {
    pub(super) async fn check(&self, request: &RunRequest) -> Result<Checked> {
        check_shape(request)?;
        let stored = self.system_that_runs(&request.system).await?;
        let data = self.catalog().get(&stored.code)?;
        let faults = self.resolve(request, &data)?;
        self.require_no_kill_switch(request).await?;
        let origin = origin(request.origin.unwrap_or_else(|| WallTime::now().seconds()))?;
        let windows = windows(origin, request.windows)?;
        let usual = data.topology()?.usual_load();
        let load = within("load", request.load.unwrap_or(usual), 0.0, LARGEST_LOAD)?;
        let noise = within("noise", request.noise.unwrap_or(1.0), -f64::MIN_POSITIVE, LARGEST_NOISE)?;
        let named = self.choose_algorithms(&request.algorithms).await?;
        let mut notes = notes(request, &named, &windows, data.registration.profile.metric_interval_s)?;
        if request.load.is_none() {
            notes.push(format!("load {load} journeys/s, with which {} is normally used", stored.code));
        }
        notes.extend(overloads(&data, load)?);
        let slots = slots(request.slot, self.slot_count(&stored).await?, &stored.code)?;
        let release = self.release(&stored, &slots).await?;
        Ok(Checked {
            system: stored.code,
            data,
            faults,
            windows,
            origin,
            load,
            noise,
            algorithms: self.with_baselines(named),
            slots,
            release,
            notes,
        })
    }

    /// Puts service, capability and target in the place of each point's id.
    ///
    /// # Errors
    /// Those of finding a point; `point.repeated_in_words`, `point.of_another_system`, `submit.system_missing`.
    pub(super) fn name_the_points(&self, mut request: RunRequest) -> Result<RunRequest> {
        for (index, fault) in request.faults.iter_mut().enumerate() {
            let Some(id) = fault.point.take() else { continue };
            let within = |problem: Problem| problem.place(format!("faults[{index}].point"));
            if !(fault.service.is_empty() && fault.capability.is_empty() && fault.target.is_empty()) {
                let problem = Problem::new(
                    ErrorKind::Invalid,
                    "point.repeated_in_words",
                    "a point says service, capability and target already",
                );
                return Err(within(problem.expected("either the point's id, or service, capability and target")));
            }
            let point = self.find_point(&id).map_err(within)?;
            if request.system.is_empty() {
                request.system = point.system.to_string();
            }
            if request.system != point.system.as_str() {
                let problem =
                    Problem::new(ErrorKind::Invalid, "point.of_another_system", "the point is one of another system");
                let found = format!("`{id}` on system `{}`", request.system);
                return Err(within(problem.found(found).expected(format!("a point of `{}`", request.system))));
            }
            fault.service = point.service;
            fault.capability = point.capability.to_owned();
            fault.target = point.target.into_iter().map(|(key, value)| (key, Value::from(value))).collect();
        }
        if request.system.is_empty() {
            return Err(Problem::new(ErrorKind::Invalid, "submit.system_missing", "the run names no system")
                .place("system")
                .expected("a system's short code, or a fault with the id of a point"));
        }
        Ok(request)
    }

    /// A fault would be refused by the worker while the kill switch is on.
    async fn require_no_kill_switch(&self, request: &RunRequest) -> Result<()> {
        let switch = self.store().kill_switch().await?;
        if request.faults.is_empty() || !switch.engaged {
            return Ok(());
        }
        Err(Problem::new(ErrorKind::Conflict, "fault.kill_switch", "the kill switch is on: no fault is injected")
            .place("faults")
            .found(format!("on since {} by {}: {}", switch.changed_at, switch.changed_by, switch.reason))
            .fix("turn it off with `aegisctl kill-switch off` when its reason is gone, or submit with `--no-fault`"))
    }

    /// Every fault against the table, the system's data, the cluster, and the others.
    fn resolve(&self, request: &RunRequest, data: &SystemData) -> Result<Vec<Resolved>> {
        let mut faults = Vec::new();
        for (index, fault) in request.faults.iter().enumerate() {
            let within = |problem: Problem| {
                let place = match &problem.place {
                    Some(inner) => format!("faults[{index}].{inner}"),
                    None => format!("faults[{index}]"),
                };
                problem.place(place)
            };
            let spec = spec_of(fault).map_err(within)?;
            // Nobody should complete a request that is refused in the end.
            let carried = self.cluster().can_inject(data.code(), &fault.capability);
            carried.map_err(|error| within(error.problem))?;
            faults.push(::fault::resolve(&spec, data).map_err(within)?);
        }
        ::fault::check_batch(&faults)?;
        Ok(faults)
    }

    async fn choose_algorithms(&self, names: &[String]) -> Result<Vec<AlgorithmChoice>> {
        let mut chosen: Vec<AlgorithmChoice> = Vec::new();
        for name in names {
            let choice = self.choose_algorithm(name).await?;
            if chosen.iter().any(|known| known.name == choice.name) {
                return Err(Problem::new(ErrorKind::Invalid, "algorithm.repeated", "an algorithm is asked for twice")
                    .place("algorithms")
                    .found(format!("`{name}`")));
            }
            chosen.push(choice);
        }
        Ok(chosen)
    }
}

/// What is wrong with the request whatever the installation holds.
fn check_shape(request: &RunRequest) -> Result<()> {
    let wrong = |code, message: &str, place: &str| Err(Problem::new(ErrorKind::Invalid, code, message).place(place));
    match (request.no_fault, request.faults.is_empty()) {
        (false, true) => {
            let problem = Problem::new(ErrorKind::Invalid, "submit.no_fault_named", "the run has no fault");
            return Err(problem
                .place("faults")
                .fix("name a service and a capability, or ask for a control with `--no-fault`"));
        }
        (true, false) => return wrong("submit.fault_in_control", "a run without a fault names one", "faults"),
        _ => {}
    }
    if request.no_fault && request.paired_control {
        return wrong("submit.control_of_control", "a run without a fault needs no paired control", "paired_control");
    }
    if request.always_rank && request.algorithms.is_empty() {
        return wrong("submit.no_effect", "there is no algorithm that could rank", "always_rank");
    }
    if !(1..=MOST_RUNS).contains(&request.repeat) {
        return Err(Problem::new(
            ErrorKind::Invalid,
            "submit.repeat_out_of_range",
            "the number of runs is not allowed",
        )
        .place("repeat")
        .found(request.repeat.to_string())
        .expected(format!("1 to {MOST_RUNS}")));
    }
    Ok(())
}

/// Keys of the target may stand among the parameters, as on a command line; values of a target are text.
fn spec_of(fault: &FaultRequest) -> Result<Spec> {
    let row = ::fault::capability(&fault.capability)?;
    let is_target =
        |key: &str| row.target.fields().iter().any(|field| field.name == key || field.public_name == Some(key));
    let (inside, params): (Map<String, Value>, Map<String, Value>) =
        fault.params.clone().into_iter().partition(|(key, _)| is_target(key));
    let mut target = BTreeMap::new();
    for (key, value) in fault.target.iter().chain(&inside) {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            other => {
                return Err(Problem::new(ErrorKind::Invalid, "target.wrong_type", "a part of the target is not text")
                    .place(format!("target.{key}"))
                    .found(other.to_string())
                    .expected("text"));
            }
        };
        if target.insert(key.clone(), text).is_some() {
            return Err(Problem::new(ErrorKind::Invalid, "target.repeated", "a part of the target is given twice")
                .place(format!("target.{key}")));
        }
    }
    let params = params.into_iter().collect();
    Ok(Spec { capability: fault.capability.clone(), service: fault.service.clone(), target, params })
}

/// Where data time starts. The whole run must lie in the time that the signal store accepts.
fn origin(seconds: i64) -> Result<DataTime> {
    let accepted = TimeBounds::default();
    let (first, last) = (accepted.earliest.seconds(), accepted.latest.seconds() - LONGEST_RUN_S);
    if (first..=last).contains(&seconds) {
        return Ok(DataTime::from_seconds(seconds));
    }
    let text = |seconds| format!("{seconds} ({})", model::rfc3339(seconds, 0));
    Err(Problem::new(ErrorKind::Invalid, "origin.out_of_range", "data time cannot start there")
        .place("origin")
        .found(seconds.to_string())
        .expected(format!("seconds since 1970, from {} to {}", text(first), text(last))))
}

fn windows(origin: DataTime, asked: WindowsRequest) -> Result<Windows> {
    let length = |seconds: Option<i64>, place: &str| {
        let seconds = seconds.unwrap_or(WindowsRequest::DEFAULT_SECONDS);
        u64::try_from(seconds).map(Duration::from_secs).map_err(|_| {
            Problem::new(ErrorKind::Invalid, "window.out_of_range", "a window's length is not allowed")
                .place(place)
                .found(format!("{seconds} s"))
                .expected("a whole number of seconds from 5 to 3600")
                .fix("set `--normal` and `--abnormal`, for example `--normal 60s --abnormal 60s`")
        })
    };
    let normal = length(asked.normal_seconds, "windows.normal")?;
    let abnormal = length(asked.abnormal_seconds, "windows.abnormal")?;
    Windows::new(origin, normal, abnormal)
}

/// Above `low`, at most `high`.
fn within(place: &str, value: f64, low: f64, high: f64) -> Result<f64> {
    if value > low && value <= high {
        return Ok(value);
    }
    Err(Problem::new(ErrorKind::Invalid, "submit.out_of_range", "a number is out of range")
        .place(place)
        .found(value.to_string())
        .expected(if low < 0.0 { format!("0 to {high}") } else { format!("more than {low}, at most {high}") }))
}

fn slots(asked: Option<u32>, count: u32, system: &SystemCode) -> Result<Vec<u32>> {
    match asked {
        None if count > 0 => Ok((0..count).collect()),
        Some(slot) if slot < count => Ok(vec![slot]),
        _ => Err(Problem::new(ErrorKind::Invalid, "slot.out_of_range", "the system has no such slot")
            .place("slot")
            .found(asked.map_or_else(|| "an empty pool".to_owned(), |slot| slot.to_string()))
            .expected(format!("one of {count} slots, counted from 0"))
            .fix(format!("raise `injection.system.{system}.count`, or name no slot"))),
    }
}

/// A load that a service can never serve is told: its queues grow as long as the run lasts, with and without a fault.
fn overloads(data: &SystemData, load: f64) -> Result<Vec<String>> {
    let note = |overload: ::system::Overload| {
        format!(
            "at {load} journeys/s the requests to {} need at least {:.1} cores, and it has {:.1}: it is overloaded",
            overload.service, overload.needed, overload.cores
        )
    };
    Ok(data.topology()?.overloaded(load).into_iter().map(note).collect())
}

/// Windows that are too short are told, and refused where the caller is strict.
fn notes(
    request: &RunRequest,
    algorithms: &[AlgorithmChoice],
    windows: &Windows,
    metric_interval_s: u64,
) -> Result<Vec<String>> {
    let short = too_short(algorithms, windows, metric_interval_s);
    let mut notes: Vec<String> = short.iter().map(ToString::to_string).collect();
    if let Some(problem) = short.into_iter().next().filter(|_| request.strict) {
        return Err(Problem { kind: ErrorKind::Invalid, ..problem });
    }
    if request.algorithms.is_empty() {
        notes.push("no algorithm is asked for: the run ends with the detector's verdict".into());
    }
    Ok(notes)
}
