//! The comparison of three states, object by object and field by field.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Change, ChangeKind, Consent, PlanLayer};
use crate::state::{Field, Object, ObjectId, ObjectKind, State, StoredParameter, field};

/// What the seed changed, and what only the installation changed.
pub fn states(base: &State, new: &State, live: &State) -> (Vec<Change>, Vec<Change>) {
    let mut found = Found { new, live, base, changes: Vec::new(), drift: Vec::new() };
    let all: BTreeSet<&ObjectId> = base.objects.keys().chain(new.objects.keys()).collect();
    for id in all {
        found.object(id, base.objects.get(id), new.objects.get(id), live.objects.get(id));
    }
    (found.changes, found.drift)
}

struct Found<'a> {
    base: &'a State,
    new: &'a State,
    live: &'a State,
    changes: Vec<Change>,
    drift: Vec<Change>,
}

/// One field in the three states.
#[derive(Clone, Copy)]
struct Sides<'a> {
    base: Option<&'a Field>,
    new: Option<&'a Field>,
    live: Option<&'a Field>,
}

impl Found<'_> {
    fn object(&mut self, id: &ObjectId, base: Option<&Object>, new: Option<&Object>, live: Option<&Object>) {
        match (base, new, live) {
            (_, Some(new), None) => self.all_fields(id, new, base.is_some()),
            (base, Some(new), Some(live)) => self.fields(id, base, new, live),
            (Some(base), None, Some(live)) => self.removed(id, base, live),
            (_, None, _) => {}
        }
    }

    /// Every field of an object that the installation does not have.
    fn all_fields(&mut self, id: &ObjectId, object: &Object, was_there: bool) {
        let kind = match (was_there, id.kind) {
            (true, _) => ChangeKind::Backfilled,
            (false, ObjectKind::Version) => ChangeKind::NewVersion,
            (false, _) => ChangeKind::Added,
        };
        if object.fields.is_empty() {
            let reason = if was_there { "the installation lost it" } else { "the seed has it now" };
            self.changes.push(Change { place: place(object.at.as_ref()), ..whole(id, object, kind, reason) });
        }
        for (name, field) in &object.fields {
            let reason = match (&field.from, was_there) {
                (_, true) => "applied before, and lost by the installation".to_owned(),
                (Some(from), _) => format!("inherited from version {from}, which this one does not replace"),
                (None, _) if id.kind == ObjectKind::Version => "declared by a version that is new".to_owned(),
                (None, _) => "the seed has it now".to_owned(),
            };
            let sides = Sides { base: None, new: Some(field), live: None };
            self.changes.push(change(id, object, name, sides, kind, Consent::None, reason));
        }
    }

    fn fields(&mut self, id: &ObjectId, base: Option<&Object>, new: &Object, live: &Object) {
        let of_base = |name: &str| base.and_then(|base| base.fields.get(name));
        let names: BTreeSet<&String> = new.fields.keys().chain(live.fields.keys()).collect();
        for name in names {
            let sides = Sides { base: of_base(name), new: new.fields.get(name), live: live.fields.get(name) };
            self.field(id, new, name, sides);
        }
    }

    fn field(&mut self, id: &ObjectId, object: &Object, name: &str, sides: Sides<'_>) {
        let value = |field: Option<&Field>| field.map(|field| field.value.clone());
        let Sides { base, new, live } = sides;
        if value(new) == value(live) {
            return;
        }
        let seed_changed = value(base) != value(new);
        let live_changed = base.is_some() && value(base) != value(live);
        let by_person = live.is_some_and(|live| live.operators);
        let rigid = field::FIXED.contains(&name);
        // A default that a secret never had, or has no longer: there is nothing that the seed wants.
        if new.is_none() && name == field::DEFAULT {
            return;
        }
        let (kind, consent, reason) = match (seed_changed, new, live) {
            (false, None, Some(_)) if by_person => (
                ChangeKind::OperatorValue,
                Consent::RevertDrift,
                "an operator added it at run time; no seed has it".to_owned(),
            ),
            (false, None, _) | (true, None, None) => return,
            (false, Some(_), _) if by_person => (
                ChangeKind::OperatorValue,
                Consent::RevertDrift,
                "an operator set it at run time; the seed is as it was applied".to_owned(),
            ),
            (false, Some(_), None) => {
                (ChangeKind::Backfilled, Consent::None, "applied before, and lost by the installation".to_owned())
            }
            (false, Some(_), Some(_)) => (
                ChangeKind::Drift,
                Consent::RevertDrift,
                "changed in the installation, not by a seed; the seed is as it was applied".to_owned(),
            ),
            (true, Some(_), Some(_)) if rigid => (
                ChangeKind::Immutable,
                Consent::Refused,
                "a version's name stands for this, so it cannot change".to_owned(),
            ),
            (true, None, Some(_)) if rigid => (
                ChangeKind::Immutable,
                Consent::Refused,
                "a version's name stands for this, so it cannot go".to_owned(),
            ),
            (true, Some(_), None) if rigid => (
                ChangeKind::Immutable,
                Consent::Refused,
                "a version's name stands for this, so it cannot come".to_owned(),
            ),
            (true, _, Some(_)) if by_person => (
                ChangeKind::Conflict,
                Consent::OverwriteOperator,
                format!("the seed changed it{}, and an operator set it at run time", was(base)),
            ),
            (true, _, Some(_)) if live_changed => (
                ChangeKind::Conflict,
                Consent::RevertDrift,
                format!("the seed changed it{}, and so did somebody in the installation", was(base)),
            ),
            (true, None, Some(_)) if base.is_none() => return,
            (true, None, Some(_)) => (ChangeKind::Removed, Consent::Prune, "the seed no longer has it".to_owned()),
            (true, Some(_), None) => (ChangeKind::Added, Consent::None, "the seed has it now".to_owned()),
            (true, Some(_), Some(_)) => self.changed(name, sides),
        };
        let mut change = change(id, object, name, sides, kind, consent, reason);
        if kind == ChangeKind::Immutable {
            change.fix = Some(format!("give it a new version's name, for example `{}`", self.free_name(id)));
        }
        let list = if matches!(kind, ChangeKind::Drift | ChangeKind::OperatorValue) {
            &mut self.drift
        } else {
            &mut self.changes
        };
        list.push(change);
    }

    /// A field that the seed changed and nobody else did.
    fn changed(&self, name: &str, sides: Sides<'_>) -> (ChangeKind, Consent, String) {
        if name == field::OVERLAY {
            let (old, new) = (sides.live.and_then(|f| f.value.as_str()), sides.new.and_then(|f| f.value.as_str()));
            return (ChangeKind::OverlayChanged, Consent::None, self.overlay_words(old, new));
        }
        let from = sides.new.and_then(|field| field.from.as_deref());
        let reason = match (sides.base, from) {
            (None, _) => "the installation has another value, which no seed has set".to_owned(),
            (Some(_), Some(from)) => format!("the seed changed it in version {from}, from which it is inherited"),
            (Some(_), None) => "the seed changed it".to_owned(),
        };
        (ChangeKind::ChangedDefault, Consent::None, reason)
    }

    fn overlay_words(&self, old: Option<&str>, new: Option<&str>) -> String {
        let find = |hash: Option<&str>| {
            let overlays = [self.live, self.new, self.base].map(|state| &state.overlays);
            overlays.into_iter().find_map(|overlays| overlays.get(hash?))
        };
        let (Some(old), Some(new)) = (find(old), find(new)) else { return "the values file has other content".into() };
        let changes = match super::impact::overlay_changes(old, new) {
            Ok(changes) => changes,
            Err(why) => return format!("the values file has other content, which cannot be compared: {why}"),
        };
        match changes.len() {
            0 => "the values file has other bytes and the same values".to_owned(),
            count => {
                let shown: Vec<String> = changes.iter().take(5).map(|change| change.key.clone()).collect();
                let more = if count > shown.len() { ", ..." } else { "" };
                format!(
                    "the values file has other content: {}: {}{more}",
                    model::counted(count, "value"),
                    shown.join(", ")
                )
            }
        }
    }

    fn removed(&mut self, id: &ObjectId, base: &Object, live: &Object) {
        // A version that is not used any more is retired: that is how a removal of one looks afterwards.
        if id.kind == ObjectKind::Version && !live.is_enabled() {
            return;
        }
        let reason = match id.kind {
            ObjectKind::Version => {
                "the seed no longer has it; it is retired: runs do not use it, and old ones stay printable"
            }
            ObjectKind::Project => "the seed no longer has it; it is forgotten, and its runs stay",
            ObjectKind::Container => "the seed no longer has it; its versions are retired",
            _ => "the seed no longer has it",
        };
        let place = place(base.at.as_ref());
        let before = live.fields.get(field::DEFAULT).map(words);
        let change = whole(id, base, ChangeKind::Removed, reason);
        self.changes.push(Change { consent: Consent::Prune, before, place, ..change });
    }

    /// The next name after this version's that no version of the container has, in the seed or in the installation.
    fn free_name(&self, id: &ObjectId) -> String {
        let (container, version) = id.name.rsplit_once(' ').unwrap_or(("", &id.name));
        let digits = version.len() - version.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (head, tail) = version.split_at(version.len() - digits);
        let first = tail.parse::<u64>().ok();
        let name = |number: u64| match first {
            Some(first) => format!("{head}{}", first.saturating_add(number)),
            None => format!("{version}-{number}"),
        };
        let taken = |name: &String| {
            let id = ObjectId { kind: ObjectKind::Version, name: format!("{container} {name}") };
            self.new.objects.contains_key(&id) || self.live.objects.contains_key(&id)
        };
        (1..).map(name).find(|name| !taken(name)).expect("one of endlessly many names is free")
    }
}

