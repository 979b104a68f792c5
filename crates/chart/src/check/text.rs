//! Rules about names, wherever in a manifest they stand.

use serde_json::Value;

use super::table::Judged;
use super::{Scene, Spot};

/// Names that only the machine of a developer knows. `localhost` and its addresses count as a registry only: a process may
/// well talk to itself.
const DEVELOPER: &[&str] = &[
    "minikube",
    "docker-desktop",
    "docker-for-desktop",
    "host.docker.internal",
    "gateway.docker.internal",
    "host.minikube.internal",
    "host.k3d.internal",
    "host.lima.internal",
    "host.rancher-desktop.internal",
    "kind-registry",
    "kind-control-plane",
    "k3d-registry",
    "registry.localhost",
    "/run/desktop",
    "/host_mnt",
    "/Users",
];

/// Registries that only the machine of a developer knows.
const REGISTRIES: &[&str] = &["localhost", "127.0.0.1", "[::1]"];

/// Storage classes that such clusters bring along.
const STORAGE: &[&str] =
    &["standard", "hostpath", "local-path", "docker-desktop", "microk8s-hostpath", "csi-hostpath-sc"];

/// Every text of a manifest with its path.
fn texts<'a>(value: &'a Value, path: &str, found: &mut Vec<(String, &'a str)>) {
    match value {
        Value::String(text) => found.push((path.to_owned(), text)),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let index = item["name"].as_str().map_or_else(|| index.to_string(), str::to_owned);
                texts(item, &format!("{path}[{index}]"), found);
            }
        }
        Value::Object(entries) => {
            for (key, item) in entries {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                texts(item, &path, found);
            }
        }
        _ => {}
    }
}

pub(super) fn developer_names(scene: &Scene<'_>) -> Judged {
    let mut spots = Vec::new();
    for manifest in scene.manifests {
        let mut all = Vec::new();
        texts(&manifest.body, "", &mut all);
        for (path, text) in all {
            let registry = || path.ends_with(".image") && is_registry(text);
            if let Some(name) = DEVELOPER.iter().find(|name| holds(text, name)) {
                spots.push(Spot::new(manifest, path, format!("`{name}` in {}", shown(text))));
            } else if registry() {
                spots.push(
                    Spot::new(manifest, path, format!("`{text}`")).expected("a registry that the nodes can reach"),
                );
            }
        }
    }
    Ok(spots)
}

fn is_registry(image: &str) -> bool {
    let host = image.split_once('/').map(|(host, _)| host.rsplit_once(':').map_or(host, |(host, _)| host));
    host.is_some_and(|host| REGISTRIES.contains(&host))
}

/// Whether a text has the name as a word of its own.
fn holds(text: &str, name: &str) -> bool {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '-' || character == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        // A path of the name's own begins wherever it stands.
        let starts = name.starts_with('/') || before.is_none_or(|one| !is_part(one) && one != '.');
        starts && after.is_none_or(|one| !is_part(one))
    })
}

/// A whole configuration file is not repeated.
fn shown(text: &str) -> String {
    const LONGEST: usize = 80;
    if text.len() <= LONGEST && !text.contains('\n') {
        return format!("`{text}`");
    }
    format!("a text of {} characters", text.chars().count())
}

pub(super) fn doubled_schemes(scene: &Scene<'_>) -> Judged {
    let mut spots = Vec::new();
    for manifest in scene.manifests {
        let mut all = Vec::new();
        texts(&manifest.body, "", &mut all);
        for (path, text) in all {
            if let Some(twice) = doubled_scheme(text) {
                spots.push(Spot::new(manifest, path, format!("`{twice}` in {}", shown(text))));
            }
        }
    }
    Ok(spots)
}

/// The beginning of an address with two schemes. `jdbc:mysql://` is one, and so is what is behind a path.
fn doubled_scheme(text: &str) -> Option<&str> {
    text.match_indices("://").find_map(|(at, separator)| {
        let scheme = |end: usize| text[..end].rfind(|c: char| !c.is_ascii_alphanumeric()).map_or(0, |at| at + 1);
        let after = at + separator.len();
        let length = text[after..].find(|c: char| !c.is_ascii_alphanumeric())?;
        let begin = scheme(at);
        let is_twice = begin < at && length > 0 && text[after + length..].starts_with(separator);
        is_twice.then(|| &text[begin..after + length + separator.len()])
    })
}

/// A collector's configuration, wherever it stands: a mapping with `service.pipelines`.
pub(super) fn empty_receivers(scene: &Scene<'_>) -> Judged {
    let mut spots = Vec::new();
    for manifest in scene.manifests.iter().filter(|manifest| manifest.kind == "ConfigMap") {
        let mut all = Vec::new();
        texts(&manifest.body["data"], "data", &mut all);
        for (path, text) in all.into_iter().filter(|(_, text)| text.contains("pipelines")) {
            // What is no mapping is no configuration of a collector.
            let Ok(config) = serde_saphyr::from_str::<Value>(text) else { continue };
            let Some(pipelines) = config["service"]["pipelines"].as_object() else { continue };
            if is_empty(&config["receivers"]) {
                spots.push(Spot::new(manifest, format!("{path}: receivers"), "none"));
            }
            let idle = pipelines.iter().filter(|(_, pipeline)| is_empty(&pipeline["receivers"]));
            spots.extend(
                idle.map(|(name, _)| {
                    Spot::new(manifest, format!("{path}: service.pipelines.{name}.receivers"), "none")
                }),
            );
        }
    }
    Ok(spots)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        other => other.is_null(),
    }
}

pub(super) fn developer_storage(scene: &Scene<'_>) -> Judged {
    let mut spots = Vec::new();
    for manifest in scene.manifests {
        let mut all = Vec::new();
        texts(&manifest.body, "", &mut all);
        // Whoever brings the class along may use it.
        let own = |name: &str| scene.manifests.iter().any(|other| other.kind == "StorageClass" && other.name == name);
        for (path, text) in all {
            if path.ends_with("storageClassName") && STORAGE.contains(&text) && !own(text) {
                spots.push(Spot::new(manifest, path, format!("`{text}`")));
            }
        }
    }
    Ok(spots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_counts_as_a_word_of_its_own() {
        for (text, name) in [
            ("http://host.docker.internal:8080", "host.docker.internal"),
            ("minikube", "minikube"),
            ("nodes: [docker-desktop]", "docker-desktop"),
            ("/run/desktop/mnt/x", "/run/desktop"),
        ] {
            assert!(holds(text, name), "{text}");
        }
        for (text, name) in [
            ("my-minikube-notes", "minikube"),
            ("minikubed", "minikube"),
            ("x.minikube", "minikube"),
            ("/Userspace", "/Users"),
        ] {
            assert!(!holds(text, name), "{text}");
        }
        for text in ["http://http://collector:4317", "x=grpc://http://c", "http://https://a/b"] {
            assert!(doubled_scheme(text).is_some(), "{text}");
        }
        for text in ["jdbc:mysql://db", "http://a/?to=http://b", "http://a,http://b", "://", "http://", "http://web://"]
        {
            assert_eq!(doubled_scheme(text).is_some(), text == "http://web://", "{text}");
        }
        assert!(is_registry("localhost:5000/a:1") && is_registry("127.0.0.1/a") && !is_registry("localhost.example/a"));
        assert!(!is_registry("localhost"));
    }
}
