//! Rules about pods and their containers.

use serde_json::Value;

use super::table::Judged;
use super::{Scene, Spot};
use crate::mirror::{ImageRule, full_reference};
use crate::render::Manifest;

/// The pod of a workload, with its path in the manifest.
pub(super) fn pod(manifest: &Manifest) -> Option<(String, &Value)> {
    let path: &[&str] = match manifest.kind.as_str() {
        "Pod" => &["spec"],
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "ReplicationController" | "Job" => {
            &["spec", "template", "spec"]
        }
        "CronJob" => &["spec", "jobTemplate", "spec", "template", "spec"],
        _ => return None,
    };
    let pod = path.iter().fold(&manifest.body, |value, key| &value[*key]);
    pod.is_object().then(|| (path.join("."), pod))
}

/// A container of a manifest, with its path.
pub(super) struct Container<'a> {
    pub manifest: &'a Manifest,
    pub path: String,
    pub body: &'a Value,
}

impl Container<'_> {
    pub fn text(&self, key: &str) -> &str {
        self.body[key].as_str().unwrap_or_default()
    }

    pub fn spot(&self, below: &str, found: impl Into<String>) -> Spot {
        Spot::new(self.manifest, format!("{}.{below}", self.path), found)
    }
}

pub(super) fn containers<'a>(scene: &'a Scene<'_>) -> Vec<Container<'a>> {
    let mut found = Vec::new();
    for manifest in scene.manifests {
        let Some((path, pod)) = pod(manifest) else { continue };
        for list in ["initContainers", "containers"] {
            for body in pod[list].as_array().into_iter().flatten() {
                let name = body["name"].as_str().unwrap_or("?");
                found.push(Container { manifest, path: format!("{path}.{list}[{name}]"), body });
            }
        }
    }
    found
}

pub(super) fn empty_images(scene: &Scene<'_>) -> Judged {
    let is_empty =
        |image: &str| image.is_empty() || image.starts_with(':') || image.ends_with(':') || image.ends_with('/');
    let empty = containers(scene).into_iter().filter(|container| is_empty(container.text("image")));
    Ok(empty.map(|container| container.spot("image", format!("`{}`", container.text("image")))).collect())
}

const NO_MIRRORS: &str = "no mirror rule of the configuration is about images";

pub(super) fn unmirrored_images(scene: &Scene<'_>) -> Judged {
    images(scene, |scene, image| match scene.mirrors.image(image) {
        ImageRule::Rewrite(to) => Some((format!("`{to}`"), format!("write `{to}` into the values"))),
        _ => None,
    })
}

pub(super) fn unknown_registries(scene: &Scene<'_>) -> Judged {
    let known = scene.mirrors.images().join(", ");
    images(scene, |scene, image| {
        (scene.mirrors.image(image) == ImageRule::Unknown).then(|| (format!("one below {known}"), String::new()))
    })
}

/// A part after the registry that looks like a host, and is not the image's own name.
pub(super) fn glued_images(scene: &Scene<'_>) -> Judged {
    let is_host = |part: &str| part.contains(':') || part.contains('.');
    let glued = containers(scene).into_iter().filter(|container| {
        let parts: Vec<&str> = container.text("image").split('/').collect();
        parts.len() > 3 && is_host(parts[0]) && parts[1..parts.len() - 1].iter().any(|part| is_host(part))
    });
    Ok(glued
        .map(|container| {
            container.spot("image", format!("`{}`", container.text("image"))).expected("one registry, at the beginning")
        })
        .collect())
}

/// What a rule expects in the place of each image, with the fix.
fn images(scene: &Scene<'_>, judge: impl Fn(&Scene<'_>, &str) -> Option<(String, String)>) -> Judged {
    if !scene.mirrors.know_images() {
        return Err(NO_MIRRORS);
    }
    let mut spots = Vec::new();
    for container in containers(scene) {
        let image = container.text("image");
        if image.is_empty() {
            continue;
        }
        if let Some((expected, fix)) = judge(scene, image) {
            let full = full_reference(image);
            let found = if full == image { format!("`{image}`") } else { format!("`{image}`, which is `{full}`") };
            spots.push(container.spot("image", found).expected(expected).fix(fix));
        }
    }
    Ok(spots)
}

