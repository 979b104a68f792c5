//! The configuration of the OpenTelemetry collector that makes a system's telemetry what datapacks need, and what it runs as on
//! Kubernetes: from the system's own data, so that what is rendered and what is checked ([`crate::Requirement`]) are one.
//!
//! One collector on each node: it reads the log files of that node's containers, takes OTLP (and Jaeger's protocols, where a part
//! of the system speaks only those), names pod, service and namespace of every record, and sends all three signals on.
//! Component names and options are those of the OpenTelemetry Collector's contributed distribution, 0.161 and later.

use serde_json::{Map, Value, json};

use crate::{Histograms, Logs, MetricsPath, Stack, SystemData};

/// Where the collector sends to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Export {
    /// OTLP over HTTP: base address, such as `http://aegis:4318`.
    Otlp(String),
    /// ClickHouse over HTTP; the exporter makes its tables in the database [`DATABASE`].
    ClickHouse(String),
}

/// The ClickHouse database that everything reads.
pub const DATABASE: &str = "otel";
/// Where the parts of the collector live.
const NAMESPACE: &str = "aegis-telemetry";
/// Labels of pods that may name a service, the system's own first.
const LABELS: [&str; 3] = ["app.kubernetes.io/name", "app.kubernetes.io/component", "app"];
/// What is known of a pod from the cluster.
const METADATA: [&str; 8] = [
    "k8s.namespace.name",
    "k8s.pod.name",
    "k8s.pod.uid",
    "k8s.node.name",
    "k8s.deployment.name",
    "k8s.statefulset.name",
    "k8s.container.name",
    "container.image.name",
];
/// Boundaries of the durations that are made of spans, as the sizes of requests' times usually are.
const BUCKETS: [&str; 12] =
    ["2ms", "5ms", "10ms", "25ms", "50ms", "100ms", "250ms", "500ms", "1s", "2500ms", "5s", "10s"];
const IMAGE: &str = "otel/opentelemetry-collector-contrib:0.161.0";

/// What of a system decides its collector.
struct Needs {
    jaeger: bool,
    /// Some service writes lines that only its container's log has.
    plain_logs: bool,
    /// Services whose lines come over OTLP, by the names of their pods.
    own_logs: Vec<String>,
    histograms_of_spans: bool,
}

impl Needs {
    fn of(system: &SystemData) -> Self {
        let Some(topology) = &system.topology else {
            // Nothing is known of its parts: whatever they may send is taken.
            return Self { jaeger: true, plain_logs: true, own_logs: Vec::new(), histograms_of_spans: true };
        };
        let rows = || topology.services.iter().map(|service| (service, topology.telemetry.of(&service.name)));
        let derived = rows().any(|(_, row)| row.histograms == Histograms::Derived);
        Self {
            jaeger: rows().any(|(_, row)| row.stack == Stack::NginxOpentracing),
            plain_logs: rows().any(|(_, row)| row.logs == Logs::Plain),
            own_logs: rows()
                .filter(|(_, row)| row.logs == Logs::WithTraceIds)
                .map(|(service, _)| service.name.clone())
                .collect(),
            histograms_of_spans: derived && topology.telemetry.metrics_path == MetricsPath::SpanMetrics,
        }
    }
}

/// The collector's configuration.
pub fn configuration(system: &SystemData, export: &Export) -> Value {
    let needs = Needs::of(system);
    let exporter = match export {
        Export::Otlp(_) => "otlp_http",
        Export::ClickHouse(_) => "clickhouse",
    };
    let connector = needs.histograms_of_spans.then_some("spanmetrics");
    let processors = ["memory_limiter", "k8s_attributes", "resource", "transform", "batch"];
    let pipeline = |receivers: &[Option<&str>], exporters: &[Option<&str>]| {
        let names = |list: &[Option<&str>]| list.iter().flatten().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        json!({ "receivers": names(receivers), "processors": processors, "exporters": names(exporters) })
    };
    let jaeger = needs.jaeger.then_some("jaeger");
    let files = needs.plain_logs.then_some("file_log");
    let mut configuration = json!({
        "receivers": receivers(system, &needs),
        "processors": self::processors(system),
        "exporters": { exporter: self::exporter(export) },
        "service": {
            "telemetry": { "metrics": { "level": "none" }, "logs": { "level": "warn" } },
            "pipelines": {
                "traces": pipeline(&[Some("otlp"), jaeger], &[Some(exporter), connector]),
                "metrics": pipeline(&[Some("otlp"), Some("kubelet_stats"), connector], &[Some(exporter)]),
                "logs": pipeline(&[Some("otlp"), files], &[Some(exporter)]),
            },
        },
    });
    if let Some(name) = connector {
        configuration["connectors"] = json!({ name: {
            "histogram": { "unit": "ms", "explicit": { "buckets": BUCKETS } },
            "dimensions": [{ "name": "http.request.method" }, { "name": "http.response.status_code" }],
            "resource_metrics_key_attributes": ["service.name", "k8s.pod.name", "k8s.namespace.name"],
            "metrics_flush_interval": format!("{}s", system.registration.profile.metric_interval_s),
        }});
    }
    configuration
}

