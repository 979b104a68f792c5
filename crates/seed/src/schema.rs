//! The public seed format: every section of `data.yaml` with its keys, types and enumerations.
//!
//! Keys that may be left out are `Option`s; the default that then holds is a method, so that a declared value and a
//! default stay distinguishable.

use crate::record::{Located, Read, SeedLeaf, codes, record};
use crate::yaml::{Kind, Node};
use crate::{Findings, Spot};

codes! {
    /// What a container is.
    ContainerKind {
        0 "algorithm" Algorithm,
        1 "benchmark" Benchmark,
        2 "pedestal" Pedestal,
    }
}

codes! {
    /// The life of a row; only enabled ones are used.
    Status {
        -1 "deleted" Deleted,
        0 "disabled" Disabled,
        1 "enabled" Enabled,
    }
}

codes! {
    /// Whether a parameter has its value in the seed, or gets it from a template for each slot.
    ParameterKind {
        0 "fixed" Fixed,
        1 "dynamic" Dynamic,
    }
}

codes! {
    /// What a parameter goes into. Real seeds hold 2 and 3 by mistake; the list in which a parameter stands decides.
    ParameterCategory {
        0 "env_var" EnvVar,
        1 "helm_value" HelmValue,
        2 "unknown_2" Unknown2,
        3 "unknown_3" Unknown3,
    }
}

codes! {
    /// The type of a parameter. Not the numbers of [`SettingType`].
    ValueType {
        0 "string" String,
        1 "int" Int,
        2 "bool" Bool,
        3 "float" Float,
        4 "array" Array,
        5 "object" Object,
    }
}

codes! {
    /// The type of a runtime setting. Not the numbers of [`ValueType`].
    SettingType {
        0 "string" String,
        1 "bool" Bool,
        2 "int" Int,
        3 "float" Float,
        4 "string_array" StringArray,
    }
}

codes! {
    /// Which processes read a runtime setting.
    Scope {
        0 "producer" Producer,
        1 "consumer" Consumer,
        2 "global" Global,
    }
}

record! {
    /// The whole of `data.yaml`.
    "a seed" Document {
        "containers" => containers: Vec<Container>,
        "datasets" => datasets: Vec<Dataset>,
        "projects" => projects: Vec<Project>,
        "teams" => teams: Vec<Team>,
        "admin_user" => admin_user: Option<User>,
        "users" => users: Vec<User>,
        "dynamic_configs" => dynamic_configs: Vec<DynamicConfig>,
        "service_accounts" => service_accounts: Vec<ServiceAccount>,
    }
}

record! {
    /// An algorithm, a builder of datapacks, or the workload of a system.
    "a container" Container {
        "type" => kind: Located<ContainerKind>,
        "name" => name: Located<String>,
        "is_public" => is_public: Option<Located<bool>>,
        "status" => status: Option<Located<Status>>,
        "versions" => versions: Vec<ContainerVersion>,
        "prerequisites" => prerequisites: Vec<Prerequisite>,
    }
}

record! {
    "a container version" ContainerVersion {
        "name" => name: Located<String>,
        "github_link" => github_link: Option<Located<String>>,
        "image_ref" => image_ref: Option<Located<String>>,
        "command" => command: Option<Located<String>>,
        "env_vars" => env_vars: Vec<ParameterRow>,
        "status" => status: Option<Located<Status>>,
        "helm_config" => helm_config: Option<HelmConfig>,
    }
}

record! {
    /// Which chart a pedestal's version installs, and with which values.
    "a helm config" HelmConfig {
        /// The chart's exact version.
        "version" => version: Located<String>,
        "chart_name" => chart_name: Located<String>,
        "repo_name" => repo_name: Option<Located<String>>,
        "repo_url" => repo_url: Option<Located<String>>,
        "values" => values: Vec<ParameterRow>,
        /// With `true` this version takes over no value of lower versions. Our addition to the format.
        "reset" => reset: Option<Located<bool>>,
        /// Name of the values file, which must then be there; without it, `<code>.yaml` if there is one. Our addition.
        "value_file" => value_file: Option<Located<String>>,
        "status" => status: Option<Located<Status>>,
    }
}

record! {
    /// An environment variable or a Helm value.
    "a parameter" ParameterRow {
        /// A path in the syntax of [`crate::KeyPath`], or the name of a variable.
        "key" => key: Located<String>,
        "type" => kind: Option<Located<ParameterKind>>,
        "category" => category: Option<Located<ParameterCategory>>,
        "value_type" => value_type: Option<Located<ValueType>>,
        "default_value" => default_value: Option<Located<String>>,
        "template_string" => template_string: Option<Located<String>>,
        "required" => required: Option<Located<bool>>,
        "overridable" => overridable: Option<Located<bool>>,
    }
}

record! {
    /// What must run in the cluster before the system is installed.
    "a prerequisite" Prerequisite {
        "name" => name: Located<String>,
        "kind" => kind: Located<String>,
        "chart" => chart: Option<Located<String>>,
        "namespace" => namespace: Option<Located<String>>,
        /// A version or a range such as `>=3.4`.
        "version" => version: Option<Located<String>>,
        "values" => values: Vec<PrerequisiteValue>,
    }
}

record! {
    "a prerequisite's value" PrerequisiteValue {
        "key" => key: Located<String>,
        "value" => value: Located<String>,
    }
}

record! {
    "a data set" Dataset {
        "name" => name: Located<String>,
        "type" => kind: Located<String>,
        "description" => description: Option<Located<String>>,
        "is_public" => is_public: Option<Located<bool>>,
        "status" => status: Option<Located<Status>>,
        "versions" => versions: Vec<DatasetVersion>,
    }
}

