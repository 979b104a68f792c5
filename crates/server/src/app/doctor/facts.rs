//! What the checks look at, read once.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;

use ::store::{BuiltPack, Container, Process, Sample, SeedLive, SeedRevision, Setting, System};
use api::chart::{Lookup, RenderCheck, UnusedArchive};
use api::doctor::Repair;
use api::otel::OtelReport;
use cluster::{FaultObservation, ReleaseObservation};
use model::{InjectionId, Problem, Result, RunId, TaskId, WallTime};
use uuid::Uuid;

use super::{SHOWN, again};
use crate::app::App;
use crate::app::chart::Named;
use crate::app::seed::Pending;

/// How long a task that is due may lie before somebody should have taken it up, in microseconds.
const UNCLAIMED_US: i64 = 30_000_000;
/// How many datapacks are looked up at once.
const PART: u64 = 1000;
/// How long a process that follows settings is never silent, in microseconds.
const SILENT_US: i64 = 60_000_000;

/// What was read; or why it could not be.
pub(super) type Read<T> = Result<T>;

pub(super) struct Facts<'a> {
    pub app: &'a App,
    pub pending_migrations: Read<Vec<&'static str>>,
    pub stored: Read<Stored>,
    pub settings: Published,
    pub runs: Read<Work>,
    /// Of each enabled system whose chart is kept, what is found in what it renders to.
    pub rendered: Read<Vec<(String, RenderCheck)>>,
    /// Charts of versions that runs may install, that are not kept and whose repository is known here: what it says of them.
    pub lookups: Read<Vec<Lookup>>,
    /// Archives that nothing refers to.
    pub unused_charts: Read<Vec<UnusedArchive>>,
    /// Where a collector writes, and what other databases there have records of one.
    pub clickhouse: Option<(String, Read<BTreeMap<String, u64>>)>,
    /// Of each enabled system, what its records from the network lack.
    pub telemetry: Read<Vec<OtelReport>>,
}

/// What is registered and declared.
pub(super) struct Stored {
    pub live: SeedLive,
    /// Systems as their live settings say.
    pub systems: Vec<System>,
    pub containers: Vec<Container>,
    /// Newest first.
    pub revisions: Vec<SeedRevision>,
    /// Whether a seed is being applied this moment.
    pub applying: bool,
    pub pending: Read<Pending>,
}

/// How settings stand where they are published.
pub(super) struct Published {
    /// Where that is; `None` when the store alone keeps them.
    pub place: Option<String>,
    pub problem: Option<String>,
    pub findings: Vec<Problem>,
    /// Processes that show that they live, each with when the first change was made that it does not apply.
    pub processes: Read<Vec<(Process, Option<WallTime>)>>,
}

/// What goes on.
pub(super) struct Work {
    pub unclaimed: Sample<TaskId>,
    pub orphaned_leases: Sample<(String, RunId)>,
    pub held_leases: u64,
    pub faults: Vec<FaultObservation>,
    pub open_runs: HashSet<RunId>,
    pub held_namespaces: HashSet<String>,
    pub releases: Vec<ReleaseObservation>,
    pub packs: Vec<BuiltPack>,
    pub kill_switch: ::store::KillSwitch,
}

impl<'a> Facts<'a> {
    pub async fn read(app: &'a App) -> Self {
        let (pending_migrations, stored, settings, runs) =
            tokio::join!(app.store().pending_migrations(), Stored::read(app), Published::read(app), Work::read(app),);
        let telemetry = match &stored {
            Ok(stored) => telemetry(app, &stored.systems).await,
            Err(problem) => Err(again(problem)),
        };
        let clickhouse = match app.clickhouse().cloned() {
            Some(clickhouse) => {
                let place = clickhouse.place();
                let read = tokio::task::spawn_blocking(move || clickhouse.elsewhere()).await;
                let read = read.map_err(|error| Problem::internal("doctor.clickhouse", error.to_string()));
                Some((place, read.and_then(|read| read)))
            }
            None => None,
        };
        // Both wait for programs of their own.
        let (rendered, lookups, unused_charts) = match &stored {
            Ok(stored) => {
                let (rendered, lookups, unused) =
                    tokio::join!(rendered(app, stored), lookups(app, stored), app.unused_charts());
                (rendered, lookups, unused)
            }
            Err(problem) => (Err(again(problem)), Err(again(problem)), Err(again(problem))),
        };
        Self {
            app,
            pending_migrations,
            stored,
            settings,
            runs,
            rendered,
            lookups,
            unused_charts,
            clickhouse,
            telemetry,
        }
    }

