//! Charts of pedestals: their archives, what they are installed with, and what is found in them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// Largest archive of a chart that is taken, in bytes.
pub const LARGEST_ARCHIVE: usize = 32 << 20;

/// How the archive of a chart stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ArchiveState {
    /// Its bytes are those that were kept.
    #[serde(rename = "kept")]
    Kept,
    #[serde(rename = "not fetched")]
    NotFetched,
    /// It was kept and is not there any more.
    #[serde(rename = "gone")]
    Gone,
    /// Other bytes stand in its place.
    #[serde(rename = "changed")]
    Changed,
    #[serde(rename = "unreadable")]
    Unreadable,
}

impl ArchiveState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::NotFetched => "not fetched",
            Self::Gone => "gone",
            Self::Changed => "changed",
            Self::Unreadable => "unreadable",
        }
    }
}

/// An archive that was handed over: what it says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChartArchive {
    pub name: String,
    pub version: String,
    pub app_version: Option<String>,
    /// SHA-256, in hexadecimal.
    pub digest: String,
    /// Bytes.
    pub size: i64,
}

/// The chart of one version of a pedestal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Chart {
    pub name: String,
    pub version: String,
    pub repo_url: String,
    /// Version of the pedestal that installs it.
    pub pedestal_version: String,
    /// Whether that is the version that runs install.
    pub used: bool,
    pub state: ArchiveState,
    /// SHA-256 of the archive; absent while none was fetched.
    pub digest: Option<String>,
    /// Bytes of the archive, when it is whole.
    pub size: Option<i64>,
    /// The address that it was fetched from, or who handed it over.
    pub source: Option<String>,
    pub fetched_at: Option<String>,
}

/// An archive that no version and no release refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnusedArchive {
    /// SHA-256, in hexadecimal.
    pub digest: String,
    /// Bytes.
    pub size: i64,
}

/// What is known of whether a chart is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum LookupState {
    /// Its archive is here, so it does not matter.
    #[serde(rename = "kept")]
    Kept,
    #[serde(rename = "published")]
    Published,
    /// The repository answered, and has no such version.
    #[serde(rename = "not published")]
    NotPublished,
    /// Nobody asked the repository.
    #[serde(rename = "not asked")]
    NotAsked,
    /// The repository did not answer, or could not be asked.
    #[serde(rename = "unknown")]
    Unknown,
}

impl LookupState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Published => "published",
            Self::NotPublished => "not published",
            Self::NotAsked => "not asked",
            Self::Unknown => "unknown",
        }
    }
}

/// The chart of one version of a pedestal, and whether it can be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Lookup {
    pub system: String,
    pub pedestal_version: String,
    pub name: String,
    pub version: String,
    pub repo_url: String,
    pub state: LookupState,
    /// Why it is not published, or why that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// Makes a kept archive that of a system's chart. Its name and version say of which version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachRequest {
    /// SHA-256, in hexadecimal.
    pub digest: String,
}

/// Asks for a check of a system's chart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyRequest {
    /// Version of the pedestal; the one that runs install where it is left out.
    #[serde(default)]
    pub version: Option<String>,
}

/// Which version of a pedestal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct VersionQuery {
    /// The one that runs install where it is left out.
    #[serde(default)]
    pub version: Option<String>,
}

/// One thing that would come to grief.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChartFinding {
    /// Of the rule.
    pub code: String,
    /// `error` or `warning`.
    pub severity: String,
    pub message: String,
    /// Object, template, and the path in the object.
    pub place: String,
    pub found: String,
    pub expected: Option<String>,
    pub fix: Option<String>,
    /// Values by key with which it is in order, for `pedestal helm set`; empty where values alone do not settle it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
}

/// Whether a chart was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum CheckState {
    #[serde(rename = "ok")]
    Ok,
    /// With warnings alone.
    #[serde(rename = "warnings")]
    Warnings,
    #[serde(rename = "failed")]
    Failed,
    #[serde(rename = "not checked")]
    NotChecked,
}

impl CheckState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warnings => "warnings",
            Self::Failed => "failed",
            Self::NotChecked => "not checked",
        }
    }
}

/// What the render check said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RenderCheck {
    pub state: CheckState,
    /// Why it was not checked.
    pub reason: Option<String>,
    /// The program that rendered, with its version.
    pub helm: Option<String>,
    /// Number of objects that were looked at.
    pub objects: i32,
    /// Errors first.
    pub findings: Vec<ChartFinding>,
    /// Rules that could not be judged, each with the reason.
    pub skipped: Vec<String>,
}

/// What is known of a system's chart after it was fetched, compared and rendered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChartReport {
    pub system: String,
    pub chart: Chart,
    /// What was done and seen, in words, in order.
    pub steps: Vec<String>,
    /// Why the archive is not there, when it is not.
    pub problem: Option<ChartFinding>,
    pub check: RenderCheck,
}

/// Installs a system's chart in a free slot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InstallRequest {
    /// Number of the slot; the first free one where it is left out.
    #[serde(default)]
    pub slot: Option<i32>,
    /// A kept archive in place of the system's own chart.
    #[serde(default)]
    pub digest: Option<String>,
    /// Another source in place of the system's own: all three, or none.
    #[serde(default)]
    pub repo: Option<String>,
    #[serde(default)]
    pub chart: Option<String>,
    #[serde(default)]
    pub version: Option<String>,
    /// Install although the render check found errors.
    #[serde(default)]
    pub despite_findings: bool,
}

/// A release in a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Release {
    /// The slot; the release is named as it is.
    pub namespace: String,
    pub chart: String,
    pub chart_version: String,
    /// SHA-256 of the archive, where one was fetched.
    pub chart_digest: Option<String>,
    pub values_digest: String,
    pub ready: bool,
    pub waiting_for: Option<String>,
    /// Data time.
    pub installed_at: String,
}

/// What an installation did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InstallReply {
    pub release: Release,
    pub steps: Vec<String>,
    pub check: RenderCheck,
}

/// What a version of a pedestal is installed with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HelmConfig {
    pub system: String,
    pub pedestal_version: String,
    pub chart_name: String,
    pub chart_version: String,
    pub repo_url: String,
    pub repo_name: String,
    pub chart_digest: Option<String>,
    /// Content hash of parameters and overlay.
    pub revision: String,
    /// SHA-256 of the overlay.
    pub overlay: Option<String>,
    pub parameters: Vec<HelmParameter>,
}

/// One value that is set on top of chart and overlay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HelmParameter {
    pub key: String,
    /// As it is set in slot 0; absent when nothing sets it. A secret's is `a secret`.
    #[schema(value_type = Object)]
    pub value: Option<Value>,
    /// `string`, `int`, `bool`, `float`, `array` or `object`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `seed` or `operator`.
    pub owner: String,
}

/// Changes what a version of a pedestal is installed with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HelmRequest {
    /// Version of the pedestal; the one that runs install where it is left out.
    #[serde(default)]
    pub version: Option<String>,
    /// Key and value. A text takes the declared type of its key, or is a text; anything else is what it is.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    pub set: Vec<(String, Value)>,
    /// Keys that are set to nothing, so that overlay and chart decide.
    #[serde(default)]
    pub unset: Vec<String>,
    /// Which chart the version is: it cannot be another one, so these are compared alone.
    #[serde(default)]
    pub chart_name: Option<String>,
    #[serde(default)]
    pub chart_version: Option<String>,
    #[serde(default)]
    pub repo_url: Option<String>,
    #[serde(default)]
    pub repo_name: Option<String>,
}
