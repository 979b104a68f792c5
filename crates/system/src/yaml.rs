//! The YAML form of a system's files and its translation into typed lists.

use std::collections::BTreeMap;

use model::{ErrorKind, Problem, nearest};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use crate::spot::{Node, Step};
use crate::topology::Parts;
use crate::{Call, Endpoint, Method, PathPattern, Phase, Protocol, Retry, Rpc, Service, Statement, StoreSystem};

/// Reads one document; unknown and duplicate keys are errors. Where a key is unknown, all of them are told.
///
/// # Errors
/// `system.file_malformed`, `system.key_unknown`, naming file, line and column.
pub(crate) fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, Vec<Problem>> {
    serde_saphyr::from_str(text).map_err(|error| {
        let place = match error.location() {
            Some(at) => format!("{file}:{}:{}", at.line(), at.column()),
            None => file.to_owned(),
        };
        let found = error.without_snippet().to_string();
        let unknown = unknown_keys::<T>(file, text);
        if unknown.is_empty() {
            let problem = Problem::new(
                ErrorKind::Invalid,
                "system.file_malformed",
                "the file does not have the form that it must have",
            );
            return vec![problem.place(place).found(found)];
        }
        unknown
    })
}

/// Most unknown keys of a file that are told.
const MOST_UNKNOWN: usize = 50;

/// Every key that means nothing, found by leaving out one after the other; then what is wrong beside them, if anything.
fn unknown_keys<T: DeserializeOwned>(file: &str, text: &str) -> Vec<Problem> {
    let Ok(mut value) = serde_saphyr::from_str::<Value>(text) else { return Vec::new() };
    let Some(tree) = Node::of(text) else { return Vec::new() };
    let mut findings = Vec::new();
    while findings.len() < MOST_UNKNOWN {
        let Err(error) = serde_path_to_error::deserialize::<_, T>(&value) else { break };
        let message = error.inner().to_string();
        let line = tree.line_at(error.path().iter().filter_map(step));
        let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        let is_unknown = message.starts_with("unknown field");
        let Some((&key, known)) = quoted.split_first().filter(|_| is_unknown) else {
            if !findings.is_empty() {
                let problem = Problem::new(
                    ErrorKind::Invalid,
                    "system.file_malformed",
                    "the file does not have the form that it must have",
                );
                findings.push(problem.place(format!("{file}:{line}:1")).found(message));
            }
            break;
        };
        let problem = Problem::new(ErrorKind::Invalid, "system.key_unknown", "there is no such key at this place")
            .place(format!("{file}:{line}:1"))
            .found(format!("`{key}`"))
            .expected(known.join(", "));
        findings.push(match nearest(key, known.iter().copied()) {
            Some(near) => problem.fix(format!("did you mean `{near}`?")),
            None => problem.fix("remove it"),
        });
        if !remove(&mut value, error.path(), key) {
            break;
        }
    }
    findings
}

fn step(segment: &Segment) -> Option<Step<'_>> {
    match segment {
        Segment::Seq { index } => Some(Step::Index(*index)),
        Segment::Map { key } => Some(Step::Key(key)),
        Segment::Enum { .. } | Segment::Unknown => None,
    }
}

/// Takes the key away; the path may end with the key itself or with the map that holds it.
fn remove(value: &mut Value, path: &Path, key: &str) -> bool {
    let mut here = value;
    for segment in path {
        let is_key = matches!(segment, Segment::Map { key: name } if name == key);
        if is_key && here.get(key).is_some() {
            break;
        }
        let next = match segment {
            Segment::Seq { index } => here.get_mut(*index),
            Segment::Map { key } => here.get_mut(key),
            Segment::Enum { .. } | Segment::Unknown => None,
        };
        match next {
            Some(next) => here = next,
            None => return false,
        }
    }
    here.as_object_mut().is_some_and(|members| members.remove(key).is_some())
}

/// File `topology.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TopologyFile {
    format: u32,
    services: Vec<Service>,
    /// Caller -> its calls.
    calls: BTreeMap<String, Vec<CallRow>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallRow {
    to: String,
    protocol: Protocol,
    operations: Vec<String>,
    #[serde(default, rename = "async")]
    is_async: bool,
    #[serde(default)]
    via: Option<String>,
    #[serde(default)]
    phase: Phase,
    #[serde(default)]
    timeout_ms: Option<u32>,
    #[serde(default)]
    retry: Option<Retry>,
    #[serde(default)]
    inferred: bool,
}

