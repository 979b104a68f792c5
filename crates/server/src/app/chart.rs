//! Charts of pedestals: archives that are handed over or fetched, kept by their digest, and what is known of them.

mod install;
mod look;
mod publication;
mod unused;

use std::sync::Arc;

use ::chart::{Archive, Fetched, Helm, Kept};
use ::store::{ContainerKind, KeptArchive, NewContainer, Version};
use api::chart::{ArchiveState, AttachRequest, Chart, ChartArchive};
use model::{ErrorKind, Problem, Result};
use serde_json::Value;

pub(super) use publication::Named;

use super::App;
use super::release::newest;

/// How much of a digest people read.
const SHORT: usize = 12;

pub fn short(digest: &str) -> &str {
    digest.get(..SHORT).unwrap_or(digest)
}

/// An archive that is at hand, and how it came here.
struct Obtained {
    bytes: Vec<u8>,
    archive: Archive,
    words: String,
}

/// What came of fetching the charts of a change.
#[derive(Default)]
pub(super) struct FetchedCharts {
    /// What could not be fetched and need not be.
    pub told: Vec<String>,
    /// Digests and names of the archives that were not here before.
    kept: Vec<(String, String)>,
}

impl App {
    /// Checks an archive and keeps it. It is nobody's yet.
    ///
    /// # Errors
    /// Those of `chart::Archive::read`; `chart.not_kept`.
    pub async fn keep_chart(&self, bytes: Vec<u8>) -> Result<ChartArchive> {
        Ok(item_of(&self.keep(bytes).await?))
    }

    /// Unpacking and writing take a while, so they have a thread of their own.
    async fn keep(&self, bytes: Vec<u8>) -> Result<Archive> {
        let app = self.clone();
        tokio::task::spawn_blocking(move || app.charts().keep(&bytes)).await.map_err(died)?
    }

    async fn read_kept(&self, digest: &str) -> Result<(Vec<u8>, Archive)> {
        let (app, digest) = (self.clone(), digest.to_owned());
        let read = move || {
            let bytes = app.charts().read(&digest)?;
            let archive = Archive::read(&bytes)?;
            Ok((bytes, archive))
        };
        tokio::task::spawn_blocking(read).await.map_err(died)?
    }

    /// The chart of each version of a pedestal, newest first.
    ///
    /// # Errors
    /// `system.unknown`.
    pub async fn system_charts(&self, name: &str) -> Result<Vec<Chart>> {
        let code = self.find_system(name).await?.code;
        let layers = self.store().layers(code.as_str()).await?;
        let used = newest(&layers.database).map(|version| version.id);
        let mut versions: Vec<&Version> = pedestal_versions(&layers.database).collect();
        versions.sort_by_cached_key(|version| (::seed::VersionOrder::of(&version.name), version.id));
        let items = versions.into_iter().rev().filter_map(|version| self.chart_item(version, used == Some(version.id)));
        Ok(items.collect())
    }

    fn chart_item(&self, version: &Version, used: bool) -> Option<Chart> {
        let chart = version.chart.as_ref()?;
        let kept = chart.archive_digest.as_ref().map(|digest| self.charts().state(digest));
        let (state, size) = match kept {
            None => (ArchiveState::NotFetched, None),
            Some(Kept::Whole(size)) => (ArchiveState::Kept, i64::try_from(size).ok()),
            Some(Kept::Gone) => (ArchiveState::Gone, None),
            Some(Kept::Changed(_)) => (ArchiveState::Changed, None),
            Some(Kept::Unreadable(_)) => (ArchiveState::Unreadable, None),
        };
        Some(Chart {
            name: chart.name.clone(),
            version: chart.version.clone(),
            repo_url: chart.repository.clone(),
            pedestal_version: version.name.clone(),
            used,
            state,
            digest: chart.archive_digest.clone(),
            size,
            source: chart.archive_source.clone(),
            fetched_at: chart.fetched_at.map(|at| at.to_string()),
        })
    }

    /// Makes a kept archive that of the pedestal's version whose chart it is.
    ///
    /// # Errors
    /// `system.unknown`; `chart.archive_gone` and the like; `chart.another_name`, `chart.another_version` when no version of the
    /// pedestal installs this chart; `chart.digest_differs` when another archive is recorded.
    pub async fn attach_chart(&self, name: &str, request: &AttachRequest, by: &str) -> Result<Chart> {
        let code = self.find_system(name).await?.code;
        let (_, archive) = self.read_kept(digest_of(&request.digest)?).await?;
        let layers = self.store().layers(code.as_str()).await?;
        let declared: Vec<&::store::Chart> =
            pedestal_versions(&layers.database).filter_map(|version| version.chart.as_ref()).collect();
        let same: Vec<&::store::Chart> = declared.iter().copied().filter(|chart| is_of(&archive, chart)).collect();
        if same.is_empty() {
            return Err(undeclared(code.as_str(), &archive, &declared));
        }
        let kept = KeptArchive { digest: archive.digest.clone(), source: format!("handed over by {by}") };
        for chart in same {
            self.store().record_archive(&chart.repository, &chart.name, &chart.version, &kept).await?;
        }
        let charts = self.system_charts(code.as_str()).await?;
        let mut own = charts.into_iter().filter(|chart| chart.digest.as_deref() == Some(&archive.digest));
        own.next().ok_or_else(|| Problem::internal("chart.record_lost", "a recorded archive is not there"))
    }

