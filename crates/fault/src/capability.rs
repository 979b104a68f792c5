//! The columns of the capability table.

use serde::Serialize;

use crate::{Contract, Effect, Param, Target};

/// One fault kind. Rows are static data in `table/`.
#[derive(Debug, Clone, Copy)]
pub struct Capability {
    /// Data contract: 0 to 31, append only. Existing data sets store it as `fault_type`.
    pub id: u8,
    pub name: &'static str,
    /// The same kind in the public vocabulary, for example `NetworkDelay`.
    pub chaos_type: &'static str,
    pub family: Family,
    /// What it does to its target, in one sentence.
    pub summary: &'static str,
    pub target: TargetKind,
    pub params: &'static [Param],
    /// What the target and the cluster must have.
    pub requires: &'static [Requirement],
    pub length: Length,
    pub object: ChaosObject,
    /// What it changes; nothing else in a simulation may know about it.
    pub acts_on: Mechanism,
    /// Whether the simulated cluster carries it out.
    pub simulated: bool,
    pub truth: TruthRule,
    pub witness: WitnessRule,
    pub contract: Contract,
    /// Rules between parameters, or between parameters and target.
    pub check: Option<fn(&Target, &Effect) -> model::Result<()>>,
}

/// A group of related kinds; boards are split by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    Pod,
    Stress,
    Network,
    Http,
    Dns,
    Time,
    Jvm,
    Database,
    Mutator,
}

impl Family {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Stress => "stress",
            Self::Network => "network",
            Self::Http => "http",
            Self::Dns => "dns",
            Self::Time => "time",
            Self::Jvm => "jvm",
            Self::Database => "database",
            Self::Mutator => "mutator",
        }
    }
}

/// What a fault of this kind is aimed at, beside the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    Service,
    Container,
    Link,
    Http,
    Dns,
    JvmMethod,
    Table,
}

/// One key of a target.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct TargetField {
    pub name: &'static str,
    /// The same key in the public guided form, where it differs.
    pub public_name: Option<&'static str>,
    pub doc: &'static str,
    /// Code of the problem when the value names nothing.
    #[serde(skip)]
    pub(crate) unknown: &'static str,
}

const fn field(
    name: &'static str,
    public_name: Option<&'static str>,
    unknown: &'static str,
    doc: &'static str,
) -> TargetField {
    TargetField { name, public_name, doc, unknown }
}

impl TargetKind {
    /// The keys that a request may give, most significant first. A key may be left out when the others leave one choice.
    pub const fn fields(self) -> &'static [TargetField] {
        const CONTAINER: &[TargetField] =
            &[field("container", None, "container.unknown", "name of a container of the service's pods")];
        const LINK: &[TargetField] = &[
            field("target_service", None, "peer.unknown", "the other end; the source's packets to it are affected"),
            field(
                "direction",
                None,
                "direction.unsupported",
                "only `to`; for the way back swap `service` and `target_service`",
            ),
        ];
        const HTTP: &[TargetField] = &[
            field("method", Some("http_method"), "endpoint.unknown", "request method that the service answers"),
            field(
                "path",
                Some("route"),
                "endpoint.unknown",
                "route of the service, with `{name}` or `*` for a variable segment",
            ),
            field("port", None, "endpoint.unknown", "port of the endpoint"),
        ];
        const DNS: &[TargetField] = &[field("domain", None, "domain.unknown", "name that the service resolves")];
        const METHOD: &[TargetField] = &[
            field("class", None, "method.unknown", "class, in full or its last part"),
            field("method", None, "method.unknown", "method of the class"),
        ];
        const TABLE: &[TargetField] = &[
            field("database", Some("db_name"), "statement.unknown", "database of the table"),
            field("table", None, "statement.unknown", "table that the service uses"),
            field(
                "operation",
                Some("sql_type"),
                "statement.unknown",
                "`select`, `insert`, `update`, `delete`, or `all` that are sent",
            ),
        ];
        match self {
            Self::Service => &[],
            Self::Container => CONTAINER,
            Self::Link => LINK,
            Self::Http => HTTP,
            Self::Dns => DNS,
            Self::JvmMethod => METHOD,
            Self::Table => TABLE,
        }
    }
}

