//! Submitting runs: everything is checked, then everything is stored in one transaction, or nothing is.

mod check;
mod inject;

pub use inject::other_project;

use api::spec::{Environment, FORMAT, Fault, RunSpec, WindowLengths};
use api::submit::{RunRequest, SubmitReply, SubmittedRun};
use model::{ErrorKind, GroupId, Problem, Result, RunId, TaskKind, Truth, TruthEntry};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use store::{IdempotencyKey, NewInjection, NewRun, NewTask, Submission};
use uuid::Uuid;

use self::check::Checked;
use super::App;
use super::algorithm::{BUILTIN, DETECTOR};

/// Seeds that are drawn stay exact in every JSON reader.
const LARGEST_DRAWN_SEED: u64 = 1 << 53;
/// Longest idempotency key.
const LONGEST_KEY: usize = 180;
/// `fault_type` of the stored row for several capabilities, and for none.
const HYBRID: i32 = -1;
const CONTROL: i32 = -2;

impl App {
    /// # Errors
    /// Every way in which a submission can be wrong; nothing is stored then.
    pub async fn submit(&self, request: RunRequest, key: Option<&str>) -> Result<SubmitReply> {
        let key = key.map(|key| idempotency_key("submit", key, &request)).transpose()?;
        // A repetition gets the first one's answer, whatever has changed meanwhile.
        if let Some(key) = &key
            && !request.dry_run
            && let Some(earlier) = self.store().submitted(key).await?
        {
            return Ok(repeated(&request, &earlier));
        }
        let request = self.name_the_points(request)?;
        let (runs, notes) = self.prepare(&request, None).await?;
        let mut reply = SubmitReply {
            group_id: GroupId::random(),
            items: runs.iter().zip(0..).map(|(run, index)| planned(index, run)).collect(),
            original_count: i32::try_from(request.repeat).unwrap_or(i32::MAX),
            deduplicated: false,
            dry_run: request.dry_run,
            notes,
        };
        if request.dry_run {
            return Ok(reply);
        }
        let project = self.store().project(store::DEFAULT_PROJECT).await?.id;
        let submission = Submission { group: reply.group_id, project, runs, key };
        let submitted = self.store().submit(&submission).await?;
        if submitted.deduplicated {
            return Ok(repeated(&request, &submitted));
        }
        reply.items = submitted.runs.iter().zip(0..).map(|(run, index)| stored(index, run)).collect();
        Ok(reply)
    }

    /// The runs of a request that passed every check, and what deserves a second look. `version` is the pedestal's that the
    /// caller means, where it names one.
    async fn prepare(&self, request: &RunRequest, version: Option<&str>) -> Result<(Vec<NewRun>, Vec<String>)> {
        let checked = self.check(request).await?;
        let installed = &checked.release.version;
        if let Some(version) = version.filter(|version| !version.is_empty() && version != installed) {
            return Err(Problem::new(
                ErrorKind::Invalid,
                "pedestal.version_not_installed",
                "runs install another version",
            )
            .place("pedestal.version")
            .found(format!("`{version}`"))
            .expected(format!("`{installed}`, the newest that is enabled")));
        }
        let runs = self.new_runs(request, &checked)?;
        Ok((runs, checked.notes))
    }

    /// One run for each seed, and its control when one is asked for.
    fn new_runs(&self, request: &RunRequest, checked: &Checked) -> Result<Vec<NewRun>> {
        let first = request.seed.unwrap_or_else(|| Uuid::new_v4().as_u64_pair().1 % LARGEST_DRAWN_SEED);
        let mut runs = Vec::new();
        for number in 0..u64::from(request.repeat) {
            let seed = first.wrapping_add(number);
            let run = self.new_run(request, checked, seed, None)?;
            let id = run.id;
            runs.push(run);
            if request.paired_control {
                runs.push(self.new_run(request, checked, seed, Some(id))?);
            }
        }
        Ok(runs)
    }

