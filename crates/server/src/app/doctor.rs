//! The checks of the installation, one per known failure. Nothing is changed.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use api::doctor::{Check, CheckState, Report};
use model::{PackState, Problem, Result, TaskState, WallTime, counted};
use store::{InjectionFilter, Page, RunFilter, TaskFilter};

use super::App;

/// How long a task that is due may lie before somebody should have taken it up.
const UNCLAIMED: Duration = Duration::from_secs(30);

/// What a check is about.
struct About {
    id: &'static str,
    severity: &'static str,
    why: &'static str,
}

const fn error(id: &'static str, why: &'static str) -> About {
    About { id, severity: "error", why }
}

const fn warning(id: &'static str, why: &'static str) -> About {
    About { id, severity: "warning", why }
}

/// What was seen.
enum Seen {
    Good(String),
    Bad { observed: String, fix: String },
}

impl About {
    /// A check that could not be made is a failed one: it must not look like a good one.
    fn judge(&self, seen: Result<Seen>) -> Check {
        let bad = if self.severity == "error" { CheckState::Failed } else { CheckState::Warning };
        let (state, observed, fix) = match seen {
            Ok(Seen::Good(observed)) => (CheckState::Ok, observed, None),
            Ok(Seen::Bad { observed, fix }) => (bad, observed, Some(fix)),
            Err(problem) => (CheckState::Failed, format!("could not be checked: {problem}"), problem.fix),
        };
        Check { id: self.id.into(), severity: self.severity.into(), state, observed, why: self.why.into(), fix }
    }
}

impl App {
    /// # Errors
    /// Never; what fails is a check's result.
    pub async fn doctor(&self) -> Result<Report> {
        let checks = vec![
            error("store.migrated", "tables of another version are read wrongly").judge(self.migrated().await),
            error("data.writable", "nothing can be stored on a folder that is full or read-only")
                .judge(self.writable()),
            error("token.private", "whoever reads the administrator's token is the administrator")
                .judge(self.token_private()),
            warning("settings.declared", "a key that the program reads and nobody declared cannot be set or checked")
                .judge(self.declared().await),
            error("systems.layers", "a layer that is missing makes runs fail somewhere else")
                .judge(self.layers_agree().await),
            error("tasks.claimed", "tasks that nobody takes up mean that no worker runs").judge(self.claimed().await),
            error("leases.owned", "a lease of a run that has ended blocks its slot").judge(self.leases_owned().await),
            error("faults.owned", "a fault that no run answers for disturbs whoever comes next")
                .judge(self.faults_owned().await),
            warning("releases.owned", "a release that no run holds takes resources").judge(self.releases_owned().await),
            error("datapacks.present", "a datapack that is listed and not on disk cannot be scored again")
                .judge(self.packs_present().await),
            warning("telemetry.accepted", "refused records are missing from datapacks").judge(Ok(self.accepted())),
            warning("kill_switch.off", "no fault is injected while the kill switch is on")
                .judge(self.kill_switch_off().await),
        ];
        Ok(Report { ok: checks.iter().all(|check| check.state != CheckState::Failed), checks })
    }

    async fn migrated(&self) -> Result<Seen> {
        let pending = self.store().pending_migrations().await?;
        Ok(verdict(
            &pending,
            "every migration is applied",
            "missing migrations",
            "restart the server with this version",
        ))
    }

    fn writable(&self) -> Result<Seen> {
        let probe = self.data().join(".doctor");
        let written = fs::write(&probe, [0_u8; 64 * 1024]).and_then(|()| fs::remove_file(&probe));
        Ok(match written {
            Ok(()) => Seen::Good(format!("{} can be written", self.data().display())),
            Err(error) => Seen::Bad {
                observed: format!("{}: {error}", self.data().display()),
                fix: "free some space, or make the folder writable".into(),
            },
        })
    }

    fn token_private(&self) -> Result<Seen> {
        let file = self.admin_token_file();
        let metadata = fs::metadata(file).map_err(|error| {
            Problem::internal("token.file_unreadable", error.to_string()).place(file.display().to_string())
        })?;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 == 0 {
            return Ok(Seen::Good(format!("mode {mode:04o}")));
        }
        Ok(Seen::Bad { observed: format!("mode {mode:04o}"), fix: format!("chmod 600 {}", file.display()) })
    }

    async fn declared(&self) -> Result<Seen> {
        let known: HashSet<String> =
            self.store().settings("").await?.into_iter().map(|setting| setting.declaration.key).collect();
        let missing: Vec<String> =
            settings::catalogue().into_iter().map(|one| one.key).filter(|key| !known.contains(key)).collect();
        Ok(verdict(&missing, "every key that the program reads is declared", "not declared", "restart the server"))
    }

    async fn layers_agree(&self) -> Result<Seen> {
        let mut odd = Vec::new();
        let systems = self.store().systems().await?;
        for stored in &systems {
            for layer in self.layers(stored).await? {
                // A system that is disabled because this cluster cannot run it is in order.
                if !layer.state.allows_runs() && stored.enabled {
                    odd.push(format!("{} {}: {} ({})", stored.code, layer.layer, layer.state, layer.observed));
                }
            }
        }
        let good = format!("the layers of {} systems are in order", systems.len());
        Ok(verdict(
            &odd,
            &good,
            "layers",
            "look with `aegisctl system show NAME`, then register the system again with `--force`",
        ))
    }

