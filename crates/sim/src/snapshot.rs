//! The cluster's objects at an instant, in the form of the Kubernetes client library's dictionaries (snake case).

use model::rfc3339;
use serde_json::{Value, json};

use crate::emit::resource;
use crate::engine::{SECOND, Time};
use crate::plan::{ServicePlan, Workload};
use crate::pod::{NODE_CORES, NODES, Pod, PodState, node_name};
use crate::profile::MIB;
use crate::world::World;

impl World {
    /// The objects as they were before the first disturbance, or as they are.
    pub fn snapshot(&self) -> Value {
        self.effects.before.clone().unwrap_or_else(|| self.snapshot_now())
    }

    pub(crate) fn snapshot_now(&self) -> Value {
        let services = &self.plan.services;
        let stateful = |wanted: bool| {
            services
                .iter()
                .enumerate()
                .filter(move |(_, service)| (service.workload == Workload::StatefulSet) == wanted)
        };
        let volumes: Vec<&Pod> = self.pods.iter().filter(|pod| keeps_data(&services[pod.service as usize])).collect();
        json!({
            "nodes": (0..NODES).map(|node| self.node(node)).collect::<Vec<_>>(),
            "namespaces": [{ "metadata": { "name": self.namespace }, "status": { "phase": "Active" } }],
            "services": services.iter().filter_map(|service| self.service_object(service)).collect::<Vec<_>>(),
            "deployments": stateful(false).map(|(at, service)| self.workload(at, service)).collect::<Vec<_>>(),
            "replica_sets": stateful(false).map(|(at, service)| self.replica_set(at, service)).collect::<Vec<_>>(),
            "stateful_sets": stateful(true).map(|(at, service)| self.workload(at, service)).collect::<Vec<_>>(),
            "pods": self.pods.iter().map(|pod| self.pod_object(pod)).collect::<Vec<_>>(),
            "pvcs": volumes.iter().map(|pod| self.claim(pod)).collect::<Vec<_>>(),
            "pvs": volumes.iter().map(|pod| self.volume(pod)).collect::<Vec<_>>(),
        })
    }

    fn time(&self, at: Time) -> String {
        rfc3339(self.data_time(at).seconds(), 0)
    }

    /// What the chart made, a few seconds before its first pod.
    fn metadata(&self, name: &str, label: &str) -> Value {
        let labels = json!({ self.plan.label_key.clone(): label });
        let first = self.pods.iter().filter(|pod| pod.generation == 0).map(resource::created).min().unwrap_or(0);
        let installed = self.time(first - 3 * SECOND);
        json!({ "name": name, "namespace": self.namespace, "labels": labels, "creation_timestamp": installed })
    }

    #[expect(clippy::unused_self, reason = "reads like its siblings")]
    fn node(&self, node: u16) -> Value {
        let capacity = json!({ "cpu": format!("{NODE_CORES}"), "memory": "64Gi", "pods": "110" });
        json!({
            "metadata": { "name": node_name(node), "labels": { "kubernetes.io/hostname": node_name(node) } },
            "status": { "capacity": capacity, "conditions": [{ "type": "Ready", "status": "True" }] },
        })
    }

    fn service_object(&self, service: &ServicePlan) -> Option<Value> {
        let port = service.port?;
        let ports = json!([{ "port": port, "target_port": port, "protocol": "TCP" }]);
        let selector = json!({ self.plan.label_key.clone(): service.label });
        Some(json!({
            "metadata": self.metadata(&service.dns_name, &service.label),
            "spec": { "ports": ports, "selector": selector, "type": "ClusterIP" },
        }))
    }

    fn workload(&self, at: usize, service: &ServicePlan) -> Value {
        let ready = self.places[at].clone().filter(|&slot| self.pods[slot as usize].serves()).count();
        json!({
            "metadata": self.metadata(&service.name, &service.label),
            "spec": {
                "replicas": service.replicas,
                "selector": { "match_labels": { self.plan.label_key.clone(): service.label } },
                "template": { "spec": { "containers": [container(service)] } },
            },
            "status": { "replicas": service.replicas, "ready_replicas": ready },
        })
    }

    fn replica_set(&self, at: usize, service: &ServicePlan) -> Value {
        let name = &self.pods[self.places[at].start as usize].replica_set;
        let mut metadata = self.metadata(name, &service.label);
        metadata["owner_references"] = json!([{ "kind": "Deployment", "name": service.name, "controller": true }]);
        json!({ "metadata": metadata, "spec": { "replicas": service.replicas } })
    }

    fn pod_object(&self, pod: &Pod) -> Value {
        let service = &self.plan.services[pod.service as usize];
        let mut metadata = self.metadata(&pod.name, &service.label);
        metadata["uid"] = json!(pod.uid);
        metadata["creation_timestamp"] = json!(self.time(resource::created(pod)));
        let (kind, owner) = match service.workload {
            Workload::Deployment => ("ReplicaSet", &pod.replica_set),
            Workload::StatefulSet => ("StatefulSet", &service.name),
        };
        metadata["owner_references"] = json!([{ "kind": kind, "name": owner, "controller": true }]);
        let phase = if pod.state == PodState::Pending { "Pending" } else { "Running" };
        let status = json!({ "name": service.container, "ready": pod.serves(), "restart_count": pod.restarts });
        json!({
            "metadata": metadata,
            "spec": { "node_name": node_name(pod.node), "containers": [container(service)] },
            "status": { "phase": phase, "pod_ip": pod.ip, "container_statuses": [status] },
        })
    }

    fn claim(&self, pod: &Pod) -> Value {
        let service = &self.plan.services[pod.service as usize];
        let name = claim_name(service, pod);
        let spec = json!({
            "access_modes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "10Gi" } },
            "volume_name": volume_name(&self.namespace, &name),
        });
        json!({ "metadata": self.metadata(&name, &service.label), "spec": spec, "status": { "phase": "Bound" } })
    }

    fn volume(&self, pod: &Pod) -> Value {
        let claim = claim_name(&self.plan.services[pod.service as usize], pod);
        json!({
            "metadata": { "name": volume_name(&self.namespace, &claim) },
            "spec": {
                "capacity": { "storage": "10Gi" },
                "claim_ref": { "name": claim, "namespace": self.namespace },
            },
            "status": { "phase": "Bound" },
        })
    }
}

fn keeps_data(service: &ServicePlan) -> bool {
    matches!(service.kind, system::Kind::Db | system::Kind::Mq)
}

fn claim_name(service: &ServicePlan, pod: &Pod) -> String {
    format!("data-{}-{}", service.name, pod.ordinal)
}

fn volume_name(namespace: &str, claim: &str) -> String {
    format!("pv-{namespace}-{claim}")
}

fn container(service: &ServicePlan) -> Value {
    let limits = json!({
        "cpu": format!("{}m", (service.profile.cpu_limit * 1000.0) as u32),
        "memory": format!("{}Mi", (service.profile.memory_limit / MIB) as u32),
    });
    json!({ "name": service.container, "image": service.image, "resources": { "limits": limits } })
}
