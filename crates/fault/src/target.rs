//! Targets: the typed form, and the search for the one that a request means.

use std::collections::BTreeMap;
use std::fmt;

use model::{ErrorKind, Problem, Result};
use serde::{Deserialize, Serialize};
use system::{Endpoint, Kind, PathPattern, Service, StoreSystem, Topology};

use crate::{Capability, Requirement, TargetKind};

/// What a fault acts on. The service that is named first is the acting one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Target {
    Service {
        service: String,
    },
    Container {
        service: String,
        container: String,
    },
    /// Packets from `source` to `target`, not the way back.
    Link {
        source: String,
        target: String,
    },
    /// Requests to one endpoint of the service, and their answers.
    Http {
        service: String,
        method: String,
        /// What real requests are matched with.
        path: PathPattern,
        /// The same as the service's framework writes it.
        route: String,
        port: u16,
    },
    /// Look-ups of `domain` by the service; `peer` is the service behind that name.
    Dns {
        service: String,
        domain: String,
        peer: String,
    },
    JvmMethod {
        service: String,
        class: String,
        method: String,
    },
    /// Statements that the service sends to a table of the database service `instance`.
    Table {
        service: String,
        instance: String,
        database: String,
        table: String,
        operation: SqlVerb,
    },
}

/// Which statements on a table are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SqlVerb {
    All,
    Select,
    Insert,
    Update,
    Delete,
    Replace,
}

impl SqlVerb {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Select => "select",
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Replace => "replace",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::All, Self::Select, Self::Insert, Self::Update, Self::Delete, Self::Replace]
            .into_iter()
            .find(|verb| verb.as_str() == text)
    }

    /// Whether a statement with this verb is meant.
    pub fn covers(self, verb: &str) -> bool {
        self == Self::All || self.as_str() == verb
    }
}

impl Target {
    /// The acting service.
    pub fn service(&self) -> &str {
        match self {
            Self::Service { service }
            | Self::Container { service, .. }
            | Self::Link { source: service, .. }
            | Self::Http { service, .. }
            | Self::Dns { service, .. }
            | Self::JvmMethod { service, .. }
            | Self::Table { service, .. } => service,
        }
    }

    /// The other party, where there is one.
    pub fn peer(&self) -> Option<&str> {
        match self {
            Self::Link { target, .. } => Some(target),
            Self::Dns { peer, .. } => Some(peer),
            Self::Table { instance, .. } => Some(instance),
            _ => None,
        }
    }

    /// Whether requests to the endpoint are hit: a last `*` spans more than one segment, so one path may cover several.
    pub fn covers(&self, endpoint: &Endpoint) -> bool {
        match self {
            Self::Http { service, method, path, port, .. } => {
                *service == endpoint.service
                    && *method == endpoint.method
                    && *port == endpoint.port
                    && path.matches(endpoint.pattern.as_str())
            }
            _ => false,
        }
    }

