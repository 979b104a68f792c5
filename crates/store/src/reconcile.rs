//! Bringing the values that the store accepted and those that a source publishes together, and saying what each process
//! applies.
//!
//! Level-triggered: each pass looks at both sides anew and acts on what it sees, so a pass may be left out, repeated, or done
//! by several processes at once. Steps compare before they write.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Instant;

use model::{Problem, Result, WallTime};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder, QuerySelect};
use settings::judge::{Accepted, Known, Step, Verdict, View, judge};
use settings::source::{Entry, INSTALLATION, Snapshot, Write, path};
use settings::{Expect, Owner, Source};
use uuid::Uuid;

use crate::connect::Store;
use crate::convert::fit;
use crate::counter;
use crate::entity::{self, installation, setting_change, setting_process, setting_value};
use crate::failure::{Failure, Work};
use crate::lease::Incarnation;
use crate::publish::{STUCK, Standing, not_adopted};
use crate::setting::{BY_SOURCE, put, settings_of};

/// How often a pass begins anew because something changed under its eyes.
const TRIES: u32 = 10;
/// Who is recorded for what a pass writes.
const BY: &str = "aegis";
/// The version of this program.
const BUILD: &str = env!("CARGO_PKG_VERSION");

/// Makes passes. It remembers how long the records of other processes stood.
#[derive(Debug, Default)]
pub struct Reconciler {
    seen: HashMap<String, Instant>,
}

/// What a pass found and did.
#[derive(Debug)]
pub struct Reconciled {
    /// The newest change that the store knows.
    pub revision: i64,
    /// The source's revision that is in force.
    pub source_revision: i64,
    pub standing: Standing,
    /// What only a person can decide.
    pub findings: Vec<Problem>,
    /// What was done, one line each.
    pub told: Vec<String>,
}

/// Both sides of every key, for a person who is to decide about them.
#[derive(Debug)]
pub struct Tree {
    pub place: String,
    pub standing: Standing,
    /// The source's revision at which this was read.
    pub revision: i64,
    /// By path.
    pub live: BTreeMap<String, String>,
    /// What the store holds, by the same path: the accepted value, or the default. No secrets.
    pub accepted: BTreeMap<String, String>,
    pub secrets: BTreeSet<String>,
}

/// What one process applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub incarnation: String,
    pub host: String,
    pub pid: u32,
    pub role: String,
    pub revision: i64,
    pub source_revision: Option<i64>,
    /// Why it cannot follow the source, if it cannot.
    pub problem: Option<String>,
    /// Its version; empty when it did not say.
    pub build: String,
    pub reported_at: WallTime,
}

/// Everything that a verdict is made of.
struct Sides {
    counter: i64,
    known: Vec<Known>,
    removed: BTreeMap<String, String>,
    enabled: Vec<String>,
    busy: BTreeSet<String>,
    snapshot: Snapshot,
    misplaced: BTreeMap<String, Entry>,
}

impl Sides {
    fn view<'a>(&'a self, place: &'a str) -> View<'a> {
        View {
            place,
            known: &self.known,
            snapshot: &self.snapshot,
            misplaced: &self.misplaced,
            busy: &self.busy,
            removed: &self.removed,
            enabled: &self.enabled,
        }
    }
}

impl Reconciler {
    /// One pass over both sides. `None` where nothing is published.
    ///
    /// # Errors
    /// `settings.unreachable` and whatever the store fails with; the next pass makes up for it.
    pub async fn pass(&mut self, store: &Store) -> Result<Option<Reconciled>> {
        let Some(source) = store.source().cloned() else { return Ok(None) };
        let source = &*source;
        let mut told = Vec::new();
        let stuck = self.stuck(store).await?;
        for back in store.recover_publications(source, &stuck).await? {
            told.push(format!("taken back, for it did not come to its end: {} ({})", back.what, back.paths.join(", ")));
        }
        for _ in 0..TRIES {
            let standing = store.claim_tree(source).await?;
            let Some(sides) = store.sides(source).await? else { continue };
            let Verdict { steps, mut findings } = judge(&sides.view(source.place()));
            if let Standing::Foreign(other) = &standing {
                findings.insert(0, not_adopted(source.place(), other.as_deref()));
            } else if !steps.is_empty() {
                told.extend(store.take_steps(source, &steps, sides.counter).await?);
                continue;
            }
            let (revision, source_revision) = (sides.counter, sides.snapshot.revision);
            return Ok(Some(Reconciled { revision, source_revision, standing, findings, told }));
        }
        Err(restless())
    }

