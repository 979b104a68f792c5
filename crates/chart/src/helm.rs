//! The `helm` program: found, started with nothing of this machine's own Helm state, bounded in time and output.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use model::{ErrorKind, Problem, Result};
use nix::unistd::{AccessFlags, access};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::login::Logins;

/// Most bytes of what one call says: more than any rendered chart has.
const LARGEST_OUTPUT: u64 = 64 << 20;
/// How much of what it says on its way out is repeated.
const LONGEST_WORDS: usize = 2000;
/// What of the surroundings the program gets: how to reach the outside, and whom to trust there.
const PASSED_ON: &[&str] = &[
    "PATH",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Folder of a [`Home`] for what is pulled.
pub(crate) const PULLED: &str = "pulled";

/// File of a [`Home`] with the logins to registries.
pub(crate) const REGISTRIES: &str = "registry.json";

/// How to start `helm`, and with which logins.
#[derive(Debug, Clone)]
pub struct Helm {
    program: PathBuf,
    pub(crate) limit: Duration,
    pub(crate) logins: Logins,
}

/// What one call said.
#[derive(Debug)]
pub(crate) struct Said {
    pub ok: bool,
    pub out: Vec<u8>,
    /// What it said on standard error, cut.
    pub words: String,
}

/// Everything that Helm keeps, in a folder that goes with this value: no call leaves or finds anything on the machine.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    pub fn new() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("aegis-helm-").tempdir();
        let folder = folder.map_err(|error| no_room(&std::env::temp_dir(), &error))?;
        let home = Self { folder };
        std::fs::create_dir(home.path(PULLED)).map_err(|error| no_room(&home.path(PULLED), &error))?;
        Ok(home)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// # Errors
    /// `chart.no_room`.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.path(name);
        std::fs::write(&path, bytes).map_err(|error| no_room(&path, &error))?;
        Ok(path)
    }
}

fn no_room(place: &Path, error: &std::io::Error) -> Problem {
    Problem::new(ErrorKind::Unavailable, "chart.no_room", "there is no room for temporary files")
        .place(place.display().to_string())
        .found(error.to_string())
}

impl Helm {
    /// The program that the configuration names, else the first of that name on `PATH`. `limit` bounds each call.
    ///
    /// # Errors
    /// `helm.not_found`.
    pub fn find(configured: Option<&Path>, limit: Duration) -> Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let candidates: Vec<PathBuf> = match configured {
            Some(program) => vec![program.to_owned()],
            None => std::env::split_paths(&path).map(|folder| folder.join("helm")).collect(),
        };
        let runs = |program: &&PathBuf| program.is_file() && access(program.as_path(), AccessFlags::X_OK).is_ok();
        match candidates.iter().find(runs) {
            Some(program) => Ok(Self { program: program.clone(), limit, logins: Logins::default() }),
            None => Err(Problem::new(ErrorKind::Missing, "helm.not_found", "the program `helm` is not there")
                .place(configured.map_or_else(|| "PATH".to_owned(), |program| program.display().to_string()))
                .expected("Helm 3 or Helm 4")
                .fix("install Helm, or name it with `helm = PATH` in the configuration file")),
        }
    }

    /// With these logins to repositories and registries.
    #[must_use]
    pub fn with_logins(self, logins: Logins) -> Self {
        Self { logins, ..self }
    }

    pub fn program(&self) -> &Path {
        &self.program
    }

    /// As the program tells it: `v3.19.0`.
    ///
    /// # Errors
    /// `helm.not_started`, `helm.no_answer`.
    pub async fn version(&self) -> Result<String> {
        let said = self.run(&Home::new()?, &["version", "--template", "{{.Version}}"]).await?;
        Ok(String::from_utf8_lossy(&said.out).trim().to_owned())
    }

    /// # Errors
    /// `helm.not_started`, `helm.no_answer`, `helm.said_too_much`.
    pub(crate) async fn run(&self, home: &Home, arguments: &[&str]) -> Result<Said> {
        self.tell(home, arguments, None).await
    }

    /// The same, with a text on its standard input, which nobody on the machine can read.
    ///
    /// # Errors
    /// As [`Helm::run`].
    pub(crate) async fn tell(&self, home: &Home, arguments: &[&str], input: Option<&str>) -> Result<Said> {
        let mut command = Command::new(&self.program);
        command.env_clear();
        command.envs(PASSED_ON.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        for (name, place) in [
            ("HOME", ""),
            ("TMPDIR", ""),
            ("HELM_CACHE_HOME", "cache"),
            ("HELM_CONFIG_HOME", "config"),
            ("HELM_DATA_HOME", "data"),
            ("HELM_PLUGINS", "plugins"),
            ("HELM_CONTENT_CACHE", "content"),
            ("HELM_REPOSITORY_CACHE", "index"),
            ("HELM_REPOSITORY_CONFIG", "repositories.yaml"),
            ("HELM_REGISTRY_CONFIG", REGISTRIES),
            // A file that is not there: a chart cannot look into a cluster while it is rendered.
            ("KUBECONFIG", "no-cluster"),
        ] {
            command.env(name, home.path(place));
        }
        command.args(arguments).current_dir(home.path("")).kill_on_drop(true);
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let verb = arguments.first().copied().unwrap_or_default();
        let not_started = |error: std::io::Error| {
            Problem::new(ErrorKind::Missing, "helm.not_started", "the program `helm` cannot be started")
                .place(self.program.display().to_string())
                .found(error.to_string())
        };
        let mut child = command.spawn().map_err(not_started)?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let told = child.stdin.take();
        let all = async {
            let heard = match told.zip(input) {
                Some((mut pipe, text)) => pipe.write_all(text.as_bytes()).await,
                None => Ok(()),
            };
            let (out, err) = tokio::try_join!(read(out), read(err))?;
            let status = child.wait().await?;
            // Who fails without having listened says why on its way out; a success without it is none.
            if status.success() {
                heard?;
            }
            Ok::<_, std::io::Error>((out, err, status))
        };
        let done = tokio::time::timeout(self.limit, all).await.map_err(|_| {
            Problem::new(ErrorKind::Timeout, "helm.no_answer", format!("`helm {verb}` did not come to an end in time"))
                .expected(format!("an end within {} s (`chart_seconds` in the configuration)", self.limit.as_secs()))
        })?;
        let (out, err, status) = done.map_err(not_started)?;
        if out.len() as u64 > LARGEST_OUTPUT {
            return Err(Problem::new(ErrorKind::Invalid, "helm.said_too_much", format!("`helm {verb}` says too much"))
                .expected(format!("at most {LARGEST_OUTPUT} bytes")));
        }
        Ok(Said { ok: status.success(), out, words: words(&err) })
    }
}

async fn read(pipe: Option<impl tokio::io::AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let mut pipe = pipe.take(LARGEST_OUTPUT + 1);
        pipe.read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// What the program complained of: its last lines, without what is said of warnings.
fn words(err: &[u8]) -> String {
    let text = String::from_utf8_lossy(err);
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.starts_with("WARNING") && !line.trim().is_empty()).collect();
    let text = lines.join("; ");
    let text = text.strip_prefix("Error: ").unwrap_or(&text);
    match text.char_indices().nth(LONGEST_WORDS) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text.to_owned(),
    }
}