    /// The keys that tell this target from the service's other ones: a legal `Spec::target`, and what ids are made of.
    pub fn identity(&self) -> BTreeMap<String, String> {
        let pairs: Vec<(&str, String)> = match self {
            Self::Service { .. } => vec![],
            Self::Container { container, .. } => vec![("container", container.clone())],
            Self::Link { target, .. } => vec![("target_service", target.clone())],
            Self::Http { method, path, port, .. } => {
                vec![("method", method.clone()), ("path", path.to_string()), ("port", port.to_string())]
            }
            Self::Dns { domain, .. } => vec![("domain", domain.clone())],
            Self::JvmMethod { class, method, .. } => vec![("class", class.clone()), ("method", method.clone())],
            Self::Table { database, table, operation, .. } => vec![
                ("database", database.clone()),
                ("table", table.clone()),
                ("operation", operation.as_str().to_owned()),
            ],
        };
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// Whether `text`, as a user writes it, means this target's value of the key.
    fn matches(&self, key: &str, text: &str) -> bool {
        match (self, key) {
            (Self::Http { path, .. }, "path") => PathPattern::of_route(text) == *path,
            (Self::Http { method, .. }, "method") => method.eq_ignore_ascii_case(text),
            (Self::Dns { domain, peer, .. }, "domain") => domain == text || peer == text,
            (Self::JvmMethod { class, .. }, "class") => {
                class == text || class.strip_suffix(text).is_some_and(|package| package.ends_with('.'))
            }
            _ => self.identity().get(key).is_some_and(|value| value == text),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.service())?;
        for (key, value) in self.identity() {
            write!(f, " {key}={value}")?;
        }
        Ok(())
    }
}

/// One target of a service.
pub(crate) struct Candidate {
    pub target: Target,
    /// Meant only when the request gives this key: it is legal, but never what an incomplete request means.
    pub only_with: Option<&'static str>,
    /// Read from code or charts, not seen in telemetry.
    pub inferred: bool,
}

/// Whether faults may act on the service at all.
pub(crate) fn targetable(service: &Service) -> bool {
    service.kind != Kind::Loadgen && !service.disabled
}

/// # Errors
/// `service.not_targetable`, `service.not_deployed`.
pub(crate) fn require_targetable(service: &Service) -> Result<()> {
    if service.kind == Kind::Loadgen {
        return Err(Problem::new(
            ErrorKind::Invalid,
            "service.not_targetable",
            "the load generator stands for the users; a fault on it would empty the run",
        )
        .place("service")
        .found(format!("`{}`", service.name))
        .expected("a service of the system"));
    }
    if service.disabled {
        return Err(Problem::new(ErrorKind::Invalid, "service.not_deployed", "the service is not deployed")
            .place("service")
            .found(format!("`{}`", service.name))
            .expected("a service that the installed configuration switches on"));
    }
    Ok(())
}

/// Every target of the capability on the service.
pub(crate) fn candidates(capability: &Capability, topology: &Topology, service: &Service) -> Vec<Candidate> {
    let name = service.name.clone();
    let plain = |target, inferred| Candidate { target, only_with: None, inferred };
    match capability.target {
        TargetKind::Service => vec![plain(Target::Service { service: name }, service.inferred)],
        TargetKind::Container => {
            let container = service.container().to_owned();
            vec![plain(Target::Container { service: name, container }, service.inferred)]
        }
        TargetKind::Link => links(topology, &name),
        TargetKind::Http => topology
            .endpoints_of(&service.name)
            .map(|endpoint| {
                let target = Target::Http {
                    service: name.clone(),
                    method: endpoint.method.clone(),
                    path: endpoint.pattern.clone(),
                    route: endpoint.route.clone(),
                    port: endpoint.port,
                };
                plain(target, endpoint.inferred)
            })
            .collect(),
        TargetKind::Dns => topology
            .resolves(&name)
            .into_iter()
            .map(|peer| {
                let (domain, peer_name) = (peer.dns_name().to_owned(), peer.name.clone());
                let inferred = topology.call(&name, &peer.name).is_none_or(|call| call.inferred);
                plain(Target::Dns { service: name.clone(), domain, peer: peer_name }, inferred)
            })
            .collect(),
        TargetKind::JvmMethod => topology
            .methods_of(&service.name)
            .map(|method| {
                let (class, method) = (method.class.clone(), method.method.clone());
                plain(Target::JvmMethod { service: name.clone(), class, method }, false)
            })
            .collect(),
        TargetKind::Table => tables(topology, &name),
    }
}

/// Forward along calls, and back along them when the request names the other end.
fn links(topology: &Topology, service: &str) -> Vec<Candidate> {
    let direct = |from: &str, to: &str| topology.call(from, to).is_some_and(|call| call.via.is_none());
    topology
        .services
        .iter()
        .filter(|peer| targetable(peer) && peer.name != service)
        .filter_map(|peer| {
            let forward = direct(service, &peer.name);
            if !forward && !direct(&peer.name, service) {
                return None;
            }
            let inferred = topology.call(service, &peer.name).is_none_or(|call| call.inferred);
            let target = Target::Link { source: service.to_owned(), target: peer.name.clone() };
            Some(Candidate { target, only_with: (!forward).then_some("target_service"), inferred })
        })
        .collect()
}

/// Each kind of statement, and all kinds of a table when the request says so.
fn tables(topology: &Topology, service: &str) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    for statement in topology.statements_of(service).filter(|statement| statement.system == StoreSystem::Mysql) {
        let target = |operation| Target::Table {
            service: service.to_owned(),
            instance: statement.instance.clone(),
            database: statement.database.clone(),
            table: statement.table.clone(),
            operation,
        };
        let whole = target(SqlVerb::All);
        if !found.iter().any(|known| known.target == whole) {
            found.push(Candidate { target: whole, only_with: Some("operation"), inferred: statement.inferred });
        }
        if let Some(verb) = SqlVerb::parse(&statement.verb) {
            found.push(Candidate { target: target(verb), only_with: None, inferred: statement.inferred });
        }
    }
    found
}

