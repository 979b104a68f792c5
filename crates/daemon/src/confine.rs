//! `aegis confine ORDER`: runs one command so that it sees its input, can write its output, and reaches nothing else.
//!
//! Three processes, because each step needs rights that the next one must not have:
//! 1. the *keeper* enters user, mount, pid, ipc and uts namespaces, makes the command's file system, and keeps the time and
//!    the memory; when it ends, everything below it ends;
//! 2. the *inside* is the first process of the pid namespace: it makes `/proc`, leaves the network, and waits;
//! 3. the *last* enters one more user namespace as nobody in particular, which gives up every right over the mounts, sets
//!    the limits, and becomes the command.

mod gate;
mod keeper;
mod mounts;

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use model::{ErrorKind, Problem, Result};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_no_new_privs;
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{getegid, geteuid};
use worker::confine::{NOT_STARTED, Order};

use crate::bond::die_with_parent;

/// Largest file that a command may write.
const LARGEST_FILE: u64 = 1024 * 1024 * 1024;
/// Who a command is, in its own eyes.
const NOBODY: u32 = 65534;
/// What a shell ends with when there is no such program.
const NO_PROGRAM: u8 = 127;

#[derive(clap::Subcommand)]
pub enum Stage {
    #[command(hide = true)]
    Inside { order: PathBuf },
    #[command(hide = true)]
    Last { order: PathBuf },
    #[command(hide = true)]
    Gate { order: PathBuf },
}

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    stage: Option<Stage>,
    /// The process with which this one ends.
    #[arg(long, global = true)]
    parent: Option<u32>,
    #[arg(required = true)]
    order: Option<PathBuf>,
}

/// # Errors
/// What keeps the command from being started. The keeper hands it over in a file beside its report.
pub fn run(args: &Args) -> Result<ExitCode> {
    die_with_parent(args.parent)?;
    match (&args.stage, &args.order) {
        (Some(Stage::Inside { order }), _) => inside(&read(order)?),
        (Some(Stage::Last { order }), _) => Err(last(&read(order)?)),
        (Some(Stage::Gate { order }), _) => gate::keep(&read(order)?).map(|()| ExitCode::SUCCESS),
        (None, Some(order)) => {
            let file = order.clone();
            let order = read(order)?;
            let done = keeper::run(&order, &file);
            if let Err(problem) = &done {
                crate::exec::hand_over(problem, &order.report());
            }
            done.map(|()| ExitCode::SUCCESS)
        }
        (None, None) => Err(Problem::internal("confine.without_order", "there is nothing to run")),
    }
}

/// Whether this machine can keep a command apart: it is tried, with a command that does nothing.
///
/// # Errors
/// `algorithm.no_isolation`.
pub fn probe(scratch: &Path) -> Result<()> {
    let work = scratch.join("probe");
    worker::child::empty_folder(&work)?;
    let (input, output) = (work.join("input"), work.join("output"));
    worker::child::empty_folder(&input)?;
    worker::child::empty_folder(&output)?;
    let order = Order {
        command: vec!["true".to_owned()],
        env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
        input,
        datapack: "probe".to_owned(),
        output,
        work: work.clone(),
        seconds: 10,
        memory_mib: 256,
        network: api::algorithm::Network::None,
        server: None,
        no_isolation: false,
    };
    let file = work.join("order.json");
    let text = serde_json::to_vec(&order).map_err(|error| Problem::internal("exec.order", error.to_string()))?;
    std::fs::write(&file, text).map_err(|error| worker::child::unwritable(&work, error))?;
    let program = own_program()?;
    let output = Command::new(&program).arg("confine").arg(&file).output();
    let output = output.map_err(|error| worker::child::not_started(&program, error))?;
    let report = std::fs::read_to_string(order.report()).map_err(|error| format!("no report: {error}"));
    std::fs::remove_dir_all(&work).map_err(|error| worker::child::unwritable(&work, error))?;
    let words = String::from_utf8_lossy(&output.stderr);
    match report {
        Ok(report) if output.status.success() && report.contains("\"code\":0") => Ok(()),
        Ok(other) | Err(other) => Err(no_isolation(format!("{other} {}", words.trim()))),
    }
}

