//! The services that a cluster's inventory names.

use serde_json::{Map, Value};

/// Label keys that name a service, as the collector's rules look them up.
const LABELS: [&str; 3] = ["app.kubernetes.io/name", "app", "name"];

/// The services behind the deployments and stateful sets of `k8s.json`, each once, by name.
///
/// Objects stand in a list, or in a map by name. A workload's service is the first of its labels `app.kubernetes.io/name`,
/// `app` and `name`, else its own name.
pub(crate) fn workloads(k8s: &Map<String, Value>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for key in ["deployments", "stateful_sets"] {
        match k8s.get(key) {
            Some(Value::Array(list)) => names.extend(list.iter().filter_map(|object| service(object, None))),
            Some(Value::Object(map)) => {
                names.extend(map.iter().filter_map(|(name, object)| service(object, Some(name))));
            }
            _ => {}
        }
    }
    names.sort();
    names.dedup();
    names
}

fn service(object: &Value, key: Option<&str>) -> Option<String> {
    let metadata = object.get("metadata").unwrap_or(object);
    let label = |name: &&str| metadata.get("labels")?.get(*name)?.as_str();
    let named = LABELS.iter().find_map(label).or_else(|| metadata.get("name")?.as_str()).or(key)?;
    Some(named.to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_and_maps_are_read() {
        let k8s = json!({
            "deployments": [
                {"metadata": {"name": "shop0-cart", "labels": {"app": "cart"}}},
                {"metadata": {"name": "web"}},
            ],
            "stateful_sets": {"mysql": {"metadata": {}}, "cart-db": {"name": "cart-db"}},
            "services": [{"metadata": {"name": "no-workload"}}],
        });
        assert_eq!(workloads(k8s.as_object().unwrap()), ["cart", "cart-db", "mysql", "web"]);
    }
}
