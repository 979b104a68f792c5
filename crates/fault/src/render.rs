//! The Chaos Mesh object of a fault.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::Result;
use serde_json::{Map, Value, json};
use system::SystemData;

use crate::{Field, Form, Length, Mode, Resolved, SqlVerb, Target};

/// The object as it is applied to a cluster.
///
/// `labels` are the caller's (run and injection id); `length` is the abnormal window, written for faults that last.
///
/// # Errors
/// `service.unknown`, `system.no_simulation_data` when the data no longer fits a stored fault.
pub fn render(
    fault: &Resolved,
    system: &SystemData,
    namespace: &str,
    name: &str,
    labels: &BTreeMap<String, String>,
    length: Duration,
) -> Result<Value> {
    let row = fault.capability();
    let mut spec = Map::new();
    if let Some(action) = row.object.action {
        spec.insert("action".to_owned(), json!(action));
    }
    spec.insert("mode".to_owned(), json!(mode(row.object.mode)));
    spec.insert("selector".to_owned(), selector(system, fault.service(), namespace)?);
    add_target(&mut spec, fault, system, namespace)?;
    let params = serde_json::to_value(&fault.effect).expect("an effect has text keys and finite numbers only");
    for field in row.object.fields {
        if let Some(value) = field_value(field, &params) {
            insert_at(&mut spec, field.path, value);
        }
    }
    if row.length == Length::Window {
        spec.insert("duration".to_owned(), json!(format!("{}s", length.as_secs())));
    }
    Ok(json!({
        "apiVersion": "chaos-mesh.org/v1alpha1",
        "kind": row.object.kind,
        "metadata": { "name": name, "namespace": namespace, "labels": labels },
        "spec": spec,
    }))
}

const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::One => "one",
        Mode::All => "all",
    }
}

/// Selects the service's pods by the system's label key, in this namespace only.
fn selector(system: &SystemData, service: &str, namespace: &str) -> Result<Value> {
    let label = system.service(service)?.label();
    Ok(json!({
        "namespaces": [namespace],
        "labelSelectors": { system.registration.app_label_key.as_str(): label },
    }))
}

/// What the target adds to `spec`, equal for all kinds with such a target.
fn add_target(spec: &mut Map<String, Value>, fault: &Resolved, system: &SystemData, namespace: &str) -> Result<()> {
    let mut put = |key: &str, value: Value| {
        spec.insert(key.to_owned(), value);
    };
    match &fault.target {
        Target::Service { .. } => {}
        Target::Container { container, .. } => put("containerNames", json!([container])),
        Target::Link { target, .. } => {
            put("direction", json!("to"));
            put("target", json!({ "mode": "all", "selector": selector(system, target, namespace)? }));
        }
        Target::Http { method, path, port, .. } => {
            put("port", json!(port));
            put("method", json!(method));
            put("path", json!(path.as_str()));
        }
        // Resolvers try the search list, so the name is asked for in both forms.
        Target::Dns { domain, .. } => {
            put("patterns", json!([domain, format!("{domain}.{namespace}.svc.cluster.local")]));
        }
        Target::JvmMethod { class, method, .. } => {
            put("class", json!(class));
            put("method", json!(method));
        }
        Target::Table { database, table, operation, .. } => {
            put("database", json!(database));
            put("table", json!(table));
            // Every kind of statement is meant by leaving the field out; the word `all` would match none.
            if *operation != SqlVerb::All {
                put("sqlType", json!(operation.as_str()));
            }
        }
    }
    Ok(())
}

fn field_value(field: &Field, params: &Value) -> Option<Value> {
    let param = |name: &str| params.get(name).filter(|value| !value.is_null());
    match field.form {
        Form::Text(template) => Some(json!(fill(template, params))),
        Form::Value(name) => param(name).cloned(),
        Form::Base64(name) => Some(json!(STANDARD.encode(param(name)?.as_str()?))),
        Form::Mapped(name, choices) => {
            let choice = param(name)?.as_str()?;
            choices.iter().find(|(from, _)| *from == choice).map(|(_, to)| json!(to))
        }
        Form::Number(number) => Some(json!(number)),
        Form::True => Some(json!(true)),
    }
}

/// Replaces each `{name}` by the parameter.
fn fill(template: &str, params: &Value) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, behind) = after.split_once('}').unwrap_or((after, ""));
        text.push_str(before);
        match &params[name] {
            Value::String(value) => text.push_str(value),
            value => text.push_str(&value.to_string()),
        }
        rest = behind;
    }
    text.push_str(rest);
    text
}

/// Puts a value at a dotted path, making the maps on the way.
fn insert_at(spec: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            spec.insert(path.to_owned(), value);
        }
        Some((first, rest)) => {
            let inner = spec.entry(first.to_owned()).or_insert_with(|| json!({}));
            if let Value::Object(inner) = inner {
                insert_at(inner, rest, value);
            }
        }
    }
}