fn no_isolation(found: impl std::fmt::Display) -> Problem {
    Problem::new(ErrorKind::Missing, "algorithm.no_isolation", "this machine cannot keep a command apart from the rest")
        .found(found.to_string())
        .expected("a kernel that lets this user make user, mount, pid and network namespaces")
        .fix(
            "allow user namespaces, or run it with every right of the server: `--no-isolation`; its results are marked",
        )
}

/// The first process of the pid namespace.
fn inside(order: &Order) -> Result<ExitCode> {
    mounts::enter(order)?;
    let gate = gate::leave_network(order)?;
    let status = stage(Path::new(mounts::PROGRAM), "last", Path::new(mounts::ORDER)).status();
    let status = status.map_err(|error| no_isolation(format!("the last process: {error}")))?;
    drop(gate);
    // A signal is told as a shell tells it; the keeper reads it back.
    let code = status.code().unwrap_or_else(|| 128 + signal_of(status));
    Ok(ExitCode::from(u8::try_from(code).expect("an exit code has eight bits, and there are 64 signals")))
}

/// What ended a process that did not end by itself.
fn signal_of(status: ExitStatus) -> i32 {
    status.signal().expect("a process that was waited for has a code or was ended by a signal")
}

/// Becomes the command. Comes back only with the reason why not.
fn last(order: &Order) -> Problem {
    if let Err(problem) = restrict(order) {
        return problem;
    }
    let Some((program, arguments)) = order.command.split_first() else {
        return Problem::internal("confine.without_command", "there is nothing to run");
    };
    let home = order.env.get("HOME").map_or("/", String::as_str);
    let error = Command::new(program).args(arguments).env_clear().envs(&order.env).current_dir(home).exec();
    eprintln!("{NOT_STARTED}{program}: {error}");
    std::process::exit(i32::from(NO_PROGRAM));
}

fn restrict(order: &Order) -> Result<()> {
    if !order.no_isolation {
        enter_user(NOBODY)?;
    }
    let limit = |resource, most: u64| {
        setrlimit(resource, most, most).map_err(|error| no_isolation(format!("a limit: {error}")))
    };
    limit(Resource::RLIMIT_DATA, order.memory_mib.saturating_mul(1024 * 1024))?;
    limit(Resource::RLIMIT_FSIZE, LARGEST_FILE)?;
    limit(Resource::RLIMIT_CORE, 0)?;
    set_no_new_privs().map_err(|error| no_isolation(format!("rights of programs: {error}")))
}

/// Makes this process `inner` in a user namespace of its own, in which it may do everything, and outside of it nothing.
fn enter_user(inner: u32) -> Result<()> {
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|error| no_isolation(format!("user namespace: {error}")))?;
    let write =
        |file: &str, text: String| std::fs::write(file, text).map_err(|error| no_isolation(format!("{file}: {error}")));
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("{inner} {user} 1"))?;
    write("/proc/self/gid_map", format!("{inner} {group} 1"))
}

/// The next process, bound to this one.
fn stage(program: &Path, stage: &str, order: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["confine", stage, "--parent"]).arg(std::process::id().to_string()).arg(order);
    command
}

fn own_program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|error| Problem::internal("daemon.own_program", error.to_string()))
}

fn read(order: &Path) -> Result<Order> {
    let text = std::fs::read(order).map_err(|error| unreadable(order, error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| unreadable(order, error.to_string()))
}

fn unreadable(order: &Path, found: String) -> Problem {
    Problem::new(ErrorKind::Invalid, "exec.order_unreadable", "the order cannot be read")
        .place(order.display().to_string())
        .found(found)
}