    /// Records of other processes that stood for so long that their owners cannot be at work any more.
    async fn stuck(&mut self, store: &Store) -> Result<HashSet<String>> {
        let now = Instant::now();
        let ids: Vec<String> = store.publications().await?.into_iter().map(|(row, _)| row.id).collect();
        self.seen.retain(|id, _| ids.contains(id));
        for id in ids {
            self.seen.entry(id).or_insert(now);
        }
        let old = self.seen.iter().filter(|(_, since)| now.duration_since(**since) >= STUCK);
        Ok(old.map(|(id, _)| id.clone()).collect())
    }
}

impl Store {
    /// This installation's id, made when the database was.
    pub async fn installation(&self) -> Result<String> {
        let find = || installation::Entity::find_by_id(1).one(self.reader());
        if let Some(row) = find().await.map_err(Failure::from)? {
            return Ok(row.id);
        }
        self.write(|tx, _| {
            Box::pin(async move {
                // The counter's row lets one of several processes be the first.
                counter::lock(tx, counter::SETTINGS).await?;
                if let Some(row) = installation::Entity::find_by_id(1).one(tx).await? {
                    return Ok(row.id);
                }
                let row =
                    installation::Model { number: 1, id: Uuid::new_v4().to_string(), created_at: WallTime::now().0 };
                let id = row.id.clone();
                installation::Entity::insert(row.into_active_model()).exec_without_returning(tx).await?;
                Ok(id)
            })
        })
        .await
    }

    /// Marks an empty tree as this installation's.
    async fn claim_tree(&self, source: &dyn Source) -> Result<Standing> {
        let standing = self.standing(source).await?;
        if standing != Standing::Empty {
            return Ok(standing);
        }
        match source.commit(&[self.mark(Expect::Absent).await?], None).await {
            Ok(_) => Ok(Standing::Ours),
            Err(problem) if problem.code == "setting.changed_meanwhile" => self.standing(source).await,
            Err(problem) => Err(problem),
        }
    }

    pub(crate) async fn mark(&self, expect: Expect) -> Result<Write> {
        Ok(Write { path: INSTALLATION.into(), value: Some(self.installation().await?), expect })
    }

    /// Reads both sides. `None` when the store changed meanwhile.
    async fn sides(&self, source: &dyn Source) -> Result<Option<Sides>> {
        let counter = self.settings_revision().await?;
        let known = self.known().await?;
        let removed = self.removed(&known).await?;
        let enabled = self.systems().await?.into_iter().filter(|system| system.enabled);
        let enabled = enabled.map(|system| system.code.to_string()).collect();
        let beginnings: BTreeSet<String> = known.iter().filter_map(|known| beginning(&known.declaration.key)).collect();
        let misplaced = source.misplaced(&beginnings.into_iter().collect::<Vec<_>>()).await?;
        // The source is read after the store, and the store's records once more after the source: what another process
        // publishes this moment is in them, or the counter has moved.
        let snapshot = source.snapshot().await?;
        let busy =
            self.publications().await?.into_iter().flat_map(|(_, writes)| writes).map(|write| write.path).collect();
        if self.settings_revision().await? != counter {
            return Ok(None);
        }
        Ok(Some(Sides { counter, known, removed, enabled, busy, snapshot, misplaced }))
    }

