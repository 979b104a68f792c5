//! `run`: looking at runs, following them, ending and repeating them.

use std::time::{Duration, Instant};

use api::event::{End, Event};
use api::run::{RetryRequest, Run, RunDetail, RunQuery};
use api::task::Task;
use clap::Subcommand;
use client::{Client, Failure, Frame};
use indicatif::{ProgressBar, ProgressStyle};
use model::{DataTime, RunId, RunState, rfc3339};
use serde_json::{Value, json};

use super::Done;
use crate::args::{Consent, Paging, run_id};
use crate::duration::parse_positive;
use crate::error::Exit;
use crate::output::{Column, Format, or_dash};
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List runs, newest first
    #[command(visible_alias = "ls")]
    List {
        /// Only runs in this state: Pending, Running, Completed, Failed or Cancelled
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
        /// Only the runs of one submission
        #[arg(long, value_name = "ID")]
        group_id: Option<String>,
        /// Only the runs of one project, by name or number
        #[arg(long, value_name = "NAME")]
        project: Option<String>,
        /// Only runs on one system
        #[arg(long, value_name = "CODE")]
        system: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show one run with its tasks
    Get {
        /// Id, or its beginning
        #[arg(value_parser = run_id)]
        id: String,
    },
    /// Follow a run to its end; the exit code says how it ended
    Watch {
        /// Id, or its beginning
        #[arg(value_parser = run_id)]
        id: String,
        /// Start after the event of this number
        #[arg(long, value_name = "N", default_value_t = 0)]
        after: u64,
        /// Longest time to wait
        #[arg(long, value_name = "TIME", value_parser = parse_positive)]
        timeout: Option<u64>,
    },
    /// Say in words what a run waits for, or why it ended
    Why {
        /// Id, or its beginning
        #[arg(value_parser = run_id)]
        id: String,
    },
    /// End a run, recover its faults and give its slot back
    Cancel {
        /// Id, or its beginning
        #[arg(value_parser = run_id)]
        id: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Repeat a run that failed or was cancelled, from the step that failed or from an earlier one
    Retry {
        /// Id, or its beginning
        #[arg(value_parser = run_id)]
        id: String,
        /// Step to start from: RestartPedestal, FaultInjection, BuildDatapack, RunAlgorithm or CollectResult
        #[arg(long, value_name = "STEP")]
        from: Option<String>,
    },
}

const COLUMNS: &[Column<Run>] = &[
    ("ID", |run| run.id.to_string()),
    ("SYSTEM", |run| run.system.clone()),
    ("FAULT", |run| run.fault_type.clone()),
    ("SERVICE", |run| run.services.clone()),
    ("STATE", |run| run.state.to_string()),
    ("VERDICT", |run| or_dash(run.verdict.as_ref())),
    ("REASON", |run| or_dash(own_reason(run))),
    ("LAST-EVENT", |run| run.last_event.clone()),
    ("STARTED", |run| run.start_time.clone()),
];

const TASKS: &[Column<Task>] = &[
    ("TASK", |task| task.id.to_string()),
    ("TYPE", |task| task.kind.to_string()),
    ("ALGORITHM", |task| or_dash(task.algorithm.as_ref())),
    ("STATE", |task| task.state.to_string()),
    ("ATTEMPT", |task| task.attempt.to_string()),
    ("REASON", |task| or_dash(task.reason.as_ref())),
];

/// The reason, where it says more than the verdict.
fn own_reason(run: &Run) -> Option<&String> {
    let verdict = run.verdict.map(|verdict| verdict.to_string());
    run.reason.as_ref().filter(|reason| verdict.as_ref() != Some(*reason))
}

pub fn run(command: Command, session: &Session) -> Done {
    let client = session.client()?;
    match command {
        Command::List { state, group_id, project, system, paging } => {
            session.out.pages(&paging, COLUMNS, |page| {
                client.runs(&RunQuery {
                    page: page.page,
                    size: page.size,
                    state: state.clone(),
                    group_id: group_id.clone(),
                    project_id: project.clone(),
                    system: system.clone(),
                })
            })?;
        }
        Command::Get { id } => get(session, &client.run(client.find_run(&id)?)?)?,
        Command::Watch { id, after, timeout } => {
            let (deadline, id) = (deadline(timeout), client.find_run(&id)?);
            return watch(session, &client, id, after, deadline);
        }
        Command::Why { id } => {
            let why = client.why(client.find_run(&id)?)?;
            session.out.record(&why, || {
                let mut fields = vec![("State", why.state.to_string()), ("Answer", why.answer.clone())];
                if !why.facts.is_empty() {
                    fields.push(("Facts", why.facts.join("\n")));
                }
                fields.extend(why.fix.clone().map(|fix| ("What to do", fix)));
                fields
            })?;
        }
        Command::Cancel { id, consent } => {
            let id = client.find_run(&id)?;
            session.confirm(&consent, &format!("cancel run {id}"))?;
            let reply = client.cancel(id)?;
            session.out.record(&reply, || {
                let mut fields = vec![("State", reply.state.to_string()), ("Message", reply.message.clone())];
                let lists = [("Tasks ended", &reply.cancelled_tasks), ("Faults removed", &reply.deleted_podchaos)];
                fields.extend(
                    lists.iter().filter(|(_, list)| !list.is_empty()).map(|(name, list)| (*name, list.join(" "))),
                );
                fields
            })?;
        }
        Command::Retry { id, from } => {
            let reply = client.retry(client.find_run(&id)?, &RetryRequest { from })?;
            session.out.record(&reply, || {
                vec![
                    ("Run", reply.id.to_string()),
                    ("State", reply.state.to_string()),
                    ("From", reply.from.to_string()),
                    ("Task", reply.task_id.to_string()),
                ]
            })?;
        }
    }
    Ok(Exit::Success)
}

fn deadline(timeout: Option<u64>) -> Option<Instant> {
    timeout.map(|seconds| Instant::now() + Duration::from_secs(seconds))
}

fn get(session: &Session, detail: &RunDetail) -> Result<(), Failure> {
    let run = &detail.run;
    session.out.record(detail, || {
        vec![
            ("Run", run.id.to_string()),
            ("System", run.system.clone()),
            ("Namespace", or_dash(run.namespace.as_ref())),
            ("Fault", fault(run)),
            ("Seed", run.seed.to_string()),
            ("State", run.state.to_string()),
            ("Verdict", or_dash(run.verdict.as_ref())),
            ("Reason", or_dash(own_reason(run))),
            ("Message", or_dash(run.message.as_ref())),
            ("Datapack", or_dash(run.injection_name.as_ref())),
            ("Exposed", or_dash(detail.exposed.as_ref())),
            ("Visible", or_dash(detail.visible.as_ref())),
            ("Witness", lines(&detail.witness, witness_line)),
            ("Recovery", detail.recovery.as_ref().map_or_else(|| "-".to_owned(), recovery_lines)),
            pair(detail),
            ("Group", run.group_id.to_string()),
            ("Started", run.start_time.clone()),
            ("Ended", or_dash(run.end_time.as_ref())),
        ]
    })?;
    if session.out.format == Format::Table {
        session.out.write("\n")?;
        session.out.table(&detail.tasks, TASKS)?;
    }
    Ok(())
}

fn fault(run: &Run) -> String {
    match run.fault_type.as_str() {
        "none" => "none: a run without a fault".to_owned(),
        fault => format!("{fault} on {}", run.services),
    }
}

/// The other run of a pair, as seen from this one.
fn pair(detail: &RunDetail) -> (&'static str, String) {
    match (detail.paired_control, detail.run.control_of) {
        (_, Some(faulty)) => ("Control of", faulty.to_string()),
        (control, None) => ("Its control", or_dash(control.as_ref())),
    }
}

fn lines(items: &[Value], line: impl Fn(&Value) -> String) -> String {
    if items.is_empty() { "-".to_owned() } else { items.iter().map(line).collect::<Vec<_>>().join("\n") }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// One fault: what its mechanism said, and how long its effect lasted.
fn witness_line(felt: &Value) -> String {
    let name = format!("{} on {}", text(&felt["capability"]), text(&felt["service"]));
    let verdict = if felt["exposed"] == true { "felt" } else { "NOT felt" };
    let effect = &felt["effect"];
    let until = effect["until"].as_i64().map_or_else(|| "it still lasted".to_owned(), data_time);
    let from = effect["from"].as_i64().map_or_else(|| "-".to_owned(), data_time);
    format!(
        "{name}: {verdict}; {}; effect from {from} to {until} ({})",
        text(&felt["reason"]),
        text(&felt["effect_measure"])
    )
}

fn recovery_lines(receipt: &Value) -> String {
    let removed: Vec<String> = receipt["removed"].as_array().into_iter().flatten().map(removed_line).collect();
    let back = receipt["back_at"]
        .as_i64()
        .map_or_else(|| "not seen back".to_owned(), |at| format!("back at {}", data_time(at)));
    let residue: Vec<&str> = receipt["residue"].as_array().into_iter().flatten().map(text).collect();
    let left = if residue.is_empty() { "nothing left".to_owned() } else { format!("left: {}", residue.join("; ")) };
    [removed, vec![format!("{left}; {back}; measured by {}", text(&receipt["measure"]))]].concat().join("\n")
}

fn removed_line(fault: &Value) -> String {
    let at = fault["ended_at"].as_i64().map_or_else(|| "-".to_owned(), data_time);
    format!("{} ({} on {}) removed at {at}", text(&fault["name"]), text(&fault["capability"]), text(&fault["service"]))
}

/// Data time, which JSON has in nanoseconds.
fn data_time(nanos: i64) -> String {
    DataTime(nanos).to_string()
}

fn watch(session: &Session, client: &Client, id: RunId, after: u64, deadline: Option<Instant>) -> Done {
    let format = session.out.format;
    let mut events = Vec::new();
    let end = follow(client, id, after, deadline, |number, event| {
        match format {
            Format::Table => session.out.write(&event_line(&event))?,
            Format::Ndjson => session.out.lines(&[json!({"id": number, "event": "update", "data": event})])?,
            Format::Json | Format::Yaml => events.push(event),
        }
        Ok(())
    })?;
    match format {
        Format::Table => session.out.write(&end_line(id, &end))?,
        Format::Ndjson => session.out.lines(&[json!({"event": "end", "data": end})])?,
        Format::Json | Format::Yaml => session.out.document(&json!({"id": id, "end": end, "events": events}))?,
    }
    Ok(exit_of(end.state))
}

/// 0 for a run that completed, 5 for any other end.
fn exit_of(state: RunState) -> Exit {
    if state == RunState::Completed { Exit::Success } else { Exit::WorkflowFailed }
}

fn follow(
    client: &Client,
    id: RunId,
    after: u64,
    deadline: Option<Instant>,
    mut on_event: impl FnMut(u64, Event) -> Result<(), Failure>,
) -> Result<End, Failure> {
    for frame in client.watch(id, after, deadline) {
        match frame? {
            Frame::Update { number, event } => on_event(number, event)?,
            Frame::End(end) => return Ok(end),
        }
    }
    unreachable!("a watch ends with an end frame or with an error")
}

/// Waits for every run, then prints them.
pub fn wait_for(session: &Session, client: &Client, ids: &[RunId], deadline: Option<Instant>) -> Done {
    let bar = progress(session, ids.len());
    let mut exit = Exit::Success;
    let mut runs = Vec::new();
    for &id in ids {
        bar.set_message(id.to_string());
        let end = follow(client, id, 0, deadline, |_, event| {
            bar.set_message(format!("{id} {}", event.event_name));
            Ok(())
        })?;
        if exit_of(end.state) != Exit::Success {
            exit = Exit::WorkflowFailed;
        }
        runs.push(client.run(id)?.run);
        bar.inc(1);
    }
    bar.finish_and_clear();
    session.out.items(&runs, COLUMNS)?;
    Ok(exit)
}

fn progress(session: &Session, length: usize) -> ProgressBar {
    if !session.out.progress {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {pos}/{len} {elapsed} {wide_msg}")
        .expect("the template is a constant that was tried");
    let bar = ProgressBar::new(length as u64).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn event_line(event: &Event) -> String {
    let millis = u32::try_from(event.timestamp.rem_euclid(1000)).unwrap_or_default();
    // Always three digits, so that the columns stay in line.
    let second = rfc3339(event.timestamp.div_euclid(1000), 0);
    format!("{}.{millis:03}Z  {:<28} {}\n", second.trim_end_matches('Z'), event.event_name, event.message)
}

fn end_line(id: RunId, end: &End) -> String {
    let mut text = format!("run {id}: {}", end.state);
    let verdict = end.verdict.map(|verdict| verdict.to_string());
    // A run that completed has its verdict as its reason.
    let reason = end.reason.clone().filter(|reason| verdict.as_ref() != Some(reason));
    for part in [verdict, reason, end.message.clone()].into_iter().flatten() {
        text.push_str(&format!("; {part}"));
    }
    text + "\n"
}
