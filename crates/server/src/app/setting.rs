//! Settings: reading and changing them, and following what happens to them where they are published.

use std::sync::Arc;
use std::time::Duration;

use ::settings::source::Watch;
use ::settings::{Change as StoredChange, Expect};
use ::store::{Incarnation, Reconciled, Reconciler, Setting as Stored, Standing};
use api::setting::{
    AdoptRequest, Change, ChangeQuery, Changes, DiscardRequest, Finding, Process, Restored, RollbackRequest,
    SetRequest, Setting, SettingQuery, Status, Tree, TreeKey,
};
use api::{Page, PageQuery};
use model::{Problem, Result};
use tokio::time::{Instant, timeout};

use super::{App, page_of};

/// Who is recorded as the author of what people change through the API.
const BY: &str = "api";
const SECRET: &str = "a secret";
/// How many changes are told at once.
const MOST_CHANGES: u64 = 200;
/// How often the store is asked whether another process changed something.
const POLL: Duration = Duration::from_millis(150);
/// How often both sides are compared without a reason: for what no watch sees, such as keys outside of the prefix.
const SWEEP: Duration = Duration::from_secs(5);
/// How long after a failure the next try is made.
const AGAIN: Duration = Duration::from_millis(500);
/// How often a process says that it is there.
const REPORT: Duration = Duration::from_secs(10);
/// Longest time that a question for changes waits.
const LONGEST_WAIT: u32 = 20;

/// What following came to last.
#[derive(Debug, Clone, Default)]
pub(super) struct Followed {
    last: Option<Arc<Reconciled>>,
    problem: Option<String>,
}

impl Followed {
    /// What was found where live values are published.
    pub(super) fn findings(&self) -> impl Iterator<Item = &Problem> {
        self.last.iter().flat_map(|last| &last.findings)
    }

    /// What keeps this process from following.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

impl App {
    /// # Errors
    /// Whatever the store fails with.
    pub async fn settings(&self, query: &SettingQuery) -> Result<Page<Setting>> {
        let all = self.store().settings(query.prefix.as_deref().unwrap_or_default()).await?;
        page_of(PageQuery { page: query.page, size: query.size }, all, |one| shown(&one))
    }

    /// # Errors
    /// `setting.unknown`, with the nearest key.
    pub async fn setting(&self, key: &str) -> Result<Setting> {
        let all = self.store().settings("").await?;
        let names = all.iter().map(|one| one.declaration.key.as_str());
        match all.iter().find(|one| one.declaration.key == key) {
            Some(one) => Ok(shown(one)),
            None => Err(Problem::unknown("setting.unknown", "setting", key, names)),
        }
    }

    /// # Errors
    /// `setting.unknown`, `setting.changed_meanwhile`, and those of the declaration's check.
    pub async fn set_setting(&self, key: &str, request: &SetRequest) -> Result<Setting> {
        let expect = request.revision.map_or(Expect::Anything, Expect::Revision);
        self.store().set_setting(key, &request.value, expect, BY).await?;
        self.reserve_namespaces().await?;
        self.setting(key).await
    }

    /// # Errors
    /// `setting.unknown`.
    pub async fn setting_history(&self, key: &str) -> Result<Vec<Change>> {
        let setting = self.setting(key).await?;
        let changes = self.store().setting_history(key, MOST_CHANGES).await?;
        Ok(changes.into_iter().map(|one| change(one, setting.is_secret)).collect())
    }

    /// # Errors
    /// `setting.unknown`, `setting.revision_unknown`, `setting.no_value`.
    pub async fn roll_back_setting(&self, key: &str, request: &RollbackRequest) -> Result<Setting> {
        self.store().roll_back_setting(key, request.revision, BY).await?;
        self.reserve_namespaces().await?;
        self.setting(key).await
    }

