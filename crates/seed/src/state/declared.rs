//! The desired state: a checked seed as objects.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{Field, Object, ObjectKind, State, StoredParameter, field};
use crate::schema::{
    Container, ContainerKind, ContainerVersion, Dataset, DynamicConfig, Prerequisite, Scopes, ServiceAccount, Status,
    Team, User,
};
use crate::system::system_of;
use crate::{Checked, CheckedSystem, ContainerSeed, Located, Parameter, Seed, Spot, SystemSeed, VersionSeed};

impl SystemSeed {
    /// What the registration of this system alone declares: the system, and the containers that it uses.
    pub fn state(&self, seed: &Seed) -> State {
        let containers = std::iter::once(self.pedestal.clone())
            .chain(std::iter::once(self.benchmark.container.clone()))
            .chain(self.algorithms.iter().cloned());
        let system = CheckedSystem {
            code: self.code.clone(),
            keys: self.keys.clone(),
            benchmark: self.benchmark.container.name.clone(),
            at: self.pedestal.at.clone(),
        };
        let checked = Checked { containers: containers.collect(), systems: vec![system], warnings: Vec::new() };
        let mut state = checked.state(seed);
        state.objects.retain(|id, object| {
            object.system.as_deref() == Some(self.code.as_str())
                || matches!(id.kind, ObjectKind::Container | ObjectKind::Version)
        });
        state
    }
}

impl Checked {
    /// Everything that the seed declares.
    pub fn state(&self, seed: &Seed) -> State {
        let mut state = State::default();
        for row in &seed.document.dynamic_configs {
            state.insert(ObjectKind::Setting, row.key.value.clone(), setting(row));
        }
        self.systems(&mut state);
        let owners: HashMap<&str, &str> =
            self.systems.iter().map(|system| (system.benchmark.as_str(), system.code.as_str())).collect();
        let rows: HashMap<(ContainerKind, &str), &Container> =
            seed.document.containers.iter().map(|row| ((row.kind.value, row.name.as_str()), row)).collect();
        for seeded in &self.containers {
            let Some(row) = rows.get(&(seeded.kind, seeded.name.as_str())) else { continue };
            let system = match seeded.kind {
                ContainerKind::Pedestal => Some(seeded.name.as_str()),
                ContainerKind::Benchmark => own_benchmark(seeded, &owners),
                ContainerKind::Algorithm => None,
            };
            container(seeded, row, system, &mut state);
        }
        for row in &seed.document.containers {
            for prerequisite in row.prerequisites.iter().filter(|_| row.is_enabled()) {
                let name = format!("{} {}", *row.name, *prerequisite.name);
                state.insert(ObjectKind::Prerequisite, name, prerequisite_object(prerequisite, &row.name));
            }
        }
        directory(seed, &mut state);
        state
    }

    fn systems(&self, state: &mut State) {
        for system in &self.systems {
            let (code, keys, at) = (system.code.as_str(), &system.keys, Some(&system.at));
            let mut object = Object::of(Some(code), at);
            for (name, value) in [
                ("display_name", json!(keys.display_name)),
                ("ns_pattern", json!(keys.ns_pattern)),
                ("extract_pattern", json!(keys.extract_pattern)),
                ("app_label_key", json!(keys.app_label_key)),
                ("count", json!(keys.count)),
                ("is_builtin", json!(keys.is_builtin)),
            ] {
                let row = state.get(ObjectKind::Setting, &format!("{}{code}.{name}", crate::system::PREFIX));
                let at = row.and_then(|row| row.fields.get(field::DEFAULT)?.at.clone());
                object.put(name, Field { at, ..Field::new(value, None) });
            }
            state.insert(ObjectKind::System, code, object);
        }
    }
}

/// The system that a benchmark serves alone.
fn own_benchmark<'a>(benchmark: &'a ContainerSeed, owners: &HashMap<&str, &'a str>) -> Option<&'a str> {
    let code = owners.get(benchmark.name.as_str())?;
    let own = benchmark.name.strip_suffix("-bench") == Some(*code);
    own.then_some(*code)
}

