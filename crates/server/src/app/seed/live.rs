//! What the installation has, and what the last seed said of it, in the form in which seeds are compared.

use ::seed::{Field, Object, ObjectId, ObjectKind, Overlay, Spot, State, field};
use ::settings::Owner;
use ::store::{ContainerKind, LiveContainer, LivePrerequisite, LiveVersion, SeedLive, Setting, System};
use model::{Problem, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::rows;

/// What the seed that was applied last says.
///
/// # Errors
/// `seed.object_malformed`.
pub fn base(live: &SeedLive) -> Result<State> {
    let mut state = State::default();
    for row in &live.objects {
        let malformed = |error: serde_json::Error| {
            Problem::internal("seed.object_malformed", "what the last seed said cannot be read")
                .place(format!("{} {}", row.kind, row.name))
                .cause(error)
        };
        let kind: ObjectKind = serde_json::from_value(json!(row.kind)).map_err(malformed)?;
        let mut object: Object = serde_json::from_str(&row.content).map_err(malformed)?;
        object.system = row.system.clone();
        state.insert(kind, row.name.clone(), object);
    }
    state.overlays = overlays(live);
    Ok(state)
}

/// What the installation has now. Of teams, users, service accounts and data sets it has what the seed said.
///
/// # Errors
/// `seed.live_malformed`.
pub fn state(live: &SeedLive, base: &State) -> Result<State> {
    let mut state = State { overlays: overlays(live), ..State::default() };
    for row in &live.settings {
        state.insert(ObjectKind::Setting, row.declaration.key.clone(), setting(row, base));
    }
    for row in &live.systems {
        state.insert(ObjectKind::System, row.code.as_str(), system(row));
    }
    for row in &live.containers {
        container(row, base, &mut state)?;
    }
    for (name, description) in &live.projects {
        let id = ObjectId { kind: ObjectKind::Project, name: name.clone() };
        let mut object = base.objects.get(&id).cloned().unwrap_or_default();
        object.fields.remove("description");
        object.put_text("description", description, None);
        state.objects.insert(id, object);
    }
    for (id, object) in &base.objects {
        let kept = [ObjectKind::Team, ObjectKind::User, ObjectKind::ServiceAccount, ObjectKind::Dataset];
        if kept.contains(&id.kind) {
            state.objects.insert(id.clone(), object.clone());
        }
    }
    Ok(state)
}

fn overlays(live: &SeedLive) -> std::collections::BTreeMap<String, Overlay> {
    let read = |(hash, (name, bytes)): (&String, &(String, Vec<u8>))| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        (hash.clone(), Overlay { file: name.clone(), text, sha256: hash.clone() })
    };
    live.overlays.iter().map(read).collect()
}

fn setting(row: &Setting, base: &State) -> Object {
    let declaration = &row.declaration;
    let key = declaration.key.as_str();
    let system =
        key.strip_prefix(::settings::SYSTEM_PREFIX).and_then(|rest| rest.split_once('.')).map(|(code, _)| code);
    let mut object = Object::of(system, None);
    if let Some(live) = &row.live {
        let operators = live.owner == Owner::Operator;
        let secret = declaration.is_secret;
        object.put(field::DEFAULT, Field { operators, secret, ..Field::new(live.value.as_str(), None) });
    }
    object.put("value_type", Field::new(declaration.value_type.as_str(), None));
    object.put("scope", Field::new(declaration.scope.as_str(), None));
    object.put_text("description", &declaration.description, None);
    if declaration.is_secret {
        object.put("is_secret", Field::new(true, None));
    }
    let bounds = &declaration.bounds;
    for (name, bound) in [("min_value", bounds.min), ("max_value", bounds.max)] {
        if let Some(bound) = bound {
            object.put(name, Field::new(bound, None));
        }
    }
    object.put_text("pattern", bounds.pattern.as_deref().unwrap_or_default(), None);
    if !bounds.options.is_empty() {
        object.put("options", Field::new(bounds.options.clone(), None));
    }
    // The installation groups settings in no other way than the seed did.
    if let Some(category) = base.get(ObjectKind::Setting, key).and_then(|object| object.fields.get("category")) {
        object.put("category", category.clone());
    }
    object
}

fn system(row: &System) -> Object {
    let mut object = Object::of(Some(row.code.as_str()), None);
    for (name, value) in [
        ("display_name", json!(row.display_name)),
        ("ns_pattern", json!(row.ns_pattern)),
        ("extract_pattern", json!(row.extract_pattern)),
        ("app_label_key", json!(row.app_label_key)),
        ("count", json!(row.slot_count)),
        ("is_builtin", json!(row.is_builtin)),
    ] {
        object.put(name, Field::new(value, None));
    }
    object
}

