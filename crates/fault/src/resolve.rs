//! From a request to a checked, typed fault.

use std::collections::BTreeMap;

use model::{ErrorKind, Problem, Result, SystemCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use system::SystemData;

use crate::{Capability, Domain, Effect, Target, capability, param, point, target};

/// What a user asks for: one fault on one service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub capability: String,
    pub service: String,
    /// Keys of the capability's [`crate::TargetKind`]; a key may be left out when the others leave one choice.
    #[serde(default)]
    pub target: BTreeMap<String, String>,
    /// Parameters by their exact names; defaults are filled in.
    #[serde(default)]
    pub params: BTreeMap<String, Value>,
}

impl Spec {
    /// A request whose target and parameters come as one list of texts, as on a command line.
    ///
    /// # Errors
    /// `capability.unknown`, `param.unknown`. Values are checked by [`resolve`].
    pub fn from_pairs(
        capability_name: &str,
        service: &str,
        pairs: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self> {
        let row = capability(capability_name)?;
        let mut spec = Self {
            capability: capability_name.to_owned(),
            service: service.to_owned(),
            target: BTreeMap::new(),
            params: BTreeMap::new(),
        };
        for (key, text) in pairs {
            let is_target = |name: &str| {
                row.target.fields().iter().any(|field| field.name == name || field.public_name == Some(name))
            };
            match row.params.iter().find(|param| param.name == key) {
                Some(param) => {
                    let number = matches!(param.domain, Domain::Integer { .. } | Domain::NonZero { .. });
                    let value = text.parse::<i64>().ok().filter(|_| number).map_or(Value::String(text), Value::from);
                    spec.params.insert(key, value);
                }
                None if is_target(&key) => {
                    spec.target.insert(key, text);
                }
                None => return Err(unknown_key(row, &key)),
            }
        }
        Ok(spec)
    }
}

fn unknown_key(row: &Capability, key: &str) -> Problem {
    if let Some(param) = row.params.iter().find(|param| param.public_name == Some(key)) {
        return Problem::unknown("param.unknown", "parameter", key, [param.name])
            .place(row.name)
            .fix(format!("here it is called `{}`", param.name));
    }
    let names = row.params.iter().map(|param| param.name).chain(row.target.fields().iter().map(|field| field.name));
    let names: Vec<&str> = names.collect();
    Problem::unknown("param.unknown", "parameter", key, names).place(row.name)
}

/// A fault that passed every check: what is stored with a run, rendered, simulated and labelled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resolved {
    /// Version of this form; 1.
    pub format: u32,
    /// Stable id of the point: system, service, capability and target, whatever the parameters.
    pub point: String,
    pub system: SystemCode,
    pub target: Target,
    /// The capability (`kind`) with every parameter's effective value.
    pub effect: Effect,
}

impl Resolved {
    const FORMAT: u32 = 1;

    /// The row of the table.
    pub fn capability(&self) -> &'static Capability {
        capability(self.effect.name()).expect("every effect has a row; a test compares both")
    }

    /// The acting service.
    pub fn service(&self) -> &str {
        self.target.service()
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// `fault.format_unknown`, `fault.malformed`.
    pub fn from_value(value: &Value) -> Result<Self> {
        let format = value.get("format").and_then(Value::as_u64);
        if format != Some(u64::from(Self::FORMAT)) {
            return Err(Problem::new(ErrorKind::Invalid, "fault.format_unknown", "a stored fault has another format")
                .found(format.map_or("none".to_owned(), |format| format.to_string()))
                .expected(Self::FORMAT.to_string()));
        }
        Self::deserialize(value).map_err(|error| {
            Problem::new(ErrorKind::Invalid, "fault.malformed", "a stored fault cannot be read")
                .found(error.to_string())
                .cause(error)
        })
    }

    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("the form has text keys and finite numbers only")
    }
}

/// Checks a request against the table and the system's data.
///
/// # Errors
/// `capability.unknown`, `service.*`, `target.*` and the unknown-codes of target keys, `param.*`, and
/// `system.no_simulation_data` where nothing is known about the system's services.
pub fn resolve(spec: &Spec, system: &SystemData) -> Result<Resolved> {
    let row = capability(&spec.capability)?;
    let service = system.service(&spec.service).map_err(|problem| match problem.code.as_ref() {
        "service.unknown" => problem.place("service"),
        _ => problem,
    })?;
    target::require_targetable(service)?;
    let target = target::find(row, system.topology()?, service, &spec.target)?;
    let effect = effect(row, &spec.params)?;
    if let Some(check) = row.check {
        check(&target, &effect)?;
    }
    let point = point::id(system.code(), row.name, &target);
    Ok(Resolved { format: Resolved::FORMAT, point, system: system.code().clone(), target, effect })
}

fn effect(row: &Capability, given: &BTreeMap<String, Value>) -> Result<Effect> {
    let mut values = param::effective(row, given)?;
    values.insert("kind".to_owned(), json!(row.name));
    serde_json::from_value(Value::Object(values)).map_err(|error| {
        Problem::internal("fault.table_inconsistent", "a row's parameters and its effect differ").cause(error)
    })
}