fn receivers(system: &SystemData, needs: &Needs) -> Value {
    let code = system.code().as_str();
    let mut receivers = json!({
        "otlp": { "protocols": { "grpc": { "endpoint": "0.0.0.0:4317" }, "http": { "endpoint": "0.0.0.0:4318" } } },
        "kubelet_stats": {
            "collection_interval": format!("{}s", system.registration.profile.metric_interval_s),
            "auth_type": "serviceAccount",
            "endpoint": "https://${env:K8S_NODE_NAME}:10250",
            "metric_groups": ["container", "pod"],
        },
    });
    if needs.jaeger {
        receivers["jaeger"] = json!({ "protocols": {
            "thrift_http": { "endpoint": "0.0.0.0:14268" },
            "thrift_compact": { "endpoint": "0.0.0.0:6831" },
            "thrift_binary": { "endpoint": "0.0.0.0:6832" },
            "grpc": { "endpoint": "0.0.0.0:14250" },
        }});
    }
    if needs.plain_logs {
        // A slot's namespace is the code and a number. Lines that come over OTLP are not read a second time.
        let own = needs.own_logs.iter().map(|name| format!("/var/log/pods/{code}[0-9]*_{name}-*/*/*.log"));
        receivers["file_log"] = json!({
            "include": [format!("/var/log/pods/{code}[0-9]*_*/*/*.log")],
            "exclude": own.collect::<Vec<_>>(),
            "include_file_path": true,
            "start_at": "end",
            // Names namespace, pod and container from the path, and takes the runtime's own words off the line.
            "operators": [{ "type": "container" }],
        });
    }
    receivers
}

fn processors(system: &SystemData) -> Value {
    let own = system.registration.app_label_key.as_str();
    let keys: Vec<&str> = std::iter::once(own).chain(LABELS.into_iter().filter(|label| *label != own)).collect();
    let labels: Vec<Value> =
        keys.iter().map(|key| json!({ "tag_name": tag(key), "key": key, "from": "pod" })).collect();
    json!({
        "memory_limiter": { "check_interval": "1s", "limit_percentage": 80, "spike_limit_percentage": 20 },
        "k8s_attributes": {
            "auth_type": "serviceAccount",
            "extract": { "metadata": METADATA, "labels": labels },
            "pod_association": [
                { "sources": [{ "from": "resource_attribute", "name": "k8s.pod.uid" }] },
                { "sources": [
                    { "from": "resource_attribute", "name": "k8s.pod.name" },
                    { "from": "resource_attribute", "name": "k8s.namespace.name" },
                ]},
                { "sources": [{ "from": "resource_attribute", "name": "k8s.pod.ip" }] },
                { "sources": [{ "from": "connection" }] },
            ],
        },
        // What a pod says of itself where the cluster said nothing.
        "resource": { "attributes": [
            { "key": "k8s.pod.name", "from_attribute": "pod.name", "action": "insert" },
            { "key": "k8s.pod.name", "from_attribute": "host.name", "action": "insert" },
            { "key": "k8s.namespace.name", "from_attribute": "service.namespace", "action": "insert" },
        ]},
        "transform": {
            "error_mode": "ignore",
            "trace_statements": statements(&keys),
            "metric_statements": statements(&keys),
            "log_statements": statements(&keys),
        },
        "batch": { "timeout": "1s", "send_batch_size": 8192 },
    })
}

/// The attribute that holds a pod's label.
fn tag(label: &str) -> String {
    format!("aegis.label.{label}")
}

