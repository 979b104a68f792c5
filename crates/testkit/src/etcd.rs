//! A throw-away etcd: started on demand, one per test process, each test with a prefix of its own.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::certificates::Certificates;
use crate::gate::Gate;
use crate::not_run;
use crate::process::until;
use crate::watched::{Paused, Watched, find};

const START: Duration = Duration::from_secs(60);
const ABSENT: &str = "etcd is not installed (`apt-get install etcd-server etcd-client`)";

/// The running server.
#[derive(Debug)]
struct Server {
    host: String,
    /// What `etcdctl` is told besides.
    access: Vec<String>,
    trees: AtomicU32,
    watched: Watched,
}

/// A tree of settings that nothing else uses, and another tool that writes there.
#[derive(Debug)]
pub struct Etcd {
    /// As the product takes it.
    pub url: String,
    /// Begins with `/`.
    pub prefix: String,
    server: Own,
}

#[derive(Debug)]
enum Own {
    Shared(&'static Server),
    Alone(Server),
}

impl Etcd {
    /// A tree in this process's server, or `None` after listing `test` as not run.
    ///
    /// # Panics
    /// In CI, when etcd is not installed.
    pub fn shared(test: &str) -> Option<Self> {
        static SERVER: OnceLock<Option<Server>> = OnceLock::new();
        let server = SERVER.get_or_init(Server::start).as_ref();
        server.map(|server| Self::of(Own::Shared(server))).or_else(|| absent(test))
    }

    /// A server of its own, which the test may stop for a while.
    ///
    /// # Panics
    /// As [`Etcd::shared`].
    pub fn alone(test: &str) -> Option<Self> {
        Server::start().map(|server| Self::of(Own::Alone(server))).or_else(|| absent(test))
    }

    /// A server of its own that speaks TLS alone, wants a certificate of its clients, and a login.
    ///
    /// # Panics
    /// As [`Etcd::shared`].
    pub fn guarded(test: &str, certificates: &Certificates, user: &str, password: &str) -> Option<Self> {
        let Some(server) = Server::start_with(Some(certificates)) else { return absent(test) };
        let mut etcd = Self::of(Own::Alone(server));
        etcd.ctl(&["user", "add", &format!("root:{password}")]);
        etcd.ctl(&["user", "grant-role", "root", "root"]);
        etcd.ctl(&["user", "add", &format!("{user}:{password}")]);
        etcd.ctl(&["role", "add", "settings"]);
        etcd.ctl(&["role", "grant-permission", "settings", "--prefix=true", "readwrite", "/"]);
        etcd.ctl(&["user", "grant-role", user, "settings"]);
        etcd.ctl(&["auth", "enable"]);
        if let Own::Alone(server) = &mut etcd.server {
            server.access.push(format!("--user=root:{password}"));
        }
        Some(etcd)
    }

    /// `HOST:PORT`.
    pub fn host(&self) -> &str {
        &self.server.get().host
    }

    fn of(server: Own) -> Self {
        let (host, number) = {
            let server = server.get();
            (server.host.clone(), server.trees.fetch_add(1, Ordering::Relaxed))
        };
        let prefix = format!("/aegis/test{number}");
        Self { url: format!("etcd://{host}{prefix}"), prefix, server }
    }

    /// A network before the server, and the address of this tree through it.
    pub fn behind_gate(&self) -> (Gate, String) {
        let gate = Gate::before(&self.server.get().host);
        let url = format!("etcd://{}{}", gate.host(), self.prefix);
        (gate, url)
    }

    /// `etcdctl` with these arguments: its standard output.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn ctl(&self, arguments: &[&str]) -> String {
        let output = self.server.get().ctl(arguments).expect("etcdctl starts");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Writes below the prefix, as another tool does: `global/a.b`.
    #[track_caller]
    pub fn put(&self, path: &str, value: &str) {
        self.ctl(&["put", "--", &format!("{}/{path}", self.prefix), value]);
    }

    /// What stands below the prefix, if anything does.
    #[track_caller]
    pub fn get(&self, path: &str) -> Option<String> {
        let text = self.ctl(&["get", "--print-value-only", &format!("{}/{path}", self.prefix)]);
        (!text.is_empty()).then_some(text)
    }