/// The one target that the request means.
///
/// # Errors
/// `target.field_unknown`, `target.lacks_*`, the unknown-code of the field, `target.ambiguous`.
pub(crate) fn find(
    capability: &Capability,
    topology: &Topology,
    service: &Service,
    given: &BTreeMap<String, String>,
) -> Result<Target> {
    check_fields(capability, given)?;
    check_requirements(capability, topology, service)?;
    let mut left = candidates(capability, topology, service);
    if left.is_empty() {
        return Err(lacks("target.lacks_points", "nothing on the service can be hit in this way", service)
            .expected("a service with known methods; see the list of points"));
    }
    for field in capability.target.fields() {
        let Some(text) = given.get(field.name).filter(|_| field.name != "direction") else { continue };
        let values: Vec<String> =
            left.iter().filter_map(|candidate| candidate.target.identity().remove(field.name)).collect();
        left.retain(|candidate| candidate.target.matches(field.name, text));
        if left.is_empty() {
            return Err(not_found(field.unknown, field.name, text, values));
        }
    }
    let whole: Vec<&Candidate> =
        left.iter().filter(|candidate| candidate.only_with.is_none_or(|key| given.contains_key(key))).collect();
    match whole.as_slice() {
        [one] => Ok(one.target.clone()),
        _ => Err(ambiguous(capability, service, &left)),
    }
}

fn check_fields(capability: &Capability, given: &BTreeMap<String, String>) -> Result<()> {
    let fields = capability.target.fields();
    for name in given.keys() {
        if fields.iter().any(|field| field.name == name) {
            continue;
        }
        let problem =
            Problem::unknown("target.field_unknown", "key of the target", name, fields.iter().map(|field| field.name))
                .place(format!("{}: target", capability.name));
        return Err(match fields.iter().find(|field| field.public_name == Some(name)) {
            Some(field) => problem.fix(format!("here it is called `{}`", field.name)),
            None => problem,
        });
    }
    match given.get("direction") {
        Some(direction) if direction != "to" => {
            Err(Problem::new(ErrorKind::Invalid, "direction.unsupported", "a link fault acts in one direction")
                .place("target.direction")
                .found(format!("`{direction}`"))
                .expected("`to`")
                .fix("for `from`, swap `service` and `target_service`; for `both`, submit both as one batch"))
        }
        _ => Ok(()),
    }
}

/// Needs of the service; those of the cluster are checked by the cluster.
fn check_requirements(capability: &Capability, topology: &Topology, service: &Service) -> Result<()> {
    for requirement in capability.requires {
        let name = service.name.as_str();
        let missing = match requirement {
            Requirement::ServesHttp if topology.endpoints_of(name).next().is_none() => {
                lacks("target.lacks_http", "the service answers no HTTP requests", service)
                    .expected("a service with HTTP endpoints")
            }
            Requirement::Jvm if !service.runs_on_jvm() => {
                lacks("target.lacks_jvm", "the service runs on no Java virtual machine", service)
                    .expected("a service in Java or Kotlin")
            }
            Requirement::CallsTarget if links(topology, name).is_empty() => {
                lacks("target.lacks_link", "the service calls no other one and is called by none", service)
                    .expected("a service with calls")
            }
            Requirement::ResolvesName if topology.resolves(name).is_empty() => {
                lacks("target.lacks_lookups", "the service looks no name up", service)
                    .expected("a service that calls others by name")
            }
            Requirement::SendsStatements if tables(topology, name).is_empty() => {
                lacks("target.lacks_statements", "the service sends no MySQL statements", service)
                    .expected("a client of MySQL")
            }
            _ => continue,
        };
        return Err(missing);
    }
    Ok(())
}

fn lacks(code: &'static str, message: &str, service: &Service) -> Problem {
    let language = serde_json::to_value(service.language).ok().and_then(|value| value.as_str().map(str::to_owned));
    Problem::new(ErrorKind::Invalid, code, message).place("service").found(format!(
        "`{}` ({})",
        service.name,
        language.unwrap_or_default()
    ))
}

fn not_found(code: &'static str, key: &str, text: &str, mut values: Vec<String>) -> Problem {
    values.sort();
    values.dedup();
    Problem::unknown(code, key, text, values.iter().map(String::as_str)).place(format!("target.{key}"))
}

/// How many choices an error lists.
const LISTED: usize = 20;

fn ambiguous(capability: &Capability, service: &Service, left: &[Candidate]) -> Problem {
    let mut choices: Vec<String> = left
        .iter()
        .take(LISTED)
        .map(|candidate| {
            let pairs: Vec<String> =
                candidate.target.identity().into_iter().map(|(key, value)| format!("{key}={value}")).collect();
            pairs.join(" ")
        })
        .collect();
    if left.len() > LISTED {
        choices.push(format!("and {} more", left.len() - LISTED));
    }
    let keys: Vec<&str> = capability.target.fields().iter().map(|field| field.name).collect();
    Problem::new(ErrorKind::Invalid, "target.ambiguous", "the request fits more than one target")
        .place("target")
        .found(format!("{} targets on `{}`", left.len(), service.name))
        .expected(choices.join("; "))
        .fix(format!("give more of {}", keys.join(", ")))
}