    /// # Errors
    /// Why it could not be read.
    pub fn stored(&self) -> Result<&Stored> {
        self.stored.as_ref().map_err(again)
    }

    /// # Errors
    /// Why it could not be read.
    pub fn runs(&self) -> Result<&Work> {
        self.runs.as_ref().map_err(again)
    }
}

impl Stored {
    async fn read(app: &App) -> Result<Self> {
        let store = app.store();
        let live = store.seed_live().await?;
        let silent = WallTime::now().0 - SILENT_US;
        let revisions = store.seed_revisions().await?;
        let pending = Pending::of(&live, revisions.iter().find(|revision| revision.state == "applied"));
        Ok(Self {
            systems: store.systems().await?,
            containers: store.containers(None).await?,
            applying: store.leases(::store::APPLY_DUTY).await?.iter().any(|lease| lease.renewed_at.0 > silent),
            live,
            revisions,
            pending,
        })
    }

    /// What the seed that was applied last wants and the installation has not.
    ///
    /// # Errors
    /// Why it could not be compared.
    pub fn pending(&self) -> Result<&Pending> {
        self.pending.as_ref().map_err(again)
    }

    pub fn enabled(&self) -> impl Iterator<Item = &System> {
        self.systems.iter().filter(|system| system.enabled)
    }

    pub fn system(&self, code: &str) -> Option<&System> {
        self.systems.iter().find(|system| system.code.as_str() == code)
    }

    /// Whether a system is declared by the seeds of an environment.
    pub fn is_from(&self, code: &str, env: &str) -> bool {
        self.live.systems.iter().any(|system| system.code.as_str() == code && system.seed.env == env)
    }

    /// The pedestal that has the system's name.
    pub fn pedestal(&self, system: &System) -> Option<&Container> {
        let is_its =
            |one: &&Container| one.kind == ::store::ContainerKind::Pedestal && one.name == system.code.as_str();
        self.containers.iter().find(is_its)
    }

    pub fn setting(&self, key: &str) -> Option<&Setting> {
        self.live.settings.iter().find(|setting| setting.declaration.key == key)
    }

    /// The command that brings a system back to what was declared for it, and who may run it.
    pub fn register_again(&self, code: &str) -> (String, Repair) {
        let is_there = self.live.systems.iter().any(|system| system.code.as_str() == code);
        let (declared, is_known) = self.declared_by(code);
        let force = if is_there { " --force" } else { "" };
        let repair = if is_known { Repair::Safe } else { Repair::Person };
        (format!("aegisctl system register{declared} --name {code}{force}"), repair)
    }

    /// The same for what `--force` may not change: the registration is taken away first.
    pub fn register_anew(&self, code: &str) -> (String, Repair) {
        let (declared, is_known) = self.declared_by(code);
        let fix = format!(
            "aegisctl system unregister --name {code} --yes && aegisctl system register{declared} --name {code}"
        );
        (fix, if is_known { Repair::Consent } else { Repair::Person })
    }

    /// Where a system is declared, as an argument of its registration; whether this server has that.
    fn declared_by(&self, code: &str) -> (String, bool) {
        let system = self.live.systems.iter().find(|system| system.code.as_str() == code);
        let Some(env) = system.map(|system| system.seed.env.as_str()) else { return (String::new(), true) };
        if env == crate::app::register::BUILT_IN {
            return (String::new(), true);
        }
        match self.pending().ok().and_then(|pending| pending.revision.as_ref()) {
            Some((number, of)) if of == env => (format!(" --seed-revision {number}"), true),
            _ => (format!(" --from-seed DIR --env {env}"), false),
        }
    }
}

