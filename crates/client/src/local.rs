//! Finding a server that runs on this machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use api::local::ServerFile;
use model::{ErrorKind, Problem, Result};
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

/// Where a server of this user announces itself: `$XDG_STATE_HOME/aegis/server.json`, by default below `~/.local/state`.
pub fn server_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    Some(state.or_else(home)?.join("aegis/server.json"))
}

/// The server that runs on this machine, or `None` when none has announced itself.
///
/// # Errors
/// `server.not_running` when the file is left over from a server that is gone; `server.file_unreadable` when it cannot
/// be read.
pub fn find() -> Result<Option<ServerFile>> {
    match server_file() {
        Some(path) => read(&path),
        None => Ok(None),
    }
}

fn read(path: &Path) -> Result<Option<ServerFile>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(path, error.to_string())),
    };
    let file: ServerFile = serde_json::from_str(&text).map_err(|error| unreadable(path, error.to_string()))?;
    if is_alive(file.pid) {
        return Ok(Some(file));
    }
    Err(Problem::new(ErrorKind::Missing, "server.not_running", "the server that ran on this machine is gone")
        .place(path.display().to_string())
        .found(format!("process {} does not exist", file.pid))
        .fix("start it again with `aegis serve`, or name another one with `--server`"))
}

fn unreadable(path: &Path, found: String) -> Problem {
    Problem::new(ErrorKind::Missing, "server.file_unreadable", "the file of the local server cannot be read")
        .place(path.display().to_string())
        .found(found)
        .fix("remove the file, or name the server with `--server`")
}

fn is_alive(pid: i32) -> bool {
    // Signal 0 only asks. A process of another user exists as well.
    pid > 0 && matches!(kill(Pid::from_raw(pid), None), Ok(()) | Err(Errno::EPERM))
}
