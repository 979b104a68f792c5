//! From the public guided form of a fault to ours.

use api::submit::FaultRequest;
use model::{ErrorKind, Problem, Result};
use serde_json::{Map, Value};

/// What the guided form says beside target and parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Guided {
    /// Short code of the system.
    pub system: String,
    /// Number of the slot that the namespace names, if it names one.
    pub slot: Option<u32>,
    /// Length of the abnormal window in minutes, if it is given.
    pub minutes: Option<i64>,
    pub fault: FaultRequest,
}

/// Keys that are about the run, not about the fault.
const AROUND: &[&str] =
    &["system", "system_type", "namespace", "app", "chaos_type", "duration", "auto", "allow_bootstrap"];

/// Keys of the guided form whose parameters are called otherwise here, by name; the first that the capability has is meant.
const OTHER_NAMES: &[(&str, &[&str])] = &[
    ("cpu_load", &["load_pct"]),
    ("cpu_worker", &["workers"]),
    ("mem_worker", &["workers"]),
    ("memory_size", &["size_mib"]),
    ("correlation", &["correlation_pct"]),
    ("delay_duration", &["delay_ms"]),
    ("rate", &["rate_kbytes_per_s"]),
    ("database", &["database"]),
    ("table", &["table"]),
    ("operation", &["operation"]),
];

/// One fault of a batch.
///
/// # Errors
/// `guided.key_missing`, `guided.chaos_type_unknown`, `guided.key_has_no_effect`, `guided.namespace_malformed`,
/// `guided.wrong_type`.
pub fn read(spec: &Map<String, Value>) -> Result<Guided> {
    let namespace = text(spec, "namespace")?;
    let system = match text(spec, "system_type")? {
        Some(code) => code.to_owned(),
        None => code_of(text(spec, "system")?.or(namespace).ok_or_else(|| missing("system_type"))?).to_owned(),
    };
    let app = text(spec, "app")?.ok_or_else(|| missing("app"))?;
    let chaos_type = text(spec, "chaos_type")?.ok_or_else(|| missing("chaos_type"))?;
    let capability = ::fault::capabilities()
        .iter()
        .find(|row| row.chaos_type == chaos_type || row.name == chaos_type)
        .ok_or_else(|| {
            let known = ::fault::capabilities().iter().map(|row| row.chaos_type);
            let mut problem = Problem::unknown("guided.chaos_type_unknown", "fault type", chaos_type, known);
            problem.kind = ErrorKind::Invalid;
            problem.place("chaos_type")
        })?;
    let mut fault =
        FaultRequest { service: app.to_owned(), capability: capability.name.to_owned(), ..FaultRequest::default() };
    for (key, value) in spec.iter().filter(|(key, value)| !AROUND.contains(&key.as_str()) && is_given(value)) {
        place(capability, &mut fault, key, value)?;
    }
    Ok(Guided { slot: slot(namespace, &system)?, system, minutes: whole(spec, "duration")?, fault })
}

/// Puts a key of the guided form where the capability has it.
fn place(row: &::fault::Capability, fault: &mut FaultRequest, key: &str, value: &Value) -> Result<()> {
    let others = OTHER_NAMES.iter().find(|(other, _)| *other == key).map_or(&[][..], |(_, names)| names);
    let target = row.target.fields().iter();
    // In an HTTP fault `method` is the guided form's `http_method`; a JVM fault's `method` is its own.
    let field = target.clone().find(|field| field.public_name == Some(key)).or_else(|| {
        target.clone().find(|field| field.name == key && field.public_name.is_none() || others.contains(&field.name))
    });
    if let Some(field) = field {
        fault.target.insert(field.name.to_owned(), value.clone());
        return Ok(());
    }
    let params = row.params.iter();
    let param = params
        .clone()
        .find(|param| param.public_name == Some(key))
        .or_else(|| params.clone().find(|param| param.name == key || others.contains(&param.name)));
    if let Some(param) = param {
        fault.params.insert(param.name.to_owned(), value.clone());
        return Ok(());
    }
    // The walker of the guided form sends this one whatever the fault.
    if key == "time_offset" && value == &Value::from(0) {
        return Ok(());
    }
    let fields = row.target.fields().iter().map(|field| field.public_name.unwrap_or(field.name));
    let names: Vec<&str> =
        fields.chain(row.params.iter().map(|param| param.public_name.unwrap_or(param.name))).collect();
    Err(Problem::new(ErrorKind::Invalid, "guided.key_has_no_effect", "the fault has no such target or parameter")
        .place(key)
        .found(format!("`{key}` in a {}", row.chaos_type))
        .expected(names.join(", ")))
}

