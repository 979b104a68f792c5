//! Seeds: comparing one with the installation, applying it, its history, and drift.

mod apply;
pub(super) use apply::running;
mod export;
pub mod live;
mod proof;
pub(super) use proof::number_of;
pub mod rows;
mod watched;
pub(super) use watched::Looked;
pub use watched::WatchedSeed;

use ::seed::{Change, Checked, Object, ObjectKind, Plan, Seed, State, field};
use ::store::SeedLive;
use api::chart::Lookup;
use api::seed::{Commit, DriftReply, PlanReply, PlanRequest, SeedQuery, SeedRevision, SeedRevisionDetail};
use model::{ErrorKind, Problem, Result};

use super::App;
use super::chart::Named;

/// A seed that was found right, with what it declares.
struct Wanted {
    seed: Seed,
    checked: Checked,
    state: State,
}

/// What the seed said when it was applied last, and what the installation has.
pub(super) struct Present {
    pub base: State,
    pub live: State,
}

impl Wanted {
    fn read(files: &std::collections::BTreeMap<String, String>, system: Option<&str>) -> Result<Self> {
        let seed = Seed::parse(files)?;
        let checked = seed.check()?;
        let state = checked.state(&seed);
        let state = match system {
            Some(code) => {
                require_system(&seed, code)?;
                state.of_system(code)
            }
            None => state,
        };
        Ok(Self { seed, checked, state })
    }

    fn warnings(&self) -> Vec<String> {
        self.checked.warnings.iter().map(ToString::to_string).collect()
    }
}

impl Present {
    pub fn read(live: &SeedLive, system: Option<&str>) -> Result<Self> {
        let base = live::base(live)?;
        let live = live::state(live, &base)?;
        Ok(match system {
            Some(code) => Self { base: base.of_system(code), live: live.of_system(code) },
            None => Self { base, live },
        })
    }
}

/// What the seed that was applied last wants and the installation has not.
pub(super) struct Pending {
    /// What seeds and registrations said so far.
    pub base: State,
    pub live: State,
    pub plan: Plan,
    /// Number and environment of that seed's revision.
    pub revision: Option<(i32, String)>,
}

impl Pending {
    /// Systems that were registered from somewhere else are compared with what was declared for them there.
    ///
    /// # Errors
    /// `seed.object_malformed`, `seed.live_malformed`, and those of a stored seed that cannot be read any more.
    pub fn of(stored: &SeedLive, newest: Option<&::store::SeedRevision>) -> Result<Self> {
        let Present { base, live } = Present::read(stored, None)?;
        let mut wanted = base.clone();
        if let Some(revision) = newest {
            let new = Wanted::read(&revision.seed.files, revision.seed.system.as_deref())?.state;
            let is_from_there = |code: &str| {
                let system = stored.systems.iter().find(|system| system.code.as_str() == code);
                system.is_none_or(|system| system.seed.env == revision.seed.env)
            };
            let covers = |object: &Object| match (&revision.seed.system, &object.system) {
                (Some(limit), Some(code)) => limit == code,
                (Some(_), None) => false,
                (None, Some(code)) => is_from_there(code),
                (None, None) => true,
            };
            wanted.objects.retain(|_, object| !covers(object));
            wanted.objects.extend(new.objects.into_iter().filter(|(_, object)| covers(object)));
            wanted.overlays.extend(new.overlays);
        }
        let revision = newest.map(|revision| (revision.id, revision.seed.env.clone()));
        Ok(Self { plan: Plan::of(&base, &wanted, &live), base, live, revision })
    }
}

/// A limit to a system that neither side has is a misspelt name, not an empty plan.
fn require_system(seed: &Seed, code: &str) -> Result<()> {
    let known = seed.systems();
    if known.contains(&code) {
        return Ok(());
    }
    Err(Problem::unknown("seed.system_unknown", "system of the seed", code, known))
}

/// The charts of the versions that runs may install, of those whose name (`pedestal ts 1.0.0`) is meant.
fn named(wanted: &State, is_meant: impl Fn(&str) -> bool) -> Vec<Named> {
    let versions = wanted.objects.iter().filter(|(id, object)| id.kind == ObjectKind::Version && object.is_enabled());
    let meant = versions.filter(|(id, object)| !object.text(field::CHART).is_empty() && is_meant(&id.name));
    meant
        .map(|(id, object)| {
            let text = |name: &str| object.text(name).to_owned();
            Named {
                system: object.system.clone().unwrap_or_default(),
                pedestal_version: id.name.rsplit_once(' ').map_or("", |(_, version)| version).to_owned(),
                repository: text(field::REPO_URL),
                name: text(field::CHART),
                version: text(field::CHART_VERSION),
            }
        })
        .collect()
}