    /// Waits until there is a change, when asked to.
    ///
    /// # Errors
    /// Whatever the store fails with.
    pub async fn setting_changes(&self, query: &ChangeQuery) -> Result<Changes> {
        let Some(after) = query.after else {
            return Ok(Changes { revision: self.store().settings_revision().await?, changes: Vec::new() });
        };
        let end = Instant::now() + Duration::from_secs(u64::from(query.wait.unwrap_or(0).min(LONGEST_WAIT)));
        let mut closing = self.closing();
        loop {
            let found = ::settings::Backend::changes_after(self.store(), after, MOST_CHANGES).await?;
            if let Some(last) = found.last() {
                let revision = last.revision;
                let secrets = self.secrets().await?;
                let shown = found.into_iter().map(|one| {
                    let is_secret = secrets.contains(&one.key);
                    change(one, is_secret)
                });
                return Ok(Changes { revision, changes: shown.collect() });
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || *closing.borrow() {
                return Ok(Changes { revision: after, changes: Vec::new() });
            }
            // Ends early when the server does.
            let _ended = timeout(left.min(POLL), closing.changed()).await;
        }
    }

    async fn secrets(&self) -> Result<Vec<String>> {
        let all = self.store().settings("").await?.into_iter().map(|one| one.declaration);
        Ok(all.filter(|declaration| declaration.is_secret).map(|declaration| declaration.key).collect())
    }

    /// # Errors
    /// Whatever the store fails with.
    pub async fn settings_status(&self) -> Result<Status> {
        let followed = self.followed().borrow().clone();
        let last = followed.last.as_ref();
        let processes = self.store().setting_processes().await?.into_iter().map(|process| Process {
            host: process.host,
            pid: process.pid,
            role: process.role,
            revision: process.revision,
            source_revision: process.source_revision,
            problem: process.problem,
            build: process.build,
            reported_at: process.reported_at.to_string(),
        });
        Ok(Status {
            source: self.store().source().map(|source| source.place().to_owned()),
            revision: self.store().settings_revision().await?,
            source_revision: last.map(|last| last.source_revision),
            standing: last.map_or("none", |last| standing(&last.standing)).to_owned(),
            problem: followed.problem,
            findings: last.into_iter().flat_map(|last| &last.findings).map(finding).collect(),
            processes: processes.collect(),
        })
    }

    /// # Errors
    /// `settings.no_source`, `settings.unreachable`.
    pub async fn settings_tree(&self) -> Result<Tree> {
        let tree = self.store().settings_tree().await?;
        let other = if let Standing::Foreign(other) = &tree.standing { other.clone() } else { None };
        let mut paths: Vec<&String> = tree.live.keys().chain(tree.accepted.keys()).chain(&tree.secrets).collect();
        paths.sort();
        paths.dedup();
        let keys = paths.into_iter().map(|path| {
            let is_secret = tree.secrets.contains(path);
            let shown = |value: &String| if is_secret { SECRET.to_owned() } else { value.clone() };
            let (live, accepted) = (tree.live.get(path), tree.accepted.get(path));
            let effect = match (live, accepted) {
                _ if is_secret => "taken",
                (Some(live), Some(accepted)) if live == accepted => "same",
                (Some(_), Some(_)) => "taken",
                (Some(_), None) => "not declared",
                (None, _) => "published",
            };
            TreeKey {
                path: path.clone(),
                live: live.map(shown),
                accepted: accepted.cloned(),
                effect: effect.to_owned(),
            }
        });
        Ok(Tree {
            source: tree.place.clone(),
            standing: standing(&tree.standing).to_owned(),
            other,
            revision: tree.revision,
            keys: keys.collect(),
        })
    }

    /// # Errors
    /// `settings.no_source`, `settings.changed_since`.
    pub async fn adopt_settings(&self, request: &AdoptRequest) -> Result<Status> {
        self.store().adopt_settings(request.revision).await?;
        self.pass(&mut Reconciler::default()).await?;
        self.settings_status().await
    }

    /// Puts back what every installation has, the keys that the program reads, and every key that went missing where they are
    /// published.
    ///
    /// # Errors
    /// `settings.not_adopted`, `settings.unreachable`.
    pub async fn restore_settings(&self) -> Result<Restored> {
        self.store().migrate().await?;
        let mut keys = self.store().declare_catalogue().await?;
        if self.store().source().is_some() {
            let restored = self.store().restore_settings().await?;
            self.pass(&mut Reconciler::default()).await?;
            keys.extend(restored.iter().map(|line| line.rsplit(' ').next().unwrap_or(line).to_owned()));
        }
        Ok(Restored { keys })
    }

    /// Deletes what stands where nothing reads it, by its name there; of a name that ends with `.`, everything that begins so.
    ///
    /// # Errors
    /// `settings.no_source`; `setting.not_stray` for what is read, or is not there.
    pub async fn discard_settings(&self, request: &DiscardRequest) -> Result<Restored> {
        let keys = self.store().discard_stray_settings(&request.path).await?;
        self.pass(&mut Reconciler::default()).await?;
        Ok(Restored { keys })
    }

    /// Follows settings until `stopped`: compares both sides whenever one of them moves, and says what this process applies.
    ///
    /// # Errors
    /// Never by itself: what fails is told, and tried again.
    pub async fn follow_settings(self, process: Incarnation, stopped: impl Future<Output = ()>) -> Result<()> {
        let mut follower = Follower { app: self, process, reconciler: Reconciler::default(), watch: None, said: None };
        tokio::pin!(stopped);
        loop {
            let rest = follower.step().await;
            tokio::select! {
                () = &mut stopped => return Ok(()),
                () = follower.moved(rest) => {}
            }
        }
    }

    /// Compares both sides once and keeps what was found.
    async fn pass(&self, reconciler: &mut Reconciler) -> Result<Option<Arc<Reconciled>>> {
        let pass = reconciler.pass(self.store()).await?.map(Arc::new);
        for line in pass.iter().flat_map(|pass| &pass.told) {
            tracing::info!("settings {line}");
        }
        self.followed().send_replace(Followed { last: pass.clone(), problem: None });
        Ok(pass)
    }
}

/// What one process does to follow settings.
struct Follower {
    app: App,
    process: Incarnation,
    reconciler: Reconciler,
    watch: Option<Box<dyn Watch>>,
    /// What was said last, and when.
    said: Option<(Instant, Said)>,
}

/// Revision of the settings, that of their source, and what keeps this process from following.
type Said = (i64, Option<i64>, Option<String>);

impl Follower {
    /// One pass; how long to rest when nothing moves.
    async fn step(&mut self) -> Duration {
        let done = self.try_step().await;
        let (rest, problem) = match &done {
            Ok(()) => (SWEEP, None),
            Err(problem) => (AGAIN, Some(problem)),
        };
        if let Some(problem) = problem {
            self.watch = None;
            let text = problem.to_string();
            let is_new = self.app.followed().borrow().problem.as_ref() != Some(&text);
            if is_new {
                tracing::warn!(problem = %problem.chain(), "settings cannot be followed for now");
            }
            self.app.followed().send_modify(|followed| followed.problem = Some(text));
        }
        if let Err(problem) = self.report(problem).await {
            tracing::debug!(problem = %problem.chain(), "what this process applies could not be said");
        }
        rest
    }

