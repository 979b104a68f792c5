//! Installing a system's chart by hand, in a slot that nobody uses, under that slot's lease.

use std::time::Duration;

use ::chart::Archive;
use ::store::{Acquired, Lease, Version};
use api::chart::{CheckState, InstallReply, InstallRequest, Release, RenderCheck};
use cluster::{Environment, Fence, ReleaseObservation, ReleaseSpec};
use model::{DataTime, ErrorKind, Problem, Result, RunId, Slot, WallTime, counted};

use super::super::App;
use super::super::release::release;
use super::look::{Sight, first_slots, no_chart, not_checked};
use super::{died, digest_of, short};

/// How long a process that stopped in the middle keeps the slot.
const SLOT_TTL: Duration = Duration::from_secs(60);

/// What is to be installed.
struct Choice {
    chart: String,
    chart_version: String,
    repository: String,
    /// Bytes and contents, where the archive is at hand.
    archive: Option<(Vec<u8>, Archive)>,
    steps: Vec<String>,
}

/// A release for whichever slot is free.
struct Want {
    chart: String,
    chart_version: String,
    repository: String,
    chart_digest: Option<String>,
    /// Values of each slot.
    composed: api::spec::Release,
    environment: Environment,
}

impl App {
    /// Releases in the slots of a system.
    ///
    /// # Errors
    /// `system.unknown`, and whatever the cluster fails with.
    pub async fn system_releases(&self, name: &str) -> Result<Vec<Release>> {
        let code = self.find_system(name).await?.code;
        let all = self.cluster().releases().await?;
        let own = |release: &&ReleaseObservation| super::super::seed::number_of(&code, &release.release).is_some();
        Ok(all.iter().filter(own).map(item).collect())
    }

    /// # Errors
    /// `system.unknown`, `system.no_simulation_data`, `system.layer_not_ready`; `slot.unknown`, `slot.none_free`;
    /// `chart.source_incomplete`, those of fetching and of the archive; `chart.check_failed`.
    pub async fn install_chart(&self, name: &str, request: &InstallRequest, by: &str) -> Result<InstallReply> {
        let stored = self.find_system(name).await?;
        self.cluster().can_run(&stored.code)?;
        let slots = self.slots_to_try(&stored, request.slot).await?;
        let version = self.pedestal_version(stored.code.as_str(), None).await?;
        let mut choice = self.choose(&stored, &version, request).await?;
        let own = choice.archive.as_ref().map(|(_, archive)| &archive.values);
        let numbers: Vec<u32> = slots.iter().map(|slot| slot.number).collect();
        let composed = release(&version, own, &numbers)?;
        let others = first_slots(self.slot_count(&stored).await?).iter().filter(|slot| **slot != numbers[0]);
        let compared: Vec<u32> = numbers.iter().take(1).chain(others.take(1)).copied().collect();
        let check = match &choice.archive {
            Some((bytes, archive)) => {
                let sight = Sight { code: &stored.code, version: &version, bytes, archive, slots: &compared };
                self.look(&sight).await?
            }
            None => not_checked("the chart's archive is not at hand".to_owned()),
        };
        if check.state == CheckState::Failed && !request.despite_findings {
            return Err(failed(&check, &choice));
        }
        choice.steps.push(format!("render check: {}", check.state.as_str()));
        let want = Want {
            chart: choice.chart.clone(),
            chart_version: choice.chart_version.clone(),
            repository: choice.repository.clone(),
            chart_digest: choice.archive.as_ref().map(|(_, archive)| archive.digest.clone()),
            composed,
            environment: self.environment(&stored.code)?,
        };
        let (app, by) = (self.clone(), by.to_owned());
        // A caller who goes away takes no installation down with it, and leaves no slot leased.
        let installing = tokio::spawn(async move { app.install_in_one_of(&slots, want, &by).await });
        let seen = installing.await.map_err(died)??;
        choice.steps.push(format!(
            "{} {} is installed in {} with the values of version {}, revision {}",
            seen.chart,
            seen.chart_version,
            seen.release,
            version.name,
            short(&version.revision.digest)
        ));
        Ok(InstallReply { release: item(&seen), steps: choice.steps, check })
    }

    async fn install_in_one_of(&self, slots: &[Slot], want: Want, by: &str) -> Result<ReleaseObservation> {
        let _alone = self.installing().lock().await;
        let (slot, lease) = self.take_slot(slots, by).await?;
        let installed = self.install_under(&slot, &lease, want).await;
        self.store().release(&lease).await?;
        installed
    }

    async fn install_under(&self, slot: &Slot, lease: &Lease, want: Want) -> Result<ReleaseObservation> {
        let (values, values_digest) = want.composed.values_for(slot.number)?;
        let fence = Fence { run: want.environment.run, token: lease.fence };
        let spec = ReleaseSpec {
            slot: slot.clone(),
            chart: want.chart,
            chart_version: want.chart_version,
            repository: want.repository,
            chart_digest: want.chart_digest,
            values_digest: values_digest.to_owned(),
            values,
            environment: want.environment,
        };
        Ok(self.cluster().ensure_release(&fence, &spec).await?)
    }

    async fn slots_to_try(&self, stored: &::store::System, wanted: Option<i32>) -> Result<Vec<Slot>> {
        let count = self.slot_count(stored).await?;
        let slot = |number| Slot::new(stored.code.clone(), number);
        let Some(wanted) = wanted else { return Ok((0..count).map(slot).collect()) };
        match u32::try_from(wanted).ok().filter(|number| *number < count) {
            Some(number) => Ok(vec![slot(number)]),
            None => Err(Problem::new(ErrorKind::Invalid, "slot.unknown", "the system has no such slot")
                .place("slot")
                .found(wanted.to_string())
                .expected(format!("0 to {}", count.saturating_sub(1)))),
        }
    }

