//! Applying a seed: one at a time, by the duty's lease; what was looked at or nothing; in one transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ::seed::{Change, ChangeKind, Consents, Object, ObjectId, ObjectKind, Plan, State, field};
use ::store::{
    APPLY_DUTY, Acquired, ContainerKind, Lease, NewSeedRevision, Removal, SeedLive, SeedOrigin, SeedWrites,
    SettingWrite, SystemWrite,
};
use api::seed::{ApplyReply, ApplyRequest};
use model::{ErrorKind, Problem, Result, SystemCode};
use serde_json::Value;

use super::super::App;
use super::{Present, Wanted, rows};

/// How long a process that stopped in the middle keeps the duty.
const DUTY_TTL: Duration = Duration::from_secs(30);

/// What an application is made from.
struct Application<'a> {
    app: &'a App,
    wanted: &'a Wanted,
    env: &'a str,
    system: Option<&'a str>,
    /// Hash of the plan that was looked at.
    expect: Option<&'a str>,
    consents: Consents,
}

impl App {
    /// # Errors
    /// Every error of the seed; `seed.apply_running`; `seed.plan_stale`; `version.immutable`; nothing is written then.
    pub async fn seed_apply(&self, request: &ApplyRequest, by: &str) -> Result<ApplyReply> {
        let source = self.source(request).await?;
        let wanted = Wanted::read(&source.files, source.system.as_deref())?;
        let Ok(_alone) = self.applying().try_lock() else {
            return Err(running("another request to this server".into()));
        };
        let lease = self.take_duty(by).await?;
        let done = self.apply_holding(&lease, &source, &wanted, request, by).await;
        self.store().release(&lease).await?;
        done
    }

    /// The files of the request, or those of an earlier revision.
    async fn source(&self, request: &ApplyRequest) -> Result<NewSeedRevision> {
        let consents = serde_json::to_value(request.consents).expect("flags have text keys");
        let commit = request.commit.clone();
        let new = NewSeedRevision {
            env: request.env.clone(),
            system: request.system.clone(),
            digest: String::new(),
            files: request.files.clone(),
            dirty: commit.as_ref().is_some_and(|commit| commit.dirty),
            commit: commit.map(|commit| commit.id),
            by: String::new(),
            consents,
        };
        let Some(number) = request.revision else { return Ok(new) };
        let earlier = self.store().seed_revision(number).await?.seed;
        let system = request.system.clone().or_else(|| earlier.system.clone());
        Ok(NewSeedRevision { system, consents: new.consents, ..earlier })
    }

    pub(in super::super) async fn take_duty(&self, by: &str) -> Result<Lease> {
        let note = format!("a seed, by {by}");
        match self.store().acquire(APPLY_DUTY, self.incarnation(), DUTY_TTL, &note).await? {
            Acquired::Yes(lease) => Ok(lease),
            Acquired::No(held) => Err(running(held.note)),
        }
    }

    async fn apply_holding(
        &self,
        lease: &Lease,
        source: &NewSeedRevision,
        wanted: &Wanted,
        request: &ApplyRequest,
        by: &str,
    ) -> Result<ApplyReply> {
        let application = Application {
            app: self,
            wanted,
            env: &source.env,
            system: source.system.as_deref(),
            expect: request.plan.as_deref(),
            consents: request.consents,
        };
        // Looked at before anything is recorded: what is refused leaves no trace, and what is the same no revision.
        let (plan, mut writes) = application.decide(&self.store().seed_live().await?)?;
        let changed = !writes.is_empty();
        let mut warnings = wanted.warnings();
        if changed {
            // Charts are fetched before anything is written: one that is not published blocks the change where it is needed.
            let mut fetched = self.fetch_charts(&mut writes.containers).await?;
            warnings.append(&mut fetched.told);
            let new = NewSeedRevision { digest: wanted.seed.digest.clone(), by: by.to_owned(), ..source.clone() };
            if let Err(problem) = self.write_seed(lease, &new, &application, by).await {
                return Err(self.undo_fetched(&fetched, problem).await);
            }
            self.record_fetched(&writes.containers).await?;
            self.reserve_namespaces().await?;
        } else {
            self.store().forget_interrupted_seeds(lease).await?;
        }
        let accepted = |change: &&Change| request.consents.covers(change.consent);
        let (applied, left): (Vec<_>, Vec<_>) = plan.changes.iter().cloned().partition(|change| accepted(&change));
        let (reverted, drift): (Vec<_>, Vec<_>) = plan.drift.iter().cloned().partition(|change| accepted(&change));
        let applied: Vec<Change> = applied.into_iter().chain(reverted).collect();
        Ok(ApplyReply {
            revision: self.store().newest_seed_revision().await?,
            changed: !applied.is_empty(),
            applied,
            left,
            drift,
            impact: plan.impact,
            warnings,
        })
    }

