//! From what a seed declares to the rows that the store writes.

use ::seed::{Object, ObjectId, ObjectKind, State, field};
use ::settings::{Bounds, Declaration, Scope, ValueType};
use ::store::{
    ContainerKind, NewChart, NewContainer, NewOverlay, NewPrerequisite, NewSetting, NewSystem, NewVersion, SeedObject,
    SeedOrigin,
};
use model::{ErrorKind, Problem, Result, SystemCode};
use serde_json::{Value, json};

use super::super::release::Stored;

/// Owner of a parameter that a person set at run time; those of seeds have none.
pub const OPERATOR: &str = "operator";

/// The object as it is kept for the comparison with the next seed.
pub fn seed_object(id: &ObjectId, object: &Object) -> SeedObject {
    SeedObject {
        kind: kind_text(id.kind),
        name: id.name.clone(),
        system: object.system.clone(),
        content: serde_json::to_string(object).expect("an object has only text keys"),
    }
}

/// As it stands in the store.
pub fn kind_text(kind: ObjectKind) -> String {
    serde_json::to_value(kind).ok().and_then(|value| value.as_str().map(str::to_owned)).expect("a kind is one word")
}

/// `live` is what holds where the seed has no default: a secret that was set at run time.
///
/// # Errors
/// `seed.object_malformed`.
pub fn setting(key: &str, object: &Object, live: Option<&Object>) -> Result<NewSetting> {
    let text = |object: &Object| Some(object.fields.get(field::DEFAULT)?.value.as_str()?.to_owned());
    let value = text(object).or_else(|| live.and_then(text)).unwrap_or_default();
    let number = |name: &str| object.fields.get(name).and_then(|field| field.value.as_f64());
    let options = object.fields.get("options").and_then(|field| field.value.as_array().cloned()).unwrap_or_default();
    let pattern = Some(object.text("pattern")).filter(|pattern| !pattern.is_empty()).map(str::to_owned);
    Ok(NewSetting {
        declaration: Declaration {
            key: key.to_owned(),
            scope: Scope::parse(object.text("scope")).ok_or_else(|| malformed("setting", key))?,
            value_type: ValueType::parse(object.text("value_type")).ok_or_else(|| malformed("setting", key))?,
            default: value.clone(),
            seed: Some(value.clone()),
            bounds: Bounds {
                min: number("min_value"),
                max: number("max_value"),
                pattern,
                options: options.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect(),
            },
            description: object.text("description").to_owned(),
            is_secret: object.fields.contains_key("is_secret"),
        },
        value,
    })
}

fn malformed(what: &str, name: &str) -> Problem {
    Problem::internal("seed.object_malformed", format!("a {what} of a seed cannot be read")).place(name.to_owned())
}

/// `enabled` is what holds for a system that is new.
///
/// # Errors
/// `system.no_slot`.
pub fn system(code: &SystemCode, object: &Object, enabled: bool, seed: SeedOrigin) -> Result<NewSystem> {
    let count = object.fields.get("count").and_then(|field| field.value.as_u64());
    let count = count.and_then(|count| u32::try_from(count).ok()).ok_or_else(|| malformed("system", code.as_str()))?;
    if count == 0 {
        return Err(Problem::new(ErrorKind::Invalid, "system.no_slot", "the system has no slot to run in")
            .place(format!("injection.system.{code}.count"))
            .found("0")
            .expected("1 or more"));
    }
    Ok(NewSystem {
        code: code.clone(),
        display_name: object.text("display_name").to_owned(),
        description: String::new(),
        ns_pattern: object.text("ns_pattern").to_owned(),
        extract_pattern: object.text("extract_pattern").to_owned(),
        app_label_key: object.text("app_label_key").to_owned(),
        slot_count: count,
        enabled,
        is_builtin: object.fields.get("is_builtin").is_some_and(|field| field.value == json!(true)),
        seed,
    })
}

/// Kind and name out of `pedestal ts`.
///
/// # Errors
/// `seed.object_malformed`.
pub fn container_name(name: &str) -> Result<(ContainerKind, &str)> {
    let (kind, rest) = name.split_once(' ').ok_or_else(|| malformed("container", name))?;
    let kind = ContainerKind::ALL.into_iter().find(|known| known.as_str() == kind);
    Ok((kind.ok_or_else(|| malformed("container", name))?, rest))
}