fn container(row: &LiveContainer, base: &State, state: &mut State) -> Result<()> {
    let name = format!("{} {}", row.kind.as_str(), row.name);
    let system = match row.kind {
        ContainerKind::Pedestal => Some(row.name.as_str()),
        ContainerKind::Benchmark => row.name.strip_suffix("-bench").filter(|code| row.systems == [*code]),
        ContainerKind::Algorithm => None,
    };
    // The seed knows better which system a container belongs to, when the installation has not linked it yet.
    let system = base.get(ObjectKind::Container, &name).map_or(system, |object| object.system.as_deref());
    let mut object = Object::of(system, None);
    object.put("is_public", Field::new(row.is_public, None));
    for (version, order) in row.versions.iter().zip(0..) {
        let object = Object { order, ..self::version(version, system)? };
        state.insert(ObjectKind::Version, format!("{name} {}", version.name), object);
    }
    for one in &row.prerequisites {
        state.insert(ObjectKind::Prerequisite, format!("{} {}", row.name, one.name), prerequisite(one, system)?);
    }
    state.insert(ObjectKind::Container, name, object);
    Ok(())
}

fn version(row: &LiveVersion, system: Option<&str>) -> Result<Object> {
    let mut object = Object::of(system, None);
    object.put(field::STATUS, Field::new(if row.enabled { "enabled" } else { "disabled" }, None));
    object.put_text(field::GITHUB_LINK, &row.github_link, None);
    object.put_text(field::IMAGE, &row.image_ref, None);
    object.put_text(field::COMMAND, &row.command, None);
    parameters(&mut object, field::ENV, &row.env)?;
    if let Some([repository, repository_name, chart, version]) = &row.chart {
        object.put_text(field::CHART, chart, None);
        object.put_text(field::CHART_VERSION, version, None);
        object.put_text(field::REPO_URL, repository, None);
        object.put_text(field::REPO_NAME, repository_name, None);
    }
    parameters(&mut object, field::VALUE, &row.parameters)?;
    object.put_text(field::OVERLAY, row.overlay_hash.as_deref().unwrap_or_default(), None);
    Ok(object)
}

/// A parameter as the store keeps it: its key beside what is compared.
#[derive(Deserialize)]
struct Row {
    key: String,
    #[serde(default)]
    owner: Option<String>,
    #[serde(flatten)]
    value: Value,
}

fn parameters(object: &mut Object, prefix: &str, stored: &Value) -> Result<()> {
    let rows = Option::<Vec<Row>>::deserialize(stored).map_err(|error| {
        Problem::internal("seed.live_malformed", "the parameters of a version cannot be read").cause(error)
    })?;
    for (row, order) in rows.unwrap_or_default().into_iter().zip(0..) {
        let operators = row.owner.as_deref() == Some(rows::OPERATOR);
        object.put(format!("{prefix}{}", row.key), Field { order, operators, ..Field::new(row.value, None) });
    }
    Ok(())
}

/// What the store keeps of a prerequisite.
#[derive(Deserialize)]
struct Definition {
    #[serde(default)]
    chart: Option<String>,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    version: Option<String>,
    #[serde(default)]
    values: Vec<DefinedValue>,
}

#[derive(Deserialize)]
struct DefinedValue {
    key: String,
    value: Value,
}

fn prerequisite(row: &LivePrerequisite, system: Option<&str>) -> Result<Object> {
    let definition = Definition::deserialize(&row.definition).map_err(|error| {
        Problem::internal("seed.live_malformed", "the definition of a prerequisite cannot be read")
            .place(row.name.clone())
            .cause(error)
    })?;
    let mut object = Object::of(system, None);
    object.put("kind", Field::new(row.kind.as_str(), None));
    let texts = [("chart", definition.chart), ("namespace", definition.namespace), ("version", definition.version)];
    for (name, text) in texts {
        object.put_text(name, text.as_deref().unwrap_or_default(), None);
    }
    for (defined, order) in definition.values.into_iter().zip(0..) {
        object.put(format!("{}{}", field::VALUE, defined.key), Field { order, ..Field::new(defined.value, None) });
    }
    Ok(object)
}

/// Where an object of the last seed stands.
pub fn place(at: Option<&Spot>) -> String {
    at.map_or_else(|| "-".to_owned(), ToString::to_string)
}
