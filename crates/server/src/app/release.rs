//! What a run installs: the stored revision of the pedestal's newest version, composed for each slot.

use ::seed::{Composed, Revision};
use ::store::{Container, ContainerKind, Version};
use api::spec::{Release, SlotValues};
use api::system::{Pedestal, ValueOrigin};
use model::{ErrorKind, Problem, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of the stored form.
const FORMAT: u32 = 1;

/// What is stored with a version's revision: everything that its values are composed from, so that no seed is needed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    format: u32,
    revision: Revision,
    /// The values of slot 0 with the origin of each leaf, as they were when the revision was stored.
    first_slot: Composed,
}

impl Stored {
    /// # Errors
    /// What composing finds: it is done here once, so that a revision that cannot be composed is never stored.
    pub fn new(revision: Revision) -> Result<Self> {
        let first_slot = revision.compose(None, &Value::Null, 0)?;
        Ok(Self { format: FORMAT, revision, first_slot })
    }

    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("a revision has only text keys")
    }

    pub fn revision(&self) -> &Revision {
        &self.revision
    }

    /// # Errors
    /// `revision.format_unknown`, `revision.malformed`.
    pub fn read(value: &Value) -> Result<Self> {
        let format = value.get("format").and_then(Value::as_u64);
        if format != Some(u64::from(FORMAT)) {
            return Err(Problem::new(
                ErrorKind::Conflict,
                "revision.format_unknown",
                "the pedestal was registered by another version of Aegis",
            )
            .fix("register the system again with `--force`"));
        }
        Self::deserialize(value).map_err(|error| {
            Problem::internal("revision.malformed", "a stored revision of a pedestal cannot be read").cause(error)
        })
    }
}

impl Stored {
    /// The values of slot 0 as composing gives them now.
    ///
    /// # Errors
    /// What composing finds.
    pub(super) fn compose_first(&self) -> Result<Composed> {
        Ok(self.revision.compose(None, &Value::Null, 0)?)
    }

    /// The values of slot 0 as they were stored.
    pub(super) fn first_values(&self) -> &Value {
        &self.first_slot.values
    }

    /// The keys of every parameter, inherited ones too.
    pub(super) fn keys(&self) -> std::collections::BTreeSet<String> {
        self.revision.parameters.iter().map(|parameter| parameter.key.clone()).collect()
    }
}

/// The pedestal's version that a run would install: the highest that is enabled.
pub fn newest(containers: &[Container]) -> Option<&Version> {
    let pedestal = containers.iter().find(|container| container.kind == ContainerKind::Pedestal)?;
    ::seed::newest(pedestal.versions.iter().filter(|version| version.enabled), |version| &version.name)
}

/// Composes the values of every slot that a run may lease.
///
///
/// `own` is what the chart itself has, where its archive is at hand.
///
/// # Errors
/// What composing finds.
pub fn release(version: &Version, own: Option<&Value>, slots: &[u32]) -> Result<Release> {
    let stored = Stored::read(&version.revision.composed)?;
    let compose = |slot: u32| -> Result<Composed> { Ok(stored.revision.compose(own, &Value::Null, slot)?) };
    let base = compose(slots.first().copied().unwrap_or(0))?;
    let mut per_slot = Vec::with_capacity(slots.len());
    for &slot in slots {
        let own = compose(slot)?;
        let changes = Release::changes(&base.values, &own.values);
        per_slot.push(SlotValues { slot, changes, digest: own.digest });
    }
    Ok(Release {
        version: version.name.clone(),
        revision: version.revision.digest.clone(),
        chart: stored.revision.chart.name.clone(),
        chart_version: stored.revision.chart.version.clone(),
        repository: stored.revision.chart.repo_url.clone(),
        chart_digest: version.chart.as_ref().and_then(|chart| chart.archive_digest.clone()),
        values: base.values,
        per_slot,
    })
}

/// What the chart sees in one slot, leaf by leaf.
///
/// # Errors
/// What composing finds.
pub fn leaves(version: &Version, own: &Value, slot: u32) -> Result<Vec<::seed::Leaf>> {
    Ok(Stored::read(&version.revision.composed)?.revision.compose(Some(own), &Value::Null, slot)?.leaves)
}

/// The same for people.
///
/// # Errors
/// What composing finds.
pub fn pedestal(version: &Version, own: Option<&Value>) -> Result<Pedestal> {
    let Stored { revision, first_slot, .. } = Stored::read(&version.revision.composed)?;
    let first_slot = match own {
        Some(own) => revision.compose(Some(own), &Value::Null, 0)?,
        None => first_slot,
    };
    let origin = |leaf: &::seed::Leaf| ValueOrigin {
        key: leaf.path.clone(),
        value: leaf.value.clone(),
        origin: leaf.origin.to_string(),
    };
    Ok(Pedestal {
        version: version.name.clone(),
        revision: version.revision.digest.clone(),
        chart_name: revision.chart.name,
        chart_version: revision.chart.version,
        repo_url: revision.chart.repo_url,
        repo_name: revision.chart.repo_name,
        origins: first_slot.leaves.iter().map(origin).collect(),
        values: first_slot.values,
        values_digest: first_slot.digest,
    })
}
