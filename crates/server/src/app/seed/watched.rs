//! A folder with a seed that is looked at all the time: what its files would change is told, or done where that was asked for.
//!
//! What is done by itself is what an application does without anybody's consent: no removal, no conflict, nothing that an
//! operator set. The rest stays told until somebody decides.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use api::seed::{ApplyRequest, Auto, PlanRequest, Watched};
use model::{ErrorKind, Problem, Result, WallTime};
use sha2::{Digest, Sha256};

use super::super::App;

/// How often the files are looked at.
const TICK: Duration = Duration::from_secs(1);
/// Who applies what nobody applied by hand.
const BY: &str = "seed.auto";

/// Which folder is looked at, and what is done about it.
#[derive(Debug, Clone)]
pub struct WatchedSeed {
    /// It holds `data.yaml`; its name is the environment's.
    pub folder: PathBuf,
    pub auto: Auto,
}

/// What was read of the folder and not yet dealt with.
struct Watching {
    app: App,
    seed: WatchedSeed,
    /// The files as they were a moment ago: while somebody writes them they are not a seed.
    last: Option<String>,
    /// The files that were dealt with.
    done: Option<String>,
}

impl App {
    /// Looks at the folder until `stopped`.
    ///
    /// # Errors
    /// None: what goes wrong is told in [`App::seed_watched`] and in the log, and tried again.
    pub async fn watch_seed(self, seed: WatchedSeed, stopped: impl Future<Output = ()>) -> Result<()> {
        let mut watching = Watching { app: self, seed, last: None, done: None };
        tokio::pin!(stopped);
        loop {
            watching.step().await;
            tokio::select! {
                () = &mut stopped => return Ok(()),
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }

    /// What the watched folder would still change.
    ///
    /// # Errors
    /// `seed.not_watched`.
    pub fn seed_watched(&self) -> Result<Watched> {
        self.watched().borrow().clone().ok_or_else(|| {
            Problem::new(
                ErrorKind::NotFound,
                "seed.not_watched",
                "no folder with a seed is watched, or it was not read yet",
            )
            .fix("name one in the configuration file: `[seed]` with `folder` and `auto`")
        })
    }
}

impl Watching {
    async fn step(&mut self) {
        let folder = self.seed.folder.clone();
        let read = tokio::task::spawn_blocking(move || files(folder)).await;
        let read = read.map_err(|error| Problem::internal("seed.reader_died", error.to_string())).flatten();
        let digest = match &read {
            Ok(files) => digest(files),
            Err(problem) => problem.to_string(),
        };
        let settled = self.last.as_ref() == Some(&digest);
        self.last = Some(digest.clone());
        if !settled || self.done.as_ref() == Some(&digest) {
            return;
        }
        let of = read.is_ok().then(|| digest.clone());
        let told = match read {
            Ok(files) => self.deal_with(files).await,
            Err(problem) => Err(problem),
        };
        // What may be different in a moment, such as a database that does not answer, is tried again.
        let is_final = told.as_ref().map_or_else(|problem| !problem.kind.retryable(), |_| true);
        let problem = told.as_ref().err().map(|problem| problem.chain());
        if let Some(problem) = &problem {
            tracing::warn!("the watched seed {}: {problem}", self.seed.folder.display());
        }
        let (changes, applied) = told.unwrap_or_default();
        let watched = Watched {
            folder: self.seed.folder.display().to_string(),
            auto: self.seed.auto,
            digest: of,
            read_at: WallTime::now().to_string(),
            changes,
            applied,
            problem,
        };
        self.app.watched().send_replace(Some(watched));
        if is_final {
            self.done.clone_from(&self.last);
        }
    }

    /// The changes that are left, and the revision that applied the others.
    async fn deal_with(&self, files: BTreeMap<String, String>) -> Result<(Vec<::seed::Change>, Option<i32>)> {
        let env = self.seed.folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let folder = self.seed.folder.display();
        match self.seed.auto {
            Auto::Plan => {
                let plan = self.app.seed_plan(&PlanRequest { env, files, system: None }).await?.plan;
                tracing::info!("the watched seed {folder} would change {} things", plan.changes.len());
                Ok((plan.changes, None))
            }
            Auto::Apply => {
                let request = ApplyRequest { env, files, ..ApplyRequest::default() };
                let reply = self.app.seed_apply(&request, BY).await?;
                let (applied, left) = (reply.applied.len(), reply.left.len());
                tracing::info!("the watched seed {folder} was applied: {applied} changes; {left} need somebody's word");
                Ok((reply.left, reply.revision.filter(|_| reply.changed)))
            }
        }
    }
}

/// The YAML files of a folder.
fn files(folder: PathBuf) -> Result<BTreeMap<String, String>> {
    let unreadable = |error: std::io::Error| {
        Problem::new(ErrorKind::Missing, "seed.folder_unreadable", "the watched folder cannot be read")
            .place(folder.display().to_string())
            .found(error.to_string())
    };
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_file() && name.ends_with(".yaml") && !name.starts_with('.') {
            found.insert(name.to_owned(), std::fs::read_to_string(&path).map_err(unreadable)?);
        }
    }
    Ok(found)
}

fn digest(files: &BTreeMap<String, String>) -> String {
    let mut hash = Sha256::new();
    for (name, text) in files {
        for part in [name, text] {
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
    }
    hex::encode(hash.finalize())
}
