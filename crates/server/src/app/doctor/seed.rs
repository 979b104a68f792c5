//! What the last seed says, and what became of it.

use std::collections::BTreeSet;

use ::seed::{Change, ChangeKind, Composed, ObjectKind, field, newest};
use ::store::{Container, ContainerKind, Version};
use api::doctor::Repair;
use model::Result;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Facts, Look, Odd, Seen};
use crate::app::release::Stored as Values;

pub(super) const LOOKS: &[(&str, Look)] = &[
    ("seed.finished", finished),
    ("seed.defaults_applied", defaults_applied),
    ("seed.removals_applied", removals_applied),
    ("seed.operators_kept", operators_kept),
    ("values.lists_whole", lists_whole),
    ("values.typed", typed),
    ("overlays.current", overlays_current),
    ("overlays.present", overlays_present),
    ("versions.inherit", versions_inherit),
];

fn finished(facts: &Facts<'_>) -> Result<Seen> {
    let stored = facts.stored()?;
    let Some(last) = stored.revisions.first() else { return Ok(Seen::Good("no seed was applied".into())) };
    let mut odd = Odd::default();
    if last.state == "interrupted" || (last.state == "applying" && !stored.applying) {
        let observed = format!(
            "revision {} of {} began at {} and did not end; nothing of it is in force",
            last.id, last.seed.env, last.started_at
        );
        odd.add(observed, Repair::Safe, format!("aegisctl seed apply --revision {} --yes", last.id));
    }
    odd.seen(format!("revision {} is {}", last.id, last.state))
}

/// What stands between the last seed and the installation, of the kinds that a check is about.
fn open(facts: &Facts<'_>, is_meant: impl Fn(&Change) -> bool, flag: &str, repair: Repair) -> Result<Odd> {
    let stored = facts.stored()?;
    let pending = stored.pending()?;
    let mut odd = Odd::default();
    for change in pending.plan.changes.iter().chain(&pending.plan.drift).filter(|change| is_meant(change)) {
        let field = change.field.as_deref().unwrap_or_default();
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        let observed = format!(
            "{} {field}: {}; here {}, declared {}",
            change.name,
            change.reason,
            shown(&change.before),
            shown(&change.after)
        );
        let fix = match (&pending.revision, &change.system) {
            (Some((number, env)), system) if system.as_ref().is_none_or(|code| stored.is_from(code, env)) => {
                (format!("aegisctl seed apply --revision {number}{flag} --yes"), repair)
            }
            (_, Some(code)) => stored.register_again(code),
            (_, None) => ("aegisctl seed drift".to_owned(), Repair::Person),
        };
        odd.fixed_by(observed, fix);
    }
    Ok(odd)
}

/// Values of versions, which are no settings: a live setting has an owner and a history of its own.
fn defaults_applied(facts: &Facts<'_>) -> Result<Seen> {
    let is_meant = |change: &Change| {
        let field = change.field.as_deref().unwrap_or_default();
        let kind = matches!(change.kind, ChangeKind::Drift | ChangeKind::ChangedDefault | ChangeKind::Added);
        kind && change.object == ObjectKind::Version && field.starts_with(field::VALUE)
    };
    open(facts, is_meant, " --revert-drift", Repair::Consent)?.seen("every default is as the seed declares it")
}

/// Of one system it is taken away by itself. Of the whole installation a person decides: that takes away as well whatever was
/// registered from somewhere else.
fn removals_applied(facts: &Facts<'_>) -> Result<Seen> {
    let stored = facts.stored()?;
    let pending = stored.pending()?;
    let mut odd = Odd::default();
    for change in pending.plan.changes.iter().filter(|change| change.kind == ChangeKind::Removed) {
        let Some((number, env)) = &pending.revision else { continue };
        let observed = format!("{} {}: {}", change.object, change.name, change.reason);
        let elsewhere = stored.systems.iter().any(|system| system.seed.env != *env);
        match &change.system {
            Some(code) => {
                let fix = format!("aegisctl seed apply --revision {number} --system {code} --prune --yes");
                odd.add(observed, Repair::Consent, fix);
            }
            None if elsewhere => {
                odd.add(observed, Repair::Person, format!("aegisctl seed apply --revision {number} --prune"));
            }
            None => {
                odd.add(observed, Repair::Consent, format!("aegisctl seed apply --revision {number} --prune --yes"));
            }
        }
    }
    odd.seen("nothing is left of what the seed no longer has")
}

fn operators_kept(facts: &Facts<'_>) -> Result<Seen> {
    let is_meant = |change: &Change| change.kind == ChangeKind::Conflict;
    open(facts, is_meant, " --overwrite-operator", Repair::Consent)?.seen("no operator's value stands against the seed")
}