    /// What the chart of a version has of its own, where its archive is at hand.
    ///
    /// # Errors
    /// `chart.archive_gone`, `chart.digest_differs`.
    pub(super) fn own_values(&self, version: &Version) -> Result<Option<Arc<Value>>> {
        let digest = version.chart.as_ref().and_then(|chart| chart.archive_digest.as_ref());
        digest.map(|digest| self.charts().values(digest)).transpose()
    }

    /// What to do when a chart's archive is not there.
    pub(super) fn chart_fix(&self, stored: &::store::System, chart: &::store::Chart) -> String {
        let code = &stored.code;
        format!(
            "fetch it with `aegisctl pedestal helm verify {code}`, or hand it over with `aegisctl pedestal chart push --name \
             {code} --tgz {}-{}.tgz`",
            chart.name, chart.version
        )
    }

    /// # Errors
    /// `helm.not_found`.
    fn helm(&self) -> Result<Helm> {
        let options = self.chart_options();
        Ok(Helm::find(options.helm.as_deref(), options.limit)?.with_logins(options.logins.clone()))
    }

    async fn fetch(&self, repository: &str, chart: &str, version: &str) -> Result<Fetched> {
        ::chart::fetch(&self.helm()?, &self.chart_options().mirrors, repository, chart, version).await
    }

    /// The archive of a declared chart: the kept one, else fetched, compared with what was recorded, and recorded.
    async fn obtain(&self, chart: &::store::Chart) -> Result<Obtained> {
        if let Some(digest) = &chart.archive_digest {
            match self.read_kept(digest).await {
                Ok((bytes, archive)) => {
                    let words = format!("archive sha256:{} is kept and whole, {} bytes", short(digest), archive.size);
                    return Ok(Obtained { bytes, archive, words });
                }
                Err(problem) => tracing::warn!("{}: fetched again", problem.chain()),
            }
        }
        let fetched = self.fetch(&chart.repository, &chart.name, &chart.version).await?;
        if let Some(recorded) = chart.archive_digest.as_ref().filter(|digest| **digest != fetched.archive.digest) {
            return Err(republished(chart, recorded, &fetched));
        }
        let archive = self.keep(fetched.bytes.clone()).await?;
        let kept = KeptArchive { digest: archive.digest.clone(), source: format!("fetched from {}", fetched.from) };
        self.store().record_archive(&chart.repository, &chart.name, &chart.version, &kept).await?;
        let words = format!("archive sha256:{} was fetched from {} and kept", short(&archive.digest), fetched.from);
        Ok(Obtained { bytes: fetched.bytes, archive, words })
    }

    /// Fetches the charts of what is about to be written, before anything is. Where the cluster needs them the newest version's
    /// must be there; elsewhere they are fetched only where a mirror rule says from where, and what cannot be is told.
    ///
    /// # Errors
    /// Those of fetching, on a cluster that needs charts; nothing that was fetched until then stays.
    pub(super) async fn fetch_charts(&self, containers: &mut [NewContainer]) -> Result<FetchedCharts> {
        let mut fetched = FetchedCharts::default();
        match self.fetch_each(containers, &mut fetched).await {
            Ok(()) => Ok(fetched),
            Err(problem) => Err(self.undo_fetched(&fetched, problem).await),
        }
    }

    /// Takes away what was fetched for a change that came to nothing, and says so in the problem that it came to nothing with.
    pub(super) async fn undo_fetched(&self, fetched: &FetchedCharts, mut problem: Problem) -> Problem {
        let undone = self.undo_kept(&fetched.kept).await;
        for (what, things) in [("undone", undone.gone), ("not undone", undone.left)] {
            if !things.is_empty() {
                problem.message.push_str(&format!("; {what}: {}", things.join(", ")));
            }
        }
        problem
    }