fn setting(row: &DynamicConfig) -> Object {
    let mut object = Object::of(system_of(&row.key), Some(&row.at));
    if let Some(default) = &row.default_value {
        let secret = row.is_secret();
        object.put(field::DEFAULT, Field { secret, ..Field::new(default.value.as_str(), Some(&default.at)) });
    }
    object.put("value_type", Field::new(row.value_type.as_str(), Some(&row.value_type.at)));
    object.put("scope", Field::new(row.scope.as_str(), Some(&row.scope.at)));
    put(&mut object, "category", row.category.as_ref());
    put(&mut object, "description", row.description.as_ref());
    put(&mut object, "pattern", row.pattern.as_ref());
    if row.is_secret() {
        object.put("is_secret", Field::new(true, row.is_secret.as_ref().map(|flag| &flag.at)));
    }
    for (name, bound) in [("min_value", &row.min_value), ("max_value", &row.max_value)] {
        if let Some(bound) = bound {
            object.put(name, Field::new(bound.value, Some(&bound.at)));
        }
    }
    if let Some(options) = row.options.as_ref().filter(|options| !options.is_empty()) {
        let list: Vec<Value> = serde_json::from_str(options).expect("a seed's options are checked to be a list");
        let texts: Vec<String> =
            list.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned)).collect();
        if !texts.is_empty() {
            object.put("options", Field::new(texts, Some(&options.at)));
        }
    }
    object
}

/// `row` is what `seeded` was made from: it knows the place of each value.
fn container(seeded: &ContainerSeed, row: &Container, system: Option<&str>, state: &mut State) {
    let name = format!("{} {}", seeded.kind, seeded.name);
    let mut object = Object::of(system, Some(&seeded.at));
    object.put("is_public", Field::new(seeded.is_public, Some(&seeded.at)));
    for ((version, row), order) in seeded.versions.iter().zip(&row.versions).zip(0..) {
        if version.status == Status::Deleted {
            continue;
        }
        let object = Object { order, ..version_object(version, row, system) };
        state.insert(ObjectKind::Version, format!("{name} {}", version.name), object);
        if let Some(overlay) = version.revision.as_ref().and_then(|revision| revision.overlay.as_ref()) {
            state.overlays.insert(overlay.sha256.clone(), overlay.clone());
        }
    }
    state.insert(ObjectKind::Container, name, object);
}

fn version_object(version: &VersionSeed, row: &ContainerVersion, system: Option<&str>) -> Object {
    let mut object = Object::of(system, Some(&version.at));
    let status = row.status.as_ref().map_or(&row.name.at, |status| &status.at);
    object.put(field::STATUS, Field::new(version.status.as_str(), Some(status)));
    put(&mut object, field::GITHUB_LINK, row.github_link.as_ref());
    if version.image.is_some() {
        put(&mut object, field::IMAGE, row.image_ref.as_ref());
        put(&mut object, field::COMMAND, row.command.as_ref());
    }
    list(&mut object, field::ENV, &version.environment, &version.name);
    let (Some(revision), Some(helm)) = (&version.revision, &row.helm_config) else { return object };
    put(&mut object, field::CHART, Some(&helm.chart_name));
    put(&mut object, field::CHART_VERSION, Some(&helm.version));
    put(&mut object, field::REPO_URL, helm.repo_url.as_ref());
    put(&mut object, field::REPO_NAME, helm.repo_name.as_ref());
    list(&mut object, field::VALUE, &revision.parameters, &version.name);
    if let Some(overlay) = &revision.overlay {
        object.put(field::OVERLAY, Field::new(overlay.sha256.as_str(), Some(&Spot::whole(&overlay.file))));
    }
    object
}

fn list(object: &mut Object, prefix: &str, parameters: &[Parameter], own: &str) {
    for (order, parameter) in (0..).zip(parameters) {
        let from = (parameter.version != own).then(|| parameter.version.clone());
        let value = parameter_value(parameter);
        object.put(
            format!("{prefix}{}", parameter.key),
            Field { from, order, secret: looks_secret(&parameter.key), ..Field::new(value, Some(&parameter.at)) },
        );
    }
}

/// What of a parameter counts when two of them are compared.
pub fn parameter_value(parameter: &Parameter) -> Value {
    let stored = StoredParameter {
        value_type: parameter.value_type,
        source: parameter.source.clone(),
        required: parameter.required,
        overridable: parameter.overridable,
    };
    serde_json::to_value(stored).expect("a parameter has only text keys")
}

/// Whether a key names a secret, so that its value is not shown. Charts do not say which of their values are.
pub fn looks_secret(key: &str) -> bool {
    const WORDS: [&str; 6] = ["password", "passwd", "secret", "token", "credential", "apikey"];
    let last = key.rsplit('.').next().unwrap_or(key).to_ascii_lowercase().replace(['_', '-'], "");
    WORDS.iter().any(|word| last.ends_with(word))
}

