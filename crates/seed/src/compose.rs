//! One values file out of the layers: chart defaults, overlay, parameters, what a run sets; each leaf with its origin.
//!
//! Mappings merge, a list of a later layer replaces the earlier one, null removes what the chart has: as Helm does with
//! several `-f` files. Parameters are set on top, as `--set` does, but an indexed key keeps the rest of its list.

mod overrides;
mod set;
mod tree;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::parameter::ValueSource;
use crate::{Finding, Findings, KeyPath, Overlay, Parameter, digest};
use overrides::Overrides;
use set::{Default, Setting};
pub(crate) use tree::Tree;
pub use tree::{Leaf, Origin, ValueLayer};

/// Everything that decides the values of one slot.
pub struct Layers<'a> {
    /// The chart's own `values.yaml`; `None` where the chart is not at hand.
    pub chart: Option<&'a Value>,
    pub overlay: Option<&'a Overlay>,
    pub parameters: &'a [Parameter],
    /// What the run sets: a mapping of keys, nested or dotted, each of them the key of a parameter. Null sets nothing.
    pub overrides: &'a Value,
    /// Number of the slot.
    pub slot: u32,
    /// What `{{ .Name }}` in a template can be.
    pub fields: &'a [(&'a str, &'a str)],
}

/// A composed values file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Composed {
    /// The values file, exactly as Helm is to get it. Nulls stay in it: they remove defaults of the chart.
    pub values: Value,
    /// What the chart then sees, leaf by leaf; with the chart's own defaults where those are at hand.
    pub leaves: Vec<Leaf>,
    /// SHA-256 of the canonical JSON of `values`.
    pub digest: String,
}

/// # Errors
/// All findings of the layers: malformed overlay, blocked or unknown paths, unknown or forbidden overrides, a required
/// parameter without a value.
pub fn compose(layers: &Layers<'_>) -> Result<Composed, Findings> {
    let mut report = Findings::default();
    let base = match layers.overlay {
        Some(overlay) => overlay.tree()?,
        None => Tree::Map(BTreeMap::new(), Origin { layer: ValueLayer::Parameter, at: None }),
    };
    let mut overrides = Overrides::read(layers.overrides, layers.parameters, &mut report);
    let mut place = Some(base);
    for parameter in layers.parameters {
        match value_of(parameter, &mut overrides, layers) {
            Ok(Some(new)) => {
                if let Err(finding) = put(parameter, layers.chart, &mut place, new) {
                    report.push(finding);
                }
            }
            Ok(None) => {}
            Err(finding) => report.push(finding),
        }
    }
    if report.has_errors() {
        return Err(report.sorted());
    }
    let composed = place.expect("a path has at least one key, so the root stays a mapping");
    let values = composed.value();
    let effective = match layers.chart {
        Some(chart) => composed.over_defaults(&Tree::of(chart, &Origin { layer: ValueLayer::ChartDefault, at: None })),
        None => composed,
    };
    let mut leaves = Vec::new();
    effective.leaves(&mut Vec::new(), &mut leaves);
    Ok(Composed { digest: digest::of_value(&values), values, leaves })
}

/// What to set for a parameter: the run's value, else the seed's; nothing for one that may stay unset.
fn value_of(parameter: &Parameter, overrides: &mut Overrides, layers: &Layers<'_>) -> Result<Option<Tree>, Finding> {
    if let Some((value, at)) = overrides.take(parameter) {
        let value = parameter.overridden(&value, &at)?;
        return Ok(Some(Tree::of(&value, &Origin { layer: ValueLayer::RunOverride, at: None })));
    }
    let layer = match parameter.source {
        ValueSource::Template(_) => ValueLayer::Template,
        ValueSource::Default(_) | ValueSource::Unset => ValueLayer::Parameter,
    };
    match parameter.value(layers.slot, layers.fields)? {
        Some(value) => Ok(Some(Tree::of(&value, &Origin { layer, at: Some(parameter.at.clone()) }))),
        None if parameter.required => Err(Finding::error(
            "parameter.required_missing",
            &parameter.at,
            format!("`{}` is required and has no value", parameter.key),
        )
        .expected("a default in the seed, or a value from the run")),
        None => Ok(None),
    }
}

fn put(parameter: &Parameter, chart: Option<&Value>, place: &mut Option<Tree>, new: Tree) -> Result<(), Finding> {
    let path = KeyPath::parse(&parameter.key).map_err(|reason| {
        Finding::error("parameter.key_malformed", &parameter.at, format!("a key is malformed: {reason}"))
            .found(format!("`{}`", parameter.key))
    })?;
    let chart = match chart {
        Some(value) => Default::Known(Some(value)),
        None => Default::Unknown,
    };
    Setting { path: &path, at: &parameter.at }.put(place, 0, chart, new)
}