impl Published {
    async fn read(app: &App) -> Self {
        let (findings, problem) = {
            let followed = app.followed().borrow();
            (followed.findings().map(again).collect(), followed.problem().map(str::to_owned))
        };
        Self {
            place: app.store().source().map(|source| source.place().to_owned()),
            problem,
            findings,
            processes: Self::processes(app).await,
        }
    }

    async fn processes(app: &App) -> Result<Vec<(Process, Option<WallTime>)>> {
        let mut found = Vec::new();
        // Each says every few seconds that it is there: one that is silent for long has ended and reads nothing.
        let since = WallTime::now().0 - SILENT_US;
        for process in app.store().setting_processes().await? {
            if process.reported_at.0 > since {
                let missed = ::settings::Backend::changes_after(app.store(), process.revision, 1).await?;
                found.push((process, missed.first().map(|change| change.at)));
            }
        }
        Ok(found)
    }
}

impl Work {
    async fn read(app: &App) -> Result<Self> {
        let store = app.store();
        let before = WallTime(WallTime::now().0 - UNCLAIMED_US);
        let faults = app.cluster().faults().await?;
        let of_faults: Vec<RunId> = faults.iter().map(|fault| fault.run).collect();
        let (mut packs, mut last) = (Vec::new(), InjectionId(0));
        loop {
            let part = store.built_packs(last, PART).await?;
            let Some(end) = part.last() else { break };
            last = end.id;
            packs.extend(part);
        }
        Ok(Self {
            unclaimed: store.unclaimed_tasks(before, SHOWN as u64).await?,
            orphaned_leases: store.leases_of_ended_runs(SHOWN as u64).await?,
            held_leases: store.held_leases().await?,
            open_runs: store.open_runs(&of_faults).await?,
            faults,
            held_namespaces: store.held_namespaces().await?,
            releases: app.cluster().releases().await?,
            packs,
            kill_switch: store.kill_switch().await?,
        })
    }
}

async fn rendered(app: &App, stored: &Stored) -> Result<Vec<(String, RenderCheck)>> {
    let mut looks = Vec::new();
    for system in stored.enabled() {
        let versions = stored.pedestal(system).map(|pedestal| &pedestal.versions).into_iter().flatten();
        let used = ::seed::newest(versions.filter(|version| version.enabled), |version| &version.name);
        let Some(used) = used else { continue };
        looks.push(async move {
            let check = app.look_at_kept(system, used).await?;
            Ok(check.map(|check| (system.code.to_string(), check)))
        });
    }
    // Each waits for programs of its own.
    let found: Result<Vec<_>> = futures::future::try_join_all(looks).await;
    Ok(found?.into_iter().flatten().collect())
}

async fn lookups(app: &App, stored: &Stored) -> Result<Vec<Lookup>> {
    let mut charts = Vec::new();
    for pedestal in stored.containers.iter().filter(|one| one.kind == ::store::ContainerKind::Pedestal) {
        for version in pedestal.versions.iter().filter(|version| version.enabled) {
            let Some(chart) = &version.chart else { continue };
            // One that was fetched and is gone is another check's.
            if chart.archive_digest.is_none() && app.fetches_from(&chart.repository) {
                charts.push(Named {
                    system: pedestal.name.clone(),
                    pedestal_version: version.name.clone(),
                    repository: chart.repository.clone(),
                    name: chart.name.clone(),
                    version: chart.version.clone(),
                });
            }
        }
    }
    app.look_up_charts(charts, true).await
}

/// Asks only what came from the network: what a simulated run writes is judged when its datapack is built.
async fn telemetry(app: &App, systems: &[System]) -> Result<Vec<OtelReport>> {
    let mut reports = Vec::new();
    for system in systems.iter().filter(|system| system.enabled) {
        if app.catalog().get(&system.code).is_ok() {
            reports.push(app.otel_from_network(&system.code).await?);
        }
    }
    Ok(reports)
}

impl App {
    /// Writes a little into the data folder, and takes it away again.
    pub(in crate::app) fn probe_data(&self) -> io::Result<()> {
        let probe = self.data().join(format!(".probe-{}", Uuid::new_v4().simple()));
        let written = fs::write(&probe, [0_u8; 64 * 1024]);
        let removed = match fs::remove_file(&probe) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && written.is_err() => Ok(()),
            other => other,
        };
        written.and(removed)
    }
}
