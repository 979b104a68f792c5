//! The telemetry contract: what the records of a system must carry so that a datapack can be made of them and be read.
//!
//! It follows from the readers: a pack's files are selected by namespace, its detector reads the entrance's spans, and algorithms
//! ask every record for its pod and its service.

use crate::{Registration, Signal};

use Carrier::{Attribute, Resource, TraceId};

/// Where a record carries something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// A key of the record's resource.
    Resource(&'static str),
    /// One of these keys of the record itself: the names that a semantic convention had over time.
    Attribute(&'static [&'static str]),
    TraceId,
}

/// Which records a requirement is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Every record must carry it.
    Each,
    /// Every server span of the system's entrance must carry it.
    EachAtEntrance,
    /// Of each service whose logs name traces, some record must carry it: a line that is written outside any request has none.
    SomeOfEachTracedLogger,
}

/// Something that records of a signal must carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirement {
    pub signal: Signal,
    /// One of these is enough.
    pub any_of: &'static [Carrier],
    pub scope: Scope,
    /// What goes wrong without it.
    pub why: &'static str,
    pub fix: &'static str,
}

/// What is needed of a record, whichever signal it is of.
#[derive(Clone, Copy)]
struct Need {
    any_of: &'static [Carrier],
    why: &'static str,
    fix: &'static str,
}

const NAMESPACE: Need = Need {
    any_of: &[Resource("k8s.namespace.name")],
    why: "the records are not found under their namespace, so that packs are empty",
    fix: "give the collector's k8s_attributes processor get, list and watch on pods and namespaces, and put it into this signal's pipeline",
};
const SERVICE_NAMESPACE: Need = Need {
    any_of: &[Resource("service.namespace")],
    why: "readers that select by it find nothing: the traces' files are empty although spans arrive",
    fix: "set service.namespace from k8s.namespace.name with the collector's transform processor",
};
const POD: Need = Need {
    any_of: &[Resource("k8s.pod.name")],
    why: "algorithms cannot tell one pod from another, and labels of pods match nothing",
    fix: "give the collector's k8s_attributes processor a rule that associates this signal with its pod",
};
const SERVICE: Need = Need {
    any_of: &[Resource("service.name")],
    why: "the records belong to no service, so that no algorithm can name it",
    fix: "set OTEL_SERVICE_NAME, or derive service.name from the pod's labels in the collector",
};
const WORKLOAD: Need = Need {
    any_of: &[
        Resource("k8s.container.name"),
        Resource("k8s.deployment.name"),
        Resource("k8s.statefulset.name"),
        Resource("service.name"),
    ],
    why: "the points belong to no service, so that no algorithm can name it",
    fix: "let the collector's k8s_attributes processor extract the deployment, the stateful set and the container",
};
const LOG_TRACE: Need = Need {
    any_of: &[TraceId],
    why: "the service's log lines cannot be joined with its traces",
    fix: "switch on trace context in the logging of the service's OpenTelemetry SDK",
};
const METHOD: Need = Need {
    any_of: &[Attribute(&["http.request.method", "http.method"])],
    why: "the detector cannot tell the entrance's endpoints apart",
    fix: "instrument the entrance's HTTP server, or keep these attributes in the collector",
};
const STATUS: Need = Need {
    any_of: &[Attribute(&["http.response.status_code", "http.status_code"])],
    why: "the detector cannot tell a failed request from one that succeeded",
    fix: "instrument the entrance's HTTP server, or keep these attributes in the collector",
};

/// What every record of a point, a span or a line must carry, by signal.
const TABLE: &[(Signal, Scope, Need)] = &[
    (Signal::Traces, Scope::Each, NAMESPACE),
    (Signal::Traces, Scope::Each, SERVICE_NAMESPACE),
    (Signal::Traces, Scope::Each, POD),
    (Signal::Traces, Scope::Each, SERVICE),
    (Signal::Traces, Scope::EachAtEntrance, METHOD),
    (Signal::Traces, Scope::EachAtEntrance, STATUS),
    (Signal::Logs, Scope::Each, NAMESPACE),
    (Signal::Logs, Scope::Each, SERVICE_NAMESPACE),
    (Signal::Logs, Scope::Each, POD),
    (Signal::Logs, Scope::Each, SERVICE),
    (Signal::Logs, Scope::SomeOfEachTracedLogger, LOG_TRACE),
    (Signal::Metrics, Scope::Each, NAMESPACE),
    (Signal::Metrics, Scope::Each, WORKLOAD),
    (Signal::MetricsSum, Scope::Each, NAMESPACE),
    (Signal::MetricsSum, Scope::Each, WORKLOAD),
    (Signal::MetricsHistogram, Scope::Each, NAMESPACE),
    (Signal::MetricsHistogram, Scope::Each, WORKLOAD),
];

impl Carrier {
    /// How it is called where people read it.
    pub fn name(self) -> String {
        match self {
            Resource(key) => key.to_owned(),
            Attribute(keys) => keys.join(" or "),
            TraceId => "trace id".to_owned(),
        }
    }
}

impl Requirement {
    /// How what is required is called where people read it.
    pub fn name(&self) -> String {
        self.any_of.iter().map(|carrier| carrier.name()).collect::<Vec<_>>().join(" or ")
    }
}

impl Registration {
    /// What the records of the system's required signals must carry.
    pub fn telemetry_contract(&self) -> Vec<Requirement> {
        let rows = TABLE.iter().filter(|(signal, ..)| self.profile.required_signals.contains(signal));
        rows.map(|&(signal, scope, need)| {
            let Need { any_of, why, fix } = need;
            Requirement { signal, any_of, scope, why, fix }
        })
        .collect()
    }
}
