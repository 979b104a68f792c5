//! Runs: listing, the words for what they wait for, cancelling and retrying.

use std::collections::HashMap;

use api::run::{CancelReply, RetryReply, RetryRequest, Run, RunDetail, RunQuery, Why};
use model::{ErrorKind, GroupId, Problem, ProjectId, Result, RunId, RunState, TaskKind, TaskState, counted};
use store::{Page, RunFilter};

use super::injection::{CONTROL, list};
use super::task::{Home, task};
use super::{App, listed, stored_page};
use crate::extract;

/// Fewer characters of an id say too little to act on.
const SHORTEST_PREFIX: usize = 4;
/// How many runs an ambiguous beginning of an id shows.
const LISTED: u64 = 5;

impl App {
    /// The run of an id, or of the beginning of one that no other run shares.
    ///
    /// # Errors
    /// `run.id_malformed`, `run.unknown`, `run.id_ambiguous`.
    pub async fn find_run(&self, text: &str) -> Result<RunId> {
        if let Ok(id) = text.parse() {
            return Ok(id);
        }
        let prefix = text.to_ascii_lowercase();
        let is_part = prefix.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
        if !is_part || !(SHORTEST_PREFIX..36).contains(&prefix.len()) {
            return Err(Problem::new(ErrorKind::Invalid, "run.id_malformed", "this is not a run's id")
                .place("path")
                .found(format!("`{text}`"))
                .expected(format!("a UUID, or its first {SHORTEST_PREFIX} or more characters")));
        }
        match self.store().runs_starting(&prefix, LISTED).await?.as_slice() {
            [one] => Ok(*one),
            [] => Err(Problem::new(ErrorKind::NotFound, "run.unknown", "no run's id begins like this")
                .place("path")
                .found(format!("`{text}`"))
                .fix("see `aegisctl run list`")),
            several => {
                let names: Vec<String> = several.iter().map(ToString::to_string).collect();
                Err(Problem::new(ErrorKind::Invalid, "run.id_ambiguous", "more than one run's id begins like this")
                    .place("path")
                    .found(format!("`{text}`"))
                    .expected(names.join(", "))
                    .fix("give more of the id"))
            }
        }
    }

    /// # Errors
    /// `state.unknown`, `page.out_of_range`, `group.id_malformed`, `system.unknown`.
    pub async fn runs(&self, query: &RunQuery) -> Result<api::Page<Run>> {
        let page = api::PageQuery { page: query.page, size: query.size }.check()?;
        let project = match &query.project_id {
            Some(text) => Some(self.find_project(text).await?.id),
            None => None,
        };
        let filter = RunFilter {
            state: extract::state(query.state.as_deref(), RunState::ALL, RunState::as_str, RunState::code)?,
            group: query.group_id.as_deref().map(group).transpose()?,
            system: query.system.clone(),
            project,
            ..RunFilter::default()
        };
        let list = self.store().runs(&filter, stored_page(page)).await?;
        if list.total == 0 {
            self.require_known_system(query.system.as_deref()).await?;
        }
        let names = self.project_names().await?;
        Ok(listed(page, &list, |one| run(one, &names)))
    }

    /// # Errors
    /// `run.unknown`.
    pub async fn run(&self, id: RunId) -> Result<RunDetail> {
        let stored = self.store().run(id).await?;
        let tasks = self.store().tasks_of(id).await?;
        let injection = self.store().injection_of(id).await?;
        let controls = RunFilter { control_of: Some(id), ..RunFilter::default() };
        let controls = self.store().runs(&controls, Page::new(1, 1)).await?.items;
        let spec = serde_json::from_str(&stored.spec).map_err(|error| {
            Problem::internal("spec.malformed", "the stored specification of a run cannot be read").cause(error)
        })?;
        let names = self.project_names().await?;
        let home = Home::of(&stored, &names);
        Ok(RunDetail {
            tasks: tasks.iter().map(|one| task(one, &home)).collect(),
            paired_control: controls.first().map(|control| control.id),
            exposed: injection.exposed.filter(|_| injection.fault_name != CONTROL),
            visible: injection.visible,
            witness: list(injection.witness.as_ref()),
            recovery: injection.recovery,
            spec,
            run: run(&stored, &names),
        })
    }

    /// What the run waits for, or why it ended.
    ///
    /// # Errors
    /// `run.unknown`.
    pub async fn why(&self, id: RunId) -> Result<Why> {
        let stored = self.store().run(id).await?;
        let tasks = self.store().tasks_of(id).await?;
        let why = super::why::explain(&stored, &tasks);
        // What keeps results from being stored cannot be stored either.
        Ok(match self.probe_data() {
            Err(error) if !stored.state.is_terminal() => super::why::blocked(why, self.data(), &error),
            _ => why,
        })
    }

    /// # Errors
    /// `run.unknown`.
    pub async fn cancel(&self, id: RunId) -> Result<CancelReply> {
        // Seen before the request: whatever lives then is removed by the step that is told to stop.
        let live = self.live_faults(id).await?;
        let receipt = match self.store().request_cancel(id).await {
            Err(problem) if problem.code == "run.already_ended" => return self.ended_already(id).await,
            other => other?,
        };
        let message = if receipt.unwinding.is_empty() {
            "the run is cancelled".to_owned()
        } else {
            let steps = counted(receipt.unwinding.len(), "step");
            format!("asked to stop; {steps} on the way: what was done outside is undone first")
        };
        Ok(CancelReply {
            state: receipt.state,
            message,
            cancelled_tasks: receipt.cancelled.iter().map(ToString::to_string).collect(),
            deleted_podchaos: if live.is_empty() { self.removed_faults(id).await? } else { live },
            removed_redis_tasks: Vec::new(),
        })
    }

