//! The checks of the installation, one per known failure. Nothing is changed.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;

use api::doctor::{Check, CheckState, Report};
use model::{InjectionId, Problem, Result, RunId, WallTime, counted};
use store::Sample;
use uuid::Uuid;

use super::App;

/// How long a task that is due may lie before somebody should have taken it up, in microseconds.
const UNCLAIMED_US: i64 = 30_000_000;
/// How many odd things are named.
const SHOWN: u64 = 5;
/// How many datapacks are looked up at once.
const PART: u64 = 1000;

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

    /// Writes a little into the data folder, and takes it away again.
    pub(super) fn probe_data(&self) -> io::Result<()> {
        let probe = self.data().join(format!(".probe-{}", Uuid::new_v4().simple()));
        let written = fs::write(&probe, [0_u8; 64 * 1024]);
        let removed = match fs::remove_file(&probe) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && written.is_err() => Ok(()),
            other => other,
        };
        written.and(removed)
    }

    fn writable(&self) -> Result<Seen> {
        Ok(match self.probe_data() {
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
        let before = WallTime(WallTime::now().0 - UNCLAIMED_US);
        let late = self.store().unclaimed_tasks(before, SHOWN).await?;
        Ok(sampled(
            &late,
            "no task that is due lies unclaimed",
            "tasks that are due and unclaimed",
            "start a worker: `aegis serve`",
        ))
    }

    async fn leases_owned(&self) -> Result<Seen> {
        let orphans = self.store().leases_of_ended_runs(SHOWN).await?;
        let items = orphans.items.iter().map(|(resource, run)| format!("{resource} of run {run}")).collect();
        let good = format!("{} leases, all of them of something that goes on", self.store().held_leases().await?);
        let orphans = Sample { items, total: orphans.total };
        Ok(sampled(&orphans, &good, "leases of runs that have ended", "they are given back when the server restarts"))
    }

    async fn faults_owned(&self) -> Result<Seen> {
        let faults = self.cluster().faults().await?;
        let runs: Vec<RunId> = faults.iter().map(|fault| fault.run).collect();
        let open = self.store().open_runs(&runs).await?;
        let orphans: Vec<String> = faults
            .iter()
            .filter(|fault| !open.contains(&fault.run))
            .map(|fault| format!("{} of run {}", fault.name, fault.run))
            .collect();
        let good = format!("{}, each of a run that goes on", counted(faults.len(), "active fault"));
        Ok(verdict(
            &orphans,
            &good,
            "faults of runs that have ended",
            "turn the kill switch on, which recovers what no run answers for, and off again: `aegisctl kill-switch on`",
        ))
    }

    async fn releases_owned(&self) -> Result<Seen> {
        let held = self.store().held_namespaces().await?;
        let releases = self.cluster().releases().await?;
        let orphans: Vec<&str> =
            releases.iter().map(|release| release.release.as_str()).filter(|name| !held.contains(*name)).collect();
        let good = format!("{} releases, each of a run", releases.len());
        Ok(verdict(&orphans, &good, "releases without a run", "the next run in that slot replaces it"))
    }

    async fn packs_present(&self) -> Result<Seen> {
        let (mut gone, mut count, mut last) = (Vec::new(), 0, InjectionId(0));
        loop {
            let part = self.store().built_packs(last, PART).await?;
            let Some(end) = part.last() else { break };
            last = end.id;
            count += part.len();
            gone.extend(part.into_iter().filter(|pack| !self.packs().join(&pack.path).is_dir()).map(|pack| pack.name));
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
        let (mut accepted, mut records, mut requests) = (0, Refused::default(), Refused::default());
        for (kind, counts) in &status.kinds {
            accepted += counts.accepted;
            records.add(kind.as_str(), &counts.refused);
            requests.add(kind.as_str(), &counts.requests_refused);
        }
        requests.add("unknown paths", &status.strays);
        let since = self.started_at();
        let accepted = format!("{} accepted since {since}", counted(accepted, "record"));
        let parts: Vec<String> = [records.words("record"), requests.words("request")].into_iter().flatten().collect();
        if parts.is_empty() {
            return Seen::Good(format!("{accepted}, none refused"));
        }
        Seen::Bad {
            observed: format!("{accepted}; refused: {}", parts.join("; ")),
            fix: "correct what sends them; the codes say what is wrong".into(),
        }
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

/// What was refused of one sort, records or whole requests.
#[derive(Default)]
struct Refused {
    total: u64,
    parts: Vec<String>,
}

impl Refused {
    fn add(&mut self, kind: &str, codes: &BTreeMap<String, u64>) {
        self.total += codes.values().sum::<u64>();
        self.parts.extend(codes.iter().map(|(code, count)| format!("{count} of {kind} ({code})")));
    }

    fn words(self, noun: &str) -> Option<String> {
        let left = self.parts.len().saturating_sub(SHOWN as usize);
        let more = (left > 0).then(|| format!("and {}", counted(left, "more reason")));
        let parts: Vec<String> = self.parts.into_iter().take(SHOWN as usize).chain(more).collect();
        (self.total > 0).then(|| format!("{}, {}", counted(self.total, noun), parts.join(", ")))
    }
}

/// Good when the list of odd things is empty.
fn verdict<T: ToString>(odd: &[T], good: &str, what: &str, fix: &str) -> Seen {
    let shown = odd.iter().take(SHOWN as usize).map(ToString::to_string).collect();
    sampled(&Sample { items: shown, total: odd.len() as u64 }, good, what, fix)
}

/// The same where the store has chosen some of them.
fn sampled<T: ToString>(odd: &Sample<T>, good: &str, what: &str, fix: &str) -> Seen {
    if odd.total == 0 {
        return Seen::Good(good.to_owned());
    }
    let mut names: Vec<String> = odd.items.iter().map(ToString::to_string).collect();
    let left = odd.total.saturating_sub(names.len() as u64);
    if left > 0 {
        names.push(format!("and {left} more"));
    }
    Seen::Bad { observed: format!("{} {what}: {}", odd.total, names.join(", ")), fix: fix.to_owned() }
}