fn was(base: Option<&Field>) -> String {
    base.map_or_else(String::new, |base| format!(" (it was {})", words(base)))
}

fn place(at: Option<&crate::Spot>) -> Option<String> {
    at.map(ToString::to_string)
}

fn whole(id: &ObjectId, object: &Object, kind: ChangeKind, reason: &str) -> Change {
    Change {
        layer: layer(id.kind, ""),
        system: object.system.clone(),
        object: id.kind,
        name: id.name.clone(),
        field: None,
        kind,
        consent: Consent::None,
        before: None,
        after: None,
        reason: reason.to_owned(),
        place: None,
        fix: None,
    }
}

fn change(
    id: &ObjectId,
    object: &Object,
    name: &str,
    sides: Sides<'_>,
    kind: ChangeKind,
    consent: Consent,
    reason: String,
) -> Change {
    let secret = [sides.base, sides.new, sides.live].into_iter().flatten().any(|field| field.secret);
    let shown = |field: &Field| if secret { "a secret".to_owned() } else { words(field) };
    let at = [sides.new, sides.base].into_iter().flatten().find_map(|field| field.at.as_ref());
    Change {
        layer: layer(id.kind, name),
        field: Some(name.to_owned()),
        consent,
        before: sides.live.map(shown),
        after: sides.new.map(shown),
        place: place(at.or(object.at.as_ref())),
        ..whole(id, object, kind, &reason)
    }
}

fn layer(kind: ObjectKind, field: &str) -> PlanLayer {
    match kind {
        ObjectKind::Setting => PlanLayer::Config,
        ObjectKind::System => PlanLayer::Registry,
        ObjectKind::Version
            if [field::CHART, field::CHART_VERSION, field::REPO_URL, field::REPO_NAME].contains(&field) =>
        {
            PlanLayer::Chart
        }
        _ => PlanLayer::Database,
    }
}

/// A value as people read it.
pub fn words(field: &Field) -> String {
    match &field.value {
        Value::String(text) => text.clone(),
        Value::Object(_) => match serde_json::from_value::<StoredParameter>(field.value.clone()) {
            Ok(parameter) => parameter.words(),
            Err(_) => field.value.to_string(),
        },
        Value::Array(items) => items
            .iter()
            .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join(", "),
        other => other.to_string(),
    }
}
