//! A server of somebody else that lives no longer than this process.
//!
//! A shell watches over it: it reads a pipe whose other end only this process holds, so that the server is ended and its
//! folder removed however this process ends, also by a signal.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::process::until;

/// The running server. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Watched {
    pid: Pid,
    /// Holds the pipe that keeps the server alive.
    watcher: Mutex<Child>,
}

/// A server that stands still. Dropping it lets the server go on.
#[derive(Debug)]
#[must_use = "the server goes on when this is dropped"]
pub struct Paused(Pid);

impl Watched {
    /// Starts a program whose whole state is in `folder`, which goes with it.
    pub(crate) fn start(program: &Path, folder: &Path, arguments: &[String]) -> Self {
        let script = "folder=$1; shift; \"$@\" >\"$folder/server.log\" 2>&1 & server=$!; \
                      echo $server >\"$folder/server.new\"; mv \"$folder/server.new\" \"$folder/server.pid\"; \
                      cat >/dev/null; kill -9 $server; wait $server; rm -rf \"$folder\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(folder).arg(program).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Its own process group, so that a signal to the tests' group does not end the watcher before it has cleaned up.
        command.process_group(0);
        let watcher = command.spawn().expect("a shell starts");
        let pid = until("the server is started", Duration::from_secs(10), || {
            std::fs::read_to_string(folder.join("server.pid")).ok()?.trim().parse().ok()
        });
        Self { pid: Pid::from_raw(pid), watcher: Mutex::new(watcher) }
    }

    /// Whether the server ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        kill(self.pid, None).is_err()
    }

    pub(crate) fn pause(&self) -> Paused {
        kill(self.pid, Signal::SIGSTOP).expect("a server that is watched can be signalled");
        Paused(self.pid)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut watcher = self.watcher.lock().expect("no holder of this lock panics");
        drop(watcher.stdin.take());
        // It may have been ended by somebody else.
        let _ = watcher.wait();
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        // The server may be gone already.
        let _ = kill(self.0, Signal::SIGCONT);
    }
}

/// A program on the path, or where Debian puts servers.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}