record! {
    "a data set's version" DatasetVersion {
        "name" => name: Located<String>,
        "status" => status: Option<Located<Status>>,
    }
}

record! {
    "a project" Project {
        "name" => name: Located<String>,
        "description" => description: Option<Located<String>>,
        "status" => status: Option<Located<Status>>,
    }
}

record! {
    "a team" Team {
        "name" => name: Located<String>,
        "description" => description: Option<Located<String>>,
        "is_public" => is_public: Option<Located<bool>>,
        "status" => status: Option<Located<Status>>,
    }
}

record! {
    /// A person. There is no password in a seed.
    "a user" User {
        "username" => username: Located<String>,
        "email" => email: Located<String>,
        "full_name" => full_name: Option<Located<String>>,
        "status" => status: Option<Located<Status>>,
        "is_active" => is_active: Option<Located<bool>>,
        "projects" => projects: Vec<Membership>,
        "teams" => teams: Vec<TeamMembership>,
    }
}

record! {
    "a membership" Membership {
        "name" => name: Located<String>,
        "role" => role: Located<String>,
    }
}

record! {
    "a team membership" TeamMembership {
        "name" => name: Located<String>,
        "role" => role: Located<String>,
        "projects" => projects: Vec<Membership>,
    }
}

record! {
    /// The declaration of a runtime setting.
    "a dynamic config" DynamicConfig {
        "key" => key: Located<String>,
        /// The source text; [`DynamicConfig::value_type`] says what it is.
        "default_value" => default_value: Option<Located<String>>,
        "value_type" => value_type: Located<SettingType>,
        "scope" => scope: Located<Scope>,
        "category" => category: Option<Located<String>>,
        "description" => description: Option<Located<String>>,
        "is_secret" => is_secret: Option<Located<bool>>,
        "min_value" => min_value: Option<Located<f64>>,
        "max_value" => max_value: Option<Located<f64>>,
        "pattern" => pattern: Option<Located<String>>,
        /// The legal values, as the text of a JSON list.
        "options" => options: Option<Located<String>>,
    }
}

record! {
    "a service account" ServiceAccount {
        "name" => name: Located<String>,
        "scopes" => scopes: Option<Scopes>,
        "description" => description: Option<Located<String>>,
    }
}

/// Scopes of a service account: a list, or one text with commas.
#[derive(Debug, Clone, PartialEq)]
pub enum Scopes {
    List(Vec<Located<String>>),
    Text(Located<String>),
}

impl Scopes {
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::List(items) => items.iter().map(|item| item.as_str()).collect(),
            Self::Text(text) => text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect(),
        }
    }
}

impl Read for Scopes {
    fn read(node: &Node, report: &mut Findings) -> Option<Self> {
        match &node.kind {
            Kind::List(items) => {
                let read: Vec<_> = items.iter().map(|item| Located::read(item, report)).collect();
                read.into_iter().collect::<Option<_>>().map(Self::List)
            }
            _ => Located::read(node, report).map(Self::Text),
        }
    }

    fn leaves(&self, path: &str, out: &mut Vec<SeedLeaf>) {
        match self {
            Self::List(items) => {
                for (number, item) in items.iter().enumerate() {
                    item.leaves(&format!("{path}[{number}]"), out);
                }
            }
            Self::Text(text) => text.leaves(path, out),
        }
    }
}

fn enabled(status: Option<&Located<Status>>) -> bool {
    status.is_none_or(|status| status.value == Status::Enabled)
}

impl Container {
    /// Enabled unless the seed says otherwise.
    pub fn is_enabled(&self) -> bool {
        enabled(self.status.as_ref())
    }

    /// Private unless the seed says otherwise.
    pub fn is_public(&self) -> bool {
        self.is_public.as_ref().is_some_and(|flag| flag.value)
    }
}

impl ContainerVersion {
    pub fn is_enabled(&self) -> bool {
        enabled(self.status.as_ref())
    }

    /// An algorithm that is part of the program: no image and no command.
    pub fn is_builtin(&self) -> bool {
        *self.name == BUILTIN
    }
}

/// Name of the version that stands for what is part of the program.
pub const BUILTIN: &str = "builtin";

impl ParameterRow {
    pub fn kind(&self) -> ParameterKind {
        self.kind.as_ref().map_or(ParameterKind::Fixed, |kind| kind.value)
    }

    pub fn value_type(&self) -> ValueType {
        self.value_type.as_ref().map_or(ValueType::String, |kind| kind.value)
    }

    pub fn is_required(&self) -> bool {
        self.required.as_ref().is_some_and(|flag| flag.value)
    }

    pub fn is_overridable(&self) -> bool {
        self.overridable.as_ref().is_none_or(|flag| flag.value)
    }
}

impl DynamicConfig {
    pub fn is_secret(&self) -> bool {
        self.is_secret.as_ref().is_some_and(|flag| flag.value)
    }

    /// The default as text; a key without one has the empty text.
    pub fn default_text(&self) -> &str {
        self.default_value.as_ref().map_or("", |text| text.as_str())
    }

    pub(crate) fn default_at(&self) -> &Spot {
        self.default_value.as_ref().map_or(&self.at, |text| &text.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::FromScalar;

    #[test]
    fn the_two_value_type_enumerations_are_not_the_same() {
        assert_eq!((ValueType::Int.code(), ValueType::Bool.code()), (1, 2));
        assert_eq!((SettingType::Bool.code(), SettingType::Int.code()), (1, 2));
        assert_eq!(Status::EXPECTED, "one of -1 (deleted) 0 (disabled) 1 (enabled)");
    }
}