pub(super) fn relative_commands(scene: &Scene<'_>) -> Judged {
    let mut spots = Vec::new();
    for container in containers(scene) {
        let folder = container.text("workingDir");
        let command = container.body["command"][0].as_str().unwrap_or_default();
        // A bare word is looked for on PATH, wherever one stands.
        let relative = command.contains('/') && !command.starts_with('/');
        if relative && !folder.is_empty() {
            let found = format!("`{command}` in `{folder}`");
            spots.push(container.spot("command[0]", found).expected("an absolute path"));
        }
    }
    Ok(spots)
}

pub(super) fn relative_mounts(scene: &Scene<'_>) -> Judged {
    let mut spots = Vec::new();
    for container in containers(scene) {
        for mount in container.body["volumeMounts"].as_array().into_iter().flatten() {
            let text = |key: &str| mount[key].as_str().unwrap_or_default();
            let below = |key: &str| format!("volumeMounts[{}].{key}", text("name"));
            if !text("mountPath").starts_with('/') {
                let found = format!("`{}`", text("mountPath"));
                spots.push(container.spot(&below("mountPath"), found).expected("an absolute path"));
            }
            let sub = text("subPath");
            if sub.starts_with('/') || sub.split('/').any(|part| part == "..") {
                let spot = container.spot(&below("subPath"), format!("`{sub}`"));
                spots.push(spot.expected("a path below the volume").fix("leave the leading `/` and every `..` away"));
            }
        }
    }
    Ok(spots)
}

pub(super) fn never_pulled(scene: &Scene<'_>) -> Judged {
    let never = containers(scene).into_iter().filter(|container| container.text("imagePullPolicy") == "Never");
    Ok(never
        .map(|container| container.spot("imagePullPolicy", "`Never`").expected("`IfNotPresent` or `Always`"))
        .collect())
}

pub(super) fn host_ports(scene: &Scene<'_>) -> Judged {
    let mut spots = Vec::new();
    for container in containers(scene) {
        for port in container.body["ports"].as_array().into_iter().flatten() {
            if let Some(number) = port["hostPort"].as_u64().filter(|number| *number > 0) {
                spots.push(container.spot("ports", format!("hostPort {number}")).expected("no hostPort"));
            }
        }
    }
    for manifest in scene.manifests {
        let Some((path, pod)) = pod(manifest) else { continue };
        if pod["hostNetwork"] == true {
            spots.push(Spot::new(manifest, format!("{path}.hostNetwork"), "true").expected("no hostNetwork"));
        }
    }
    Ok(spots)
}

/// Labels by which a pod asks for a kind of node; the first is the operating system's, the second the architecture's.
const PLATFORM_LABELS: [[&str; 2]; 2] =
    [["kubernetes.io/os", "beta.kubernetes.io/os"], ["kubernetes.io/arch", "beta.kubernetes.io/arch"]];

pub(super) fn unavailable_platforms(scene: &Scene<'_>) -> Judged {
    if scene.platforms.is_empty() {
        return Err("the configuration names no platforms of nodes (`nodes.platforms`)");
    }
    let mut spots = Vec::new();
    for manifest in scene.manifests {
        let Some((path, pod)) = pod(manifest) else { continue };
        for (part, labels) in PLATFORM_LABELS.iter().enumerate() {
            let have: Vec<&str> = scene.platforms.iter().filter_map(|platform| platform.split('/').nth(part)).collect();
            for label in labels {
                let asked = asked_for(pod, label);
                if !asked.is_empty() && !asked.iter().any(|one| have.contains(&one.as_str())) {
                    let found = format!("{label}: {}", asked.join(" or "));
                    spots.push(Spot::new(manifest, &path, found).expected(scene.platforms.join(", ")));
                }
            }
        }
    }
    Ok(spots)
}

/// The values of a node's label that a pod can live with; empty for all.
fn asked_for(pod: &Value, label: &str) -> Vec<String> {
    if let Some(one) = pod["nodeSelector"][label].as_str() {
        return vec![one.to_owned()];
    }
    let terms = &pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let expressions =
        terms.as_array().into_iter().flatten().flat_map(|term| term["matchExpressions"].as_array()).flatten();
    let own = expressions.filter(|one| one["key"] == *label && one["operator"] == "In");
    let values = own.flat_map(|one| one["values"].as_array()).flatten().filter_map(|value| value.as_str());
    values.map(str::to_owned).collect()
}