    /// Names of the faults of a run that are live on the cluster now.
    async fn live_faults(&self, id: RunId) -> Result<Vec<String>> {
        let faults = self.cluster().faults().await?;
        Ok(faults.into_iter().filter(|fault| fault.run == id).map(|fault| fault.name).collect())
    }

    /// Names of the faults that the run's recovery receipt says were removed.
    async fn removed_faults(&self, id: RunId) -> Result<Vec<String>> {
        // A run that only ranks injects nothing; the datapack's receipt is another run's.
        if self.store().run(id).await?.ranks_only {
            return Ok(Vec::new());
        }
        let receipt = self.store().injection_of(id).await?.recovery;
        let removed = receipt.iter().filter_map(|receipt| receipt["removed"].as_array()).flatten();
        Ok(removed.filter_map(|fault| fault["name"].as_str().map(str::to_owned)).collect())
    }

    async fn ended_already(&self, id: RunId) -> Result<CancelReply> {
        Ok(CancelReply {
            state: self.store().run(id).await?.state,
            message: "the run had ended already; nothing was changed".into(),
            cancelled_tasks: Vec::new(),
            deleted_podchaos: Vec::new(),
            removed_redis_tasks: Vec::new(),
        })
    }

    /// A run that has ended holds no slot any more: what works on an installed system starts with a new installation.
    ///
    /// # Errors
    /// `run.unknown`, `run.not_retryable`, `run.step_unknown`, `task.kind_unknown`.
    pub async fn retry(&self, id: RunId, request: &RetryRequest) -> Result<RetryReply> {
        let from = match request.from.as_deref().map(step).transpose()? {
            None => self.unsuccessful_step(id).await?,
            given => given,
        };
        let from = if from.is_some_and(needs_slot) { Some(TaskKind::RestartPedestal) } else { from };
        let retried = self.store().retry_run(id, from).await?;
        Ok(RetryReply { id, state: retried.run.state, from: retried.from, task_id: retried.task })
    }

    /// The step in which the run stopped, where the store's own choice would start amid what is gone.
    async fn unsuccessful_step(&self, id: RunId) -> Result<Option<TaskKind>> {
        let tasks = self.store().tasks_of(id).await?;
        let stopped = tasks.iter().rev().find(|task| matches!(task.state, TaskState::Error | TaskState::Cancelled));
        // What telemetry is to blame for ends in the same way from the same telemetry: it has to be made anew.
        let in_vain = |task: &&store::Task| {
            let retryable = task.error.as_ref().is_none_or(|error| error.kind.retryable());
            needs_slot(task.kind) || (task.kind == TaskKind::BuildDatapack && !retryable)
        };
        Ok(stopped.filter(in_vain).map(|_| TaskKind::RestartPedestal))
    }
}

/// The step works on a system that stands in the slot as the step before it left it.
fn needs_slot(kind: TaskKind) -> bool {
    kind == TaskKind::FaultInjection
}

/// The id of a group in a query.
///
/// # Errors
/// `group.id_malformed`.
pub fn group(text: &str) -> Result<GroupId> {
    text.parse().map_err(|_| {
        Problem::new(ErrorKind::Invalid, "group.id_malformed", "this is not a group's id")
            .place("query: group_id")
            .found(format!("`{text}`"))
            .expected("a UUID")
    })
}

fn step(text: &str) -> Result<TaskKind> {
    TaskKind::ALL.iter().copied().find(|kind| kind.as_str().eq_ignore_ascii_case(text)).ok_or_else(|| {
        let known = TaskKind::ALL.iter().map(|kind| kind.as_str());
        let mut problem = Problem::unknown("task.kind_unknown", "step", text, known).place("body: from");
        problem.kind = ErrorKind::Invalid;
        problem
    })
}

/// A stored run in the words of the wire.
pub fn run(stored: &store::Run, projects: &HashMap<ProjectId, String>) -> Run {
    Run {
        id: stored.id,
        kind: if stored.ranks_only { "AlgorithmRun" } else { "FullPipeline" }.into(),
        state: stored.state,
        status: "enabled".into(),
        group_id: stored.group,
        project_id: stored.project.0,
        project_name: projects.get(&stored.project).cloned().unwrap_or_default(),
        leaf_num: stored.leaf_num,
        last_event: stored.last_event_name.clone(),
        start_time: stored.started_at.unwrap_or(stored.created_at).to_string(),
        end_time: stored.ended_at.map(|at| at.to_string()),
        created_at: stored.created_at.to_string(),
        updated_at: stored.updated_at.to_string(),
        system: stored.system.to_string(),
        namespace: stored.namespace.clone(),
        fault_type: stored.fault_type.clone(),
        services: stored.services.clone(),
        verdict: stored.verdict,
        reason: stored.reason.clone(),
        message: stored.message.clone(),
        injection_id: stored.injection,
        injection_name: stored.injection_name.clone(),
        seed: stored.seed,
        control_of: stored.control_of,
        origin_kind: stored.origin_kind.clone(),
    }
}
