//! The versions of a system's pedestal: which there are, which one runs install, and retiring one.

use ::store::{ContainerKind, Version};
use api::system::{PedestalVersion, UpdateRequest};
use model::{ErrorKind, Problem, Result};

use super::App;
use super::release::newest;

impl App {
    /// In the order in which runs prefer them: the first enabled one is installed.
    ///
    /// # Errors
    /// `system.unknown`.
    pub async fn pedestal_versions(&self, name: &str) -> Result<Vec<PedestalVersion>> {
        let code = self.find_system(name).await?.code;
        let layers = self.store().layers(code.as_str()).await?;
        let used = newest(&layers.database).map(|version| version.id);
        let pedestal = layers.database.iter().find(|container| container.kind == ContainerKind::Pedestal);
        let mut versions: Vec<&Version> =
            pedestal.map_or_else(Vec::new, |container| container.versions.iter().collect());
        versions.sort_by_cached_key(|version| (::seed::VersionOrder::of(&version.name), version.id));
        Ok(versions.into_iter().rev().map(|version| item(version, used == Some(version.id))).collect())
    }

    /// Retires a version (`status` 0), so that runs do not install it any more, or takes it back into use (1).
    ///
    /// # Errors
    /// `system.unknown`, `system.status_unknown`, `version.unknown`, `version.last_enabled`.
    pub async fn set_pedestal_version(
        &self,
        name: &str,
        version: &str,
        request: &UpdateRequest,
    ) -> Result<Vec<PedestalVersion>> {
        let code = self.find_system(name).await?.code;
        let enabled = super::system::enables(request)?;
        let versions = self.pedestal_versions(code.as_str()).await?;
        let known = || versions.iter().map(|version| version.name.as_str());
        if !known().any(|known| known == version) {
            return Err(Problem::unknown("version.unknown", "version of the pedestal", version, known()));
        }
        let others = versions.iter().any(|other| other.enabled && other.name != version);
        if !enabled && !others {
            return Err(Problem::new(
                ErrorKind::Conflict,
                "version.last_enabled",
                "runs would have no version left to install",
            )
            .place(format!("pedestal {code} {version}"))
            .fix(format!(
                "apply a seed with another version first, or disable the system: `aegisctl system disable {code}`"
            )));
        }
        self.store().set_version_enabled(ContainerKind::Pedestal, code.as_str(), version, enabled).await?;
        self.pedestal_versions(code.as_str()).await
    }
}

fn item(version: &Version, used: bool) -> PedestalVersion {
    let chart = version.chart.as_ref();
    PedestalVersion {
        name: version.name.clone(),
        enabled: version.enabled,
        used,
        chart_name: chart.map_or_else(String::new, |chart| chart.name.clone()),
        chart_version: chart.map_or_else(String::new, |chart| chart.version.clone()),
        repo_url: chart.map_or_else(String::new, |chart| chart.repository.clone()),
        chart_digest: chart.and_then(|chart| chart.archive_digest.clone()),
        revision: version.revision.digest.clone(),
        overlay: version.revision.overlay_hash.clone(),
        created_at: version.created_at.to_string(),
    }
}
