//! Rules about what can never become ready.

use serde_json::Value;

use super::pod::{containers, pod};
use super::table::Judged;
use super::{Scene, Spot};
use crate::render::Manifest;

pub(super) fn load_balancers(scene: &Scene<'_>) -> Judged {
    let services = scene.manifests.iter().filter(|manifest| manifest.kind == "Service");
    let balanced = services.filter(|manifest| manifest.body["spec"]["type"] == "LoadBalancer");
    Ok(balanced
        .map(|one| Spot::new(one, "spec.type", "`LoadBalancer`").expected("`ClusterIP` or `NodePort`"))
        .collect())
}

/// One object that a pod must have before it starts.
struct Need {
    path: String,
    kind: &'static str,
    name: String,
}

/// What a pod refers to, place by place.
#[derive(Default)]
struct Needs(Vec<Need>);

impl Needs {
    /// `reference` names the object in one of the ways of the API; one that is optional is no need.
    fn add(&mut self, path: &str, kind: &'static str, reference: &Value) {
        let name = ["name", "secretName", "claimName"].into_iter().find_map(|key| reference[key].as_str());
        if let Some(name) = name.filter(|name| !name.is_empty() && reference["optional"] != true) {
            self.0.push(Need { path: path.to_owned(), kind, name: name.to_owned() });
        }
    }

    fn volume(&mut self, path: &str, volume: &Value) {
        self.add(path, "ConfigMap", &volume["configMap"]);
        self.add(path, "Secret", &volume["secret"]);
        self.add(path, "PersistentVolumeClaim", &volume["persistentVolumeClaim"]);
        for source in items(&volume["projected"]["sources"]) {
            self.volume(path, source);
        }
    }

    fn container(&mut self, path: &str, container: &Value) {
        for from in items(&container["envFrom"]) {
            let path = format!("{path}.envFrom");
            self.add(&path, "ConfigMap", &from["configMapRef"]);
            self.add(&path, "Secret", &from["secretRef"]);
        }
        for variable in items(&container["env"]) {
            let path = format!("{path}.env[{}]", named(variable));
            self.add(&path, "ConfigMap", &variable["valueFrom"]["configMapKeyRef"]);
            self.add(&path, "Secret", &variable["valueFrom"]["secretKeyRef"]);
        }
    }
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn named(item: &Value) -> &str {
    item["name"].as_str().unwrap_or("?")
}

/// Everything that the pod of a workload cannot do without.
fn needs(manifest: &Manifest) -> Vec<Need> {
    let Some((path, pod)) = pod(manifest) else { return Vec::new() };
    let mut needs = Needs::default();
    for volume in items(&pod["volumes"]) {
        needs.volume(&format!("{path}.volumes[{}]", named(volume)), volume);
    }
    for list in ["initContainers", "containers"] {
        for container in items(&pod[list]) {
            needs.container(&format!("{path}.{list}[{}]", named(container)), container);
        }
    }
    let account = pod["serviceAccountName"].as_str().unwrap_or("default");
    if account != "default" {
        let path = format!("{path}.serviceAccountName");
        needs.0.push(Need { path, kind: "ServiceAccount", name: account.to_owned() });
    }
    needs.0
}

/// The hooks that run only after everything was ready.
const AFTERWARDS: [&str; 2] = ["post-install", "post-upgrade"];

fn is_afterwards(manifest: &Manifest) -> bool {
    let after = |hook: &String| AFTERWARDS.contains(&hook.as_str());
    !manifest.hooks.is_empty() && manifest.hooks.iter().all(after)
}

/// Workloads that are installed with the release, with what they need.
fn waiting<'a>(scene: &'a Scene<'_>) -> impl Iterator<Item = (&'a Manifest, Need)> {
    let own = scene.manifests.iter().filter(|manifest| manifest.hooks.is_empty());
    own.flat_map(|manifest| needs(manifest).into_iter().map(move |need| (manifest, need)))
}

fn is_it(manifest: &Manifest, need: &Need) -> bool {
    manifest.kind == need.kind && manifest.name == need.name
}

pub(super) fn needs_post_install_hook(scene: &Scene<'_>) -> Judged {
    let mut spots = Vec::new();
    for (manifest, need) in waiting(scene) {
        let mut makers = scene.manifests.iter().filter(|other| is_it(other, &need)).peekable();
        let Some(maker) = makers.peek().copied() else { continue };
        if makers.all(is_afterwards) {
            let found = format!("{}, a {} hook", maker.place(), maker.hooks.join(", "));
            spots
                .push(Spot::new(manifest, need.path, found).expected(format!("{} {} before it", need.kind, need.name)));
        }
    }
    Ok(spots)
}

pub(super) fn missing_references(scene: &Scene<'_>) -> Judged {
    let is_missing = |need: &Need| !scene.manifests.iter().any(|other| is_it(other, need));
    let missing = waiting(scene).filter(|(_, need)| is_missing(need));
    Ok(missing
        .map(|(manifest, need)| {
            let expected = format!("a {} of this name in the chart", need.kind);
            Spot::new(manifest, need.path, format!("{} `{}`", need.kind, need.name)).expected(expected)
        })
        .collect())
}

pub(super) fn unknown_probe_ports(scene: &Scene<'_>) -> Judged {
    let mut spots = Vec::new();
    for container in containers(scene) {
        let ports: Vec<&str> =
            items(&container.body["ports"]).iter().filter_map(|port| port["name"].as_str()).collect();
        for probe in ["readinessProbe", "startupProbe", "livenessProbe"] {
            for way in ["httpGet", "tcpSocket"] {
                let Some(asked) = container.body[probe][way]["port"].as_str() else { continue };
                let is_number = asked.bytes().all(|byte| byte.is_ascii_digit());
                if !is_number && !ports.contains(&asked) {
                    let spot = container.spot(&format!("{probe}.{way}.port"), format!("`{asked}`"));
                    let known =
                        if ports.is_empty() { "a number: no port has a name".to_owned() } else { ports.join(", ") };
                    spots.push(spot.expected(known));
                }
            }
        }
    }
    Ok(spots)
}
