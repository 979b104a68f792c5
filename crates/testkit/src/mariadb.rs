//! A throw-away MariaDB server: started on demand, one per test process, reached only through a socket in its own folder.
//!
//! A shell watches over it: it reads a pipe whose other end only this process holds, so that the server is ended and its
//! folder removed however this process ends, also by a signal.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use nix::unistd::{Uid, User, chown};

use crate::process::until;

const START: Duration = Duration::from_secs(60);

/// The running server.
pub(crate) struct Server {
    socket: PathBuf,
    databases: AtomicU32,
    /// Holds the pipe that keeps the server alive.
    _watcher: Mutex<Child>,
}

impl Server {
    /// The server of this process, or why there is none.
    ///
    /// # Panics
    /// When MariaDB is installed and does not start.
    pub(crate) fn get() -> Result<&'static Self, &'static str> {
        static SERVER: OnceLock<Option<Server>> = OnceLock::new();
        SERVER
            .get_or_init(|| Some(Self::start(&find("mariadbd")?, &find("mariadb-install-db")?)))
            .as_ref()
            .ok_or("MariaDB is not installed (`apt-get install mariadb-server`)")
    }

    fn start(server: &Path, installer: &Path) -> Self {
        let folder = tempfile::Builder::new().prefix("aegis-mariadb-").tempdir().expect("a temporary folder");
        // The watcher removes the folder, since nothing of this process may be left to do it.
        let folder = folder.keep();
        let user = account();
        if let Some(user) = &user {
            chown(&folder, Some(user.uid), Some(user.gid)).expect("root may give a folder away");
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("the folder is ours");
        let as_user = user.map(|user| format!("--user={}", user.name));
        install(installer, &folder, as_user.as_deref());
        let socket = folder.join("socket");
        let watcher = watch(server, &folder, &socket, as_user.as_deref());
        let found = Self { socket, databases: AtomicU32::new(0), _watcher: Mutex::new(watcher) };
        until("MariaDB answers", START, || found.run("SELECT 1").ok());
        found
    }

    /// Makes a database that nothing else uses, and gives its address.
    pub(crate) fn database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        // The server's own default differs on purpose: tables must name their character set and collation.
        self.run(&format!("CREATE DATABASE {name} CHARACTER SET latin1 COLLATE latin1_swedish_ci"))
            .expect("a fresh server makes databases");
        format!("mysql://root@localhost/{name}?socket={}", self.socket.display())
    }

    fn run(&self, sql: &str) -> Result<(), String> {
        let client = find("mariadb").ok_or("the client `mariadb` is not installed")?;
        let output = Command::new(client)
            .args(["--no-defaults", "--user=root", "--batch", "--execute", sql])
            .arg(format!("--socket={}", self.socket.display()))
            .stdin(Stdio::null())
            .output()
            .map_err(|error| error.to_string())?;
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }
}

/// MariaDB refuses to run as root.
fn account() -> Option<User> {
    if !Uid::effective().is_root() {
        return None;
    }
    let user = User::from_name("mysql").expect("the list of users can be read");
    Some(user.expect("MariaDB's package makes the user `mysql`"))
}

fn install(installer: &Path, folder: &Path, user: Option<&str>) {
    let output = Command::new(installer)
        .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
        .arg(format!("--datadir={}", folder.join("data").display()))
        .args(user)
        // Servers that are set up side by side would take each other's temporary tables in the shared folder.
        .env("TMPDIR", folder)
        .stdin(Stdio::null())
        .output()
        .expect("the installer of MariaDB starts");
    assert!(output.status.success(), "MariaDB was not set up: {}", String::from_utf8_lossy(&output.stderr));
}

fn watch(server: &Path, folder: &Path, socket: &Path, user: Option<&str>) -> Child {
    // Its own process group, so that a signal to the tests' group does not end the watcher before it has cleaned up.
    let script = "folder=$1; shift; \"$@\" >\"$folder/server.log\" 2>&1 & server=$!; cat >/dev/null; \
                  kill -9 $server; wait $server; rm -rf \"$folder\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(folder).arg(server).arg("--no-defaults").args(user);
    command.arg(format!("--datadir={}", folder.join("data").display()));
    command.arg(format!("--socket={}", socket.display()));
    command.arg(format!("--pid-file={}", folder.join("pid").display()));
    command.arg(format!("--tmpdir={}", folder.display()));
    command.args([
        "--skip-networking",
        "--skip-log-bin",
        "--performance-schema=OFF",
        "--innodb-buffer-pool-size=64M",
        "--innodb-log-file-size=16M",
        // A test's server never has to survive the loss of power.
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-flush-method=nosync",
        "--skip-innodb-doublewrite",
        "--skip-sync-frm",
        "--max-connections=500",
    ]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn().expect("a shell starts")
}

/// A program on the path, or where Debian puts servers.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}