/// What must be there for the fault to have an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Requirement {
    /// The service answers HTTP in clear text; gRPC and Thrift servers do not feel HTTP faults.
    ServesHttp,
    /// The service runs on a Java virtual machine.
    Jvm,
    /// Requests or answers flow directly between the two services.
    CallsTarget,
    /// The service looks the name up; a name behind a registry or a fixed address is never looked up.
    ResolvesName,
    /// The service sends MySQL statements through the Java driver.
    SendsStatements,
    /// The cluster can intercept traffic in the pod's network (transparent proxy).
    TransparentProxy,
    /// The cluster's fault DNS server is installed.
    DnsServer,
    /// The image has a shell, so that the agent can be attached; one agent per pod.
    AgentAttach,
    /// The cluster knows the object kind `RuntimeMutatorChaos`, which the stock fault operator lacks.
    MutatorKind,
}

/// How long a fault acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// Happens once at the start of the window; recovery is the target's own business. Its effect counts from the start
    /// until the target was back, at most until the window's end.
    OneShot,
    /// Acts from the start of the abnormal window to its end, and its effect counts as long.
    Window,
}

impl Length {
    /// When the effect counts: from `start`, for what happens once until the target was `back`, at most until `end`.
    pub fn effect<T: Ord + Copy>(self, start: T, back: Option<T>, end: T) -> (T, T) {
        match (self, back) {
            (Self::OneShot, Some(back)) => (start, back.clamp(start, end.max(start))),
            _ => (start, end.max(start)),
        }
    }
}

/// The Chaos Mesh object (`chaos-mesh.org/v1alpha1`, of version 2.8).
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ChaosObject {
    pub kind: &'static str,
    pub action: Option<&'static str>,
    pub mode: Mode,
    /// The kind's own fields of `spec`, beside selector, target and duration.
    pub fields: &'static [Field],
}

/// How many of the selected pods are hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    One,
    All,
}

/// One value of `spec`.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Field {
    /// Dotted path below `spec`.
    pub path: &'static str,
    pub form: Form,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Text in which `{name}` stands for a parameter.
    Text(&'static str),
    /// The parameter as it is; left out when the parameter is absent.
    Value(&'static str),
    /// The parameter's text as base64, for fields that the object declares as bytes.
    Base64(&'static str),
    /// The text that belongs to the parameter's choice.
    Mapped(&'static str, &'static [(&'static str, &'static str)]),
    Number(u32),
    True,
}

/// What a fault changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// Processes and the endpoint state of their pods.
    Process,
    /// Demand on the container's CPU.
    Cpu,
    /// Resident memory of the container.
    Memory,
    /// Packets on one link, in one direction.
    Link,
    /// The request or the response at the target's proxy.
    Message,
    /// Answers of the target's resolver.
    Resolver,
    /// The target's clock.
    Clock,
    /// The method's time, result or exception.
    Method,
    /// The virtual machine's heap and collector.
    Heap,
    /// The client's statements.
    Statement,
}

/// Which labels a fault implies. The acting service is always the root, with its pods and container.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct TruthRule {
    /// The other party (link target, looked-up service, database) is labelled as peer.
    pub peer: bool,
    /// Metric family of the public vocabulary, where the fault has one.
    pub metric: Option<&'static str>,
    /// `Class.method` of the target is labelled.
    pub function: bool,
    /// The spans that the fault touches are labelled.
    pub span: bool,
}

/// When a target counts as having felt the fault. Fixed before any score is computed.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct WitnessRule {
    pub unit: WitnessUnit,
    /// Least share of the units that passed the mechanism, 0 to 1.
    pub min_share: f64,
    /// Least number of touched units.
    pub min_count: u64,
    pub why: &'static str,
    /// Why the fault was not felt when nothing passed the mechanism.
    pub unfelt: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WitnessUnit {
    Processes,
    /// Scheduling periods of 100 ms in which the target had work.
    CpuPeriods,
    Bytes,
    /// Messages on the link.
    Messages,
    Requests,
    Lookups,
    /// Invocations of the method.
    Calls,
    Collections,
    Statements,
}

impl WitnessUnit {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::CpuPeriods => "cpu_periods",
            Self::Bytes => "bytes",
            Self::Messages => "messages",
            Self::Requests => "requests",
            Self::Lookups => "lookups",
            Self::Calls => "calls",
            Self::Collections => "collections",
            Self::Statements => "statements",
        }
    }
}

impl WitnessRule {
    /// Whether `touched` of `passed` units suffice.
    pub fn exposed(&self, passed: u64, touched: u64) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "counts of one run stay far below 2^52")]
        let share = if passed == 0 { 0.0 } else { touched as f64 / passed as f64 };
        touched >= self.min_count && share >= self.min_share
    }
}
