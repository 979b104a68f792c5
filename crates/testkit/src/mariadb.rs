//! A throw-away MariaDB server: started on demand, one per test process, reached only through a socket in its own folder.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::unistd::{Uid, User, chown};

use crate::certificates::Certificates;
use crate::etcd::free_ports;
use crate::process::until;
use crate::watched::{Watched, find};

const START: Duration = Duration::from_secs(60);
const ABSENT: &str = "MariaDB is not installed (`apt-get install mariadb-server`)";

/// The running server.
#[derive(Debug)]
pub(crate) struct Server {
    socket: PathBuf,
    databases: AtomicU32,
    watched: Watched,
}

impl Server {
    /// The server of this process, or why there is none.
    ///
    /// # Panics
    /// When MariaDB is installed and does not start.
    pub(crate) fn get() -> Result<&'static Self, &'static str> {
        static SERVER: OnceLock<Option<Server>> = OnceLock::new();
        SERVER.get_or_init(|| Self::own().ok()).as_ref().ok_or(ABSENT)
    }

    /// A server of the caller's own, which it may stop for a while.
    pub(crate) fn own() -> Result<Self, &'static str> {
        let programs = find("mariadbd").zip(find("mariadb-install-db"));
        programs
            .map(|(server, installer)| Self::start(&server, &installer, &["--skip-networking".into()]))
            .ok_or(ABSENT)
    }

    /// A server that takes `user` over the network as well, over TLS alone; with its port.
    pub(crate) fn guarded(tls: &Certificates, user: &str, password: &str) -> Result<(Self, u16), &'static str> {
        let programs = find("mariadbd").zip(find("mariadb-install-db"));
        let (server, installer) = programs.ok_or(ABSENT)?;
        let [port] = free_ports();
        let (pem, key) = tls.server();
        let network = [
            "--bind-address=127.0.0.1".to_owned(),
            // Whoever comes over the network is nobody of this machine.
            "--skip-name-resolve".to_owned(),
            format!("--port={port}"),
            format!("--ssl-ca={}", tls.ca().display()),
            format!("--ssl-cert={}", pem.display()),
            format!("--ssl-key={}", key.display()),
        ];
        if let Some(account) = account() {
            // It reads its key as the user that it runs as.
            tls.give_to(&account);
        }
        let server = Self::start(&server, &installer, &network);
        server
            .run(&format!(
                "CREATE USER '{user}'@'%' IDENTIFIED BY '{password}' REQUIRE SSL; GRANT ALL ON *.* TO '{user}'@'%'"
            ))
            .expect("a fresh server makes users");
        Ok((server, port))
    }

    /// Stands still, as a server does that cannot be reached, until the guard goes.
    pub(crate) fn pause(&self) -> crate::watched::Paused {
        self.watched.pause()
    }

    fn start(server: &Path, installer: &Path, network: &[String]) -> Self {
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
        let watched = watch(server, &folder, &socket, as_user.as_deref(), network);
        let found = Self { socket, databases: AtomicU32::new(0), watched };
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
        run(&self.socket, sql)
    }
}

/// Runs SQL through the client program.
pub(crate) fn run(socket: &Path, sql: &str) -> Result<(), String> {
    let client = find("mariadb").ok_or("the client `mariadb` is not installed")?;
    let output = Command::new(client)
        .args(["--no-defaults", "--user=root", "--batch", "--execute", sql])
        .arg(format!("--socket={}", socket.display()))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// A client that holds what it locked. Dropping it lets go.
#[derive(Debug)]
#[must_use = "what it locked is let go when this is dropped"]
pub struct Client(Child);

/// Runs SQL through the client program, and stays in its session.
pub(crate) fn hold(socket: &Path, sql: &str) -> Client {
    let client = find("mariadb").expect("the client `mariadb` is installed with the server");
    let mut child = Command::new(client)
        .args(["--no-defaults", "--user=root", "--batch", "--unbuffered", "--skip-column-names"])
        .arg(format!("--socket={}", socket.display()))
        .args(["--execute", &format!("{sql}; SELECT 'held'; SELECT SLEEP(600)")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the client starts");
    let mut said = String::new();
    let out = child.stdout.take().expect("it is a pipe");
    BufReader::new(out).read_line(&mut said).expect("what the client says is text");
    assert_eq!(said, "held\n", "{sql}");
    Client(child)
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
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

fn watch(server: &Path, folder: &Path, socket: &Path, user: Option<&str>, network: &[String]) -> Watched {
    let mut arguments: Vec<String> = vec!["--no-defaults".into()];
    arguments.extend(user.map(str::to_owned));
    arguments.push(format!("--datadir={}", folder.join("data").display()));
    arguments.push(format!("--socket={}", socket.display()));
    arguments.push(format!("--tmpdir={}", folder.display()));
    let constant = [
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
    ];
    arguments.extend(constant.map(str::to_owned));
    arguments.extend_from_slice(network);
    Watched::start(server, folder, &arguments)
}
