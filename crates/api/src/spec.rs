//! The stored specification of a run: everything that its worker needs, fixed when the run is submitted.
//!
//! A worker reads no seed and no setting that could have changed since. Retrying a run repeats this specification.

use model::{DataTime, ErrorKind, Problem, Result, RunId, SystemCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of the stored form. A worker refuses another one instead of guessing.
pub const FORMAT: u32 = 1;

/// One run, as submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// [`FORMAT`] of the writer.
    pub format: u32,
    pub system: SystemCode,
    /// The slot numbers that may be leased, ascending, never empty. One entry when the caller named the slot.
    pub slots: Vec<u32>,
    pub release: Release,
    /// The faults injected together; empty for a no-fault control.
    pub faults: Vec<Fault>,
    pub windows: WindowLengths,
    pub environment: Environment,
    /// The detector and its profile.
    pub detector: AlgorithmChoice,
    /// The algorithms that rank, in the order in which they are started.
    pub algorithms: Vec<AlgorithmChoice>,
    /// Rank even when the detector sees no anomaly.
    pub always_rank: bool,
    /// Treat windows that are too short for a detector or an algorithm as an error (checked at submit).
    pub strict: bool,
    /// Of a paired control: the run with the fault that it shares its environment with.
    pub control_of: Option<RunId>,
    /// The system's profile in the form of the `system` crate: required signals, entrances, thresholds, load generators.
    pub profile: Value,
}

/// What is installed before the fault, with the values of every slot that may be leased.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Name of the pedestal's version in the seed.
    pub version: String,
    /// Content hash of the version's revision (parameters and overlay), as `system show` prints it.
    pub revision: String,
    pub chart: String,
    pub chart_version: String,
    pub repository: String,
    /// SHA-256 of the chart archive where one was fetched.
    pub chart_digest: Option<String>,
    /// The composed values that all slots share.
    pub values: Value,
    /// What differs from `values`, one entry per slot of [`RunSpec::slots`].
    pub per_slot: Vec<SlotValues>,
}

/// The values of one slot: those that all slots share, with some leaves replaced (port numbers, for example).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotValues {
    pub slot: u32,
    /// Leaves that replace those of [`Release::values`].
    pub changes: Vec<Leaf>,
    /// SHA-256 of the canonical form of this slot's composed values.
    pub digest: String,
}

/// One replaced leaf.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leaf {
    /// JSON pointer (RFC 6901).
    pub pointer: String,
    pub value: Value,
}

/// One fault, checked and resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub capability: String,
    pub service: String,
    /// `fault::Resolved` as JSON: target and parameters with every default filled in.
    pub resolved: Value,
}

/// Lengths of the two windows and of what is thrown away before them, in seconds of data time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowLengths {
    pub warmup_seconds: u32,
    pub normal_seconds: u32,
    pub abnormal_seconds: u32,
}

/// What a simulated run starts from; equal environments and faults give equal telemetry.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// Where the run's data time starts, a whole second.
    pub origin: DataTime,
    pub seed: u64,
    /// Journeys per second of the load generator.
    pub load: f64,
    /// Strength of the noise that real systems have: 0 to 2.
    pub noise: f64,
}

/// One version of a detector or an algorithm, with the limits of its process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlgorithmChoice {
    pub name: String,
    /// `builtin`, a version of a command, or one of a seed's container.
    pub version: String,
    /// Longest time that its process may take, in seconds of wall time.
    pub limit_seconds: u64,
    /// Most memory that its process may use, in MiB.
    pub limit_memory_mib: u64,
    /// It runs elsewhere, and its answer is uploaded within [`Self::limit_seconds`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remote: bool,
}

impl RunSpec {
    /// The form that is stored.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a specification has only string keys")
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// `spec.format_unknown` for another format version; `spec.malformed` when it is none of our writing.
    pub fn from_json(text: &str) -> Result<Self> {
        let malformed = |error: serde_json::Error| {
            Problem::internal("spec.malformed", "the stored specification of a run cannot be read").cause(error)
        };
        let value: Value = serde_json::from_str(text).map_err(malformed)?;
        let format = value.get("format").and_then(Value::as_u64);
        if format != Some(u64::from(FORMAT)) {
            return Err(Problem::new(
                ErrorKind::Conflict,
                "spec.format_unknown",
                "the run was submitted by another version of Aegis",
            )
            .found(format.map_or_else(|| "no format".into(), |number| format!("format {number}")))
            .expected(format!("format {FORMAT}"))
            .fix("submit the run again with this version"));
        }
        serde_json::from_value(value).map_err(malformed)
    }
}

