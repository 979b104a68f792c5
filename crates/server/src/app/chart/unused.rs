//! Archives of charts that nothing refers to any more: found, and taken away when that is asked for.

use std::collections::HashSet;
use std::time::Duration;

use api::chart::UnusedArchive;
use model::Result;

use super::super::App;
use super::died;

/// Whoever hands an archive over says afterwards whose it is; until then it is nobody's.
const SETTLED: Duration = Duration::from_secs(3600);

impl App {
    /// Archives that no version of a pedestal and no release refers to, an hour and more after they were kept.
    ///
    /// # Errors
    /// `chart.folder_unreadable`, and whatever store and cluster fail with.
    pub async fn unused_charts(&self) -> Result<Vec<UnusedArchive>> {
        let app = self.clone();
        let kept = tokio::task::spawn_blocking(move || app.charts().kept_for(SETTLED)).await.map_err(died)??;
        if kept.is_empty() {
            return Ok(Vec::new());
        }
        let used = self.used_charts().await?;
        let unused = kept.into_iter().filter(|(digest, _)| !used.contains(digest));
        Ok(unused
            .map(|(digest, size)| UnusedArchive { digest, size: i64::try_from(size).unwrap_or(i64::MAX) })
            .collect())
    }

    /// Takes them away; those that were.
    ///
    /// # Errors
    /// As [`App::unused_charts`]; `chart.not_removed`.
    pub async fn prune_charts(&self) -> Result<Vec<UnusedArchive>> {
        let unused = self.unused_charts().await?;
        for archive in &unused {
            self.charts().remove(&archive.digest)?;
        }
        Ok(unused)
    }

    /// Takes away what this call kept and nothing refers to: the names of what was.
    pub(in super::super) async fn undo_kept(&self, kept: &[(String, String)]) -> Vec<String> {
        let mut undone = Vec::new();
        let used = match self.used_charts().await {
            Ok(used) => used,
            Err(problem) => {
                tracing::warn!("fetched archives stay, for it cannot be told who uses them: {}", problem.chain());
                return undone;
            }
        };
        for (digest, name) in kept.iter().filter(|(digest, _)| !used.contains(digest)) {
            match self.charts().remove(digest) {
                Ok(()) => undone.push(format!("the fetched archive of {name}")),
                Err(problem) => tracing::warn!("a fetched archive stays: {}", problem.chain()),
            }
        }
        undone
    }

    /// Digests that a version or a release refers to.
    async fn used_charts(&self) -> Result<HashSet<String>> {
        let mut used: HashSet<String> = self.store().recorded_archives().await?.into_values().collect();
        used.extend(self.cluster().releases().await?.into_iter().filter_map(|release| release.chart_digest));
        Ok(used)
    }
}