    async fn write_seed(
        &self,
        lease: &Lease,
        new: &NewSeedRevision,
        application: &Application<'_>,
        by: &str,
    ) -> Result<()> {
        let revision = self.store().begin_seed(lease, new).await?;
        let decide = |live: &SeedLive| application.decide(live).map(|(_, writes)| writes);
        match self.store().apply_seed(lease, revision, by, &decide).await {
            Ok(_) => Ok(()),
            Err(problem) => {
                self.store().abandon_seed(revision).await?;
                Err(problem)
            }
        }
    }
}

impl Application<'_> {
    /// From what is there to what is written.
    fn decide(&self, live: &SeedLive) -> Result<(Plan, SeedWrites)> {
        let present = Present::read(live, self.system)?;
        let plan = Plan::of(&present.base, &self.wanted.state, &present.live);
        if let Some(expect) = self.expect.filter(|expect| *expect != plan.hash) {
            return Err(stale(expect, &plan.hash));
        }
        if let Some(change) = plan.refused().next() {
            return Err(immutable(change, plan.refused().count()));
        }
        let writes = self.writes(&plan, &present)?;
        Ok((plan, writes))
    }

    fn writes(&self, plan: &Plan, present: &Present) -> Result<SeedWrites> {
        let mut touched: BTreeMap<ObjectId, Vec<&Change>> = BTreeMap::new();
        for change in plan.accepted(self.consents) {
            touched.entry(id(change)).or_default().push(change);
        }
        let merged = self.merged(plan, present);
        let mut writes = SeedWrites::default();
        for (id, changes) in &touched {
            if changes.iter().any(|change| change.kind == ChangeKind::Removed && change.field.is_none()) {
                removal(id, &mut writes)?;
            } else {
                self.object(id, changes, &merged.live, present, &mut writes)?;
            }
        }
        self.containers(&touched, &merged.live, &mut writes)?;
        self.links(&touched, &mut writes)?;
        self.remember(plan, present, &merged.base, &mut writes);
        let applied: Vec<&Change> = plan.accepted(self.consents).collect();
        writes.change_count = i32::try_from(applied.len()).unwrap_or(i32::MAX);
        writes.changes = serde_json::to_value(applied).expect("changes have text keys");
        Ok(writes)
    }

    /// The new state, with what was not agreed to left as it is: `live` to be written, `base` to be remembered.
    fn merged(&self, plan: &Plan, present: &Present) -> Merged {
        let mut merged = Merged { live: self.wanted.state.clone(), base: self.wanted.state.clone() };
        merged.live.overlays.extend(present.live.overlays.clone());
        let open = plan.changes.iter().chain(&plan.drift).filter(|change| !self.consents.covers(change.consent));
        for change in open {
            let (id, Some(name)) = (id(change), &change.field) else { continue };
            for (target, source) in [(&mut merged.live, &present.live), (&mut merged.base, &present.base)] {
                let Some(object) = target.objects.get_mut(&id) else { continue };
                match source.objects.get(&id).and_then(|object| object.fields.get(name)) {
                    Some(field) => object.fields.insert(name.clone(), field.clone()),
                    None => object.fields.remove(name),
                };
            }
        }
        merged
    }

    fn object(
        &self,
        id: &ObjectId,
        changes: &[&Change],
        merged: &State,
        present: &Present,
        writes: &mut SeedWrites,
    ) -> Result<()> {
        let Some(object) = merged.objects.get(id) else { return Ok(()) };
        match id.kind {
            ObjectKind::Project => {
                writes.projects.push((id.name.clone(), object.text("description").to_owned()));
            }
            ObjectKind::Setting => {
                let setting = rows::setting(&id.name, object, present.live.objects.get(id))?;
                let overwrite = changes.iter().any(|change| change.field.as_deref() == Some(field::DEFAULT));
                writes.settings.push(SettingWrite { setting, overwrite });
            }
            ObjectKind::System => {
                let code = SystemCode::parse(&id.name)?;
                writes.systems.push(self.system(&code, object)?);
            }
            ObjectKind::Version if reverts_what_is_fixed(changes) => {
                let (container, version) = id.name.rsplit_once(' ').unwrap_or((&id.name, ""));
                let (kind, name) = rows::container_name(container)?;
                writes.restored.push((kind, name.to_owned(), rows::version(version, object, merged)?));
            }
            // Containers, versions and prerequisites are written together; the others are remembered and nothing else.
            _ => {}
        }
        Ok(())
    }

    fn system(&self, code: &SystemCode, object: &Object) -> Result<SystemWrite> {
        let status = self.wanted.checked.systems.iter().find(|system| system.code == *code);
        let wants = status.is_some_and(|system| system.keys.status == ::seed::Status::Enabled);
        // What cannot run here is registered all the same, and stays disabled.
        let enabled = wants && self.app.cluster().can_run(code).is_ok();
        let pedestal = self.wanted.state.get(ObjectKind::Container, &format!("pedestal {code}"));
        let origin = SeedOrigin {
            env: self.env.to_owned(),
            digest: self.wanted.seed.digest.clone(),
            place: super::live::place(pedestal.and_then(|object| object.at.as_ref())),
        };
        Ok(SystemWrite { system: rows::system(code, object, enabled, origin)?, telemetry: self.app.contract(code) })
    }

    fn containers(
        &self,
        touched: &BTreeMap<ObjectId, Vec<&Change>>,
        merged: &State,
        writes: &mut SeedWrites,
    ) -> Result<()> {
        let mut names: BTreeSet<String> = BTreeSet::new();
        for id in touched.keys() {
            match id.kind {
                ObjectKind::Container => names.extend([id.name.clone()]),
                ObjectKind::Version => names.extend(id.name.rsplit_once(' ').map(|(name, _)| name.to_owned())),
                ObjectKind::Prerequisite => {
                    names.extend(id.name.split_once(' ').map(|(name, _)| format!("pedestal {name}")));
                }
                _ => {}
            }
        }
        for name in names {
            if merged.get(ObjectKind::Container, &name).is_some() {
                writes.containers.push(rows::container(&name, merged, |id| touched.contains_key(id))?);
            }
        }
        Ok(())
    }

    /// Systems and the containers that they use, where a system or a container is new.
    fn links(&self, touched: &BTreeMap<ObjectId, Vec<&Change>>, writes: &mut SeedWrites) -> Result<()> {
        let new = |id: &ObjectId, changes: &[&Change]| {
            matches!(id.kind, ObjectKind::System | ObjectKind::Container)
                && changes.iter().any(|change| matches!(change.kind, ChangeKind::Added | ChangeKind::Backfilled))
        };
        if !touched.iter().any(|(id, changes)| new(id, changes)) {
            return Ok(());
        }
        let algorithms =
            self.wanted.checked.containers.iter().filter(|one| one.kind == ::seed::ContainerKind::Algorithm);
        let algorithms: Vec<_> = algorithms.map(|one| (ContainerKind::Algorithm, one.name.clone())).collect();
        let wanted = |code: &SystemCode| self.system.is_none_or(|limit| limit == code.as_str());
        for system in self.wanted.checked.systems.iter().filter(|system| wanted(&system.code)) {
            let mut containers = vec![
                (ContainerKind::Pedestal, system.code.to_string()),
                (ContainerKind::Benchmark, system.benchmark.clone()),
            ];
            containers.extend(algorithms.iter().cloned());
            writes.links.push((system.code.clone(), containers));
        }
        Ok(())
    }

    /// What the next plan is to compare with.
    fn remember(&self, plan: &Plan, present: &Present, base: &State, writes: &mut SeedWrites) {
        for (id, object) in &base.objects {
            if present.base.objects.get(id).is_none_or(|before| !same(before, object)) {
                writes.objects.push(rows::seed_object(id, object));
            }
        }
        let kept: BTreeSet<ObjectId> = plan
            .changes
            .iter()
            .filter(|change| change.kind == ChangeKind::Removed && !self.consents.covers(change.consent))
            .map(id)
            .collect();
        for id in present.base.objects.keys() {
            if !base.objects.contains_key(id) && !kept.contains(id) {
                writes.forgotten.push((rows::kind_text(id.kind), id.name.clone()));
            }
        }
    }
}