/// `service.namespace` is the namespace, whatever the application calls itself; `service.name` is what the SDK says, else the first
/// label that the pod has, else the workload's name.
fn statements(labels: &[&str]) -> Value {
    let nameless = r#"(resource.attributes["service.name"] == nil or resource.attributes["service.name"] == "" or IsMatch(resource.attributes["service.name"], "^unknown_service"))"#;
    let namespace = r#"set(resource.attributes["service.namespace"], resource.attributes["k8s.namespace.name"]) where resource.attributes["k8s.namespace.name"] != nil"#;
    let from = |key: &str| {
        format!(
            r#"set(resource.attributes["service.name"], resource.attributes["{key}"]) where {nameless} and resource.attributes["{key}"] != nil"#
        )
    };
    let workload = ["k8s.deployment.name", "k8s.statefulset.name", "k8s.container.name"];
    let names = labels.iter().map(|label| from(&tag(label))).chain(workload.iter().map(|key| from(key)));
    let drop = labels.iter().map(|label| format!(r#"delete_key(resource.attributes, "{}")"#, tag(label)));
    let all: Vec<String> = std::iter::once(namespace.to_owned()).chain(names).chain(drop).collect();
    json!([{ "context": "resource", "statements": all }])
}

fn exporter(export: &Export) -> Value {
    // What cannot be sent for a while is kept and sent again, so that nobody has to refuse.
    let patience = json!({ "enabled": true, "max_elapsed_time": "300s" });
    match export {
        Export::Otlp(endpoint) => json!({ "endpoint": endpoint, "retry_on_failure": patience }),
        Export::ClickHouse(endpoint) => json!({
            "endpoint": endpoint,
            "database": DATABASE,
            "create_schema": true,
            "async_insert": false,
            "timeout": "30s",
            "retry_on_failure": patience,
        }),
    }
}

/// What the collector runs as: account, rights, configuration, one pod on each node, and the Service that applications send to.
pub fn manifests(system: &SystemData, export: &Export) -> Vec<Value> {
    let configuration = configuration(system, export);
    let name = format!("collector-{}", system.code());
    let labels = json!({ "app.kubernetes.io/name": "aegis-collector", "app.kubernetes.io/instance": name });
    let metadata = json!({ "name": name, "namespace": NAMESPACE, "labels": labels });
    // JSON is YAML, which is what the collector reads.
    let text = format!("{configuration:#}\n");
    vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": name, "labels": labels },
            "rules": [
                { "apiGroups": [""], "resources": ["pods", "namespaces", "nodes"], "verbs": ["get", "list", "watch"] },
                { "apiGroups": [""], "resources": ["nodes/stats", "nodes/proxy"], "verbs": ["get"] },
                { "apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["get", "list", "watch"] },
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": name, "labels": labels },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": NAMESPACE }],
        }),
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "collector.yaml": text } }),
        daemon_set(&name, &metadata, &labels),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata,
            // A record is best received on its own node, where the files of its pod's log are.
            "spec": { "selector": labels, "internalTrafficPolicy": "Local", "ports": ports(&configuration) },
        }),
    ]
}

fn daemon_set(name: &str, metadata: &Value, labels: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata,
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "serviceAccountName": name,
                    "containers": [{
                        "name": "collector",
                        "image": IMAGE,
                        "args": ["--config=/etc/collector/collector.yaml"],
                        "env": [{ "name": "K8S_NODE_NAME", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }],
                        "resources": { "limits": { "memory": "1Gi" }, "requests": { "memory": "256Mi", "cpu": "100m" } },
                        "volumeMounts": [
                            { "name": "configuration", "mountPath": "/etc/collector" },
                            { "name": "logs", "mountPath": "/var/log/pods", "readOnly": true },
                        ],
                    }],
                    "volumes": [
                        { "name": "configuration", "configMap": { "name": name } },
                        { "name": "logs", "hostPath": { "path": "/var/log/pods" } },
                    ],
                },
            },
        },
    })
}

/// A port of the Service for each that a receiver of the configuration listens on.
fn ports(configuration: &Value) -> Vec<Value> {
    let receivers = configuration["receivers"].as_object().into_iter().flat_map(Map::values);
    let protocols = receivers.filter_map(|receiver| receiver["protocols"].as_object()).flatten();
    protocols
        .filter_map(|(name, protocol)| {
            let port: u16 = protocol["endpoint"].as_str()?.rsplit_once(':')?.1.parse().ok()?;
            let transport = if matches!(port, 6831 | 6832) { "UDP" } else { "TCP" };
            let name = format!("{}-{port}", name.replace('_', "-"));
            Some(json!({ "name": name, "port": port, "targetPort": port, "protocol": transport }))
        })
        .collect()
}
