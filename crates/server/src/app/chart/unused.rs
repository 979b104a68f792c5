//! Archives of charts that nothing refers to any more: found, and taken away when that is asked for.

use std::collections::HashSet;
use std::time::Duration;

use api::chart::UnusedArchive;
use model::Result;

use super::super::App;
use super::died;

/// Whoever hands an archive over says afterwards whose it is; until then it is nobody's.
const SETTLED: Duration = Duration::from_secs(3600);

/// What came of taking back what was kept.
#[derive(Default)]
pub(in super::super) struct Undone {
    pub gone: Vec<String>,
    pub left: Vec<String>,
}

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

    /// Takes away what this call kept and nothing refers to: what was, and what stays with the reason, in words.
    pub(in super::super) async fn undo_kept(&self, kept: &[(String, String)]) -> Undone {
        let mut undone = Undone::default();
        if kept.is_empty() {
            return undone;
        }
        let used = self.used_charts().await;
        for (digest, name) in kept {
            let gone = match &used {
                Ok(used) if used.contains(digest) => continue,
                Ok(_) => self.charts().remove(digest).map_err(|problem| problem.to_string()),
                // It cannot be told who uses it.
                Err(problem) => Err(problem.to_string()),
            };
            match gone {
                Ok(()) => undone.gone.push(format!("the fetched archive of {name}")),
                Err(problem) => undone.left.push(format!("the fetched archive of {name} ({problem})")),
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