struct Merged {
    live: State,
    base: State,
}

/// Equal but for the places in the files, which move whenever something is written above.
fn same(one: &Object, other: &Object) -> bool {
    let values = |object: &Object| -> Vec<(String, Value)> {
        object.fields.iter().map(|(name, field)| (name.clone(), field.value.clone())).collect()
    };
    one.system == other.system && values(one) == values(other)
}

fn id(change: &Change) -> ObjectId {
    ObjectId { kind: change.object, name: change.name.clone() }
}

fn reverts_what_is_fixed(changes: &[&Change]) -> bool {
    let fixed = |change: &&Change| change.field.as_deref().is_some_and(|name| field::FIXED.contains(&name));
    changes.iter().any(|change| change.kind == ChangeKind::Drift && fixed(change))
}

fn removal(id: &ObjectId, writes: &mut SeedWrites) -> Result<()> {
    match id.kind {
        ObjectKind::Setting => writes.removed.push(Removal::Setting(id.name.clone())),
        ObjectKind::System => writes.removed.push(Removal::System(id.name.clone())),
        ObjectKind::Version => {
            let (container, version) = id.name.rsplit_once(' ').unwrap_or((&id.name, ""));
            let (kind, name) = rows::container_name(container)?;
            writes.removed.push(Removal::Version(kind, name.to_owned(), version.to_owned()));
        }
        ObjectKind::Prerequisite => {
            let (pedestal, name) = id.name.split_once(' ').unwrap_or((&id.name, ""));
            writes.removed.push(Removal::Prerequisite(pedestal.to_owned(), name.to_owned()));
        }
        // Its versions are removed by themselves; the others are forgotten.
        _ => {}
    }
    Ok(())
}