    async fn known(&self) -> Result<Vec<Known>> {
        let settings = settings_of(self.reader(), "").await?;
        let rows: Vec<(String, Option<i64>)> = setting_value::Entity::find()
            .select_only()
            .column(setting_value::Column::Name)
            .column(setting_value::Column::SourceRevision)
            .into_tuple()
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        let revisions: HashMap<String, Option<i64>> = rows.into_iter().collect();
        let one = |setting: crate::setting::Setting| Known {
            accepted: setting.live.map(|live| Accepted {
                source_revision: revisions.get(&live.key).copied().flatten(),
                value: live.value,
                owner: live.owner,
            }),
            declaration: setting.declaration,
        };
        Ok(settings.into_iter().map(one).collect())
    }

    /// Keys that are declared no longer, with their last values.
    async fn removed(&self, known: &[Known]) -> Result<BTreeMap<String, String>> {
        let declared: HashSet<&str> = known.iter().map(|known| known.declaration.key.as_str()).collect();
        let changes = setting_change::Entity::find()
            .filter(setting_change::Column::Content.is_null())
            .order_by_asc(setting_change::Column::Revision)
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        let gone = changes.into_iter().filter(|change| !declared.contains(change.name.as_str()));
        Ok(gone.filter_map(|change| Some((change.name, change.previous?))).collect())
    }

    /// Takes the steps of a verdict. What another process was faster with is left to the next pass.
    async fn take_steps(&self, source: &dyn Source, steps: &[Step], counter: i64) -> Result<Vec<String>> {
        let mut told = Vec::new();
        let scopes = crate::setting::scopes_of(self.reader()).await?;
        let mut accepted: Vec<&Step> = Vec::new();
        for step in steps {
            match step {
                Step::Publish { key, value, owner, expect, why } => {
                    let Some(scope) = scopes.get(key) else { continue };
                    let write = Write { path: path(*scope, key), value: Some(value.clone()), expect: *expect };
                    let revision = match source.commit(&[write], None).await {
                        Ok(revision) => revision,
                        Err(problem) if problem.code == "setting.changed_meanwhile" => continue,
                        Err(problem) => return Err(problem),
                    };
                    let by = format!("{BY}: {}", why.as_str());
                    if self.keep(key, value, *owner, revision, &by).await? {
                        told.push(format!("{}: {key}", why.as_str()));
                    }
                }
                Step::Remove { path, source_revision } => {
                    let expect = Expect::Revision(*source_revision);
                    match source.commit(&[Write { path: path.clone(), value: None, expect }], None).await {
                        Ok(_) => told.push(format!("deleted, for it is gone here: {path}")),
                        Err(problem) if problem.code == "setting.changed_meanwhile" => {}
                        Err(problem) => return Err(problem),
                    }
                }
                Step::Accept { .. } | Step::Remember { .. } => accepted.push(step),
            }
        }
        // Only the store moves for these: when something else moved it first, the next pass sees why.
        let is_first = told.is_empty();
        if !accepted.is_empty() && is_first && self.accept(&accepted, counter).await? {
            let keys = accepted.iter().filter_map(|step| match step {
                Step::Accept { key, .. } => Some(format!("accepted from another tool: {key}")),
                _ => None,
            });
            told.extend(keys);
        }
        Ok(told)
    }

    /// Keeps what was just published, with a change that tells why.
    async fn keep(&self, key: &str, value: &str, owner: Owner, source_revision: i64, by: &str) -> Result<bool> {
        self.write(|tx, _| {
            Box::pin(async move {
                let declared = entity::setting_declaration::Entity::find_by_id(key).one(tx).await?;
                let live = setting_value::Entity::find_by_id(key).lock_exclusive().one(tx).await?;
                // Unregistered, or set by somebody meanwhile: the next pass compares again.
                if declared.is_none() || live.is_some_and(|live| live.content != value) {
                    return Ok(false);
                }
                put(tx, key, value, owner, Expect::Anything, by).await?;
                remember(tx, key, source_revision).await?;
                Ok(true)
            })
        })
        .await
    }