    fn new_run(&self, request: &RunRequest, checked: &Checked, seed: u64, control_of: Option<RunId>) -> Result<NewRun> {
        let id = RunId::random();
        let faults = if control_of.is_some() { &[][..] } else { &checked.faults };
        let spec = RunSpec {
            format: FORMAT,
            system: checked.system.clone(),
            slots: checked.slots.clone(),
            release: checked.release.clone(),
            faults: faults
                .iter()
                .map(|fault| Fault {
                    capability: fault.capability().name.to_owned(),
                    service: fault.service().to_owned(),
                    resolved: fault.to_value(),
                })
                .collect(),
            windows: WindowLengths {
                warmup_seconds: checked.data.registration.warmup_s,
                normal_seconds: seconds(checked.windows.normal_length()),
                abnormal_seconds: seconds(checked.windows.abnormal_length()),
            },
            environment: Environment { origin: checked.origin, seed, load: checked.load, noise: checked.noise },
            detector: self.choice(DETECTOR, BUILTIN),
            algorithms: checked.algorithms.clone(),
            always_rank: request.always_rank,
            strict: request.strict,
            control_of,
            profile: serde_json::to_value(&checked.data.registration).map_err(|error| {
                Problem::internal("submit.profile", "the system's profile cannot be stored").cause(error)
            })?,
        };
        Ok(NewRun {
            id,
            system: checked.system.clone(),
            injection: injection(&spec, checked, faults)?,
            spec: spec.to_json(),
            seed,
            control_of,
            origin_kind: self.cluster().info().kind,
            first: NewTask::new(TaskKind::RestartPedestal),
        })
    }
}

fn injection(spec: &RunSpec, checked: &Checked, faults: &[::fault::Resolved]) -> Result<NewInjection> {
    let mut truth = Truth::default();
    for (number, fault) in (0..).zip(faults) {
        let entries = ::fault::truth(fault, &checked.data, &[])?;
        truth.entries.extend(entries.into_iter().map(|entry| TruthEntry { fault: number, ..entry }));
    }
    let names: Vec<&str> = spec.faults.iter().map(|fault| fault.capability.as_str()).collect();
    let services: Vec<&str> = spec.faults.iter().map(|fault| fault.service.as_str()).collect();
    Ok(NewInjection {
        fault_type: match faults {
            [] => CONTROL,
            [fault] => i32::from(fault.capability().id),
            _ => HYBRID,
        },
        fault_name: if names.is_empty() { "none".into() } else { names.join("+") },
        services: if services.is_empty() { "none".into() } else { services.join("+") },
        faults: Value::Array(spec.faults.iter().map(|fault| fault.resolved.clone()).collect()),
        truth,
        display_config: display(spec),
        labels: json!({}),
        pre_duration: i32::try_from(spec.windows.normal_seconds.div_ceil(60)).unwrap_or(i32::MAX),
        origin: spec.environment.origin,
    })
}

/// What was asked for, in one object.
fn display(spec: &RunSpec) -> Value {
    json!({
        "system": spec.system,
        "faults": spec.faults.iter().map(|fault| &fault.resolved).collect::<Vec<_>>(),
        "windows": spec.windows,
        "load": spec.environment.load,
        "noise": spec.environment.noise,
        "algorithms": spec.algorithms.iter().map(|choice| &choice.name).collect::<Vec<_>>(),
        "chart": spec.release.chart,
        "chart_version": spec.release.chart_version,
        "revision": spec.release.revision,
    })
}

/// A key of a caller, in the scope of one verb.
///
/// # Errors
/// `idempotency.key_malformed`.
pub fn idempotency_key(scope: &str, key: &str, request: &impl Serialize) -> Result<IdempotencyKey> {
    if key.is_empty() || key.len() > LONGEST_KEY || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Problem::new(ErrorKind::Invalid, "idempotency.key_malformed", "the idempotency key is malformed")
            .place("header Idempotency-Key")
            .expected(format!("1 to {LONGEST_KEY} printable ASCII characters without blanks")));
    }
    let text = serde_json::to_vec(request).map_err(|error| Problem::internal("submit.request", error.to_string()))?;
    Ok(IdempotencyKey { key: format!("{scope}/{key}"), fingerprint: hex::encode(Sha256::digest(text)) })
}

fn seconds(length: std::time::Duration) -> u32 {
    u32::try_from(length.as_secs()).unwrap_or(u32::MAX)
}

/// The answer to a submission whose key was used before.
fn repeated(request: &RunRequest, earlier: &store::Submitted) -> SubmitReply {
    SubmitReply {
        group_id: earlier.group,
        items: earlier.runs.iter().zip(0..).map(|(run, index)| stored(index, run)).collect(),
        original_count: i32::try_from(request.repeat).unwrap_or(i32::MAX),
        deduplicated: true,
        dry_run: false,
        notes: Vec::new(),
    }
}

/// A run that is not stored yet.
fn planned(index: i32, run: &NewRun) -> SubmittedRun {
    SubmittedRun {
        index,
        trace_id: run.id,
        task_id: None,
        injection_id: None,
        seed: run.seed,
        control_of: run.control_of,
    }
}

fn stored(index: i32, run: &store::SubmittedRun) -> SubmittedRun {
    SubmittedRun {
        index,
        trace_id: run.run,
        task_id: Some(run.task),
        injection_id: Some(run.injection),
        seed: run.seed,
        control_of: run.control_of,
    }
}
