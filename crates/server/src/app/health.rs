//! Whether the parts live, and what the installation is doing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::health::{Health, Ingest, IngestRecords, Lease, LeaseRequest, Ready, ServiceHealth, Status};
use model::{ErrorKind, PackState, Problem, Result, TaskState};
use store::{InjectionFilter, Page, RunFilter, TaskFilter};

use super::App;
use super::run::run;

/// Runs that the overview shows.
const RECENT: u32 = 10;

impl App {
    pub async fn health(&self) -> Health {
        let started = Instant::now();
        let pinged = self.store().ping().await;
        let healthy = pinged.is_ok();
        let database = ServiceHealth {
            status: word(healthy).into(),
            response_time: format!("{:.1}ms", started.elapsed().as_secs_f64() * 1000.0),
            // The error itself may name hosts and paths, and this route is open to everyone.
            error: (!healthy).then(|| "the store does not answer".to_owned()),
        };
        if let Err(problem) = pinged {
            tracing::error!("the store does not answer: {}", problem.chain());
        }
        Health {
            status: word(healthy).into(),
            version: env!("CARGO_PKG_VERSION").into(),
            uptime: in_words(self.started().elapsed()),
            services: BTreeMap::from([("database".to_owned(), database)]),
        }
    }

    pub async fn ready(&self) -> Ready {
        let mut waiting_for = Vec::new();
        if self.store().ping().await.is_err() {
            waiting_for.push("the store does not answer".to_owned());
        }
        if *self.closing().borrow() {
            waiting_for.push("the server is stopping".to_owned());
        }
        Ready { ready: waiting_for.is_empty(), waiting_for }
    }

    /// # Errors
    /// Whatever the store or the cluster fails with.
    pub async fn status(&self) -> Result<Status> {
        let info = self.cluster().info();
        let systems = self.store().systems().await?;
        let enabled = systems.iter().filter(|system| system.enabled).count();
        let leases = self.store().leases("").await?;
        let recent = self.store().runs(&RunFilter::default(), Page::new(1, RECENT)).await?;
        let names = self.project_names().await?;
        Ok(Status {
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_seconds: i64::try_from(self.started().elapsed().as_secs()).unwrap_or(i64::MAX),
            started_at: self.started_at().to_string(),
            cluster: info.kind,
            cluster_version: info.version,
            systems: int(systems.len()),
            systems_enabled: int(enabled),
            runs: self.run_counts().await?,
            tasks: self.task_counts().await?,
            datapacks: self.pack_counts().await?,
            leases: leases.into_iter().map(lease).collect(),
            releases: int(self.cluster().releases().await?.len()),
            active_faults: int(self.cluster().faults().await?.len()),
            recent_runs: recent.items.iter().map(|one| run(one, &names)).collect(),
            ingest: self.ingest().await?,
        })
    }
}

impl App {
    /// Gives a lease back whose run has ended.
    ///
    /// # Errors
    /// `lease.unknown` when nobody holds it; `lease.in_use` when its run goes on, or a duty of this installation holds it.
    pub async fn release_lease(&self, request: &LeaseRequest) -> Result<Lease> {
        let resource = request.resource.as_str();
        let held = self.store().leases(resource).await?.into_iter().find(|lease| lease.resource == resource);
        let Some(held) = held else {
            let all = self.store().leases("").await?;
            let names = all.iter().map(|lease| lease.resource.as_str());
            return Err(Problem::unknown("lease.unknown", "lease", resource, names));
        };
        let ended = match held.run {
            Some(run) => self.store().open_runs(&[run]).await?.is_empty(),
            None => false,
        };
        if !ended {
            return Err(Problem::new(ErrorKind::Conflict, "lease.in_use", "the lease is of something that goes on")
                .place(resource.to_owned())
                .found(lease(held).owner)
                .fix("cancel the run: it gives back what it holds"));
        }
        self.store().force_release(resource).await?;
        Ok(lease(held))
    }

    async fn ingest(&self) -> Result<Ingest> {
        let signals = self.signals().clone();
        let (status, stats) = tokio::task::spawn_blocking(move || (signals.status(), signals.stats()))
            .await
            .map_err(|error| Problem::internal("status.ingest", error.to_string()))?;
        let codes = |codes: &BTreeMap<String, u64>| codes.iter().map(|(code, &n)| (code.clone(), long(n))).collect();
        let records = status.namespaces.iter().map(|part| IngestRecords {
            namespace: part.namespace.clone(),
            signal: part.kind.as_str().into(),
            accepted: long(part.accepted),
            refused: codes(&part.refused),
        });
        let of_kinds = status.kinds.iter().map(|(export, kind)| (export.as_str(), &kind.requests_refused));
        let refused = of_kinds.chain([("other", &status.strays)]).filter(|(_, refused)| !refused.is_empty());
        let queue = status.queue.clone().unwrap_or_default();
        Ok(Ingest {
            records: records.collect(),
            since: self.started_at().to_string(),
            requests_refused: refused.map(|(name, refused)| (name.to_owned(), codes(refused))).collect(),
            waiting_bytes: long(queue.waiting_bytes),
            backlog_bytes: long(queue.backlog_bytes),
            failure: queue.failure,
            stored_bytes: long(stats?.bytes),
            expired_by_age: long(status.kept.expired_by_age),
            expired_by_size: long(status.kept.expired_by_size),
        })
    }
}

fn long(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Only the number of what matches is wanted.
const COUNT: Page = Page::new(1, 1);

/// How many things are in each state; states with none are left out.
impl App {
    async fn run_counts(&self) -> Result<BTreeMap<String, i32>> {
        let counts = self.store().run_counts().await?;
        Ok(counts.into_iter().filter(|(_, n)| *n > 0).map(|(state, n)| (state.to_string(), number(n))).collect())
    }

    async fn task_counts(&self) -> Result<BTreeMap<String, i32>> {
        let mut counts = BTreeMap::new();
        for &state in TaskState::ALL {
            let filter = TaskFilter { state: Some(state), ..TaskFilter::default() };
            note(&mut counts, state.as_str(), self.store().tasks(&filter, COUNT).await?.total);
        }
        Ok(counts)
    }

    async fn pack_counts(&self) -> Result<BTreeMap<String, i32>> {
        let mut counts = BTreeMap::new();
        for &state in PackState::ALL {
            let filter = InjectionFilter { state: Some(state), ..InjectionFilter::default() };
            note(&mut counts, state.as_str(), self.store().injections(&filter, COUNT).await?.total);
        }
        Ok(counts)
    }
}

fn note(counts: &mut BTreeMap<String, i32>, state: &str, total: u64) {
    if total > 0 {
        counts.insert(state.to_owned(), number(total));
    }
}

fn number(count: u64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

const fn word(healthy: bool) -> &'static str {
    if healthy { "healthy" } else { "unhealthy" }
}

pub fn int(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn lease(held: store::HeldLease) -> Lease {
    Lease {
        resource: held.resource,
        owner: held.run.map_or_else(|| format!("process {}", held.owner), |run| format!("run {run}")),
        fence: held.fence,
        heartbeat_at: held.renewed_at.to_string(),
    }
}

fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}