    /// The source that was asked for: a kept archive, another repository, or the system's own chart.
    async fn choose(&self, stored: &::store::System, version: &Version, request: &InstallRequest) -> Result<Choice> {
        let Some(own) = &version.chart else { return Err(no_chart(stored.code.as_str())) };
        let other = "this is not the chart that runs install; the next run in this slot replaces it";
        if let Some(digest) = &request.digest {
            let (bytes, archive) = self.read_kept(digest_of(digest)?).await?;
            archive.require(&own.name, &archive.version)?;
            let mut steps = vec![format!("archive sha256:{} was handed over", short(&archive.digest))];
            if own.archive_digest.as_ref() != Some(&archive.digest) {
                steps.push(other.to_owned());
            }
            return Ok(Choice::of(bytes, archive, "handed over".to_owned(), steps));
        }
        match (&request.repo, &request.chart, &request.version) {
            (None, None, None) => self.own_chart(own).await,
            (Some(repository), Some(chart), Some(version)) => {
                let fetched = self.fetch(repository, chart, version).await?;
                let archive = self.keep(fetched.bytes.clone()).await?;
                archive.require(&own.name, &archive.version)?;
                let mut steps =
                    vec![format!("archive sha256:{} was fetched from {}", short(&archive.digest), fetched.from)];
                if own.archive_digest.as_ref() != Some(&archive.digest) {
                    steps.push(other.to_owned());
                }
                Ok(Choice::of(fetched.bytes, archive, repository.clone(), steps))
            }
            _ => Err(Problem::new(ErrorKind::Invalid, "chart.source_incomplete", "the chart's source is not complete")
                .expected("`repo`, `chart` and `version`, or none of them")),
        }
    }

    /// The system's own chart. Where the cluster does without archives it is fetched only where that is known to be possible.
    async fn own_chart(&self, own: &::store::Chart) -> Result<Choice> {
        let needed = self.cluster().info().needs_chart || own.archive_digest.is_some();
        if needed || self.chart_options().mirrors.names_chart(&own.repository) {
            match self.obtain(own).await {
                Ok(obtained) => {
                    let steps = vec![obtained.words];
                    return Ok(Choice::of(obtained.bytes, obtained.archive, own.repository.clone(), steps));
                }
                Err(problem) if needed => return Err(problem),
                Err(problem) => tracing::warn!("{}", problem.chain()),
            }
        }
        Ok(Choice {
            chart: own.name.clone(),
            chart_version: own.version.clone(),
            repository: own.repository.clone(),
            archive: None,
            steps: vec!["the chart's archive was not fetched; this cluster does without it".to_owned()],
        })
    }

    /// The first slot that nobody uses.
    async fn take_slot(&self, slots: &[Slot], by: &str) -> Result<(Slot, Lease)> {
        let mut holders = Vec::new();
        for slot in slots {
            let resource = format!("slot:{}", slot.namespace());
            let note = format!("a chart is installed by {by}");
            match self.store().acquire(&resource, self.incarnation(), SLOT_TTL, &note).await? {
                Acquired::Yes(lease) => return Ok((slot.clone(), lease)),
                Acquired::No(held) => holders.push(format!("{} is held by {}", slot.namespace(), held.note)),
            }
        }
        Err(Problem::new(ErrorKind::Conflict, "slot.none_free", "nothing is installed under a running experiment")
            .found(holders.join("; "))
            .expected("a free slot")
            .fix("wait until a run has ended, or name another slot with `--slot`"))
    }

    /// What a simulated release that no run owns starts from.
    fn environment(&self, code: &model::SystemCode) -> Result<Environment> {
        let data = self.catalog().get(code)?;
        Ok(Environment {
            run: RunId::random(),
            origin: DataTime::from_seconds(WallTime::now().seconds()),
            seed: uuid::Uuid::new_v4().as_u64_pair().0,
            load: data.topology().map_or(0.0, |topology| topology.usual_load()),
            noise: 1.0,
        })
    }
}

impl Choice {
    fn of(bytes: Vec<u8>, archive: Archive, repository: String, steps: Vec<String>) -> Self {
        let (chart, chart_version) = (archive.name.clone(), archive.version.clone());
        Self { chart, chart_version, repository, archive: Some((bytes, archive)), steps }
    }
}

fn failed(check: &RenderCheck, choice: &Choice) -> Problem {
    const SHOWN: usize = 3;
    let errors: Vec<_> = check.findings.iter().filter(|finding| finding.severity == "error").collect();
    let words: Vec<String> = errors
        .iter()
        .take(SHOWN)
        .map(|finding| format!("{}: {}, found {} [{}]", finding.place, finding.message, finding.found, finding.code))
        .collect();
    let more = if errors.len() > SHOWN { "; ..." } else { "" };
    Problem::new(
        ErrorKind::Failed,
        "chart.check_failed",
        "the chart would come to grief as it is, so nothing was installed",
    )
    .place(format!("{} {}", choice.chart, choice.chart_version))
    .found(format!("{}: {}{more}", counted(errors.len(), "error"), words.join("; ")))
    .fix("`aegisctl pedestal helm verify` lists all with their fixes; `--despite-findings` installs it all the same")
}

fn item(seen: &ReleaseObservation) -> Release {
    Release {
        namespace: seen.release.clone(),
        chart: seen.chart.clone(),
        chart_version: seen.chart_version.clone(),
        chart_digest: seen.chart_digest.clone(),
        values_digest: seen.values_digest.clone(),
        ready: seen.ready,
        waiting_for: seen.waiting_for.clone(),
        installed_at: seen.installed_at.to_string(),
    }
}
