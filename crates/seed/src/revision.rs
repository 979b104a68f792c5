//! One pedestal version with everything that decides its values.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Composed, Findings, Layers, Overlay, Parameter, compose, digest};

/// Which chart is installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    pub name: String,
    /// Exact.
    pub version: String,
    /// Empty when the repository's address is a setting of the installation.
    pub repo_url: String,
    pub repo_name: String,
}

impl Chart {
    /// Whether the repository is an OCI registry, which has no index: the chart is addressed directly.
    pub fn is_oci(&self) -> bool {
        self.repo_url.starts_with("oci://")
    }
}

/// A pedestal version's chart, effective parameters and overlay: complete in itself, so it can be stored under its
/// content hash and composed later without the seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revision {
    /// Name of the container version.
    pub version: String,
    pub github_link: String,
    pub chart: Chart,
    /// The version's own and those that it takes over from lower versions.
    pub parameters: Vec<Parameter>,
    pub overlay: Option<Overlay>,
}

impl Revision {
    /// SHA-256 over what decides the installed values. Comments, places and the order of keys do not count.
    pub fn content_hash(&self) -> String {
        let mut parameters: Vec<&Parameter> = self.parameters.iter().collect();
        parameters.sort_by(|a, b| a.key.cmp(&b.key));
        let parameters: Vec<Value> = parameters
            .into_iter()
            .map(|p| {
                json!({
                    "key": p.key,
                    "value_type": p.value_type,
                    "source": p.source,
                    "required": p.required,
                    "overridable": p.overridable,
                })
            })
            .collect();
        digest::of_value(&json!({
            "format": 1,
            "version": self.version,
            "github_link": self.github_link,
            "chart": self.chart,
            "parameters": parameters,
            "overlay": self.overlay.as_ref().map(|overlay| &overlay.sha256),
        }))
    }

    /// The values of one slot. `chart` is the chart's own `values.yaml`, where that is at hand; `overrides` is what the
    /// run sets, null for nothing.
    ///
    /// # Errors
    /// As [`compose`].
    pub fn compose(&self, chart: Option<&Value>, overrides: &Value, slot: u32) -> Result<Composed, Findings> {
        compose(&Layers {
            chart,
            overlay: self.overlay.as_ref(),
            parameters: &self.parameters,
            overrides,
            slot,
            fields: &[("Name", &self.version), ("GithubLink", &self.github_link)],
        })
    }
}
