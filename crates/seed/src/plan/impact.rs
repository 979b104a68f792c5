//! What a plan leads to: what the next run of each system will install otherwise, and who reads the settings.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Change, ChangeKind, Consent, Impact, PlanLayer, ValueChange};
use crate::state::{Object, ObjectKind, State, field};
use crate::versions::newest;
use crate::{Findings, Leaf, Overlay, Revision};

pub fn of(changes: &[Change], new: &State, live: &State) -> Vec<Impact> {
    let mut impact = Vec::new();
    let touched: BTreeSet<&str> = changes
        .iter()
        .filter(|change| change.object == ObjectKind::Version)
        .filter_map(|change| change.system.as_deref())
        .collect();
    impact.extend(touched.into_iter().filter_map(|code| system(code, changes, new, live)));
    impact.extend(settings(changes));
    impact.extend(waiting(changes));
    impact
}

/// What the next run of a system installs.
fn system(code: &str, changes: &[Change], new: &State, live: &State) -> Option<Impact> {
    let (old, wanted) = (live.pedestals(code), new.pedestals(code));
    let before = installed(&old).and_then(|(name, object)| live.revision(name, object));
    // Versions that the seed no longer has stay in use until their removal is agreed to.
    let known: BTreeSet<&str> = wanted.iter().map(|(name, _)| *name).collect();
    let left = old.iter().filter(|(name, _)| !known.contains(name)).copied();
    let after: Vec<_> = left.chain(wanted.iter().copied()).collect();
    let after = installed(&after);
    let after = after.and_then(|(name, object)| new.revision(name, object).or_else(|| live.revision(name, object)));
    if changes.iter().any(|change| change.system.as_deref() == Some(code) && change.kind == ChangeKind::Immutable) {
        let effect = "nothing: a change of this system is refused, so the whole seed is".to_owned();
        return Some(Impact { system: Some(code.to_owned()), effect, values: Vec::new() });
    }
    let values = match value_changes(before.as_ref(), after.as_ref()) {
        Ok(values) => values,
        Err(why) => {
            let effect = format!("it cannot be said which values change: {why}");
            return Some(Impact { system: Some(code.to_owned()), effect, values: Vec::new() });
        }
    };
    let effect = effect(before.as_ref(), after.as_ref(), values.len())?;
    Some(Impact { system: Some(code.to_owned()), effect, values })
}

/// The version that runs use.
fn installed<'a>(versions: &[(&'a str, &'a Object)]) -> Option<(&'a str, &'a Object)> {
    newest(versions.iter().copied().filter(|(_, object)| object.is_enabled()), |(name, _)| name)
}

fn effect(before: Option<&Revision>, after: Option<&Revision>, values: usize) -> Option<String> {
    let words = |revision: &Revision| {
        format!("version {} ({} {})", revision.version, revision.chart.name, revision.chart.version)
    };
    let values = model::counted(values, "value");
    Some(match (before, after) {
        (None, None) => return None,
        (None, Some(after)) => format!("runs will install {} with {values} beside the chart's own", words(after)),
        (Some(before), None) => format!("runs install {} until now, and nothing afterwards", words(before)),
        (Some(before), Some(after)) if before.version != after.version => format!(
            "the next run installs {} instead of {}, with {values} changed; a release of the old one is replaced when its \
             slot is leased next",
            words(after),
            words(before)
        ),
        (Some(_), Some(after)) => format!(
            "the next run installs {} with {values} changed; a release of the old values is replaced when its slot is \
             leased next",
            words(after)
        ),
    })
}

/// Leaf by leaf, the composed values of slot 0.
fn value_changes(before: Option<&Revision>, after: Option<&Revision>) -> Result<Vec<ValueChange>, Findings> {
    let leaves = |revision: Option<&Revision>| match revision {
        Some(revision) => revision.compose(None, &Value::Null, 0).map(|composed| composed.leaves),
        None => Ok(Vec::new()),
    };
    Ok(differing(&leaves(before)?, &leaves(after)?))
}

/// Leaf by leaf, two values files.
pub fn overlay_changes(old: &Overlay, new: &Overlay) -> Result<Vec<ValueChange>, Findings> {
    let leaves = |overlay: &Overlay| -> Result<Vec<Leaf>, Findings> {
        let mut leaves = Vec::new();
        overlay.tree()?.leaves(&mut Vec::new(), &mut leaves);
        Ok(leaves)
    };
    Ok(differing(&leaves(old)?, &leaves(new)?))
}

fn differing(before: &[Leaf], after: &[Leaf]) -> Vec<ValueChange> {
    let index = |leaves: &[Leaf]| -> BTreeMap<String, Leaf> {
        leaves.iter().map(|leaf| (leaf.path.clone(), leaf.clone())).collect()
    };
    let (before, after) = (index(before), index(after));
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut changes = Vec::new();
    for key in keys {
        let (old, new) = (before.get(key), after.get(key));
        if old.map(|leaf| &leaf.value) == new.map(|leaf| &leaf.value) {
            continue;
        }
        let secret = crate::state::looks_secret(key);
        let shown = |leaf: &Leaf| if secret { "a secret".to_owned() } else { leaf.value.to_string() };
        let origin = new.or(old).map_or_else(String::new, |leaf| leaf.origin.to_string());
        changes.push(ValueChange { key: key.clone(), before: old.map(shown), after: new.map(shown), origin });
    }
    changes
}

/// Who reads the settings that change.
fn settings(changes: &[Change]) -> Option<Impact> {
    let is_value =
        |change: &&Change| change.layer == PlanLayer::Config && change.field.as_deref() == Some(field::DEFAULT);
    let count = changes.iter().filter(is_value).filter(|change| change.consent == Consent::None).count();
    (count > 0).then(|| Impact {
        system: None,
        effect: format!(
            "{} change in every process that reads them, without a restart",
            model::counted(count, "setting")
        ),
        values: Vec::new(),
    })
}

/// What is not written without being agreed to.
fn waiting(changes: &[Change]) -> Vec<Impact> {
    let mut waiting = Vec::new();
    for (consent, noun) in [
        (Consent::Prune, "removal"),
        (Consent::OverwriteOperator, "value of an operator"),
        (Consent::RevertDrift, "change made beside the seed"),
    ] {
        let count = changes.iter().filter(|change| change.consent == consent).count();
        if let (Some(flag), true) = (consent.flag(), count > 0) {
            let effect = format!("{} left as it is without `{flag}`", model::counted(count, noun));
            waiting.push(Impact { system: None, effect, values: Vec::new() });
        }
    }
    let refused = changes.iter().filter(|change| change.consent == Consent::Refused).count();
    if refused > 0 {
        let effect = format!("{} refused: nothing of this seed is applied", model::counted(refused, "change"));
        waiting.push(Impact { system: None, effect, values: Vec::new() });
    }
    waiting
}
