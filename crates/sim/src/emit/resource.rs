//! The resources that records belong to: a process, a container, a workload.

use system::Language;
use telemetry::otlp::Resource;
use telemetry::otlp::common::KeyValue;

use super::attribute::text;
use crate::plan::{ServicePlan, Workload};
use crate::pod::{Pod, node_name};

/// Name in `telemetry.sdk.language`, and the SDK's version.
pub const fn sdk(language: Language) -> (&'static str, &'static str) {
    match language {
        Language::Java | Language::Kotlin => ("java", "1.44.1"),
        Language::Go | Language::Caddy => ("go", "1.33.0"),
        Language::Python => ("python", "1.29.0"),
        Language::Javascript | Language::Typescript => ("nodejs", "1.29.0"),
        Language::Cpp | Language::Nginx | Language::Envoy | Language::Lua => ("cpp", "1.18.0"),
        Language::Csharp => ("dotnet", "1.10.0"),
        Language::Ruby => ("ruby", "1.6.0"),
        Language::Rust => ("rust", "0.27.1"),
        Language::Php => ("php", "1.1.0"),
        Language::Elixir => ("erlang", "1.5.0"),
        Language::None => ("", ""),
    }
}

/// What a process says of itself, with what the collector adds.
pub fn of_process(namespace: &str, service: &ServicePlan, pod: &Pod) -> Resource {
    let mut attributes = vec![
        text("service.name", service.name.as_str()),
        text("service.namespace", namespace),
        text("service.instance.id", pod.uid.as_str()),
    ];
    let (language, version) = sdk(service.language);
    if !language.is_empty() {
        attributes.push(text("telemetry.sdk.language", language));
        attributes.push(text("telemetry.sdk.name", "opentelemetry"));
        attributes.push(text("telemetry.sdk.version", version));
    }
    if language == "java" {
        attributes.push(text("telemetry.distro.name", "opentelemetry-java-instrumentation"));
        attributes.push(text("telemetry.distro.version", "2.11.0"));
    }
    attributes.push(text("host.name", pod.name.as_str()));
    attributes.extend(placement(namespace, service, pod));
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
