//! The keeper: starts the command, keeps its time and its memory, and tells how it ended.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use model::{Problem, Result};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, SysconfVar, sysconf};
use worker::confine::{End, Order, Report};

use super::{enter_user, gate, mounts, no_isolation, own_program, signal_of, stage};

/// How often time and memory are looked at.
const LOOK: Duration = Duration::from_millis(10);

pub fn run(order: &Order, file: &Path) -> Result<()> {
    let program = own_program()?;
    let gate = gate::open(order, &program, file)?;
    let start = Instant::now();
    let child = if order.no_isolation {
        start_open(order, &program, file)?
    } else {
        // Root in its own namespace: it has to make mounts. No thread may run yet.
        enter_user(0)?;
        mounts::prepare(order, &program, file)?;
        spawn(order, &mut stage(&program, "inside", file))?
    };
    let watched = watch(order, child);
    if let Some(mut gate) = gate {
        let ended = gate.kill().and_then(|()| gate.wait());
        ended.map_err(|error| Problem::internal("confine.gate", error.to_string()))?;
    }
    let (end, peak_memory) = watched?;
    let report = Report { end, seconds: start.elapsed().as_secs_f64(), peak_memory };
    let text = serde_json::to_vec(&report).map_err(|error| Problem::internal("exec.report", error.to_string()))?;
    fs::write(order.report(), text).map_err(|error| worker::child::unwritable(&order.work, error))
}

/// Without namespaces: in a process group of its own, so that it can at least be ended as a whole.
fn start_open(order: &Order, program: &Path, file: &Path) -> Result<Child> {
    spawn(order, stage(program, "last", file).process_group(0))
}

fn spawn(order: &Order, command: &mut Command) -> Result<Child> {
    let create =
        |path: std::path::PathBuf| File::create(&path).map_err(|error| worker::child::unwritable(&order.work, error));
    command
        .stdin(Stdio::null())
        .stdout(create(order.stdout())?)
        .stderr(create(order.stderr())?)
        .spawn()
        .map_err(|error| no_isolation(format!("the first process inside: {error}")))
}

/// Waits for the end, or makes it.
fn watch(order: &Order, mut child: Child) -> Result<(End, u64)> {
    let deadline = Instant::now() + Duration::from_secs(order.seconds);
    let most = order.memory_mib.saturating_mul(1024 * 1024);
    let wrong = |error: std::io::Error| Problem::internal("confine.wait", error.to_string());
    let mut peak = 0;
    loop {
        if let Some(status) = child.try_wait().map_err(wrong)? {
            end_all(order, &mut child);
            return Ok((ended(order, status), peak));
        }
        let now = resident(child.id()).map_err(wrong)?;
        peak = peak.max(now);
        let end = if now > most {
            End::OutOfMemory
        } else if Instant::now() >= deadline {
            End::TimedOut
        } else {
            thread::sleep(LOOK);
            continue;
        };
        end_all(order, &mut child);
        child.wait().map_err(wrong)?;
        return Ok((end, peak));
    }
}

/// Ends the command with all that it started: with the first process of a pid namespace the whole namespace ends.
fn end_all(order: &Order, child: &mut Child) {
    let ended = if order.no_isolation {
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
        killpg(group, Signal::SIGKILL).map_err(std::io::Error::from)
    } else {
        child.kill()
    };
    // It may have ended by itself meanwhile.
    if let Err(error) = ended {
        tracing::debug!("nothing is left to end: {error}");
    }
}

/// Inside a pid namespace a signal comes as a shell tells it.
fn ended(order: &Order, status: ExitStatus) -> End {
    match (status.code(), order.no_isolation) {
        (Some(code @ 129..=192), false) => End::Killed { signal: code - 128 },
        (Some(code), _) => End::Exited { code },
        (None, _) => End::Killed { signal: signal_of(status) },
    }
}

/// Resident memory of a process and of all below it, bytes. A process that ends meanwhile has none.
///
/// # Errors
/// When the processes cannot be listed: a limit that nobody sees passed would be none.
fn resident(root: u32) -> std::io::Result<u64> {
    let page = u64::try_from(sysconf(SysconfVar::PAGE_SIZE)?.unwrap_or(4096)).expect("a page has a size");
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut sizes: HashMap<u32, u64> = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        // What is no number is no process.
        let Some(process) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some((parent, pages)) = stat(process) {
            children.entry(parent).or_default().push(process);
            sizes.insert(process, pages * page);
        }
    }
    let (mut total, mut open) = (0, vec![root]);
    while let Some(process) = open.pop() {
        total += sizes.get(&process).copied().unwrap_or_default();
        open.extend(children.remove(&process).unwrap_or_default());
    }
    Ok(total)
}

/// Parent and resident pages of a process, from `/proc/PID/stat` (proc(5): fields 4 and 24).
fn stat(process: u32) -> Option<(u32, u64)> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in brackets may hold anything, also blanks.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    Some((fields.get(1)?.parse().ok()?, fields.get(21)?.parse().ok()?))
}