impl Release {
    /// The composed values of one slot, exactly as they are to be installed, and their digest.
    ///
    /// # Errors
    /// `spec.slot_not_prepared` when the slot is none of those that the run was submitted for.
    pub fn values_for(&self, slot: u32) -> Result<(Value, &str)> {
        let Some(own) = self.per_slot.iter().find(|own| own.slot == slot) else {
            return Err(Problem::internal("spec.slot_not_prepared", "the run has no values for this slot")
                .found(format!("slot {slot}"))
                .expected(format!("one of {:?}", self.per_slot.iter().map(|own| own.slot).collect::<Vec<_>>())));
        };
        let mut values = self.values.clone();
        for leaf in &own.changes {
            let Some(place) = values.pointer_mut(&leaf.pointer) else {
                return Err(Problem::internal("spec.leaf_missing", "a slot's value has no place in the shared values")
                    .place(leaf.pointer.clone()));
            };
            *place = leaf.value.clone();
        }
        Ok((values, &own.digest))
    }

    /// The leaves in which `other` differs from `base`. A part whose shape differs is one leaf as a whole.
    ///
    /// A key that only one side has makes the surrounding map a leaf, so that [`Self::values_for`] only ever replaces.
    pub fn changes(base: &Value, other: &Value) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        collect_changes(base, other, String::new(), &mut leaves);
        leaves
    }
}

fn collect_changes(base: &Value, other: &Value, pointer: String, into: &mut Vec<Leaf>) {
    match (base, other) {
        _ if base == other => {}
        (Value::Object(left), Value::Object(right))
            if left.len() == right.len() && left.keys().all(|key| right.contains_key(key)) =>
        {
            for (key, value) in left {
                let step = key.replace('~', "~0").replace('/', "~1");
                collect_changes(value, &right[key], format!("{pointer}/{step}"), into);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (value, changed)) in left.iter().zip(right).enumerate() {
                collect_changes(value, changed, format!("{pointer}/{index}"), into);
            }
        }
        _ => into.push(Leaf { pointer, value: other.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn release(base: Value, slots: &[Value]) -> Release {
        Release {
            version: "1.0.0".into(),
            revision: "r".into(),
            chart: "c".into(),
            chart_version: "0.2.0".into(),
            repository: "https://example.org".into(),
            chart_digest: None,
            per_slot: slots
                .iter()
                .zip(0..)
                .map(|(values, slot)| SlotValues {
                    slot,
                    changes: Release::changes(&base, values),
                    digest: slot.to_string(),
                })
                .collect(),
            values: base,
        }
    }

    #[test]
    fn a_slots_values_come_back_as_composed() {
        let base = json!({"a": {"x/y": 1, "k": [1, {"z": "0"}]}, "only": true});
        let slots = [
            base.clone(),
            json!({"a": {"x/y": 2, "k": [1, {"z": "1"}]}, "only": true}),
            json!({"a": {"x/y": 1, "k": [1]}, "more": null}),
            json!("not even a map"),
        ];
        let release = release(base, &slots);
        for (slot, expect) in slots.iter().enumerate() {
            let (values, digest) = release.values_for(u32::try_from(slot).unwrap()).unwrap();
            assert_eq!((&values, digest), (expect, slot.to_string().as_str()));
        }
        assert_eq!(release.per_slot[0].changes, []);
        assert_eq!(release.per_slot[1].changes.len(), 2);
        assert_eq!(release.values_for(9).unwrap_err().code, "spec.slot_not_prepared");
    }

    #[test]
    fn another_format_is_refused_and_not_guessed() {
        let code = |text: &str| RunSpec::from_json(text).unwrap_err().code.into_owned();
        assert_eq!(code(r#"{"format": 2}"#), "spec.format_unknown");
        assert_eq!(code(r#"{"format": 1}"#), "spec.malformed");
        assert_eq!(code("{"), "spec.malformed");
    }
}
