//! Running the product's own programs, `aegis` and `aegisctl`, as `cargo xtask test` built them.
//!
//! A [`Site`] is one installation with a home folder of its own, so that nothing of this machine's settings is read and
//! nothing is left behind. Every wait has a deadline.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// Longest time that a start or a stop may take, on a machine that is busy with other tests.
const START: Duration = Duration::from_secs(60);
/// Longest time that one call of a program may take.
const CALL: Duration = Duration::from_secs(180);

/// One of our programs.
///
/// # Panics
/// When the folder of the built programs is not named or lacks it.
pub fn program(name: &str) -> PathBuf {
    let folder = std::env::var_os("AEGIS_BIN_DIR")
        .unwrap_or_else(|| panic!("AEGIS_BIN_DIR is not set: run the whole-product tests with `cargo xtask test`"));
    let path = PathBuf::from(folder).join(name);
    assert!(path.is_file(), "{} is missing: run the whole-product tests with `cargo xtask test`", path.display());
    path
}

/// Asks again and again until there is an answer.
///
/// # Panics
/// After `limit`.
pub fn until<T>(what: &str, limit: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = probe() {
            return answer;
        }
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How a program ended and what it wrote.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; minus the signal when one ended it.
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Asserts that it ended well.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }

    /// The error on standard error: the last line, one JSON object.
    #[track_caller]
    pub fn error(&self) -> Value {
        let line = self.err.lines().last().unwrap_or_default();
        serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("{error}: exit {}: {}{}", self.code, self.out, self.err))
    }
}

/// Runs a program to its end.
///
/// # Panics
/// When it does not end in time; it is killed then.
#[track_caller]
pub fn finish(command: &mut Command) -> Ran {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let pid = pid_of(&child);
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = ended.recv_timeout(CALL) else {
        // It may have ended this very moment.
        let _ = kill(pid, Signal::SIGKILL);
        panic!("not within {CALL:?}: {command:?}");
    };
    let output = output.expect("a child of this process can be waited for");
    Ran {
        code: code_of(output.status),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn code_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| -status.signal().unwrap_or_default())
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("process numbers fit"))
}

/// One installation: a home folder, and a data folder in it.
#[derive(Debug)]
pub struct Site {
    folder: TempDir,
}

impl Default for Site {
    fn default() -> Self {
        Self::new()
    }
}

impl Site {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder can be made") }
    }

    /// The home folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// Writes a file below the home folder.
    pub fn write(&self, file: &str, text: &str) -> PathBuf {
        let path = self.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("folders can be made");
        std::fs::write(&path, text).expect("a file can be written");
        path
    }

    /// A program of ours in this home and with no other settings.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(program(name));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("XDG_STATE_HOME", self.path().join("state"))
            .current_dir(self.path());
        command
    }

    /// `aegis` with these arguments, to its end.
    #[track_caller]
    pub fn aegis(&self, arguments: &[&str]) -> Ran {
        finish(self.command("aegis").args(arguments))
    }

    /// `aegisctl -o json` with these arguments, to its end. It finds the server of this site by itself.
    #[track_caller]
    pub fn ctl(&self, arguments: &[&str]) -> Ran {
        finish(self.command("aegisctl").args(["-o", "json"]).args(arguments))
    }

    /// `aegis serve` on the data folder and a free port.
    pub fn serve_command(&self) -> Command {
        let mut command = self.command("aegis");
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(self.data());
        command
    }

    /// A daemon that is ready.
    #[track_caller]
    pub fn serve(&self, arguments: &[&str]) -> Daemon {
        Daemon::start(self.serve_command().args(arguments), self).ready()
    }
}

/// A running `aegis serve`. It is killed when dropped; its log is printed when the test fails.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    data: PathBuf,
    log: PathBuf,
    ended: Option<ExitStatus>,
    /// Contents of its `server.json`; null until it is ready.
    pub server: Value,
}

impl Daemon {
    /// Starts it and does not wait.
    #[track_caller]
    pub fn start(command: &mut Command, site: &Site) -> Self {
        let log = site.path().join("daemon.log");
        let file = File::options().create(true).append(true).open(&log).expect("a log can be written");
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a file can be shared"))
            .stderr(file)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child, data: site.data(), log, ended: None, server: Value::Null }
    }

    /// Waits until it serves.
    ///
    /// # Panics
    /// When it ends instead, or takes too long.
    #[track_caller]
    pub fn ready(mut self) -> Self {
        let file = self.data.join("server.json");
        let server = until("the daemon is ready", START, || {
            assert!(self.poll().is_none(), "the daemon ended instead of serving: {:?}", self.ended);
            // A file of an earlier process may be left over, and this one may be half written.
            let server: Value = serde_json::from_slice(&std::fs::read(&file).ok()?).ok()?;
            (server["pid"] == self.child.id()).then_some(server)
        });
        self.server = server;
        self
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The base URL.
    pub fn address(&self) -> &str {
        self.server["address"].as_str().expect("a daemon that is ready has an address")
    }

    /// The administrator's token.
    pub fn token(&self) -> String {
        let file = self.server["token_file"].as_str().expect("a daemon that is ready has a token file");
        let name = Path::new(file).file_name().expect("a file has a name");
        std::fs::read_to_string(self.data.join(name)).expect("the token file can be read").trim().to_owned()
    }

    /// Looks at the data folder as the daemon sees it, which may have mounts of its own.
    pub fn through_its_eyes(mut self) -> Self {
        self.data = PathBuf::from(format!("/proc/{}/root{}", self.pid(), self.data.display()));
        self
    }

    /// How it ended, if it did.
    pub fn poll(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("a child of this process can be waited for");
        }
        self.ended
    }

    /// Waits until it ended by itself; its exit code, or minus the signal that ended it.
    #[track_caller]
    pub fn death(mut self, limit: Duration) -> i32 {
        code_of(until("the daemon ends", limit, || self.poll()))
    }

    /// Kills it as a power cut would.
    pub fn kill(mut self) {
        self.end(Signal::SIGKILL);
    }

    /// Asks it to end, and waits.
    ///
    /// # Panics
    /// When it does not end well.
    #[track_caller]
    pub fn stop(mut self) {
        self.end(Signal::SIGTERM);
        assert_eq!(self.ended.map(code_of), Some(0), "a daemon that is asked to end ends well");
    }

    fn end(&mut self, signal: Signal) {
        if self.poll().is_none() {
            kill(pid_of(&self.child), signal).expect("a child that was not waited for can be signalled");
            until("the daemon ends", START, || self.poll());
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("--- the daemon's log ends with:\n{}", lines[lines.len().saturating_sub(40)..].join("\n"));
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
