//! The plan: what stands between a seed and an installation, by comparing three states field by field.
//!
//! *Base* is what the seed said when it was last applied, *new* is what it says now, *live* is what the installation has.
//! What the seed changed is a change; what only the installation changed is drift, and never mixed with it.

mod compare;
mod impact;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

pub use compare::words;

use crate::{ObjectKind, State, digest};

/// Version of the form of a plan.
const FORMAT: u32 = 1;

/// Where a change is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanLayer {
    Registry,
    Config,
    Database,
    Chart,
}

/// What a difference is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The seed has it and the installation never had it.
    Added,
    /// The seed changed it.
    ChangedDefault,
    /// Part of a version that the installation does not have yet.
    NewVersion,
    /// The values file has other content.
    OverlayChanged,
    /// The seed no longer has it.
    Removed,
    /// The seed has it, was applied with it, and the installation lost it.
    Backfilled,
    /// The seed changed it, and a person changed it in the installation.
    Conflict,
    /// What a version's name stands for cannot change.
    Immutable,
    /// The seed did not change; a person set this value at run time.
    OperatorValue,
    /// The seed did not change; the installation did, by another way than the seed.
    Drift,
}

/// What has to be agreed to before a change is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Consent {
    /// Nothing: it is written.
    None,
    /// `--prune`
    Prune,
    /// `--overwrite-operator`
    OverwriteOperator,
    /// `--revert-drift`
    RevertDrift,
    /// It is never written; the seed must change.
    Refused,
}

/// One difference of one value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Change {
    pub layer: PlanLayer,
    /// The system that it belongs to; absent for what belongs to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    pub object: ObjectKind,
    /// `injection.system.ts.count`, `pedestal ts 1.0.0`.
    pub name: String,
    /// `default`, `value global.image.tag`; absent when it is about the whole object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    pub kind: ChangeKind,
    pub consent: Consent,
    /// What the installation has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// What the seed wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    pub reason: String,
    /// `data.yaml:12:5`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// What the changes lead to, for one system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Impact {
    /// Absent for what concerns all systems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// One sentence.
    pub effect: String,
    /// The Helm values that a run will install otherwise than now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<ValueChange>,
}

/// One leaf of the composed values of slot 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ValueChange {
    pub key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The layer that decides it, with its place.
    pub origin: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    pub format: u32,
    /// SHA-256 over the three states: equal exactly if they are.
    pub hash: String,
    /// What the seed changed, in the order in which it is written.
    pub changes: Vec<Change>,
    /// What only the installation changed.
    pub drift: Vec<Change>,
    pub impact: Vec<Impact>,
}

/// What is agreed to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Consents {
    /// Remove what the seed no longer has.
    pub prune: bool,
    /// Replace values that a person set at run time.
    pub overwrite_operator: bool,
    /// Put back what was changed by another way than the seed.
    pub revert_drift: bool,
}

impl Consents {
    pub const fn covers(self, consent: Consent) -> bool {
        match consent {
            Consent::None => true,
            Consent::Prune => self.prune,
            Consent::OverwriteOperator => self.overwrite_operator,
            Consent::RevertDrift => self.revert_drift,
            Consent::Refused => false,
        }
    }
}

impl Plan {
    /// Compares three states. Time and space grow with their sizes only.
    pub fn of(base: &State, new: &State, live: &State) -> Self {
        let (changes, drift) = compare::states(base, new, live);
        let hash = digest::of_value(&json!([FORMAT, base.digest(), new.digest(), live.digest()]));
        let impact = impact::of(&changes, new, live);
        Self { format: FORMAT, hash, changes, drift, impact }
    }

    /// Nothing to write, and nothing that waits for a decision.
    pub fn is_same(&self) -> bool {
        self.changes.is_empty()
    }

    /// The changes that are written under these consents.
    pub fn accepted(&self, consents: Consents) -> impl Iterator<Item = &Change> {
        self.changes.iter().chain(&self.drift).filter(move |change| consents.covers(change.consent))
    }

    pub fn refused(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.consent == Consent::Refused)
    }

    /// How many changes there are of each kind, drift included.
    pub fn counts(&self) -> BTreeMap<ChangeKind, usize> {
        let mut counts = BTreeMap::new();
        for change in self.changes.iter().chain(&self.drift) {
            *counts.entry(change.kind).or_default() += 1;
        }
        counts
    }
}

impl ObjectKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Team => "team",
            Self::User => "user",
            Self::ServiceAccount => "service account",
            Self::Dataset => "data set",
            Self::Setting => "setting",
            Self::System => "system",
            Self::Container => "container",
            Self::Version => "version",
            Self::Prerequisite => "prerequisite",
        }
    }
}

impl PlanLayer {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Registry => "registry",
            Self::Config => "config",
            Self::Database => "database",
            Self::Chart => "chart",
        }
    }
}

impl ChangeKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::ChangedDefault => "changed default",
            Self::NewVersion => "new version",
            Self::OverlayChanged => "overlay changed",
            Self::Removed => "removed",
            Self::Backfilled => "backfilled",
            Self::Conflict => "conflict",
            Self::Immutable => "immutable",
            Self::OperatorValue => "operator's value",
            Self::Drift => "drift",
        }
    }
}

impl Consent {
    /// The flag that gives it.
    pub const fn flag(self) -> Option<&'static str> {
        match self {
            Self::None | Self::Refused => None,
            Self::Prune => Some("--prune"),
            Self::OverwriteOperator => Some("--overwrite-operator"),
            Self::RevertDrift => Some("--revert-drift"),
        }
    }
}

macro_rules! display {
    ($($type:ty),*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )*};
}

display!(ObjectKind, PlanLayer, ChangeKind);