    async fn try_step(&mut self) -> Result<()> {
        let pass = self.app.pass(&mut self.reconciler).await?;
        let is_watching = self.watch.is_some();
        if let (Some(pass), Some(source), false) = (pass, self.app.store().source(), is_watching) {
            self.watch = Some(source.watch(pass.source_revision).await?);
        }
        self.app.reserve_namespaces().await
    }

    /// Says what this process applies, when that changed or was said long ago.
    async fn report(&mut self, problem: Option<&Problem>) -> Result<()> {
        let store = self.app.store();
        let source_revision = self.app.followed().borrow().last.as_ref().map(|last| last.source_revision);
        let revision = store.settings_revision().await?;
        let now = (revision, source_revision, problem.map(ToString::to_string));
        if self.said.as_ref().is_some_and(|(at, said)| *said == now && at.elapsed() < REPORT) {
            return Ok(());
        }
        store.report_process(&self.process, revision, source_revision, problem).await?;
        self.said = Some((Instant::now(), now));
        Ok(())
    }

    /// Returns when one of both sides moved, or after `rest`.
    async fn moved(&mut self, rest: Duration) {
        let end = Instant::now() + rest;
        let before = self.said.as_ref().map(|(_, (revision, ..))| *revision);
        loop {
            let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else { return };
            let poll = tokio::time::sleep(left.min(POLL));
            match &mut self.watch {
                Some(watch) => tokio::select! {
                    seen = watch.next() => {
                        match seen {
                            Ok(batch) if batch.events.is_empty() => {}
                            Ok(_) => return,
                            Err(_) => {
                                // The next pass says what is wrong, if it still is, and watches again.
                                self.watch = None;
                                return;
                            }
                        }
                    }
                    () = poll => {}
                },
                None => poll.await,
            }
            // A store that does not answer did not move either; the next pass tells it.
            let revision = self.app.store().settings_revision().await.ok();
            if revision.is_some() && revision != before {
                return;
            }
        }
    }
}

fn standing(standing: &Standing) -> &'static str {
    match standing {
        Standing::Ours => "ours",
        Standing::Empty => "empty",
        Standing::Foreign(_) => "foreign",
    }
}

fn finding(problem: &Problem) -> Finding {
    Finding {
        code: problem.code.to_string(),
        message: problem.message.clone(),
        place: problem.place.clone(),
        found: problem.found.clone(),
        expected: problem.expected.clone(),
        fix: problem.fix.clone(),
    }
}

fn shown(stored: &Stored) -> Setting {
    let declaration = &stored.declaration;
    let secret = |value: &String| if declaration.is_secret { SECRET.to_owned() } else { value.clone() };
    let live = stored.live.as_ref();
    Setting {
        key: declaration.key.clone(),
        scope: declaration.scope.to_string(),
        value_type: declaration.value_type.to_string(),
        value: secret(live.map_or(&declaration.default, |live| &live.value)),
        owner: live.map_or("default", |live| live.owner.as_str()).to_owned(),
        default: secret(&declaration.default),
        seed: declaration.seed.as_ref().map(secret),
        min: declaration.bounds.min,
        max: declaration.bounds.max,
        pattern: declaration.bounds.pattern.clone(),
        options: declaration.bounds.options.clone(),
        description: declaration.description.clone(),
        is_secret: declaration.is_secret,
        revision: live.map(|live| live.revision),
    }
}

fn change(stored: StoredChange, is_secret: bool) -> Change {
    let secret = |value: String| if is_secret { SECRET.to_owned() } else { value };
    Change {
        revision: stored.revision,
        key: stored.key,
        value: stored.value.map(secret),
        previous: stored.previous.map(secret),
        owner: stored.owner.as_str().to_owned(),
        changed_by: stored.changed_by,
        at: stored.at.to_string(),
    }
}