    /// Every path that begins so, without the prefix.
    #[track_caller]
    pub fn paths(&self, beginning: &str) -> Vec<String> {
        let text = self.ctl(&["get", "--prefix", "--keys-only", &format!("{}/{beginning}", self.prefix)]);
        let root = format!("{}/", self.prefix);
        text.lines().filter_map(|line| line.strip_prefix(&root)).map(str::to_owned).collect()
    }

    /// Deletes below the prefix everything that begins so.
    #[track_caller]
    pub fn delete(&self, beginning: &str) {
        self.ctl(&["del", "--prefix", &format!("{}/{beginning}", self.prefix)]);
    }

    /// Lets the server stand still until the guard goes, as one that cannot be reached.
    ///
    /// # Panics
    /// On a server that other tests use.
    pub fn pause(&self) -> Paused {
        let Own::Alone(server) = &self.server else { panic!("other tests use this server") };
        server.watched.pause()
    }
}

impl Own {
    fn get(&self) -> &Server {
        match self {
            Self::Shared(server) => server,
            Self::Alone(server) => server,
        }
    }
}

fn absent(test: &str) -> Option<Etcd> {
    not_run(&format!("{test} on etcd"), ABSENT);
    None
}

impl Server {
    /// `None` when it is not installed.
    fn start() -> Option<Self> {
        Self::start_with(None)
    }

    fn start_with(tls: Option<&Certificates>) -> Option<Self> {
        let (program, _client) = find("etcd").zip(find("etcdctl"))?;
        // Ports cannot be reserved, so another program may take them first: then with others.
        (0..5).find_map(|_| Self::try_start(&program, tls)).or_else(|| panic!("etcd is installed and does not start"))
    }

    fn try_start(program: &std::path::Path, tls: Option<&Certificates>) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("aegis-etcd-").tempdir().expect("a temporary folder").keep();
        let [client, peer] = free_ports();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (client_url, peer_url) = (format!("{scheme}://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let pairs = [
            ("--data-dir", folder.join("data").display().to_string()),
            ("--listen-client-urls", client_url.clone()),
            ("--advertise-client-urls", client_url),
            ("--listen-peer-urls", peer_url.clone()),
            ("--initial-advertise-peer-urls", peer_url.clone()),
            ("--initial-cluster", format!("test={peer_url}")),
            ("--name", "test".to_owned()),
            ("--logger", "zap".to_owned()),
            ("--log-level", "warn".to_owned()),
        ];
        let mut arguments: Vec<String> = pairs.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect();
        // A test's server never has to survive the loss of power.
        arguments.push("--unsafe-no-fsync".into());
        let mut access = vec![format!("--endpoints={scheme}://127.0.0.1:{client}")];
        if let Some(certificates) = tls {
            let (ca, (server, server_key)) = (certificates.ca(), certificates.server());
            let (own, own_key) = certificates.client();
            for (flag, file) in [("--trusted-ca-file", &ca), ("--cert-file", &server), ("--key-file", &server_key)] {
                arguments.push(format!("{flag}={}", file.display()));
            }
            arguments.push("--client-cert-auth".into());
            for (flag, file) in [("--cacert", &ca), ("--cert", &own), ("--key", &own_key)] {
                access.push(format!("{flag}={}", file.display()));
            }
        }
        let watched = Watched::start(program, &folder, &arguments);
        let server = Self { host: format!("127.0.0.1:{client}"), access, trees: AtomicU32::new(0), watched };
        let answers = until("etcd answers or ends", START, || {
            if server.watched.has_ended() {
                return Some(false);
            }
            let output = server.ctl(&["--dial-timeout=1s", "--command-timeout=1s", "get", "/"]).ok()?;
            output.status.success().then_some(true)
        });
        answers.then_some(server)
    }

    fn ctl(&self, arguments: &[&str]) -> std::io::Result<std::process::Output> {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(&self.access).args(arguments);
        command.stdin(Stdio::null()).output()
    }
}

pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    listeners.map(|listener| listener.local_addr().expect("a bound socket has an address").port())
}
