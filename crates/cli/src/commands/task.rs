//! `task`: the steps of runs.

use api::task::{LogLine, Task, TaskQuery};
use clap::Subcommand;

use super::Done;
use crate::args::{Paging, run_id};
use crate::error::Exit;
use crate::output::{Column, or_dash};
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List tasks, newest first
    #[command(visible_alias = "ls")]
    List {
        /// Only tasks in this state: Pending, Rescheduled, Running, Completed, Error or Cancelled
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
        /// Only tasks of this type
        #[arg(long = "type", value_name = "TYPE")]
        task_type: Option<String>,
        /// Only the tasks of one run, by its id or the beginning of it
        #[arg(long, value_name = "ID", value_parser = run_id)]
        run: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show one task
    Get { id: String },
    /// Print a task's log
    Logs { id: String },
}

const COLUMNS: &[Column<Task>] = &[
    ("TASK", |task| task.id.to_string()),
    ("TYPE", |task| task.kind.to_string()),
    ("ALGORITHM", |task| or_dash(task.algorithm.as_ref())),
    ("STATE", |task| task.state.to_string()),
    ("ATTEMPT", |task| task.attempt.to_string()),
    ("RUN", |task| task.trace_id.to_string()),
    ("CREATED", |task| task.created_at.clone()),
];

const LINES: &[Column<LogLine>] = &[
    ("TIME", |line| line.timestamp.clone()),
    ("LEVEL", |line| line.level.clone()),
    ("LINE", |line| line.line.clone()),
];

pub fn run(command: Command, session: &Session) -> Done {
    let client = session.client()?;
    match command {
        Command::List { state, task_type, run, paging } => {
            let run = run.map(|id| client.find_run(&id)).transpose()?.map(|id| id.to_string());
            session.out.pages(&paging, COLUMNS, |page| {
                client.tasks(&TaskQuery {
                    page: page.page,
                    size: page.size,
                    state: state.clone(),
                    task_type: task_type.clone(),
                    trace_id: run.clone(),
                })
            })?;
        }
        Command::Get { id } => {
            let detail = client.task(&id)?;
            let task = &detail.task;
            session.out.record(&detail, || {
                vec![
                    ("Task", task.id.to_string()),
                    ("Type", task.kind.to_string()),
                    ("Algorithm", or_dash(task.algorithm.as_ref())),
                    ("State", task.state.to_string()),
                    ("Attempt", task.attempt.to_string()),
                    ("Reason", or_dash(task.reason.as_ref())),
                    ("Message", or_dash(task.message.as_ref())),
                    ("Owner", or_dash(task.owner.as_ref())),
                    ("Run", task.trace_id.to_string()),
                    ("Created", task.created_at.clone()),
                    ("Updated", task.updated_at.clone()),
                ]
            })?;
        }
        Command::Logs { id } => {
            let lines = client.task_logs(&id)?;
            session.out.items(&lines, LINES)?;
            if lines.is_empty() {
                session.out.say("the task has logged nothing so far");
            }
        }
    }
    Ok(Exit::Success)
}
