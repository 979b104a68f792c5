//! Changing settings where live values are also published beside the store (etcd): both sides change, or neither.
//!
//! The transaction in the store is the point of no return. Before it, what is about to be published is recorded, then
//! published in one comparison-and-set; the transaction removes the record. A record that is still there belongs to a change
//! that did not come to its end: what it published is taken back, at once or by whoever finds it after a crash.
//!
//! Where nothing is published, a change is one transaction.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use model::{ErrorKind, Problem, Result, WallTime, counted};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder};
use settings::source::{Entry, INSTALLATION, path};
use settings::{Expect, Owner, Scope, Source};
use uuid::Uuid;

use crate::connect::{Body, Store};
use crate::convert::{fit, json, to_json};
use crate::counter;
use crate::entity::{setting_change, setting_publication, setting_value};
use crate::failure::{Failure, Work};
use crate::killpoint::reach;
use crate::lease::IncarnationId;
use crate::publication::{Made, Published, publish_all, revert};
use crate::setting::scopes_of;

/// How often a change is tried again that met another one.
const TRIES: u32 = 8;
/// How long a change waits for another one of the same keys.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a record of another process may stand before that process counts as stuck: many times what a change may take.
pub(crate) const STUCK: Duration = Duration::from_secs(60);

const REHEARSED: &str = "settings.rehearsed";
const MOVED: &str = "settings.moved";

/// What one process publishes, and where.
#[derive(Default)]
pub(crate) struct Publishing {
    source: OnceLock<Arc<dyn Source>>,
    pub(crate) owner: OnceLock<IncarnationId>,
    /// Records of changes that are under way in this process.
    running: Mutex<HashSet<String>>,
}

/// One value that a transaction sets or deletes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Planned {
    path: String,
    value: Option<String>,
    /// What the store accepted before.
    previous: Option<String>,
    owner: Owner,
}

/// Whose tree a source holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    Ours,
    /// Nobody's yet.
    Empty,
    /// It holds what this installation did not write; the other installation's id when it is marked.
    Foreign(Option<String>),
}

/// A record that was left behind, and what was done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenBack {
    /// What was being changed.
    pub what: String,
    /// Paths that were put back to what they held.
    pub paths: Vec<String>,
}

impl Store {
    /// From now on live values are published in this source as well. To be called once, before anything is changed.
    pub fn publish_to(&self, source: Arc<dyn Source>) {
        // A second source would be a defect of the caller; the first one stays.
        debug_assert!(self.publishing().source.get().is_none(), "one store publishes to one source");
        self.publishing().source.get_or_init(|| source);
    }

    /// Where live values are published, if they are.
    pub fn source(&self) -> Option<&Arc<dyn Source>> {
        self.publishing().source.get()
    }