    async fn fetch_each(&self, containers: &mut [NewContainer], done: &mut FetchedCharts) -> Result<()> {
        let needs_chart = self.cluster().info().needs_chart;
        for container in containers.iter_mut().filter(|one| one.kind == ContainerKind::Pedestal) {
            let newest = ::seed::newest(container.versions.iter().filter(|one| one.enabled), |one| &one.name);
            let newest = newest.map(|version| version.name.clone());
            let layers = self.store().layers(&container.name).await?;
            for version in container.versions.iter_mut().filter(|version| version.enabled) {
                let must = needs_chart && newest.as_ref() == Some(&version.name);
                let Some(chart) = &mut version.chart else { continue };
                let same = |known: &&::store::Chart| {
                    (&known.repository, &known.name, &known.version) == (&chart.repository, &chart.name, &chart.version)
                };
                let known = layers.chart.iter().find(same).and_then(|known| known.archive_digest.clone());
                let whole = known.is_some_and(|digest| matches!(self.charts().state(&digest), Kept::Whole(_)));
                if whole || !self.fetches_from(&chart.repository) {
                    continue;
                }
                match self.fetch(&chart.repository, &chart.name, &chart.version).await {
                    Ok(fetched) => {
                        let source = format!("fetched from {}", fetched.from);
                        let was_kept = matches!(self.charts().state(&fetched.archive.digest), Kept::Whole(_));
                        let archive = self.keep(fetched.bytes).await?;
                        if !was_kept {
                            done.kept.push((archive.digest.clone(), format!("{} {}", chart.name, chart.version)));
                        }
                        chart.archive = Some(KeptArchive { digest: archive.digest, source });
                    }
                    Err(problem) if must => return Err(problem),
                    Err(problem) => {
                        done.told.push(format!("chart {} {}: not fetched: {problem}", chart.name, chart.version));
                    }
                }
            }
        }
        Ok(())
    }
}

impl App {
    /// Records what was fetched for charts that are written by now.
    pub(super) async fn record_fetched(&self, containers: &[NewContainer]) -> Result<()> {
        let charts = containers.iter().flat_map(|one| &one.versions).filter_map(|version| version.chart.as_ref());
        for chart in charts {
            let Some(archive) = &chart.archive else { continue };
            self.store().record_archive(&chart.repository, &chart.name, &chart.version, archive).await?;
        }
        Ok(())
    }
}

pub(super) fn pedestal_versions(containers: &[::store::Container]) -> impl Iterator<Item = &Version> {
    containers.iter().filter(|container| container.kind == ContainerKind::Pedestal).flat_map(|one| &one.versions)
}

/// A digest is part of a file's name, so it is nothing else.
///
/// # Errors
/// `chart.digest_malformed`.
pub(super) fn digest_of(text: &str) -> Result<&str> {
    let digest = text.strip_prefix("sha256:").unwrap_or(text);
    if digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)) {
        return Ok(digest);
    }
    Err(Problem::new(ErrorKind::Invalid, "chart.digest_malformed", "this is no digest of an archive")
        .found(format!("`{text}`"))
        .expected("64 hexadecimal digits in lower case"))
}

fn is_of(archive: &Archive, chart: &::store::Chart) -> bool {
    archive.require(&chart.name, &chart.version).is_ok()
}

/// An archive that no version of the pedestal installs.
fn undeclared(code: &str, archive: &Archive, declared: &[&::store::Chart]) -> Problem {
    let known: Vec<String> = declared.iter().map(|chart| format!("{} {}", chart.name, chart.version)).collect();
    let named = declared.iter().find(|chart| archive.require(&chart.name, &archive.version).is_ok());
    let refused = named.or(declared.first()).and_then(|chart| archive.require(&chart.name, &chart.version).err());
    let problem = refused.unwrap_or_else(|| look::no_chart(code));
    problem
        .place(format!("pedestal {code}"))
        .found(format!("{} {}", archive.name, archive.version))
        .expected(if known.is_empty() { "a declared chart".to_owned() } else { known.join(", ") })
        .fix("declare this version in the seed first; its archive is handed over afterwards")
}

fn republished(chart: &::store::Chart, recorded: &str, fetched: &Fetched) -> Problem {
    Problem::new(
        ErrorKind::Conflict,
        "chart.digest_differs",
        "the repository has another archive under this version now",
    )
    .place(format!("{} {} of {}", chart.name, chart.version, fetched.from))
    .found(format!("sha256:{}", fetched.archive.digest))
    .expected(format!("sha256:{recorded}"))
    .fix("have the chart published under a new version, and name that in the seed")
}

fn item_of(archive: &Archive) -> ChartArchive {
    ChartArchive {
        name: archive.name.clone(),
        version: archive.version.clone(),
        app_version: archive.app_version.clone(),
        digest: archive.digest.clone(),
        size: i64::try_from(archive.size).unwrap_or(i64::MAX),
    }
}

fn died(error: tokio::task::JoinError) -> Problem {
    Problem::internal("chart.work_died", "an operation on a chart died").cause(error)
}