/// File `points.yaml`: what can be hit inside a service.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PointsFile {
    format: u32,
    /// Service -> what it answers over HTTP.
    #[serde(default)]
    endpoints: BTreeMap<String, Vec<EndpointRow>>,
    /// Service -> the remote procedures that it answers.
    #[serde(default)]
    rpcs: BTreeMap<String, Vec<RpcRow>>,
    /// Client -> the statements that it sends.
    #[serde(default)]
    statements: BTreeMap<String, Vec<StatementRow>>,
    /// Service -> class -> methods that requests reach.
    #[serde(default)]
    methods: BTreeMap<String, BTreeMap<String, Vec<MethodRow>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndpointRow {
    method: String,
    route: String,
    /// Where it is not the service's port.
    #[serde(default)]
    port: Option<u16>,
    #[serde(default)]
    span: Option<String>,
    #[serde(default = "ok")]
    status: u16,
    #[serde(default)]
    inferred: bool,
}

const fn ok() -> u16 {
    200
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RpcRow {
    operation: String,
    #[serde(default)]
    span: Option<String>,
    #[serde(default)]
    inferred: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatementRow {
    instance: String,
    system: StoreSystem,
    /// Left out for caches.
    #[serde(default)]
    database: String,
    #[serde(default)]
    table: String,
    verbs: Vec<String>,
    /// Those of `verbs` that no telemetry shows.
    #[serde(default)]
    inferred: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MethodRow {
    name: String,
    #[serde(default)]
    serves: Option<String>,
}

/// The typed lists of both files.
///
/// # Errors
/// `system.format_unknown`.
pub(crate) fn parts(topology: TopologyFile, points: PointsFile) -> Result<Parts, Problem> {
    for (file, format) in [("topology.yaml", topology.format), ("points.yaml", points.format)] {
        if format != 1 {
            return Err(Problem::new(ErrorKind::Invalid, "system.format_unknown", "the file's format is not known")
                .place(format!("{file}: format"))
                .found(format.to_string())
                .expected("1"));
        }
    }
    let endpoints = endpoints(points.endpoints, &topology.services);
    Ok(Parts {
        services: topology.services,
        calls: calls(topology.calls),
        endpoints,
        rpcs: rpcs(points.rpcs),
        statements: statements(points.statements),
        methods: methods(points.methods),
    })
}

fn calls(rows: BTreeMap<String, Vec<CallRow>>) -> Vec<Call> {
    let one = |from: &str, row: CallRow| Call {
        from: from.to_owned(),
        to: row.to,
        protocol: row.protocol,
        operations: row.operations,
        is_async: row.is_async,
        via: row.via,
        phase: row.phase,
        timeout_ms: row.timeout_ms,
        retry: row.retry,
        inferred: row.inferred,
    };
    rows.into_iter().flat_map(|(from, rows)| rows.into_iter().map(move |row| one(&from, row))).collect()
}

fn endpoints(rows: BTreeMap<String, Vec<EndpointRow>>, services: &[Service]) -> Vec<Endpoint> {
    let mut endpoints = Vec::new();
    for (service, rows) in rows {
        let listens = services.iter().find(|known| known.name == service).and_then(|known| known.port);
        for row in rows {
            endpoints.push(Endpoint {
                service: service.clone(),
                method: row.method,
                pattern: PathPattern::of_route(&row.route),
                route: row.route,
                // A service without a port is reported by the lint; 0 never reaches a caller.
                port: row.port.or(listens).unwrap_or_default(),
                span: row.span,
                status: row.status,
                inferred: row.inferred,
            });
        }
    }
    endpoints
}

fn rpcs(rows: BTreeMap<String, Vec<RpcRow>>) -> Vec<Rpc> {
    let one = |service: &str, row: RpcRow| Rpc {
        service: service.to_owned(),
        operation: row.operation,
        span: row.span,
        inferred: row.inferred,
    };
    rows.into_iter().flat_map(|(service, rows)| rows.into_iter().map(move |row| one(&service, row))).collect()
}

fn statements(rows: BTreeMap<String, Vec<StatementRow>>) -> Vec<Statement> {
    let mut statements = Vec::new();
    for (service, rows) in rows {
        for row in rows {
            for verb in &row.verbs {
                statements.push(Statement {
                    service: service.clone(),
                    instance: row.instance.clone(),
                    system: row.system,
                    database: row.database.clone(),
                    table: row.table.clone(),
                    verb: verb.clone(),
                    inferred: row.inferred.contains(verb),
                });
            }
        }
    }
    statements
}

fn methods(rows: BTreeMap<String, BTreeMap<String, Vec<MethodRow>>>) -> Vec<Method> {
    let mut methods = Vec::new();
    for (service, classes) in rows {
        for (class, rows) in classes {
            methods.extend(rows.into_iter().map(|row| Method {
                service: service.clone(),
                class: class.clone(),
                method: row.name,
                serves: row.serves,
            }));
        }
    }
    methods
}
