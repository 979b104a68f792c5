//! Whether charts are published at their exact versions: asked for without fetching them, and never for longer than a moment.

use std::time::Duration;

use ::chart::{Helm, Kept};
use api::chart::{Lookup, LookupState};
use futures::{StreamExt, stream};
use model::{Problem, Result};

use super::super::App;

/// Longest time for each call of `helm`: whoever asks is waiting.
const ASKED: Duration = Duration::from_secs(5);
/// How many are asked for at once; each is a process.
const AT_ONCE: usize = 4;

/// A chart that a version of a pedestal names.
pub(in super::super) struct Named {
    pub system: String,
    pub pedestal_version: String,
    pub repository: String,
    pub name: String,
    pub version: String,
}

impl App {
    /// Whether this installation knows where the charts of a repository are fetched from: a cluster that needs them takes every
    /// address as it is, the simulated one only what a mirror rule names.
    pub(in super::super) fn fetches_from(&self, repository: &str) -> bool {
        self.cluster().info().needs_chart || self.chart_options().mirrors.names_chart(repository)
    }

    /// What is known of each chart. With `ask`, of those that are not kept their repository says whether they are published.
    pub(in super::super) async fn look_up_charts(&self, charts: Vec<Named>, ask: bool) -> Result<Vec<Lookup>> {
        if charts.is_empty() {
            return Ok(Vec::new());
        }
        let recorded = self.store().recorded_archives().await?;
        let is_kept = |chart: &Named| {
            let digest = recorded.get(&[chart.repository.clone(), chart.name.clone(), chart.version.clone()]);
            digest.is_some_and(|digest| matches!(self.charts().state(digest), Kept::Whole(_)))
        };
        let looked = charts.into_iter().map(|chart| {
            let kept = is_kept(&chart);
            async move { self.look_up(chart, kept, ask).await }
        });
        Ok(stream::iter(looked).buffered(AT_ONCE).collect().await)
    }

    async fn look_up(&self, chart: Named, kept: bool, ask: bool) -> Lookup {
        let (state, problem) = match (kept, ask) {
            (true, _) => (LookupState::Kept, None),
            (false, false) => (LookupState::NotAsked, None),
            (false, true) => match self.ask_repository(&chart).await {
                Ok(()) => (LookupState::Published, None),
                Err(problem) if says_unpublished(&problem) => (LookupState::NotPublished, Some(problem)),
                Err(problem) => (LookupState::Unknown, Some(problem)),
            },
        };
        Lookup {
            system: chart.system,
            pedestal_version: chart.pedestal_version,
            name: chart.name,
            version: chart.version,
            repo_url: chart.repository,
            state,
            reason: problem.as_ref().map(ToString::to_string),
            fix: problem.and_then(|problem| problem.fix),
        }
    }

    async fn ask_repository(&self, chart: &Named) -> Result<()> {
        let options = self.chart_options();
        let helm = Helm::find(options.helm.as_deref(), options.limit.min(ASKED))?;
        ::chart::look_up(&helm, &options.mirrors, &chart.repository, &chart.name, &chart.version).await
    }
}

/// The repository answered, and has no such chart; anything else says nothing about the chart.
fn says_unpublished(problem: &Problem) -> bool {
    ["chart.version_not_found", "chart.not_in_repository"].contains(&problem.code.as_ref())
}
