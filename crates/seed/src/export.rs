//! A state as the files of a seed: reading them again gives the same state.
//!
//! Texts stand in double quotes, so that none of them is taken for a number; the rest is as the public format has it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::schema::{ContainerKind, Scope, SettingType, Status, ValueType};
use crate::state::{Field, Object, ObjectKind, State, StoredParameter, field};
use crate::versions::VersionOrder;
use crate::{DATA_FILE, ValueSource};

/// The files by name. What only `live` has and no seed ever had is left out, for no seed is to remove it.
pub fn export(live: &State, base: &State) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut out = Out { text: String::new(), live, files: &mut files };
    let mut kept = live.clone();
    kept.objects.retain(|id, _| base.objects.contains_key(id));
    out.containers(&kept);
    out.section(&kept, "datasets", ObjectKind::Dataset, Out::dataset);
    out.section(&kept, "projects", ObjectKind::Project, Out::plain);
    out.section(&kept, "teams", ObjectKind::Team, Out::plain);
    out.people(&kept);
    out.section(&kept, "dynamic_configs", ObjectKind::Setting, Out::setting);
    out.section(&kept, "service_accounts", ObjectKind::ServiceAccount, Out::service_account);
    let text = if out.text.is_empty() { "{}\n".to_owned() } else { out.text };
    files.insert(DATA_FILE.to_owned(), text);
    files
}

struct Out<'a> {
    text: String,
    live: &'a State,
    files: &'a mut BTreeMap<String, String>,
}

/// A text in double quotes: JSON's form is YAML's as well.
fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

fn objects(state: &State, kind: ObjectKind) -> Vec<(&str, &Object)> {
    let of_kind = state.objects.iter().filter(|(id, _)| id.kind == kind);
    let mut found: Vec<(&str, &Object)> = of_kind.map(|(id, object)| (id.name.as_str(), object)).collect();
    found.sort_by_key(|(_, object)| object.order);
    found
}

fn status_code(word: &str) -> i32 {
    let known = [Status::Deleted, Status::Disabled, Status::Enabled];
    known.into_iter().find(|status| status.as_str() == word).map_or(1, Status::code)
}