    async fn accept(&self, steps: &[&Step], counter: i64) -> Result<bool> {
        self.write(|tx, _| {
            Box::pin(async move {
                if counter::lock(tx, counter::SETTINGS).await? != counter {
                    return Ok(false);
                }
                for step in steps {
                    match step {
                        Step::Accept { key, value, source_revision } => {
                            put(tx, key, value, Owner::Operator, Expect::Anything, BY_SOURCE).await?;
                            remember(tx, key, *source_revision).await?;
                        }
                        Step::Remember { key, source_revision } => remember(tx, key, *source_revision).await?,
                        Step::Publish { .. } | Step::Remove { .. } => {}
                    }
                }
                Ok(true)
            })
        })
        .await
    }

    /// Puts back every key that went missing in the source: a person's answer to a mass deletion. Returns their names.
    ///
    /// # Errors
    /// `settings.no_source`; `settings.not_adopted`.
    pub async fn restore_settings(&self) -> Result<Vec<String>> {
        let source = self.required_source()?;
        let mut restored = Vec::new();
        for _ in 0..TRIES {
            if let Standing::Foreign(other) = self.claim_tree(&*source).await? {
                return Err(not_adopted(source.place(), other.as_deref()));
            }
            let Some(sides) = self.sides(&*source).await? else { continue };
            let steps = settings::judge::restore(&sides.view(source.place()));
            if steps.is_empty() {
                break;
            }
            restored.extend(self.take_steps(&*source, &steps, sides.counter).await?);
        }
        Ok(restored)
    }

    /// Deletes what stands where nothing reads it: a path below the prefix or a whole name outside of it, or everything that begins
    /// so where it ends with a dot. Returns what was deleted.
    ///
    /// # Errors
    /// `settings.no_source`; `settings.not_adopted`; `setting.not_stray` for what is read or is not there.
    pub async fn discard_stray_settings(&self, name: &str) -> Result<Vec<String>> {
        let source = self.required_source()?;
        if let Standing::Foreign(other) = self.claim_tree(&*source).await? {
            return Err(not_adopted(source.place(), other.as_deref()));
        }
        let is_meant = |path: &str| path == name || (name.ends_with('.') && path.starts_with(name));
        for _ in 0..TRIES {
            let Some(sides) = self.sides(&*source).await? else { continue };
            let mut gone = Vec::new();
            for (path, revision) in settings::judge::stray_paths(&sides.view(source.place())) {
                if is_meant(&path) {
                    source
                        .commit(&[Write { path: path.clone(), value: None, expect: Expect::Revision(revision) }], None)
                        .await?;
                    gone.push(path);
                }
            }
            for (path, entry) in sides.misplaced.iter().filter(|(path, _)| is_meant(path)) {
                source.discard(path, entry.revision).await?;
                gone.push(path.clone());
            }
            if gone.is_empty() {
                let message = "nothing of this name stands where nothing reads it";
                return Err(Problem::new(model::ErrorKind::NotFound, "setting.not_stray", message)
                    .place(source.place().to_owned())
                    .found(format!("`{name}`"))
                    .fix("`aegisctl settings status` lists what does"));
            }
            return Ok(gone);
        }
        Err(restless())
    }

    /// Both sides of every key.
    ///
    /// # Errors
    /// `settings.no_source`.
    pub async fn settings_tree(&self) -> Result<Tree> {
        let source = self.required_source()?;
        let known = self.known().await?;
        let snapshot = source.snapshot().await?;
        let is_secret = |known: &&Known| known.declaration.is_secret;
        let place = |known: &Known| path(known.declaration.scope, &known.declaration.key);
        let secrets = known.iter().filter(is_secret).map(place).collect();
        let value = |known: &Known| {
            let accepted = known.accepted.as_ref().map(|accepted| accepted.value.clone());
            accepted.unwrap_or_else(|| known.declaration.default.clone())
        };
        let accepted =
            known.iter().filter(|known| !is_secret(known)).map(|known| (place(known), value(known))).collect();
        let live = snapshot.entries.into_iter().filter(|(path, _)| path != INSTALLATION);
        Ok(Tree {
            place: source.place().to_owned(),
            standing: self.standing(&*source).await?,
            revision: snapshot.revision,
            live: live.map(|(path, entry)| (path, entry.value)).collect(),
            accepted,
            secrets,
        })
    }