    fn running(&self) -> MutexGuard<'_, HashSet<String>> {
        self.publishing().running.lock().expect("no holder of this lock panics")
    }

    /// Runs a transaction that changes settings, and publishes what it changes. `whole` is the beginning of keys that must
    /// stand in the source afterwards, also those that the transaction leaves as they are.
    pub(crate) async fn write_settings<'env, T: Send>(
        &self,
        what: &str,
        whole: Option<&str>,
        body: impl Body<'env, T>,
    ) -> Result<T> {
        let Some(source) = self.source().cloned() else {
            reach("settings.before-commit");
            let done = self.write(body).await?;
            reach("settings.after-commit");
            return Ok(done);
        };
        let start = Instant::now();
        let mut tries = 0;
        loop {
            match self.publish(&*source, what, whole, &body).await {
                Err(problem) if problem.code == MOVED && tries < TRIES => tries += 1,
                Err(problem) if problem.code == "setting.being_changed" && start.elapsed() < PATIENCE => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(problem) if problem.code == MOVED => {
                    return Err(Problem { code: "setting.changed_meanwhile".into(), ..problem });
                }
                other => return other,
            }
        }
    }

    async fn publish<'env, T: Send>(
        &self,
        source: &dyn Source,
        what: &str,
        whole: Option<&str>,
        body: &impl Body<'env, T>,
    ) -> Result<T> {
        let planned = self.rehearse(whole, body).await?;
        let (mut writes, mark) = self.against(source, &planned).await?;
        if writes.is_empty() {
            return self.commit(None, &planned, whole, None, body).await;
        }
        reach("settings.before-record");
        let id = Uuid::new_v4().to_string();
        self.running().insert(id.clone());
        let done = self.recorded(source, &id, what, whole, &planned, &mut writes, mark, body).await;
        self.running().remove(&id);
        done
    }

    #[expect(clippy::too_many_arguments, reason = "the state of one change, handed from one step to the next")]
    async fn recorded<'env, T: Send>(
        &self,
        source: &dyn Source,
        id: &str,
        what: &str,
        whole: Option<&str>,
        planned: &[Planned],
        writes: &mut [Published],
        mark: Option<i64>,
        body: &impl Body<'env, T>,
    ) -> Result<T> {
        self.record_publication(id, what, writes).await?;
        reach("settings.after-record");
        let failed = match publish_all(source, writes, mark).await {
            Ok(revision) => {
                reach("settings.after-effect");
                match self.commit(Some(id), planned, whole, Some(revision), body).await {
                    Ok(done) => return Ok(done),
                    Err(problem) => problem,
                }
            }
            Err(problem) if problem.code == "setting.changed_meanwhile" => Problem { code: MOVED.into(), ..problem },
            Err(problem) => problem,
        };
        Err(match self.take_back(source, id, Some(writes)).await {
            Ok(Some(_)) if failed.code == MOVED => failed,
            Ok(Some(back)) => {
                told(failed, format!("nothing was changed: {} taken back", counted(back.paths.len(), "live key")))
            }
            // The record went before the transaction could end. What was published after that is not in it.
            Ok(None) if failed.code == MOVED => revert(source, writes).await.map_or_else(
                |later| told(later, format!("`{what}` was not made, and what it published could not be taken back")),
                |_| failed,
            ),
            Ok(None) => told(
                failed,
                "the change was made all the same and its answer lost, or another process took it back: look again"
                    .to_owned(),
            ),
            Err(later) => {
                tracing::warn!(problem = %later.chain(), "a change of settings is taken back later");
                told(failed, format!("`{what}` is completed or taken back as soon as both sides answer"))
            }
        })
    }

    /// What the transaction would change, found by running it and taking it back.
    async fn rehearse<'env, T: Send>(&self, whole: Option<&str>, body: &impl Body<'env, T>) -> Result<Vec<Planned>> {
        let before = scopes_of(self.reader()).await?;
        let cell = Mutex::new(None);
        let (told, before) = (&cell, &before);
        let taken_back: Result<()> = self
            .write(|tx, _| {
                Box::pin(async move {
                    let from = counter::lock(tx, counter::SETTINGS).await?;
                    body(tx, PhantomData).await?;
                    let planned = planned(tx, from, whole, before).await?;
                    *told.lock().expect("no holder of this lock panics") = Some(planned);
                    Err(Problem::internal(REHEARSED, "taken back").into())
                })
            })
            .await;
        match taken_back {
            Err(problem) if problem.code != REHEARSED => Err(problem),
            _ => Ok(cell.into_inner().expect("no holder of this lock panics").expect("a rehearsal ends with its plan")),
        }
    }

    /// What of it the source does not hold yet, and with which expectation it is written; and the revision of our mark.
    async fn against(&self, source: &dyn Source, planned: &[Planned]) -> Result<(Vec<Published>, Option<i64>)> {
        if planned.is_empty() {
            return Ok((Vec::new(), None));
        }
        let mut paths: Vec<String> = planned.iter().map(|one| one.path.clone()).collect();
        paths.push(INSTALLATION.to_owned());
        let live = source.get(&paths).await?;
        let own = self.installation().await?;
        let mut writes = Vec::new();
        match self.standing_of(source, live.get(INSTALLATION), &own).await? {
            Standing::Ours => {}
            Standing::Empty => {
                writes.push(Published::new(INSTALLATION, None, Some(own), None));
            }
            Standing::Foreign(other) => return Err(not_adopted(source.place(), other.as_deref())),
        }
        for one in planned {
            let entry = live.get(&one.path);
            let value = entry.map(|entry| &entry.value);
            if value == one.value.as_ref() {
                // Of a value that the store does not know yet, another change may be about to take it away again: it is
                // written once more, over the revision that was seen.
                if let Some(entry) = entry.filter(|_| value != one.previous.as_ref()) {
                    let (before, after) = (Some(entry.value.clone()), one.value.clone());
                    writes.push(Published::new(&one.path, before, after, Some(entry.revision)));
                }
                continue;
            }
            // A seed never overwrites what somebody else put there; an operator's word and a removal do.
            let is_foreign = value.is_some() && value != one.previous.as_ref();
            if is_foreign && one.owner == Owner::Seed && one.value.is_some() {
                return Err(foreign_value(source.place(), &one.path));
            }
            let expect = entry.map(|entry| entry.revision);
            writes.push(Published::new(&one.path, value.cloned(), one.value.clone(), expect));
        }
        Ok((writes, live.get(INSTALLATION).map(|mark| mark.revision)))
    }

    /// Whose tree the source holds.
    pub async fn standing(&self, source: &dyn Source) -> Result<Standing> {
        let live = source.get(&[INSTALLATION.to_owned()]).await?;
        self.standing_of(source, live.get(INSTALLATION), &self.installation().await?).await
    }

    async fn standing_of(&self, source: &dyn Source, marker: Option<&Entry>, own: &str) -> Result<Standing> {
        let of = |marker: &Entry| match marker.value == own {
            true => Standing::Ours,
            false => Standing::Foreign(Some(marker.value.clone())),
        };
        if let Some(marker) = marker {
            return Ok(of(marker));
        }
        // The marker may have come since it was asked for: what is there now is judged at one revision.
        let now = source.snapshot().await?.entries;
        Ok(match now.get(INSTALLATION) {
            Some(marker) => of(marker),
            None if now.is_empty() => Standing::Empty,
            None => Standing::Foreign(None),
        })
    }

    async fn record_publication(&self, id: &str, what: &str, writes: &[Published]) -> Result<()> {
        let owner = self.publishing().owner.get().copied().map_or_else(|| id.to_owned(), |owner| owner.to_string());
        let row = setting_publication::Model {
            id: id.to_owned(),
            owner,
            what: fit(what, 255),
            writes: to_json(&writes),
            started_at: WallTime::now().0,
        };
        let paths: BTreeSet<&str> = writes.iter().map(|write| write.path.as_str()).collect();
        let (row, paths) = (&row, &paths);
        self.write(|tx, _| {
            Box::pin(async move {
                counter::lock(tx, counter::SETTINGS).await?;
                nobody_else_changes(tx, None, paths).await?;
                setting_publication::Entity::insert(row.clone().into_active_model()).exec_without_returning(tx).await?;
                Ok(())
            })
        })
        .await
    }

    /// The transaction itself. It refuses when it would change anything else than what was published.
    async fn commit<'env, T: Send>(
        &self,
        id: Option<&str>,
        planned_before: &[Planned],
        whole: Option<&str>,
        revision: Option<i64>,
        body: &impl Body<'env, T>,
    ) -> Result<T> {
        let scopes = scopes_of(self.reader()).await?;
        let scopes = &scopes;
        reach("settings.before-commit");
        let done = self
            .write(|tx, _| {
                Box::pin(async move {
                    let from = counter::lock(tx, counter::SETTINGS).await?;
                    let done = body(tx, PhantomData).await?;
                    if planned(tx, from, whole, scopes).await? != planned_before {
                        return Err(moved().into());
                    }
                    // What another change has put there and may yet take back counts as not there.
                    let paths = planned_before.iter().map(|one| one.path.as_str()).collect();
                    nobody_else_changes(tx, id, &paths).await?;
                    if let Some(id) = id {
                        let gone = setting_publication::Entity::delete_by_id(id).exec(tx).await?;
                        if gone.rows_affected != 1 {
                            return Err(moved().into());
                        }
                        remember(tx, planned_before, revision).await?;
                    }
                    Ok(done)
                })
            })
            .await?;
        reach("settings.after-commit");
        Ok(done)
    }

    /// Puts back what a recorded change published, and removes its record. `own` is what this process knows of its own
    /// change; of another one's the record tells what may have been published. `None` when there is no record: the change was
    /// made, or another process takes it back.
    async fn take_back(&self, source: &dyn Source, id: &str, own: Option<&[Published]>) -> Result<Option<TakenBack>> {
        let row = setting_publication::Entity::find_by_id(id).one(self.reader()).await.map_err(Failure::from)?;
        let Some(row) = row else { return Ok(None) };
        let taken = Uuid::new_v4().to_string();
        self.running().insert(taken.clone());
        let done = match self.seize_record(id, &taken).await {
            Ok(true) => self.put_back(source, &taken, row, own).await.map(Some),
            Ok(false) => Ok(None),
            Err(problem) => Err(problem),
        };
        self.running().remove(&taken);
        done
    }

    /// Gives a record another number and this process as its owner: the change that made it cannot come to its end any more.
    /// False when it did before.
    async fn seize_record(&self, id: &str, taken: &str) -> Result<bool> {
        let owner = self.publishing().owner.get().copied().map_or_else(|| taken.to_owned(), |owner| owner.to_string());
        let owner = &owner;
        self.write(|tx, _| {
            Box::pin(async move {
                let changed = setting_publication::Entity::update_many()
                    .col_expr(setting_publication::Column::Id, Expr::value(taken))
                    .col_expr(setting_publication::Column::Owner, Expr::value(owner.as_str()))
                    .filter(setting_publication::Column::Id.eq(id))
                    .exec(tx)
                    .await?;
                Ok(changed.rows_affected == 1)
            })
        })
        .await
    }

    async fn put_back(
        &self,
        source: &dyn Source,
        id: &str,
        row: setting_publication::Model,
        own: Option<&[Published]>,
    ) -> Result<TakenBack> {
        // A write whose answer is lost may still be under way, and arrive after it was looked for here.
        if own.is_none_or(|own| own.iter().any(|write| write.made == Made::Maybe)) {
            self.renew_mark(source).await?;
        }
        let paths = match own {
            Some(own) => revert(source, own).await?,
            None => revert(source, &json::<Vec<Published>>("publication of settings", &row.writes)?).await?,
        };
        self.write(|tx, _| {
            Box::pin(async move {
                // Whoever compared both sides meanwhile sees that they moved.
                counter::next(tx, counter::SETTINGS).await?;
                setting_publication::Entity::delete_by_id(id).exec(tx).await?;
                Ok(())
            })
        })
        .await?;
        Ok(TakenBack { what: row.what, paths })
    }

    /// Writes our mark anew, so that no change that was begun before can be made any more.
    async fn renew_mark(&self, source: &dyn Source) -> Result<()> {
        let own = self.installation().await?;
        for _ in 0..TRIES {
            let live = source.get(&[INSTALLATION.to_owned()]).await?;
            // A tree that is not ours is not written to; whoever began to write into it was not allowed to.
            let Some(mark) = live.get(INSTALLATION).filter(|mark| mark.value == own) else { return Ok(()) };
            match source.commit(&[self.mark(Expect::Revision(mark.revision)).await?], None).await {
                Err(problem) if problem.code == "setting.changed_meanwhile" => {}
                other => return other.map(drop),
            }
        }
        Err(moved())
    }

    /// Records of changes that are under way, or were left behind.
    pub(crate) async fn publications(&self) -> Result<Vec<(setting_publication::Model, Vec<Published>)>> {
        let rows = setting_publication::Entity::find().all(self.reader()).await.map_err(Failure::from)?;
        let read = |row: setting_publication::Model| {
            let writes = json("publication of settings", &row.writes)?;
            Ok((row, writes))
        };
        Ok(rows.into_iter().map(read).collect::<Work<_>>()?)
    }

    /// Takes back what changes left behind that did not come to their end: those of processes that are gone, those that
    /// `stuck` names, and this process's own when they could not be taken back at once.
    pub(crate) async fn recover_publications(
        &self,
        source: &dyn Source,
        stuck: &HashSet<String>,
    ) -> Result<Vec<TakenBack>> {
        let mut taken = Vec::new();
        let rows = self.publications().await?;
        if rows.is_empty() {
            return Ok(taken);
        }
        let own = self.publishing().owner.get().copied();
        let all = self.incarnations().await?;
        // Whoever holds a data folder knows that its earlier holders are gone.
        let folder = all.iter().find(|one| Some(one.id) == own).map(|one| one.folder);
        let may_live = all.iter().filter(|one| Some(one.id) == own || Some(one.folder) != folder);
        let alive: HashSet<String> = may_live.map(|one| one.id.to_string()).collect();
        let own = own.map(|own| own.to_string());
        for (row, _) in rows {
            let is_running = self.running().contains(&row.id);
            let is_own = own.as_ref() == Some(&row.owner);
            let is_abandoned = !is_running && (is_own || !alive.contains(&row.owner) || stuck.contains(&row.id));
            if is_abandoned && let Some(back) = self.take_back(source, &row.id, None).await? {
                tracing::warn!(
                    what = back.what,
                    paths = back.paths.len(),
                    "took back a change of settings that did not come to its end"
                );
                taken.push(back);
            }
        }
        Ok(taken)
    }
}

