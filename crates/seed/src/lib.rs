//! The seed: the declared desired state of an installation, in the public `data.yaml` format.
//!
//! [`Seed::load`] reads a folder of one environment strictly, with the place of every value. [`Seed::system`] collects
//! what the registration of one system needs; [`Seed::lint`] says everything that is or may be wrong. [`compose`] makes
//! the one values file that a chart is installed with, and knows where each leaf of it comes from.
//!
//! Pure but for [`Seed::load`], which reads files.

mod check;
mod checked;
mod compose;
mod container;
mod digest;
mod export;
mod finding;
mod folder;
mod keypath;
mod names;
mod overlay;
mod parameter;
mod plan;
mod record;
mod revision;
mod schema;
mod setting;
mod spot;
mod state;
mod system;
mod versions;
mod yaml;

use std::collections::BTreeMap;

pub use checked::{Checked, CheckedSystem};
pub use compose::{Composed, Layers, Leaf, Origin, ValueLayer, compose};
pub use container::{ContainerSeed, Image, VersionSeed};
pub use digest::{canonical, of_bytes as digest_of_bytes, of_value as digest_of_value};
pub use export::export;
pub use finding::{Finding, Findings, Severity};
pub use folder::texts;
pub use keypath::{KeyPath, Segment};
pub use names::meant as code_meant_by;
pub use overlay::Overlay;
pub use parameter::{Parameter, Template, TemplateError, ValueSource};
pub use plan::{Change, ChangeKind, Consent, Consents, Impact, Plan, PlanLayer, ValueChange, words};
pub use record::{Located, SeedLeaf};
pub use revision::{Chart, Revision};
pub use schema::{
    BUILTIN, Container, ContainerKind, ContainerVersion, Dataset, DatasetVersion, Document, DynamicConfig, HelmConfig,
    Membership, ParameterCategory, ParameterKind, ParameterRow, Prerequisite, PrerequisiteValue, Project, Scope,
    Scopes, ServiceAccount, SettingType, Status, Team, TeamMembership, User, ValueType,
};
pub use spot::Spot;
pub use state::{Field, Object, ObjectId, ObjectKind, State, field, looks_secret, parameter_value, parameters};
pub use system::{BenchmarkSeed, SystemKeys, SystemSeed};
pub use versions::{VersionOrder, newest};

/// Name of the file that a seed's folder must have.
pub const DATA_FILE: &str = "data.yaml";

/// One environment of a seed: its `data.yaml` and its overlays.
#[derive(Debug, Clone, PartialEq)]
pub struct Seed {
    pub document: Document,
    /// Values files by their name, `ts.yaml`.
    pub overlays: BTreeMap<String, Overlay>,
    /// SHA-256 over names and bytes of all files.
    pub digest: String,
}

impl Seed {
    /// Every scalar that `data.yaml` declares, in the order of the schema.
    pub fn leaves(&self) -> Vec<SeedLeaf> {
        let mut leaves = Vec::new();
        record::Read::leaves(&self.document, "", &mut leaves);
        leaves
    }

    /// Everything that is wrong (errors) or may be (warnings), by place. Reads nothing but the seed.
    pub fn lint(&self) -> Vec<Finding> {
        check::everything(self).1.into_vec()
    }
}