impl Out<'_> {
    fn line(&mut self, indent: usize, text: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{:indent$}{text}", "").expect("a String takes every text");
    }

    fn text_field(&mut self, indent: usize, object: &Object, name: &str) {
        if let Some(Value::String(text)) = object.fields.get(name).map(|field| &field.value) {
            self.line(indent, format_args!("{name}: {}", quoted(text)));
        }
    }

    fn flag(&mut self, indent: usize, object: &Object, name: &str) {
        if let Some(Value::Bool(flag)) = object.fields.get(name).map(|field| &field.value) {
            self.line(indent, format_args!("{name}: {flag}"));
        }
    }

    fn status(&mut self, indent: usize, object: &Object) {
        if object.fields.contains_key(field::STATUS) {
            self.line(indent, format_args!("status: {}", status_code(object.text(field::STATUS))));
        }
    }

    fn section(&mut self, state: &State, name: &str, kind: ObjectKind, one: fn(&mut Self, &str, &Object)) {
        let found = objects(state, kind);
        if found.is_empty() {
            return;
        }
        self.line(0, format_args!("{name}:"));
        for (name, object) in found {
            one(self, name, object);
        }
    }

    fn plain(&mut self, name: &str, object: &Object) {
        self.line(2, format_args!("- name: {}", quoted(name)));
        self.text_field(4, object, "description");
        self.flag(4, object, "is_public");
        self.status(4, object);
    }

    fn dataset(&mut self, name: &str, object: &Object) {
        self.line(2, format_args!("- name: {}", quoted(name)));
        self.text_field(4, object, "type");
        self.text_field(4, object, "description");
        self.flag(4, object, "is_public");
        self.status(4, object);
        self.line(4, format_args!("versions:"));
        for (version, status) in prefixed(object, "version ") {
            self.line(6, format_args!("- name: {}", quoted(version)));
            self.line(8, format_args!("status: {}", status_code(&status.text())));
        }
    }

    fn service_account(&mut self, name: &str, object: &Object) {
        self.line(2, format_args!("- name: {}", quoted(name)));
        if let Some(scopes) = object.fields.get("scopes") {
            self.line(4, format_args!("scopes: {}", scopes.value));
        }
        self.text_field(4, object, "description");
    }

    fn people(&mut self, state: &State) {
        let is_admin = |object: &Object| object.fields.contains_key("admin");
        let people = objects(state, ObjectKind::User);
        if let Some((name, object)) = people.iter().find(|(_, object)| is_admin(object)) {
            self.line(0, format_args!("admin_user:"));
            self.line(2, format_args!("username: {}", quoted(name)));
            self.person(2, object);
        }
        if people.iter().any(|(_, object)| !is_admin(object)) {
            self.line(0, format_args!("users:"));
        }
        for (name, object) in people.iter().filter(|(_, object)| !is_admin(object)) {
            self.line(2, format_args!("- username: {}", quoted(name)));
            self.person(4, object);
        }
    }

    fn person(&mut self, indent: usize, object: &Object) {
        self.text_field(indent, object, "email");
        self.text_field(indent, object, "full_name");
        self.status(indent, object);
        self.flag(indent, object, "is_active");
        self.memberships(indent, "projects", &prefixed(object, "project "), None);
        let teams: Vec<_> =
            prefixed(object, "team ").into_iter().filter(|(name, _)| !name.contains(" project ")).collect();
        self.memberships(indent, "teams", &teams, Some(object));
    }

    fn memberships(&mut self, indent: usize, key: &str, rows: &[(&str, &Field)], person: Option<&Object>) {
        if rows.is_empty() {
            return;
        }
        self.line(indent, format_args!("{key}:"));
        for (name, role) in rows {
            self.line(indent + 2, format_args!("- name: {}", quoted(name)));
            self.line(indent + 4, format_args!("role: {}", quoted(&role.text())));
            if let Some(person) = person {
                let own = prefixed(person, &format!("team {name} project "));
                self.memberships(indent + 4, "projects", &own, None);
            }
        }
    }

    fn setting(&mut self, name: &str, object: &Object) {
        let word = object.text("value_type");
        let kinds =
            [SettingType::String, SettingType::Bool, SettingType::Int, SettingType::Float, SettingType::StringArray];
        let kind = kinds.into_iter().find(|kind| kind.as_str() == word).map_or(0, SettingType::code);
        let scopes = [Scope::Producer, Scope::Consumer, Scope::Global];
        let scope = scopes.into_iter().find(|scope| scope.as_str() == object.text("scope")).map_or(2, Scope::code);
        self.line(2, format_args!("- key: {}", quoted(name)));
        if let Some(default) = object.fields.get(field::DEFAULT) {
            self.line(4, format_args!("default_value: {}", quoted(&default.text())));
        }
        self.line(4, format_args!("value_type: {kind}"));
        self.line(4, format_args!("scope: {scope}"));
        self.text_field(4, object, "category");
        self.text_field(4, object, "description");
        self.flag(4, object, "is_secret");
        for name in ["min_value", "max_value"] {
            if let Some(bound) = object.fields.get(name) {
                self.line(4, format_args!("{name}: {}", bound.value));
            }
        }
        self.text_field(4, object, "pattern");
        if let Some(options) = object.fields.get("options") {
            self.line(4, format_args!("options: {}", quoted(&options.value.to_string())));
        }
    }

    fn containers(&mut self, state: &State) {
        let found = objects(state, ObjectKind::Container);
        if found.is_empty() {
            return;
        }
        self.line(0, format_args!("containers:"));
        for (name, object) in found {
            let (kind, own) = name.split_once(' ').unwrap_or(("", name));
            let kinds = [ContainerKind::Algorithm, ContainerKind::Benchmark, ContainerKind::Pedestal];
            let code = kinds.into_iter().find(|known| known.as_str() == kind).map_or(0, ContainerKind::code);
            self.line(2, format_args!("- type: {code}"));
            self.line(4, format_args!("name: {}", quoted(own)));
            self.flag(4, object, "is_public");
            self.line(4, format_args!("versions:"));
            self.versions(own, &state.versions(name));
            self.prerequisites(state, own);
        }
    }

    fn versions(&mut self, container: &str, versions: &[(&str, &Object)]) {
        let hashes: Vec<&str> = versions.iter().map(|(_, object)| object.text(field::OVERLAY)).collect();
        // One file for all of them has the name that needs not be said.
        let common = hashes.windows(2).all(|pair| pair[0] == pair[1]);
        for (name, object) in versions {
            self.line(6, format_args!("- name: {}", quoted(name)));
            self.status(8, object);
            self.text_field(8, object, field::GITHUB_LINK);
            self.text_field(8, object, field::IMAGE);
            self.text_field(8, object, field::COMMAND);
            self.parameters(8, "env_vars", 0, &prefixed(object, field::ENV));
            if object.text(field::CHART).is_empty() {
                continue;
            }
            self.line(8, format_args!("helm_config:"));
            self.line(10, format_args!("version: {}", quoted(object.text(field::CHART_VERSION))));
            for name in [field::CHART, field::REPO_NAME, field::REPO_URL] {
                self.text_field(10, object, name);
            }
            self.overlay(container, name, object, common);
            let inherited = inherited(name, versions);
            let own = prefixed(object, field::VALUE);
            let lost = inherited.keys().any(|key| own.iter().all(|(name, _)| name != key));
            if lost {
                self.line(10, format_args!("reset: true"));
            }
            let own: Vec<_> =
                own.into_iter().filter(|(key, field)| lost || inherited.get(key) != Some(&&field.value)).collect();
            self.parameters(10, "values", 1, &own);
        }
    }

    fn overlay(&mut self, container: &str, version: &str, object: &Object, common: bool) {
        let Some(overlay) = self.live.overlays.get(object.text(field::OVERLAY)) else { return };
        let name = if common { format!("{container}.yaml") } else { format!("{container}-{version}.yaml") };
        if !common {
            self.line(10, format_args!("value_file: {}", quoted(&name)));
        }
        self.files.insert(name, overlay.text.clone());
    }

    fn parameters(&mut self, indent: usize, list: &str, category: i32, rows: &[(&str, &Field)]) {
        if rows.is_empty() {
            return;
        }
        self.line(indent, format_args!("{list}:"));
        for (key, field) in rows {
            let Ok(parameter) = serde_json::from_value::<StoredParameter>(field.value.clone()) else { continue };
            self.line(indent + 2, format_args!("- key: {}", quoted(key)));
            let dynamic = matches!(parameter.source, ValueSource::Template(_));
            self.line(indent + 4, format_args!("type: {}", i32::from(dynamic)));
            self.line(indent + 4, format_args!("category: {category}"));
            let kind: ValueType = parameter.value_type;
            self.line(indent + 4, format_args!("value_type: {}", kind.code()));
            match &parameter.source {
                ValueSource::Default(text) => self.line(indent + 4, format_args!("default_value: {}", quoted(text))),
                ValueSource::Template(text) => self.line(indent + 4, format_args!("template_string: {}", quoted(text))),
                ValueSource::Unset => {}
            }
            self.line(indent + 4, format_args!("required: {}", parameter.required));
            self.line(indent + 4, format_args!("overridable: {}", parameter.overridable));
        }
    }

    fn prerequisites(&mut self, state: &State, container: &str) {
        let prefix = format!("{container} ");
        let own = |(name, object)| Some((str::strip_prefix(name, &prefix)?, object));
        let found: Vec<(&str, &Object)> =
            objects(state, ObjectKind::Prerequisite).into_iter().filter_map(own).collect();
        if found.is_empty() {
            return;
        }
        self.line(4, format_args!("prerequisites:"));
        for (name, object) in found {
            self.line(6, format_args!("- name: {}", quoted(name)));
            for name in ["kind", "chart", "namespace", "version"] {
                self.text_field(8, object, name);
            }
            let values = prefixed(object, field::VALUE);
            if !values.is_empty() {
                self.line(8, format_args!("values:"));
            }
            for (key, field) in values {
                self.line(10, format_args!("- key: {}", quoted(key)));
                self.line(12, format_args!("value: {}", quoted(&field.text())));
            }
        }
    }
}

/// Fields whose names start with `prefix`, in their order, by the rest of their names.
fn prefixed<'a>(object: &'a Object, prefix: &str) -> Vec<(&'a str, &'a Field)> {
    let own = object.fields.iter().filter_map(|(name, field)| Some((name.strip_prefix(prefix)?, field)));
    let mut found: Vec<_> = own.collect();
    found.sort_by_key(|(_, field)| field.order);
    found
}

/// What a version has without saying so: the values of the enabled versions below it.
fn inherited<'a>(version: &str, versions: &[(&'a str, &'a Object)]) -> BTreeMap<&'a str, &'a Value> {
    let own = VersionOrder::of(version);
    let mut lower: Vec<_> =
        versions.iter().filter(|(name, object)| object.is_enabled() && VersionOrder::of(name) < own).collect();
    lower.sort_by_key(|(name, _)| VersionOrder::of(name));
    // The next lower one has all that it inherited itself.
    let next = lower.last().map_or_else(Vec::new, |(_, object)| prefixed(object, field::VALUE));
    next.into_iter().map(|(key, field)| (key, &field.value)).collect()
}