fn overlays_current(facts: &Facts<'_>) -> Result<Seen> {
    let is_meant = |change: &Change| {
        let is_overlay = change.field.as_deref() == Some(field::OVERLAY);
        is_overlay && change.kind != ChangeKind::Removed
    };
    open(facts, is_meant, " --revert-drift", Repair::Consent)?.seen("every values file is the one that the seed has")
}

fn overlays_present(facts: &Facts<'_>) -> Result<Seen> {
    let stored = facts.stored()?;
    let mut odd = Odd::default();
    let mut count = 0;
    for (code, version) in newest_versions(facts)? {
        let Some(hash) = &version.revision.overlay_hash else { continue };
        count += 1;
        let what = match stored.live.overlays.get(hash) {
            None => "is gone",
            Some((_, bytes)) if bytes.is_empty() => "is empty",
            Some((_, bytes)) if hex::encode(Sha256::digest(bytes)) != *hash => "is not what it was",
            Some(_) => continue,
        };
        let name = stored.live.overlays.get(hash).map_or("its values file", |(name, _)| name.as_str());
        odd.fixed_by(format!("pedestal {code} {}: {name} {what}", version.name), stored.register_again(code));
    }
    odd.seen(format!("every values file is whole: {count}"))
}

/// Of each pedestal what a run would install.
fn newest_versions<'a>(facts: &'a Facts<'_>) -> Result<impl Iterator<Item = (&'a str, &'a Version)>> {
    let pedestals = facts.stored()?.containers.iter().filter(|one| one.kind == ContainerKind::Pedestal);
    let used =
        |one: &'a Container| newest(one.versions.iter().filter(|version| version.enabled), |version| &version.name);
    Ok(pedestals.filter_map(move |one| Some((one.name.as_str(), used(one)?))))
}

/// What is stored beside what composing gives now, where they differ: path, stored, composed.
fn uncomposed(version: &Version) -> Result<Vec<(String, Value, Value)>> {
    let values = Values::read(&version.revision.composed)?;
    let now: Composed = values.compose_first()?;
    let mut found = Vec::new();
    differences("", values.first_values(), &now.values, &mut found);
    Ok(found)
}

fn differences(path: &str, stored: &Value, now: &Value, found: &mut Vec<(String, Value, Value)>) {
    match (stored, now) {
        _ if stored == now => {}
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                differences(&path, a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null), found);
            }
        }
        _ => found.push((path.to_owned(), stored.clone(), now.clone())),
    }
}

/// The same words as another type.
fn is_retyped(stored: &Value, now: &Value) -> bool {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    !stored.is_array()
        && !now.is_array()
        && std::mem::discriminant(stored) != std::mem::discriminant(now)
        && (text(stored) == text(now) || (stored.is_number() && now.is_string()))
}

fn composed(facts: &Facts<'_>, is_meant: impl Fn(&Value, &Value) -> bool, good: &str) -> Result<Seen> {
    let stored = facts.stored()?;
    let mut odd = Odd::default();
    for (code, version) in newest_versions(facts)? {
        for (path, was, now) in uncomposed(version)?.into_iter().filter(|(_, was, now)| is_meant(was, now)) {
            let observed = format!("pedestal {code} {}: `{path}` is {was}, and composed it is {now}", version.name);
            odd.fixed_by(observed, stored.register_again(code));
        }
    }
    odd.seen(good)
}

fn lists_whole(facts: &Facts<'_>) -> Result<Seen> {
    composed(facts, |was, now| !is_retyped(was, now), "every value, lists too, is what composing gives")
}

fn typed(facts: &Facts<'_>) -> Result<Seen> {
    composed(facts, is_retyped, "every value has the type that was declared for it")
}

/// The keys of a version's own and inherited parameters.
fn keys(version: &Version) -> Result<BTreeSet<String>> {
    Ok(Values::read(&version.revision.composed)?.keys())
}

fn versions_inherit(facts: &Facts<'_>) -> Result<Seen> {
    let stored = facts.stored()?;
    let mut odd = Odd::default();
    for (code, used) in newest_versions(facts)? {
        let Some(pedestal) =
            stored.containers.iter().find(|one| one.kind == ContainerKind::Pedestal && one.name == code)
        else {
            continue;
        };
        let others = pedestal.versions.iter().filter(|version| version.enabled && version.id != used.id);
        let Some(before) = newest(others, |version| &version.name) else { continue };
        let (now, then) = (keys(used)?, keys(before)?);
        let lost: Vec<&String> = then.difference(&now).collect();
        if !lost.is_empty() {
            let observed = format!(
                "pedestal {code} {} sets {} of the {} values of {}: without {}",
                used.name,
                then.len() - lost.len(),
                then.len(),
                before.name,
                super::some_of(&lost, lost.len() as u64)
            );
            odd.add(observed, Repair::Consent, format!("aegisctl pedestal version retire {code} {} --yes", used.name));
        }
    }
    odd.seen("no version sets fewer values than the one before it")
}