impl App {
    /// Compares a seed with the installation. Nothing is written.
    ///
    /// # Errors
    /// Every error of the seed, with its file and line; `seed.system_unknown`.
    pub async fn seed_plan(&self, request: &PlanRequest) -> Result<PlanReply> {
        let wanted = Wanted::read(&request.files, request.system.as_deref())?;
        let present = Present::read(&self.store().seed_live().await?, request.system.as_deref())?;
        let plan = Plan::of(&present.base, &wanted.state, &present.live);
        let is_touched = |name: &str| {
            let same = |change: &Change| change.object == ObjectKind::Version && change.name == name;
            plan.changes.iter().any(same)
        };
        let charts = named(&wanted.state, is_touched);
        Ok(PlanReply {
            charts: self.look_up_charts(charts, false).await?,
            plan,
            revision: self.store().newest_seed_revision().await?,
            warnings: wanted.warnings(),
            digest: wanted.seed.digest,
        })
    }

    /// Whether the charts of a seed are published at their exact versions: those that are not kept are asked for where they are
    /// published.
    ///
    /// # Errors
    /// Every error of the seed, with its file and line; `seed.system_unknown`.
    pub async fn seed_charts(&self, request: &PlanRequest) -> Result<Vec<Lookup>> {
        let wanted = Wanted::read(&request.files, request.system.as_deref())?;
        self.look_up_charts(named(&wanted.state, |_| true), true).await
    }

    /// What differs from the seed that was applied last.
    ///
    /// # Errors
    /// `system.unknown`.
    pub async fn seed_drift(&self, query: &SeedQuery) -> Result<DriftReply> {
        self.require_known_system(query.system.as_deref()).await?;
        let present = Present::read(&self.store().seed_live().await?, query.system.as_deref())?;
        let plan = Plan::of(&present.base, &present.base, &present.live);
        // What the installation lost is drift as well: no seed asked for it.
        let drift = plan.changes.into_iter().chain(plan.drift);
        let wanted = |name: &str| query.key.as_deref().is_none_or(|key| name.contains(key));
        Ok(DriftReply {
            revision: self.store().newest_seed_revision().await?,
            drift: drift.filter(|change| wanted(&format!("{} {:?}", change.name, change.field))).collect(),
        })
    }

    /// # Errors
    /// Whatever the store fails with.
    pub async fn seed_history(&self) -> Result<Vec<SeedRevision>> {
        let busy = !self.store().leases(::store::APPLY_DUTY).await?.is_empty();
        Ok(self.store().seed_revisions().await?.iter().map(|row| revision(row, busy)).collect())
    }

    /// # Errors
    /// `seed.revision_unknown`.
    pub async fn seed_revision(&self, number: &str) -> Result<SeedRevisionDetail> {
        let number = number.parse().map_err(|_| {
            Problem::new(ErrorKind::NotFound, "seed.revision_unknown", "there is no such revision of a seed")
                .found(format!("`{number}`"))
                .expected("a number; `aegisctl seed history` lists them")
        })?;
        let row = self.store().seed_revision(number).await?;
        let busy = !self.store().leases(::store::APPLY_DUTY).await?.is_empty();
        let malformed = |error: serde_json::Error| {
            Problem::internal("seed.revision_malformed", "a revision cannot be read").cause(error)
        };
        Ok(SeedRevisionDetail {
            revision: revision(&row, busy),
            consents: serde_json::from_value(row.seed.consents.clone()).map_err(malformed)?,
            applied: serde_json::from_value(row.changes.clone()).map_err(malformed)?,
            files: row
                .seed
                .files
                .iter()
                .map(|(name, text)| (name.clone(), ::seed::digest_of_bytes(text.as_bytes())))
                .collect(),
        })
    }
}

/// `busy` says that somebody holds the duty of applying; else what has not ended never will.
fn revision(row: &::store::SeedRevision, busy: bool) -> SeedRevision {
    let state = if row.state == "applying" && !busy { "interrupted" } else { &row.state };
    let commit = row.seed.commit.clone().map(|id| Commit { id, dirty: row.seed.dirty });
    SeedRevision {
        id: row.id,
        env: row.seed.env.clone(),
        system: row.seed.system.clone(),
        digest: row.seed.digest.clone(),
        commit,
        by: row.seed.by.clone(),
        state: state.to_owned(),
        changes: row.change_count,
        started_at: row.started_at.to_string(),
        ended_at: row.ended_at.map(|at| at.to_string()),
    }
}