    async fn claimed(&self) -> Result<Seen> {
        let now = WallTime::now();
        let mut late = Vec::new();
        for state in [TaskState::Pending, TaskState::Rescheduled] {
            let filter = TaskFilter { state: Some(state), ..TaskFilter::default() };
            for task in self.store().tasks(&filter, Page::ALL).await?.items {
                if task.due_at.is_some_and(|due| due.plus(UNCLAIMED) < now) {
                    late.push(task.id);
                }
            }
        }
        Ok(verdict(
            &late,
            "no task that is due lies unclaimed",
            "tasks that are due and unclaimed",
            "start a worker: `aegis serve`",
        ))
    }

    async fn leases_owned(&self) -> Result<Seen> {
        let mut orphans = Vec::new();
        let leases = self.store().leases("").await?;
        for lease in &leases {
            let Some(run) = lease.run else { continue };
            if self.store().run(run).await?.state.is_terminal() {
                orphans.push(format!("{} of run {run}", lease.resource));
            }
        }
        let good = format!("{} leases, all of them of something that goes on", leases.len());
        Ok(verdict(&orphans, &good, "leases of runs that have ended", "they are given back when the server restarts"))
    }

    /// The namespaces that runs hold now.
    async fn held(&self) -> Result<HashSet<String>> {
        let mut held = HashSet::new();
        for state in [model::RunState::Pending, model::RunState::Running] {
            let filter = RunFilter { state: Some(state), ..RunFilter::default() };
            held.extend(self.store().runs(&filter, Page::ALL).await?.items.into_iter().filter_map(|run| run.namespace));
        }
        Ok(held)
    }

    async fn faults_owned(&self) -> Result<Seen> {
        let faults = self.cluster().faults().await?;
        let held = self.held().await?;
        let names: Vec<&str> = faults.iter().map(|fault| fault.name.as_str()).collect();
        // The cluster does not say whose a fault is; without any run that holds a slot it is nobody's.
        let orphans = if held.is_empty() { names } else { Vec::new() };
        let good =
            format!("active: {}; holding a slot: {}", counted(faults.len(), "fault"), counted(held.len(), "run"));
        Ok(verdict(&orphans, &good, "faults without a run", "restart the server: it recovers what no run answers for"))
    }

    async fn releases_owned(&self) -> Result<Seen> {
        let held = self.held().await?;
        let releases = self.cluster().releases().await?;
        let orphans: Vec<&str> =
            releases.iter().map(|release| release.release.as_str()).filter(|name| !held.contains(*name)).collect();
        let good = format!("{} releases, each of a run", releases.len());
        Ok(verdict(&orphans, &good, "releases without a run", "the next run in that slot replaces it"))
    }

    async fn packs_present(&self) -> Result<Seen> {
        let mut gone = Vec::new();
        let mut count = 0;
        for state in [PackState::BuildSuccess, PackState::DetectorFailed, PackState::DetectorSuccess] {
            let filter = InjectionFilter { state: Some(state), ..InjectionFilter::default() };
            for injection in self.store().injections(&filter, Page::ALL).await?.items {
                count += 1;
                let folder = injection.pack_path.map(|path| self.packs().join(path));
                if !folder.is_some_and(|folder| folder.is_dir()) {
                    gone.push(injection.name);
                }
            }
        }
        let good = format!("all {count} datapacks are on disk");
        Ok(verdict(
            &gone,
            &good,
            "datapacks that are not on disk",
            "submit those runs again with their seeds; a simulated run gives the same datapack",
        ))
    }

    fn accepted(&self) -> Seen {
        let status = self.signals().status();
        let (mut accepted, mut refused) = (0, Vec::new());
        for (kind, counts) in &status.kinds {
            accepted += counts.accepted;
            let all = counts.refused.iter().chain(&counts.requests_refused);
            refused.extend(all.map(|(code, count)| format!("{count} {kind:?} ({code})")));
        }
        let good = format!("{} accepted since the start, none refused", counted(accepted, "record"));
        verdict(&refused, &good, "refused", "correct what sends them; the codes say what is wrong")
    }

    async fn kill_switch_off(&self) -> Result<Seen> {
        let switch = self.store().kill_switch().await?;
        if !switch.engaged {
            return Ok(Seen::Good("off".into()));
        }
        let observed = format!("on since {}: {}", switch.changed_at, switch.reason);
        Ok(Seen::Bad { observed, fix: "turn it off with `aegisctl kill-switch off` when its reason is gone".into() })
    }
}

/// Good when the list of odd things is empty.
fn verdict<T: ToString>(odd: &[T], good: &str, what: &str, fix: &str) -> Seen {
    const SHOWN: usize = 5;
    if odd.is_empty() {
        return Seen::Good(good.to_owned());
    }
    let mut names: Vec<String> = odd.iter().take(SHOWN).map(ToString::to_string).collect();
    if odd.len() > SHOWN {
        names.push(format!("and {} more", odd.len() - SHOWN));
    }
    Seen::Bad { observed: format!("{} {what}: {}", odd.len(), names.join(", ")), fix: fix.to_owned() }
}