fn prerequisite_object(row: &Prerequisite, system: &str) -> Object {
    let mut object = Object::of(Some(system), Some(&row.at));
    object.put("kind", Field::new(row.kind.as_str(), Some(&row.kind.at)));
    put(&mut object, "chart", row.chart.as_ref());
    put(&mut object, "namespace", row.namespace.as_ref());
    put(&mut object, "version", row.version.as_ref());
    for (order, value) in (0..).zip(&row.values) {
        let field = Field {
            order,
            secret: looks_secret(&value.key),
            ..Field::new(value.value.as_str(), Some(&value.value.at))
        };
        object.put(format!("{}{}", field::VALUE, *value.key), field);
    }
    object
}

fn put(object: &mut Object, name: &str, text: Option<&Located<String>>) {
    if let Some(text) = text {
        object.put_text(name, text, Some(&text.at));
    }
}

fn put_status(object: &mut Object, status: Option<&Located<Status>>) {
    if let Some(status) = status.filter(|status| status.value != Status::Enabled) {
        object.put(field::STATUS, Field::new(status.as_str(), Some(&status.at)));
    }
}

fn put_public(object: &mut Object, flag: Option<&Located<bool>>) {
    if let Some(flag) = flag.filter(|flag| flag.value) {
        object.put("is_public", Field::new(true, Some(&flag.at)));
    }
}

/// People, what they own, and data sets.
fn directory(seed: &Seed, state: &mut State) {
    let document = &seed.document;
    for row in &document.projects {
        let mut object = Object::of(None, Some(&row.at));
        put(&mut object, "description", row.description.as_ref());
        put_status(&mut object, row.status.as_ref());
        state.insert(ObjectKind::Project, row.name.value.clone(), object);
    }
    for row in &document.teams {
        state.insert(ObjectKind::Team, row.name.value.clone(), team(row));
    }
    if let Some(row) = &document.admin_user {
        state.insert(ObjectKind::User, row.username.value.clone(), user(row, true));
    }
    for row in &document.users {
        state.insert(ObjectKind::User, row.username.value.clone(), user(row, false));
    }
    for row in &document.service_accounts {
        state.insert(ObjectKind::ServiceAccount, row.name.value.clone(), service_account(row));
    }
    for row in &document.datasets {
        state.insert(ObjectKind::Dataset, row.name.value.clone(), dataset(row));
    }
}

fn team(row: &Team) -> Object {
    let mut object = Object::of(None, Some(&row.at));
    put(&mut object, "description", row.description.as_ref());
    put_public(&mut object, row.is_public.as_ref());
    put_status(&mut object, row.status.as_ref());
    object
}

fn user(row: &User, admin: bool) -> Object {
    let mut object = Object::of(None, Some(&row.at));
    object.put("email", Field::new(row.email.as_str(), Some(&row.email.at)));
    put(&mut object, "full_name", row.full_name.as_ref());
    put_status(&mut object, row.status.as_ref());
    if let Some(active) = row.is_active.as_ref().filter(|active| !active.value) {
        object.put("is_active", Field::new(false, Some(&active.at)));
    }
    if admin {
        object.put("admin", Field::new(true, Some(&row.at)));
    }
    for membership in &row.projects {
        let role = Field::new(membership.role.as_str(), Some(&membership.role.at));
        object.put(format!("project {}", *membership.name), role);
    }
    for membership in &row.teams {
        let role = Field::new(membership.role.as_str(), Some(&membership.role.at));
        object.put(format!("team {}", *membership.name), role);
        for project in &membership.projects {
            let role = Field::new(project.role.as_str(), Some(&project.role.at));
            object.put(format!("team {} project {}", *membership.name, *project.name), role);
        }
    }
    object
}

fn service_account(row: &ServiceAccount) -> Object {
    let mut object = Object::of(None, Some(&row.at));
    put(&mut object, "description", row.description.as_ref());
    if let Some(scopes) = &row.scopes {
        let at = match scopes {
            Scopes::List(items) => items.first().map(|item| &item.at),
            Scopes::Text(text) => Some(&text.at),
        };
        let names: Vec<String> = scopes.names().into_iter().map(str::to_owned).collect();
        object.put("scopes", Field::new(names, at));
    }
    object
}

fn dataset(row: &Dataset) -> Object {
    let mut object = Object::of(None, Some(&row.at));
    object.put("type", Field::new(row.kind.as_str(), Some(&row.kind.at)));
    put(&mut object, "description", row.description.as_ref());
    put_public(&mut object, row.is_public.as_ref());
    put_status(&mut object, row.status.as_ref());
    for version in &row.versions {
        let status = version.status.as_ref().map_or(Status::Enabled, |status| status.value);
        object.put(format!("version {}", *version.name), Field::new(status.as_str(), Some(&version.name.at)));
    }
    object
}
