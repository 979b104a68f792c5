//! What a pack says of itself: the manifest and the list of checksums.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use model::{ErrorKind, Problem, Result, Slot, SystemCode, Truth, TruthEntry, Windows};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::disk::corrupt;
use crate::input::Profile;
use crate::parquet_file::FileRecord;
use crate::quality::Quality;
use crate::visible::Visibility;

/// Version of a pack's layout. A reader refuses another one instead of guessing.
pub const FORMAT: u32 = 1;

/// `manifest.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`] of the writer.
    pub format: u32,
    /// Follows from the telemetry and the windows alone: equal input, equal bytes.
    pub content: Content,
    pub provenance: Provenance,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Content {
    pub system: SystemCode,
    pub slot: u32,
    /// The namespace of the slot.
    pub namespace: String,
    /// Nanoseconds since the Unix epoch; half-open and contiguous.
    pub windows: Windows,
    pub profile: Profile,
    /// The twelve parquet files, `env.json` and `k8s.json`, by name.
    pub files: Vec<FileRecord>,
    pub quality: Quality,
}

impl Content {
    pub fn slot(&self) -> Slot {
        Slot::new(self.system.clone(), self.slot)
    }
}

/// Where the pack comes from. All ids, wall times and versions of a pack stand here and in `injection.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    pub name: String,
    pub faults: Vec<Value>,
    pub witness: Value,
    pub receipt: Value,
    /// Absent in a control, which has no target, and in packs of before it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl Provenance {
    /// Whether the targets' own telemetry moved, where that was judged.
    pub fn visible(&self) -> Option<bool> {
        self.visibility.as_ref().map(|visibility| visibility.visible)
    }
}

/// The lines of `sha256sum.txt`, by file name in byte order; `sha256sum -c` reads them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Checksums(pub BTreeMap<String, String>);

impl Checksums {
    pub fn parse(path: &Path, text: &str) -> Result<Self> {
        let mut sums = BTreeMap::new();
        for line in text.lines() {
            let (sum, name) = line.split_once("  ").ok_or_else(|| corrupt(path, format!("the line `{line}`")))?;
            let digits = sum.len() == 64 && sum.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            if !digits || !is_inside(name) {
                return Err(corrupt(path, format!("the line `{line}`")));
            }
            sums.insert(name.to_owned(), sum.to_owned());
        }
        Ok(Self(sums))
    }
}

/// Whether a relative path can only lead into its folder.
fn is_inside(name: &str) -> bool {
    let plain = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\\');
    name.split('/').all(plain)
}

impl fmt::Display for Checksums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, sum)| writeln!(f, "{sum}  {name}"))
    }
}

/// The JSON text with keys in byte order, two spaces deep, and a line feed at the end.
pub(crate) fn canonical(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(&sorted(value)).expect("JSON values have text keys");
    text.push('\n');
    text
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

/// A fault has one entry for each service: a service that is named twice would count twice.
///
/// # Errors
/// `datapack.truth_service_twice`.
pub(crate) fn check_truth(truth: &Truth) -> Result<()> {
    let mut seen = BTreeSet::new();
    let twice = truth.entries.iter().find(|entry| !seen.insert((entry.fault, entry.service.as_str())));
    let Some(entry) = twice else { return Ok(()) };
    let message = "the ground truth names a service twice for one fault";
    Err(Problem::new(ErrorKind::Failed, "datapack.truth_service_twice", message)
        .found(format!("`{}` twice for fault {}", entry.service, entry.fault))
        .expected("one entry for each fault and service")
        .fix("build the datapack again"))
}

/// The truth in the public form: one object of six lists for each service, no service named twice.
pub fn public_ground_truth(truth: &Truth) -> Value {
    let list = |service: &str| {
        let entries: Vec<&TruthEntry> = truth.entries.iter().filter(|entry| entry.service == service).collect();
        let merge = |part: fn(&TruthEntry) -> &Vec<String>| {
            let mut names: Vec<&String> = Vec::new();
            for name in entries.iter().flat_map(|entry| part(entry)) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            json!(names)
        };
        json!({
            "service": [service],
            "pod": merge(|entry| &entry.pod),
            "container": merge(|entry| &entry.container),
            "metric": merge(|entry| &entry.metric),
            "function": merge(|entry| &entry.function),
            "span": merge(|entry| &entry.span),
        })
    };
    Value::Array(truth.public().into_iter().map(list).collect())
}

#[cfg(test)]
mod tests {
    use model::Role;

    use super::*;

    #[test]
    fn no_service_is_named_twice_in_the_public_truth() {
        let entry = |role, service: &str, pod: &str| TruthEntry {
            fault: 0,
            role,
            service: service.into(),
            pod: vec![pod.into()],
            container: vec![],
            metric: vec!["cpu".into()],
            function: vec![],
            span: vec![],
        };
        let entries = vec![entry(Role::Root, "a", "a-0"), entry(Role::Peer, "b", "b-0"), entry(Role::Root, "a", "a-1")];
        let public = public_ground_truth(&Truth { entries });
        assert_eq!(public[0]["service"], json!(["a"]));
        assert_eq!(public[0]["pod"], json!(["a-0", "a-1"]));
        assert_eq!(public[0]["metric"], json!(["cpu"]));
        assert_eq!(public[1]["service"], json!(["b"]));
        assert_eq!(public.as_array().unwrap().len(), 2);
    }

    #[test]
    fn checksums_lead_nowhere_else() {
        let sum = "0".repeat(64);
        let parse = |name: &str| Checksums::parse(Path::new("x"), &format!("{sum}  {name}\n"));
        assert!(parse("open/env.json").is_ok());
        for bad in ["../x", "open/../../x", "/etc/passwd", "open//x", ""] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
