//! Submitting runs in the public form: batches of guided faults within a project.

use api::project::{ContainerSpec, InjectReply, InjectRequest, InjectedRun};
use api::submit::{RunRequest, WindowsRequest};
use model::{ErrorKind, GroupId, Problem, Result};
use store::{NewRun, Submission};

use super::idempotency_key;
use crate::app::App;
use crate::app::guided::{self, Guided};
use crate::app::label;

/// Most batches of one request.
const MOST_BATCHES: usize = 100;
/// What the public form counts windows in.
const MINUTE: i64 = 60;

impl App {
    /// All batches are stored, or none.
    ///
    /// # Errors
    /// Every way in which a submission can be wrong; nothing is stored then.
    pub async fn inject(&self, project: &str, request: InjectRequest, key: Option<&str>) -> Result<InjectReply> {
        let project = self.find_project(project).await?;
        check_project(request.project_name.as_deref(), &project.name)?;
        let key = key.map(|key| idempotency_key("inject", key, &(project.id, &request))).transpose()?;
        let count = i32::try_from(request.specs.len()).unwrap_or(i32::MAX);
        if let Some(key) = &key
            && let Some(earlier) = self.store().submitted(key).await?
        {
            return Ok(reply(&earlier, count, Vec::new()));
        }
        self.check_around(&request).await?;
        let labels = label::object(request.labels.as_deref().unwrap_or_default())?;
        let (mut runs, mut notes): (Vec<NewRun>, Vec<String>) = (Vec::new(), Vec::new());
        for (batch, at) in request.specs.iter().zip(0..) {
            let within = |problem: Problem| {
                let place = problem.place.clone().unwrap_or_default();
                let dot = if place.is_empty() || place.starts_with('[') { "" } else { "." };
                problem.place(format!("specs[{at}]{dot}{place}"))
            };
            let wanted = wanted(&request, batch).map_err(within)?;
            let (mut new, told) = self.prepare(&wanted, request.pedestal.version.as_deref()).await.map_err(within)?;
            new.iter_mut().for_each(|run| run.injection.labels = labels.clone());
            runs.append(&mut new);
            notes.extend(told.into_iter().map(|note| format!("specs[{at}]: {note}")));
        }
        let submission = Submission { group: GroupId::random(), project: project.id, runs, key };
        Ok(reply(&self.store().submit(&submission).await?, count, notes))
    }

    /// What stands beside the faults.
    async fn check_around(&self, request: &InjectRequest) -> Result<()> {
        let wrong = |code, message: &str, place: &str| Problem::new(ErrorKind::Invalid, code, message).place(place);
        if !(1..=MOST_BATCHES).contains(&request.specs.len()) {
            return Err(wrong("submit.batches_out_of_range", "the number of batches is not allowed", "specs")
                .found(request.specs.len().to_string())
                .expected(format!("1 to {MOST_BATCHES}")));
        }
        if request.skip_restart_pedestal == Some(true) {
            let message = "every run starts from a fresh release";
            return Err(wrong("submit.restart_not_skippable", message, "skip_restart_pedestal").expected("false"));
        }
        self.require_benchmark(&request.benchmark.name, request.benchmark.version.as_deref()).await
    }
}

fn check_project(named: Option<&str>, project: &str) -> Result<()> {
    match named {
        Some(name) if name != project => Err(other_project(name, project)),
        _ => Ok(()),
    }
}

/// The body and the path name different projects.
pub fn other_project(named: &str, project: &str) -> Problem {
    Problem::new(ErrorKind::Invalid, "project.contradicted", "the body names another project than the path")
        .place("project_name")
        .found(format!("`{named}`"))
        .expected(format!("`{project}`"))
}

/// One batch as a request of ours.
fn wanted(request: &InjectRequest, batch: &[serde_json::Map<String, serde_json::Value>]) -> Result<RunRequest> {
    let faults: Vec<Guided> = batch
        .iter()
        .zip(0..)
        .map(|(spec, at)| {
            guided::read(spec).map_err(|problem| {
                let place = problem.place.clone().map_or_else(String::new, |place| format!(".{place}"));
                problem.place(format!("[{at}]{place}"))
            })
        })
        .collect::<Result<_>>()?;
    let Some(first) = faults.first() else {
        return Err(Problem::new(ErrorKind::Invalid, "submit.no_fault_named", "the batch has no fault"));
    };
    for (fault, at) in faults.iter().zip(0..) {
        let same = (&fault.system, fault.slot, fault.minutes) == (&first.system, first.slot, first.minutes);
        if !same {
            let message = "the faults of a batch differ in system, namespace or duration";
            return Err(Problem::new(ErrorKind::Invalid, "submit.batch_torn", message).place(format!("[{at}]")));
        }
    }
    if first.system != request.pedestal.name {
        return Err(Problem::new(
            ErrorKind::Invalid,
            "pedestal.of_another_system",
            "the pedestal is not the faults' system",
        )
        .found(format!("pedestal `{}`, faults on `{}`", request.pedestal.name, first.system))
        .expected("the pedestal's name is the system's code"));
    }
    let (normal, abnormal) = (request.pre_duration.unwrap_or(1), first.minutes.unwrap_or(1));
    if let Some(interval) = request.interval.filter(|interval| *interval != normal + abnormal) {
        return Err(Problem::new(ErrorKind::Invalid, "submit.interval_contradicted", "the windows do not add up")
            .place("interval")
            .found(format!("{interval} min"))
            .expected(format!("{normal} min before the fault and {abnormal} min with it, or no interval")));
    }
    Ok(RunRequest {
        system: first.system.clone(),
        slot: first.slot.filter(|_| request.auto_allocate != Some(true)),
        faults: faults.iter().map(|guided| guided.fault.clone()).collect(),
        no_fault: false,
        paired_control: false,
        seed: None,
        origin: None,
        windows: WindowsRequest {
            normal_seconds: Some(normal.saturating_mul(MINUTE)),
            abnormal_seconds: Some(abnormal.saturating_mul(MINUTE)),
        },
        load: None,
        noise: None,
        algorithms: request.algorithms.iter().flatten().map(named).collect(),
        always_rank: false,
        strict: false,
        repeat: 1,
        dry_run: false,
    })
}

fn named(algorithm: &ContainerSpec) -> String {
    match algorithm.version.as_deref().filter(|version| !version.is_empty()) {
        Some(version) => format!("{}:{version}", algorithm.name),
        None => algorithm.name.clone(),
    }
}

fn reply(submitted: &store::Submitted, count: i32, notes: Vec<String>) -> InjectReply {
    let item = |(run, index): (&store::SubmittedRun, i32)| InjectedRun {
        index,
        trace_id: run.run,
        task_id: run.task,
        injection_id: run.injection,
        injection_name: run.injection_name.clone(),
        seed: run.seed,
    };
    InjectReply {
        group_id: submitted.group,
        items: submitted.runs.iter().zip(0..).map(item).collect(),
        original_count: count,
        deduplicated: submitted.deduplicated,
        notes,
    }
}
