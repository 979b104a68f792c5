//! Certificates for servers on loopback, made by `openssl` for one test.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::unistd::{User, chown};

use crate::not_run;
use crate::watched::find;

/// An authority, a server's certificate for loopback and a client's, both signed by it. The files go with this value.
#[derive(Debug)]
pub struct Certificates {
    folder: tempfile::TempDir,
}

impl Certificates {
    /// `None` after listing `test` as not run.
    ///
    /// # Panics
    /// In CI, when `openssl` is not installed; when it refuses.
    pub fn make(test: &str) -> Option<Self> {
        let Some(program) = find("openssl") else {
            not_run(test, "openssl is not installed");
            return None;
        };
        let made = Self { folder: tempfile::tempdir().expect("there is a temporary folder") };
        let new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
        let authority = ["-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=tests"];
        made.run(&program, &[&new[..], &authority, &["-addext", "keyUsage=critical,keyCertSign"]].concat());
        let names = "subjectAltName=DNS:localhost,IP:127.0.0.1";
        for (name, usage) in [("server", "extendedKeyUsage=serverAuth"), ("client", "extendedKeyUsage=clientAuth")] {
            let (key, pem, subject) = (format!("{name}.key"), format!("{name}.pem"), format!("/CN={name}"));
            let own = ["-keyout", &key, "-out", &pem, "-subj", &subject, "-addext", names, "-addext", usage];
            let signed = ["-addext", "basicConstraints=critical,CA:false", "-CA", "ca.pem", "-CAkey", "ca.key"];
            made.run(&program, &[&new[..], &own, &signed].concat());
        }
        Some(made)
    }

    fn run(&self, program: &Path, arguments: &[&str]) {
        let mut command = Command::new(program);
        let output = command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null()).output();
        let output = output.expect("openssl starts");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Lets a server's user read them.
    pub(crate) fn give_to(&self, user: &User) {
        let files = std::fs::read_dir(self.folder.path()).expect("the folder is ours");
        let files = files.map(|entry| entry.expect("the folder is ours").path());
        for path in files.chain([self.folder.path().to_owned()]) {
            chown(&path, Some(user.uid), Some(user.gid)).expect("root may give a file away");
        }
    }

    /// The authority's certificate (PEM); so for the others.
    pub fn ca(&self) -> PathBuf {
        self.file("ca.pem")
    }

    pub fn server(&self) -> (PathBuf, PathBuf) {
        (self.file("server.pem"), self.file("server.key"))
    }

    pub fn client(&self) -> (PathBuf, PathBuf) {
        (self.file("client.pem"), self.file("client.key"))
    }
}

/// The files of a folder over HTTPS, from `openssl` itself. It ends when this is dropped.
#[derive(Debug)]
pub struct HttpsFiles {
    server: Child,
    port: String,
}

impl Certificates {
    /// # Panics
    /// When `openssl` does not serve.
    pub fn serve(&self, folder: &Path) -> HttpsFiles {
        let program = find("openssl").expect("it made the certificates");
        let (pem, key) = self.server();
        let mut command = Command::new(program);
        command.args(["s_server", "-WWW", "-accept", "127.0.0.1:0", "-cert"]).arg(pem).arg("-key").arg(key);
        command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().expect("openssl starts");
        let lines = BufReader::new(server.stdout.take().expect("it is a pipe")).lines();
        // It tells the port that it took: `ACCEPT 127.0.0.1:PORT`.
        let told = lines.map_while(Result::ok).find(|line| line.starts_with("ACCEPT"));
        let port = told.and_then(|line| line.rsplit_once(':').map(|(_, port)| port.trim().to_owned()));
        HttpsFiles { server, port: port.expect("openssl tells its port") }
    }
}

impl HttpsFiles {
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }
}

impl Drop for HttpsFiles {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
