//! A folder with a seed that is looked at all the time: what its files would change is told, or done where that was asked for.
//!
//! What is done by itself is what an application does without anybody's consent: no removal, no conflict, nothing that an
//! operator set. The rest stays told until somebody decides.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
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

/// What became of the folder when it was read last.
#[derive(Debug, Clone)]
pub struct Looked {
    seed: WatchedSeed,
    read_at: WallTime,
    /// Or why nothing is known of the files, or nothing was done.
    outcome: std::result::Result<Read, String>,
}

/// Files that were dealt with.
#[derive(Debug, Clone)]
struct Read {
    wanted: PlanRequest,
    digest: String,
    /// The revision that applied them by itself.
    applied: Option<i32>,
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

    /// What the watched folder would still change, of the installation as it is now.
    ///
    /// # Errors
    /// `seed.not_watched`.
    pub async fn seed_watched(&self) -> Result<Watched> {
        let looked = self.watched().borrow().clone();
        let looked = looked.ok_or_else(|| {
            let message = "no folder with a seed is watched, or it was not read yet";
            Problem::new(ErrorKind::NotFound, "seed.not_watched", message)
                .fix("name one in the configuration file: `[seed]` with `folder` and `auto`")
        })?;
        let changes = match &looked.outcome {
            Ok(read) => self.seed_plan(&read.wanted).await.map(|reply| reply.plan.changes).map_err(|now| now.chain()),
            Err(problem) => Err(problem.clone()),
        };
        let read = looked.outcome.as_ref().ok();
        Ok(Watched {
            folder: looked.seed.folder.display().to_string(),
            auto: looked.seed.auto,
            digest: read.map(|read| read.digest.clone()),
            read_at: looked.read_at.to_string(),
            problem: changes.as_ref().err().cloned(),
            changes: changes.ok(),
            applied: read.and_then(|read| read.applied),
        })
    }
}

impl Watching {
    async fn step(&mut self) {
        let folder = self.seed.folder.clone();
        let read = tokio::task::spawn_blocking(move || wanted(&folder)).await;
        let read = read.map_err(|error| Problem::internal("seed.reader_died", error.to_string())).flatten();
        let state = read.as_ref().map_or_else(ToString::to_string, |wanted| digest(&wanted.files));
        let settled = self.last.as_ref() == Some(&state);
        self.last = Some(state.clone());
        if !settled || self.done.as_ref() == Some(&state) {
            return;
        }
        let done = match read {
            Ok(wanted) => self.deal_with(&wanted).await.map(|applied| Read { wanted, digest: state, applied }),
            Err(problem) => Err(problem),
        };
        // What may be different in a moment, such as a database that does not answer, is tried again.
        let is_final = done.as_ref().map_or_else(|problem| !problem.kind.retryable(), |_| true);
        let outcome = done.map_err(|problem| problem.chain());
        if let Err(problem) = &outcome {
            tracing::warn!("the watched seed {}: {problem}", self.seed.folder.display());
        }
        let looked = Looked { seed: self.seed.clone(), read_at: WallTime::now(), outcome };
        self.app.watched().send_replace(Some(looked));
        if is_final {
            self.done.clone_from(&self.last);
        }
    }

    /// The revision that applied what needs nobody's word, where that was asked for and there was something.
    async fn deal_with(&self, wanted: &PlanRequest) -> Result<Option<i32>> {
        let folder = self.seed.folder.display();
        match self.seed.auto {
            Auto::Plan => {
                let plan = self.app.seed_plan(wanted).await?.plan;
                tracing::info!("the watched seed {folder} would change {} things", plan.changes.len());
                Ok(None)
            }
            Auto::Apply => {
                let PlanRequest { env, files, .. } = wanted.clone();
                let reply = self.app.seed_apply(&ApplyRequest { env, files, ..ApplyRequest::default() }, BY).await?;
                let (applied, left) = (reply.applied.len(), reply.left.len());
                tracing::info!("the watched seed {folder} was applied: {applied} changes; {left} need somebody's word");
                Ok(reply.revision.filter(|_| reply.changed))
            }
        }
    }
}

/// The seed of a folder, whose name is the environment's.
fn wanted(folder: &Path) -> Result<PlanRequest> {
    let files = ::seed::texts(folder)?;
    let whole = folder.canonicalize().ok();
    let env = whole.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()).ok_or_else(|| {
        Problem::new(
            ErrorKind::Invalid,
            "seed.folder_unnamed",
            "the watched folder's name is no name of an environment",
        )
        .place(folder.display().to_string())
        .expected("a folder whose name is text")
    })?;
    Ok(PlanRequest { env: env.to_owned(), files, system: None })
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