/// A container with those of its versions and prerequisites that `wanted` names.
///
/// # Errors
/// `seed.object_malformed`, and what composing finds.
pub fn container(name: &str, state: &State, wanted: impl Fn(&ObjectId) -> bool) -> Result<NewContainer> {
    let (kind, own) = container_name(name)?;
    let object = state.get(ObjectKind::Container, name).ok_or_else(|| malformed("container", name))?;
    let id = |kind: ObjectKind, name: String| ObjectId { kind, name };
    let mut versions = Vec::new();
    for (version, object) in state.versions(name) {
        if wanted(&id(ObjectKind::Version, format!("{name} {version}"))) {
            versions.push(self::version(version, object, state)?);
        }
    }
    let mut prerequisites = Vec::new();
    if kind == ContainerKind::Pedestal {
        let prefix = format!("{own} ");
        for (id, object) in state.objects.range(id(ObjectKind::Prerequisite, prefix.clone())..) {
            match id.name.strip_prefix(&prefix) {
                Some(name) if id.kind == ObjectKind::Prerequisite => {
                    if wanted(id) {
                        prerequisites.push(prerequisite(name, object));
                    }
                }
                _ => break,
            }
        }
    }
    Ok(NewContainer {
        kind,
        name: own.to_owned(),
        is_public: object.fields.get("is_public").is_some_and(|field| field.value == json!(true)),
        versions,
        prerequisites,
    })
}

/// # Errors
/// What composing finds: a revision that cannot be composed is never stored.
pub fn version(name: &str, object: &Object, state: &State) -> Result<NewVersion> {
    let revision = state.revision(name, object);
    if revision.is_none() && !object.text(field::CHART).is_empty() {
        return Err(malformed("version", name));
    }
    let stored = revision.as_ref().map(|revision| Stored::new(revision.clone())).transpose()?;
    let overlay = revision.as_ref().and_then(|revision| revision.overlay.as_ref());
    Ok(NewVersion {
        name: name.to_owned(),
        image_ref: object.text(field::IMAGE).to_owned(),
        command: object.text(field::COMMAND).to_owned(),
        github_link: object.text(field::GITHUB_LINK).to_owned(),
        enabled: object.is_enabled(),
        chart: revision.as_ref().map(|revision| NewChart {
            repository: revision.chart.repo_url.clone(),
            repository_name: revision.chart.repo_name.clone(),
            name: revision.chart.name.clone(),
            version: revision.chart.version.clone(),
            archive: None,
        }),
        env: parameters(object, field::ENV),
        parameters: parameters(object, field::VALUE),
        overlay: overlay
            .map(|overlay| NewOverlay { name: overlay.file.clone(), bytes: overlay.text.clone().into_bytes() }),
        composed: stored.map_or(Value::Null, |stored| stored.to_value()),
        place: super::live::place(object.at.as_ref()),
    })
}

/// What decides a version's content hash: lines that moved in the file make no new revision.
fn parameters(object: &Object, list: &str) -> Value {
    let mut rows: Vec<(u32, Value)> = Vec::new();
    for (name, field) in &object.fields {
        let Some(key) = name.strip_prefix(list) else { continue };
        let mut row = json!({"key": key});
        if let (Some(row), Some(value)) = (row.as_object_mut(), field.value.as_object()) {
            row.extend(value.iter().map(|(key, value)| (key.clone(), value.clone())));
            if field.operators {
                row.insert("owner".to_owned(), json!(OPERATOR));
            }
        }
        rows.push((field.order, row));
    }
    rows.sort_by_key(|(order, _)| *order);
    rows.into_iter().map(|(_, row)| row).collect()
}

fn prerequisite(name: &str, object: &Object) -> NewPrerequisite {
    let text = |name: &str| Some(object.text(name)).filter(|text| !text.is_empty());
    let mut values: Vec<(u32, Value)> = Vec::new();
    for (name, value) in &object.fields {
        if let Some(key) = name.strip_prefix(field::VALUE) {
            values.push((value.order, json!({"key": key, "value": value.value})));
        }
    }
    values.sort_by_key(|(order, _)| *order);
    NewPrerequisite {
        kind: object.text("kind").to_owned(),
        name: name.to_owned(),
        definition: json!({
            "chart": text("chart"),
            "namespace": text("namespace"),
            "version": text("version"),
            "values": values.into_iter().map(|(_, value)| value).collect::<Vec<_>>(),
        }),
    }
}
