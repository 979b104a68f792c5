//! Rules about what the slots of one system have in common: the same chart is installed once in each.

use super::table::Judged;
use super::{Scene, Spot};
use crate::render::Manifest;

/// Kinds of objects that are in no namespace, so that a name is there once in the whole cluster.
const CLUSTER_WIDE: &[&str] = &[
    "APIService",
    "ClusterRole",
    "ClusterRoleBinding",
    "CSIDriver",
    "CustomResourceDefinition",
    "IngressClass",
    "MutatingWebhookConfiguration",
    "Namespace",
    "PersistentVolume",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
    "ValidatingWebhookConfiguration",
];

const ONE_SLOT: &str = "the system has one slot";

/// The objects of both slots that are of the same kind and name.
fn pairs<'a>(scene: &'a Scene<'_>) -> impl Iterator<Item = (&'a Manifest, &'a Manifest)> {
    scene.manifests.iter().filter_map(|manifest| {
        let same = |other: &&Manifest| other.kind == manifest.kind && other.name == manifest.name;
        Some((manifest, scene.neighbour.iter().find(same)?))
    })
}

pub(super) fn shared_objects(scene: &Scene<'_>) -> Judged {
    if scene.neighbour.is_empty() {
        return Err(ONE_SLOT);
    }
    let space = |manifest: &Manifest| manifest.body["metadata"]["namespace"].as_str().map(str::to_owned);
    let mut spots = Vec::new();
    for (manifest, other) in pairs(scene) {
        let found = match space(manifest) {
            _ if CLUSTER_WIDE.contains(&manifest.kind.as_str()) => "in the whole cluster".to_owned(),
            Some(namespace) if space(other).as_ref() == Some(&namespace) => format!("in namespace `{namespace}`"),
            _ => continue,
        };
        let found = format!("the same name {found} in both slots");
        spots.push(Spot::new(manifest, "metadata", found).expected("a name that differs by slot"));
    }
    Ok(spots)
}

pub(super) fn shared_node_ports(scene: &Scene<'_>) -> Judged {
    if scene.neighbour.is_empty() {
        return Err(ONE_SLOT);
    }
    let ports = |manifest: &Manifest| -> Vec<u64> {
        let ports = manifest.body["spec"]["ports"].as_array().cloned().unwrap_or_default();
        ports.iter().filter_map(|port| port["nodePort"].as_u64()).filter(|port| *port > 0).collect()
    };
    let services = |manifests: &'_ [Manifest]| -> Vec<u64> {
        manifests.iter().filter(|manifest| manifest.kind == "Service").flat_map(ports).collect()
    };
    let taken = services(scene.neighbour);
    let mut spots = Vec::new();
    for manifest in scene.manifests.iter().filter(|manifest| manifest.kind == "Service") {
        for port in ports(manifest).into_iter().filter(|port| taken.contains(port)) {
            let spot = Spot::new(manifest, "spec.ports", format!("nodePort {port} in both slots"));
            spots.push(spot.expected("a port that differs by slot"));
        }
    }
    Ok(spots)
}