/// Refuses while a record other than `own` stands for one of the paths. The counter is locked by the caller.
async fn nobody_else_changes(tx: &DatabaseTransaction, own: Option<&str>, paths: &BTreeSet<&str>) -> Work<()> {
    for other in setting_publication::Entity::find().all(tx).await? {
        let theirs: Vec<Published> = json("publication of settings", &other.writes)?;
        let same = theirs.iter().find(|write| paths.contains(write.path.as_str()));
        if let Some(same) = same.filter(|_| Some(other.id.as_str()) != own) {
            return Err(being_changed(&same.path, &other.what).into());
        }
    }
    Ok(())
}

/// What the transaction changed since the counter stood at `from`, the last value of each key.
async fn planned(
    tx: &DatabaseTransaction,
    from: i64,
    whole: Option<&str>,
    before: &BTreeMap<String, Scope>,
) -> Work<Vec<Planned>> {
    let changes = setting_change::Entity::find()
        .filter(setting_change::Column::Revision.gt(from))
        .order_by_asc(setting_change::Column::Revision)
        .all(tx)
        .await?;
    let after = scopes_of(tx).await?;
    let mut by_key: BTreeMap<String, Planned> = BTreeMap::new();
    for change in changes {
        let scope = after.get(&change.name).or_else(|| before.get(&change.name));
        let scope = scope.ok_or_else(|| crate::failure::corrupt("scope of a setting", &change.name))?;
        let owner = crate::convert::word("owner of a setting", change.owner.as_str(), Owner::parse)?;
        let previous = by_key.remove(&change.name).map_or(change.previous, |earlier| earlier.previous);
        let one = Planned { path: path(*scope, &change.name), value: change.content, previous, owner };
        by_key.insert(change.name, one);
    }
    if let Some(prefix) = whole {
        let there = setting_value::Entity::find()
            .filter(crate::query::starting(setting_value::Column::Name, prefix))
            .all(tx)
            .await?;
        for row in there {
            let Some(scope) = after.get(&row.name) else { continue };
            let owner = crate::convert::word("owner of a setting", row.owner.as_str(), Owner::parse)?;
            let (value, previous) = (Some(row.content.clone()), Some(row.content));
            by_key.entry(row.name.clone()).or_insert_with(|| Planned {
                path: path(*scope, &row.name),
                value,
                previous,
                owner,
            });
        }
    }
    Ok(by_key.into_values().collect())
}

