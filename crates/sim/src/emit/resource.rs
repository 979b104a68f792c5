//! The resources that records belong to: a process, a container, a workload; and how old they are.

use system::{ServiceTelemetry, Stack};
use telemetry::otlp::Resource;
use telemetry::otlp::common::KeyValue;

use super::attribute::{int, text};
use super::stack::{is_java, sdk};
use crate::engine::{SECOND, Time};
use crate::plan::{ServicePlan, Workload};
use crate::pod::{Pod, node_name};
use crate::rng::{join, name_key};

/// When a pod was created. Those of the origin are as old as an installation that has warmed up: created within half a
/// minute of each other, minutes ago.
pub fn created(pod: &Pod) -> Time {
    if pod.generation > 0 {
        return pod.created;
    }
    let spread = (join(name_key(&pod.uid), 1) % 31_000) as Time;
    pod.created - 187 * SECOND - spread * (SECOND / 1000)
}

/// When its process began, as the process itself counts.
pub fn began(pod: &Pod) -> Time {
    if pod.epoch > 0 {
        return pod.process_start;
    }
    let pulled = 2_000 + (join(name_key(&pod.uid), 2) % 9_000) as Time;
    created(pod) + pulled * (SECOND / 1000)
}

/// What a process says of itself, with what the collector adds.
pub fn of_process(
    namespace: &str,
    service: &ServicePlan,
    profile: &ServiceTelemetry,
    pod: &Pod,
    start_time: &str,
) -> Resource {
    let mut attributes =
        vec![text("service.name", service.reported_name.as_str()), text("service.namespace", namespace)];
    match sdk(profile.stack) {
        Some(sdk) => {
            attributes.push(text("telemetry.sdk.language", sdk.language));
            attributes.push(text("telemetry.sdk.name", "opentelemetry"));
            attributes.push(text("telemetry.sdk.version", sdk.version));
            if let Some((name, version)) = sdk.distribution {
                attributes.push(text("telemetry.distro.name", name));
                attributes.push(text("telemetry.distro.version", version));
            }
            if let Some((name, version, description)) = sdk.runtime {
                attributes.push(text("process.runtime.name", name));
                attributes.push(text("process.runtime.version", version));
                if !description.is_empty() {
                    attributes.push(text("process.runtime.description", description));
                }
                attributes.push(int("process.pid", 1));
            }
        }
        // Jaeger's client, as the collector translates it.
        None if profile.stack == Stack::NginxOpentracing => {
            attributes.push(text("opencensus.exporterversion", "Jaeger-C++-0.4.2"));
            attributes.push(text("ip", pod.ip.as_str()));
        }
        None => {}
    }
    if is_java(profile.stack) || matches!(profile.stack, Stack::Node | Stack::Next | Stack::Dotnet) {
        attributes.push(text("host.arch", "amd64"));
        attributes.push(text("os.type", "linux"));
        attributes.push(text("service.instance.id", pod.uid.as_str()));
    }
    attributes.push(text("host.name", pod.name.as_str()));
    if profile.pod_name {
        attributes.push(text("pod.name", pod.name.as_str()));
    }
    attributes.extend(placement(namespace, service, pod));
    attributes.push(text("k8s.pod.start_time", start_time));
    attributes.push(text("k8s.container.name", service.container.as_str()));
    resource(attributes)
}

/// What the kubelet and the cluster receiver say of a container.
pub fn of_container(namespace: &str, service: &ServicePlan, pod: &Pod) -> Resource {
    let mut attributes = vec![text("service.name", service.name.as_str()), text("service.namespace", namespace)];
    attributes.extend(placement(namespace, service, pod));
    attributes.push(text("k8s.container.name", service.container.as_str()));
    resource(attributes)
}

/// What the kubelet says of a pod.
pub fn of_pod(namespace: &str, service: &ServicePlan, pod: &Pod) -> Resource {
    let mut attributes = vec![text("service.name", service.name.as_str()), text("service.namespace", namespace)];
    attributes.extend(placement(namespace, service, pod));
    resource(attributes)
}

/// What the cluster receiver says of a deployment or stateful set.
pub fn of_workload(namespace: &str, service: &ServicePlan) -> Resource {
    let mut attributes = vec![text("service.namespace", namespace), text("k8s.namespace.name", namespace)];
    attributes.push(text(workload_key(service.workload), service.name.as_str()));
    resource(attributes)
}

fn placement(namespace: &str, service: &ServicePlan, pod: &Pod) -> Vec<KeyValue> {
    let mut attributes = vec![
        text("k8s.namespace.name", namespace),
        text("k8s.pod.name", pod.name.as_str()),
        text("k8s.pod.uid", pod.uid.as_str()),
        text("k8s.pod.ip", pod.ip.as_str()),
        text("k8s.node.name", node_name(pod.node)),
        text(workload_key(service.workload), service.name.as_str()),
    ];
    if service.workload == Workload::Deployment {
        attributes.push(text("k8s.replicaset.name", pod.replica_set.as_str()));
    }
    attributes
}

const fn workload_key(workload: Workload) -> &'static str {
    match workload {
        Workload::Deployment => "k8s.deployment.name",
        Workload::StatefulSet => "k8s.statefulset.name",
    }
}

fn resource(attributes: Vec<KeyValue>) -> Resource {
    Resource { attributes, ..Resource::default() }
}