pub(in super::super) fn running(holder: String) -> Problem {
    Problem::new(ErrorKind::Conflict, "seed.apply_running", "a seed is being applied")
        .found(holder)
        .fix("wait until it has ended; `aegisctl seed history` shows it")
}

fn stale(expect: &str, found: &str) -> Problem {
    let short = |hash: &str| hash.chars().take(12).collect::<String>();
    Problem::new(ErrorKind::Conflict, "seed.plan_stale", "what is there has changed since the plan was made")
        .found(format!("plan {}", short(found)))
        .expected(format!("plan {}", short(expect)))
        .fix("look at the plan again with `aegisctl seed plan`")
}

fn immutable(change: &Change, count: usize) -> Problem {
    let field = change.field.as_deref().unwrap_or_default();
    let mut problem =
        Problem::new(ErrorKind::Conflict, "version.immutable", format!("the {field} of a version cannot change"))
            .place(format!("{}: {}", change.place.as_deref().unwrap_or("-"), change.name))
            .found(change.after.clone().unwrap_or_else(|| "nothing".to_owned()))
            .expected(change.before.clone().unwrap_or_else(|| "nothing".to_owned()));
    problem.fix = change.fix.clone();
    if count > 1 {
        problem.message.push_str(&format!(" (and {} more are refused)", count - 1));
    }
    problem
}
