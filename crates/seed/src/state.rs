//! What a seed declares, and what an installation has of it, in one form: objects with fields. Two of them are compared
//! field by field, whatever they were made from.

mod declared;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

pub use declared::{looks_secret, parameter_value};

use crate::schema::ValueType;
use crate::{Chart, Overlay, Parameter, Revision, Spot, ValueSource, digest};

/// Kinds of objects, in the order in which they are written: what others refer to comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    Project,
    Team,
    User,
    ServiceAccount,
    Dataset,
    Setting,
    System,
    Container,
    Version,
    Prerequisite,
}

/// Which object. The name of a version is `pedestal ts 1.0.0`, of a prerequisite `ts coherence-operator`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectId {
    pub kind: ObjectKind,
    pub name: String,
}

/// One field of an object: a value that may change by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Field {
    #[serde(rename = "v")]
    pub value: Value,
    #[serde(rename = "at", default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Spot>,
    /// Never shown.
    #[serde(rename = "s", default, skip_serializing_if = "is_false")]
    pub secret: bool,
    /// The lower version that an inherited value stands in.
    #[serde(rename = "from", default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Place in the object's list, where the order of a list counts.
    #[serde(rename = "o", default, skip_serializing_if = "is_zero")]
    pub order: u32,
    /// A person set it at run time.
    #[serde(skip)]
    pub operators: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Field {
    pub fn new(value: impl Into<Value>, at: Option<&Spot>) -> Self {
        Self { value: value.into(), at: at.cloned(), secret: false, from: None, order: 0, operators: false }
    }

    /// A text as it is, anything else as JSON.
    pub fn text(&self) -> Cow<'_, str> {
        match &self.value {
            Value::String(text) => Cow::Borrowed(text),
            other => Cow::Owned(other.to_string()),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Object {
    /// The system that it belongs to; `None` for what belongs to all.
    pub system: Option<String>,
    pub at: Option<Spot>,
    /// Place among the objects of its kind. The later one of versions of equal order is the newer.
    #[serde(rename = "o", default)]
    pub order: u32,
    pub fields: BTreeMap<String, Field>,
}

impl Object {
    pub fn of(system: Option<&str>, at: Option<&Spot>) -> Self {
        Self { system: system.map(str::to_owned), at: at.cloned(), order: 0, fields: BTreeMap::new() }
    }

    pub fn put(&mut self, name: impl Into<String>, field: Field) {
        self.fields.insert(name.into(), field);
    }

    /// Puts a text unless it is empty.
    pub fn put_text(&mut self, name: &str, text: &str, at: Option<&Spot>) {
        if !text.is_empty() {
            self.put(name, Field::new(text, at));
        }
    }

    pub fn text(&self, field: &str) -> &str {
        self.fields.get(field).and_then(|field| field.value.as_str()).unwrap_or_default()
    }

    /// Whether a version may be used by runs.
    pub fn is_enabled(&self) -> bool {
        self.text(field::STATUS) == "enabled"
    }
}

/// Names of fields that more than one file knows.
pub mod field {
    /// What a setting is to be.
    pub const DEFAULT: &str = "default";
    pub const STATUS: &str = "status";
    pub const IMAGE: &str = "image_ref";
    pub const COMMAND: &str = "command";
    pub const GITHUB_LINK: &str = "github_link";
    pub const CHART: &str = "chart_name";
    pub const CHART_VERSION: &str = "chart_version";
    pub const REPO_URL: &str = "repo_url";
    pub const REPO_NAME: &str = "repo_name";
    /// SHA-256 of the values file.
    pub const OVERLAY: &str = "overlay";
    /// Before the key of a Helm value.
    pub const VALUE: &str = "value ";
    /// Before the name of an environment variable.
    pub const ENV: &str = "env ";
    /// What a version's name stands for.
    pub const FIXED: [&str; 6] = [IMAGE, COMMAND, CHART, CHART_VERSION, REPO_URL, REPO_NAME];
}

/// Everything at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    pub objects: BTreeMap<ObjectId, Object>,
    /// Values files by their SHA-256.
    pub overlays: BTreeMap<String, Overlay>,
}

impl State {
    pub fn insert(&mut self, kind: ObjectKind, name: impl Into<String>, object: Object) {
        self.objects.insert(ObjectId { kind, name: name.into() }, object);
    }

    pub fn get(&self, kind: ObjectKind, name: &str) -> Option<&Object> {
        self.objects.get(&ObjectId { kind, name: name.to_owned() })
    }

    /// What belongs to one system alone.
    pub fn of_system(mut self, code: &str) -> Self {
        self.objects.retain(|_, object| object.system.as_deref() == Some(code));
        self
    }

    /// SHA-256 over what is declared. Places in files do not count; owners of values do.
    pub fn digest(&self) -> String {
        let objects: Vec<Value> = self
            .objects
            .iter()
            .map(|(id, object)| {
                let fields: BTreeMap<&str, Value> = object
                    .fields
                    .iter()
                    .map(|(name, field)| (name.as_str(), json!([field.value, field.operators])))
                    .collect();
                json!([id.kind, id.name, fields])
            })
            .collect();
        digest::of_value(&json!({"format": 1, "objects": objects}))
    }

    /// The versions of a container (`pedestal ts`), oldest first.
    pub fn versions(&self, container: &str) -> Vec<(&str, &Object)> {
        let prefix = format!("{container} ");
        let first = ObjectId { kind: ObjectKind::Version, name: prefix.clone() };
        let mut found: Vec<(&str, &Object)> = self
            .objects
            .range(first..)
            .take_while(|(id, _)| id.kind == ObjectKind::Version && id.name.starts_with(&prefix))
            .map(|(id, object)| (&id.name[prefix.len()..], object))
            .collect();
        found.sort_by_key(|(_, object)| object.order);
        found
    }

    /// The versions of a system's pedestal, oldest first.
    pub fn pedestals(&self, code: &str) -> Vec<(&str, &Object)> {
        self.versions(&format!("pedestal {code}"))
    }

    /// What a version installs; `None` when it has no chart, or a values file that is not at hand.
    pub fn revision(&self, version: &str, object: &Object) -> Option<Revision> {
        let name = object.text(field::CHART);
        if name.is_empty() {
            return None;
        }
        let overlay = match object.text(field::OVERLAY) {
            "" => None,
            hash => Some(self.overlays.get(hash)?.clone()),
        };
        Some(Revision {
            version: version.to_owned(),
            github_link: object.text(field::GITHUB_LINK).to_owned(),
            chart: Chart {
                name: name.to_owned(),
                version: object.text(field::CHART_VERSION).to_owned(),
                repo_url: object.text(field::REPO_URL).to_owned(),
                repo_name: object.text(field::REPO_NAME).to_owned(),
            },
            parameters: parameters(version, object, field::VALUE)?,
            overlay,
        })
    }
}

/// The parameters of one list of a version, in the order of the list.
pub fn parameters(version: &str, object: &Object, list: &str) -> Option<Vec<Parameter>> {
    let mut found = Vec::new();
    for (name, field) in &object.fields {
        let Some(key) = name.strip_prefix(list) else { continue };
        let stored: StoredParameter = serde_json::from_value(field.value.clone()).ok()?;
        let at = field.at.clone().unwrap_or_else(|| Spot::whole("installation"));
        found.push((field.order, stored.parameter(key, field.from.as_deref().unwrap_or(version), at)));
    }
    found.sort_by_key(|(order, _)| *order);
    Some(found.into_iter().map(|(_, parameter)| parameter).collect())
}

/// What of a parameter is a field's value.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredParameter {
    pub value_type: ValueType,
    pub source: ValueSource,
    pub required: bool,
    pub overridable: bool,
}

impl StoredParameter {
    fn parameter(self, key: &str, version: &str, at: Spot) -> Parameter {
        let Self { value_type, source, required, overridable } = self;
        Parameter { key: key.to_owned(), value_type, source, required, overridable, version: version.to_owned(), at }
    }

    /// As a plan shows it.
    pub fn words(&self) -> String {
        let mut text = match &self.source {
            ValueSource::Default(text) if self.value_type == ValueType::String => format!("{text:?}"),
            ValueSource::Default(text) => text.clone(),
            ValueSource::Template(text) => format!("template {text:?}"),
            ValueSource::Unset => "no value".to_owned(),
        };
        if !matches!(self.value_type, ValueType::String) {
            text.push_str(&format!(" ({})", self.value_type));
        }
        if self.required {
            text.push_str(", required");
        }
        if !self.overridable {
            text.push_str(", not settable by runs");
        }
        text
    }
}