    /// Takes a tree over that somebody else wrote, as a person saw it at `revision`: from the next pass on its legal values
    /// are operators' values here.
    ///
    /// # Errors
    /// `settings.no_source`; `settings.changed_since` when it is no longer as it was seen.
    pub async fn adopt_settings(&self, revision: i64) -> Result<()> {
        let source = self.required_source()?;
        let snapshot = source.snapshot().await?;
        let newer = snapshot.entries.iter().find(|(_, entry)| entry.revision > revision);
        if let Some((path, entry)) = newer {
            return Err(Problem::new(
                model::ErrorKind::Conflict,
                "settings.changed_since",
                "the settings changed since they were shown",
            )
            .place(format!("{}: {path}", source.place()))
            .found(format!("revision {}", entry.revision))
            .expected(format!("at most {revision}"))
            .fix("look again with `aegisctl settings adopt`"));
        }
        let marker = snapshot.entries.get(INSTALLATION);
        let expect = marker.map_or(Expect::Absent, |marker| Expect::Revision(marker.revision));
        source.commit(&[self.mark(expect).await?], None).await?;
        Ok(())
    }

    fn required_source(&self) -> Result<std::sync::Arc<dyn Source>> {
        self.source().cloned().ok_or_else(|| {
            Problem::new(
                model::ErrorKind::Conflict,
                "settings.no_source",
                "live values are kept in the store alone, so there is nothing to compare or adopt",
            )
            .fix("name an etcd in the configuration file: `settings = \"etcd://HOST:PORT\"`")
        })
    }

    /// Says what a process applies.
    pub async fn report_process(
        &self,
        process: &Incarnation,
        revision: i64,
        source_revision: Option<i64>,
        problem: Option<&Problem>,
    ) -> Result<()> {
        let row = setting_process::Model {
            incarnation: process.id.to_string(),
            host: fit(&process.host, 255),
            pid: i64::from(process.pid),
            role: fit(&process.role, 32),
            revision,
            source_revision,
            problem: problem.map(ToString::to_string),
            build: BUILD.to_owned(),
            reported_at: WallTime::now().0,
        };
        let row = &row;
        self.write(|tx, _| {
            Box::pin(async move {
                let id = row.incarnation.as_str();
                setting_process::Entity::delete_by_id(id).exec(tx).await?;
                setting_process::Entity::insert(row.clone().into_active_model()).exec_without_returning(tx).await?;
                Ok(())
            })
        })
        .await
    }

    /// What each process said last, newest first; of those that have not ended.
    pub async fn setting_processes(&self) -> Result<Vec<Process>> {
        let alive: HashSet<String> = self.incarnations().await?.into_iter().map(|one| one.id.to_string()).collect();
        let rows = setting_process::Entity::find()
            .order_by_desc(setting_process::Column::ReportedAt)
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        let read = |row: setting_process::Model| {
            Ok(Process {
                incarnation: row.incarnation,
                host: row.host,
                pid: u32::try_from(row.pid).map_err(|_| crate::failure::corrupt("process number", row.pid))?,
                role: row.role,
                revision: row.revision,
                source_revision: row.source_revision,
                problem: row.problem,
                build: row.build,
                reported_at: WallTime(row.reported_at),
            })
        };
        let rows = rows.into_iter().filter(|row| alive.contains(&row.incarnation));
        Ok(rows.map(read).collect::<Work<_>>()?)
    }
}

fn restless() -> Problem {
    let message = "settings change faster than they can be compared";
    Problem::new(model::ErrorKind::Busy, "settings.restless", message)
}

async fn remember(tx: &sea_orm::DatabaseTransaction, key: &str, source_revision: i64) -> Work<()> {
    setting_value::Entity::update_many()
        .col_expr(setting_value::Column::SourceRevision, Expr::value(Some(source_revision)))
        .filter(setting_value::Column::Name.eq(key))
        .exec(tx)
        .await?;
    Ok(())
}

/// The first word of a key, with its dot: what misplaced keys of ours begin with.
fn beginning(key: &str) -> Option<String> {
    key.split_once('.').map(|(first, _)| format!("{first}."))
}