/// Keeps which revision of the source holds each value.
async fn remember(tx: &DatabaseTransaction, planned: &[Planned], revision: Option<i64>) -> Work<()> {
    let keys =
        planned.iter().filter(|one| one.value.is_some()).filter_map(|one| settings::source::parse_path(&one.path));
    let keys: Vec<&str> = keys.map(|(_, key)| key).collect();
    setting_value::Entity::update_many()
        .col_expr(setting_value::Column::SourceRevision, Expr::value(revision))
        .filter(setting_value::Column::Name.is_in(keys))
        .exec(tx)
        .await?;
    Ok(())
}

fn told(mut problem: Problem, outcome: String) -> Problem {
    problem.message = format!("{}; {outcome}", problem.message);
    problem
}

fn moved() -> Problem {
    Problem::new(ErrorKind::Conflict, MOVED, "somebody else changes the same settings this moment")
        .fix("repeat the call")
}

fn being_changed(path: &str, what: &str) -> Problem {
    Problem::new(ErrorKind::Busy, "setting.being_changed", "another change of this setting is under way")
        .place(path.to_owned())
        .found(what.to_owned())
        .fix("repeat the call in a moment")
}

fn foreign_value(place: &str, path: &str) -> Problem {
    Problem::new(
        ErrorKind::Conflict,
        "setting.live_differs",
        "another tool put another value there, which is not overwritten",
    )
    .place(format!("{place}: {path}"))
    .fix("look with `aegisctl settings list`, decide with `aegisctl settings set`, then repeat the call")
}

pub(crate) fn not_adopted(place: &str, other: Option<&str>) -> Problem {
    let found = match other {
        Some(id) => format!("the mark of installation {id}"),
        None => "keys, and no mark of this installation".to_owned(),
    };
    Problem::new(
        ErrorKind::Conflict,
        "settings.not_adopted",
        "these settings were not written by this installation, so they are only read",
    )
    .place(place.to_owned())
    .found(found)
    .fix("look at every key with `aegisctl settings adopt`, and confirm it")
}