/// Clients leave keys out, or send them empty.
fn is_given(value: &Value) -> bool {
    !(value.is_null() || value.as_str() == Some(""))
}

fn missing(key: &str) -> Problem {
    Problem::new(ErrorKind::Invalid, "guided.key_missing", "the fault lacks a key").place(key)
}

fn wrong_type(key: &str, value: &Value, expected: &str) -> Problem {
    Problem::new(ErrorKind::Invalid, "guided.wrong_type", "a value has the wrong type")
        .place(key)
        .found(value.to_string())
        .expected(expected)
}

fn text<'a>(spec: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>> {
    match spec.get(key).filter(|value| is_given(value)) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(wrong_type(key, other, "text")),
    }
}

fn whole(spec: &Map<String, Value>, key: &str) -> Result<Option<i64>> {
    match spec.get(key).filter(|value| is_given(value)) {
        None => Ok(None),
        Some(value) => value.as_i64().map(Some).ok_or_else(|| wrong_type(key, value, "a whole number")),
    }
}

/// A system's code, or the namespace of one of its slots without the number.
fn code_of(text: &str) -> &str {
    text.trim_end_matches(|c: char| c.is_ascii_digit())
}

fn slot(namespace: Option<&str>, system: &str) -> Result<Option<u32>> {
    let Some(namespace) = namespace.filter(|namespace| *namespace != system) else { return Ok(None) };
    let number = namespace.strip_prefix(system).and_then(|number| number.parse().ok());
    number.map(Some).ok_or_else(|| {
        Problem::new(ErrorKind::Invalid, "guided.namespace_malformed", "the namespace is no slot of the system")
            .place("namespace")
            .found(format!("`{namespace}`"))
            .expected(format!("`{system}` and a number"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn given(value: Value) -> Result<Guided> {
        read(value.as_object().unwrap())
    }

    #[test]
    fn the_public_form_of_a_fault_becomes_ours() {
        let delay = given(json!({
            "system": "otel-demo0", "system_type": "otel-demo", "namespace": "otel-demo0", "app": "cart",
            "chaos_type": "NetworkDelay", "target_service": "valkey-cart", "direction": "to", "latency": 500, "jitter": 5,
            "correlation": 0, "duration": 4, "time_offset": 0, "loss": null, "container": "",
        }))
        .unwrap();
        assert_eq!((delay.system.as_str(), delay.slot, delay.minutes), ("otel-demo", Some(0), Some(4)));
        assert_eq!((delay.fault.service.as_str(), delay.fault.capability.as_str()), ("cart", "network_delay"));
        assert_eq!(Value::from(delay.fault.target), json!({"target_service": "valkey-cart", "direction": "to"}));
        assert_eq!(Value::from(delay.fault.params), json!({"latency_ms": 500, "jitter_ms": 5, "correlation_pct": 0}));
        let http = given(json!({
            "system": "ts1", "app": "ts-order-service", "chaos_type": "HTTPRequestDelay", "http_method": "GET",
            "route": "/api", "delay_duration": 900,
        }))
        .unwrap();
        assert_eq!((http.system.as_str(), http.slot), ("ts", None));
        assert_eq!(Value::from(http.fault.target), json!({"method": "GET", "path": "/api"}));
        assert_eq!(Value::from(http.fault.params), json!({"delay_ms": 900}));
        let stress =
            given(json!({"system": "ts", "app": "a", "chaos_type": "CPUStress", "cpu_load": 90, "cpu_worker": 2}));
        assert_eq!(Value::from(stress.unwrap().fault.params), json!({"load_pct": 90, "workers": 2}));
    }

    #[test]
    fn what_would_have_no_effect_is_refused() {
        let code = |value| given(value).unwrap_err().code.into_owned();
        let base = json!({"system": "ts0", "namespace": "ts0", "app": "a", "chaos_type": "PodKill"});
        let with = |key: &str, value: Value| {
            let mut spec = base.clone();
            spec[key] = value;
            spec
        };
        assert_eq!(code(with("latency", json!(5))), "guided.key_has_no_effect");
        assert_eq!(code(with("time_offset", json!(5))), "guided.key_has_no_effect");
        assert_eq!(code(with("chaos_type", json!("PodKil"))), "guided.chaos_type_unknown");
        assert_eq!(code(with("app", json!(""))), "guided.key_missing");
        assert_eq!(code(with("duration", json!("4m"))), "guided.wrong_type");
        assert_eq!(code(with("namespace", json!("hs0"))), "guided.namespace_malformed");
        assert_eq!(given(base.clone()).unwrap().slot, Some(0));
    }
}
