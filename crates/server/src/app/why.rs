//! The words for what a run waits for, and for why it ended.

use std::io;
use std::path::Path;

use api::run::Why;
use model::{RunState, TaskState, WallTime, counted};
use store::{Run, Task};

/// Answers from the stored facts alone.
pub fn explain(run: &Run, tasks: &[Task]) -> Why {
    let open: Vec<&Task> = tasks.iter().filter(|task| !task.state.is_terminal()).collect();
    let failed = tasks.iter().rev().find(|task| task.state == TaskState::Error);
    let (answer, fix) = match run.state {
        RunState::Completed => (completed(run), None),
        RunState::Cancelled => {
            ("it was cancelled".to_owned(), Some(format!("repeat it with `aegisctl run retry {}`", run.id)))
        }
        RunState::Failed => failure(run, failed),
        RunState::Pending | RunState::Running => waiting(run, &open),
    };
    Why { id: run.id, state: run.state, verdict: run.verdict, answer, facts: facts(run, &open, failed), fix }
}

/// The same of a run that goes on, on a data folder that takes nothing now.
pub fn blocked(why: Why, data: &Path, error: &io::Error) -> Why {
    let (what, fix) = match error.kind() {
        io::ErrorKind::StorageFull => ("the disk of the data folder is full", "make room on it"),
        _ => ("the data folder cannot be written", "make it writable for the user that runs Aegis"),
    };
    let answer = format!("its results cannot be stored: {what} ({}: {error})", data.display());
    Why { answer, fix: Some(format!("{fix}; the run then goes on by itself")), ..why }
}

fn completed(run: &Run) -> String {
    let verdict = run.verdict.map_or_else(|| "no verdict".to_owned(), |verdict| format!("the verdict `{verdict}`"));
    match &run.message {
        Some(message) => format!("it came to its end with {verdict}: {message}"),
        None => format!("it came to its end with {verdict}"),
    }
}

fn failure(run: &Run, failed: Option<&Task>) -> (String, Option<String>) {
    let message = run.message.clone().or_else(|| run.reason.clone()).unwrap_or_else(|| "no reason was recorded".into());
    let Some(task) = failed else { return (format!("it failed: {message}"), None) };
    let fix = task.error.as_ref().and_then(|error| error.fix.clone());
    let fix = fix.or_else(|| Some(format!("repeat it with `aegisctl run retry {} --from {}`", run.id, task.kind)));
    (format!("its step {} failed: {message}", name(task)), fix)
}

fn waiting(run: &Run, open: &[&Task]) -> (String, Option<String>) {
    if run.cancel_requested {
        return ("it is being cancelled: its step ends and its faults are recovered".into(), None);
    }
    if run.pause_requested {
        return ("it is paused".into(), None);
    }
    if let Some(task) = open.iter().find(|task| task.state == TaskState::Running) {
        return (format!("nothing: its step {} is at work", name(task)), None);
    }
    let Some(task) = open.first() else {
        return ("it has no step left and has not ended: this is a defect".into(), None);
    };
    match (&task.wait, &task.error) {
        (Some(wait), _) => (format!("its step {} waits: {}", name(task), wait.message), wait_fix(&wait.code)),
        (None, Some(error)) => {
            (format!("its step {} failed and is tried again: {error}", name(task)), error.fix.clone())
        }
        (None, None) => (
            format!("its step {} waits for a worker that takes it up", name(task)),
            Some("check that a worker runs: `aegisctl doctor`".into()),
        ),
    }
}

fn wait_fix(code: &str) -> Option<String> {
    let fix = match code {
        "slot.none_free" => "wait until a run of this system ends, or raise the count of its slots",
        "limit.reached" => "wait until a run gives its token back, or raise the limit",
        "execution.awaits_upload" => "hand it over with `aegisctl execution upload ID --file FILE`",
        _ => return None,
    };
    Some(fix.to_owned())
}

fn facts(run: &Run, open: &[&Task], failed: Option<&Task>) -> Vec<String> {
    let mut facts = vec![format!("submitted {}", run.created_at)];
    if let Some(namespace) = &run.namespace {
        let verb = if run.state.is_terminal() { "held" } else { "holds" };
        facts.push(format!("{verb} slot {namespace}"));
    }
    facts.extend(open.iter().map(|task| open_fact(task)));
    if let Some((task, error)) = failed.and_then(|task| Some((task, task.error.as_ref()?))) {
        facts.push(format!("step {} ended after {}: {error}", name(task), counted(task.attempt, "attempt")));
    }
    if run.retry_count > 0 {
        facts.push(format!("retried {}", counted(run.retry_count, "time")));
    }
    facts.push(format!("newest event: {} (number {})", run.last_event_name, run.last_event));
    facts
}

fn open_fact(task: &Task) -> String {
    let mut text = format!("step {} is {}, attempt {}", name(task), task.state, task.attempt);
    if let Some(wait) = &task.wait {
        text.push_str(&format!(", waits for {}", wait.code));
        if let Some(holder) = &wait.holder {
            text.push_str(&format!(" held by {holder}"));
        }
    }
    if let Some(due) = task.due_at {
        let left = (due.0 - WallTime::now().0).max(0) as f64 / 1e6;
        text.push_str(&format!(", next try in {left:.1} s"));
        if task.wait.as_ref().is_some_and(|wait| !wait.any_of.is_empty()) {
            text.push_str(" or when one is given back");
        }
    }
    if let Some(looks) = task.wait.as_ref().map(|wait| wait.looks).filter(|looks| *looks > 1) {
        text.push_str(&format!(", looked {looks} times"));
    }
    if let Some(owner) = &task.owner {
        text.push_str(&format!(", taken up by process {owner}"));
    }
    if task.failures > 0 {
        text.push_str(&format!(", failed {} of at most {} times", task.failures, task.max_failures));
    }
    text
}

fn name(task: &Task) -> String {
    match &task.algorithm {
        Some(algorithm) => format!("{} ({algorithm})", task.kind),
        None => task.kind.to_string(),
    }
}
