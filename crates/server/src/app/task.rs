//! Tasks and what they logged.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use api::Page;
use api::task::{LogLine, Task, TaskDetail, TaskQuery};
use model::{GroupId, ProjectId, Result, RunId, TaskId, TaskKind, TaskState};
use store::TaskFilter;

use super::{App, listed, stored_page};
use crate::extract;

/// Lines of a log that are read at once.
const MOST_LINES: u64 = 10_000;

impl App {
    /// # Errors
    /// `state.unknown`, `run.id_malformed`, `page.out_of_range`.
    pub async fn tasks(&self, query: &TaskQuery) -> Result<Page<Task>> {
        let page = api::PageQuery { page: query.page, size: query.size }.check()?;
        let filter = TaskFilter {
            state: extract::state(query.state.as_deref(), TaskState::ALL, TaskState::as_str, TaskState::code)?,
            kind: extract::state(query.task_type.as_deref(), TaskKind::ALL, TaskKind::as_str, TaskKind::code)?,
            run: match &query.trace_id {
                Some(text) => Some(self.find_run(text).await?),
                None => None,
            },
        };
        let list = self.store().tasks(&filter, stored_page(page)).await?;
        let homes = self.homes_of(&list.items).await?;
        Ok(listed(page, &list, |one| task(one, &homes[&one.run])))
    }

    /// # Errors
    /// `task.unknown`.
    pub async fn task(&self, id: TaskId) -> Result<TaskDetail> {
        let stored = self.store().task(id).await?;
        let home = Home::of(&self.store().run(stored.run).await?, &self.project_names().await?);
        let logs = self.task_logs(id).await?;
        Ok(TaskDetail { task: task(&stored, &home), logs: logs.into_iter().map(|line| line.line).collect() })
    }

    /// Where the tasks of a page belong, by their runs.
    async fn homes_of(&self, tasks: &[store::Task]) -> Result<HashMap<RunId, Home>> {
        let names = self.project_names().await?;
        let mut homes = HashMap::new();
        for task in tasks {
            if let Entry::Vacant(place) = homes.entry(task.run) {
                place.insert(Home::of(&self.store().run(task.run).await?, &names));
            }
        }
        Ok(homes)
    }

    /// # Errors
    /// `task.unknown`.
    pub async fn task_logs(&self, id: TaskId) -> Result<Vec<LogLine>> {
        let stored = self.store().task(id).await?;
        let lines = self.store().logs_after(id, 0, MOST_LINES).await?;
        Ok(lines
            .into_iter()
            .map(|line| LogLine {
                timestamp: line.at.to_string(),
                level: line.level.as_str().to_owned(),
                line: line.line,
                task_id: id,
                trace_id: stored.run,
            })
            .collect())
    }
}

/// Where a run's tasks belong.
pub struct Home {
    group: GroupId,
    project: ProjectId,
    project_name: String,
}

impl Home {
    pub fn of(run: &store::Run, projects: &HashMap<ProjectId, String>) -> Self {
        let project_name = projects.get(&run.project).cloned().unwrap_or_default();
        Self { group: run.group, project: run.project, project_name }
    }
}

/// A stored task in the words of the wire.
pub fn task(stored: &store::Task, home: &Home) -> Task {
    let (reason, message) = match (&stored.wait, &stored.error) {
        (Some(wait), _) if !stored.state.is_terminal() => (Some(wait.code.clone()), Some(wait.message.clone())),
        (_, Some(error)) => (Some(error.code.clone()), Some(error.to_string())),
        _ => (None, None),
    };
    Task {
        id: stored.id,
        kind: stored.kind,
        algorithm: stored.algorithm.clone(),
        state: stored.state,
        status: "enabled".into(),
        trace_id: stored.run,
        group_id: home.group,
        project_id: home.project.0,
        project_name: home.project_name.clone(),
        immediate: true,
        execute_time: stored.due_at.unwrap_or(stored.updated_at).seconds(),
        attempt: i32::try_from(stored.attempt).unwrap_or(i32::MAX),
        reason,
        message,
        owner: stored.owner.map(|owner| owner.to_string()),
        created_at: stored.created_at.to_string(),
        updated_at: stored.updated_at.to_string(),
    }
}
