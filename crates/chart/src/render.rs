//! What a chart becomes with its values: the manifests that the real `helm template` prints.

use model::{ErrorKind, Problem, Result};
use serde_json::Value;

use crate::helm::{Helm, Home};

/// One Kubernetes object of a rendered chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    pub kind: String,
    pub name: String,
    /// `post-install` and the like; empty for what is installed with the release itself.
    pub hooks: Vec<String>,
    /// The template that it comes from.
    pub source: String,
    pub body: Value,
}

impl Manifest {
    /// How people find it.
    pub fn place(&self) -> String {
        format!("{} {} ({})", self.kind, self.name, self.source)
    }
}

/// Renders an archive as it would be installed under `release` in the namespace of the same name.
///
/// # Errors
/// Those of starting `helm`; `chart.not_rendered`, `chart.manifest_unreadable`.
pub async fn render(helm: &Helm, archive: &[u8], values: &Value, release: &str) -> Result<Vec<Manifest>> {
    let home = Home::new()?;
    let chart = home.write("chart.tgz", archive)?;
    let text = serde_json::to_vec(values).expect("values have text keys");
    let values = home.write("values.json", &text)?;
    let (chart, values) = (chart.to_string_lossy(), values.to_string_lossy());
    let said = helm.run(&home, &["template", release, &chart, "--namespace", release, "--values", &values]).await?;
    if !said.ok {
        return Err(Problem::new(
            ErrorKind::Failed,
            "chart.not_rendered",
            "helm cannot render the chart with these values",
        )
        .place(format!("release {release}"))
        .found(said.words.replace(&*home.path("").to_string_lossy(), ""))
        .fix("correct the values; `aegisctl pedestal values CODE --explain` says where each comes from"));
    }
    let text = String::from_utf8_lossy(&said.out);
    let mut manifests = Vec::new();
    for document in documents(&text) {
        manifest(document, &mut manifests)?;
    }
    Ok(manifests)
}

/// Helm puts one line of three hyphens before each object; inside of one no line begins like that.
fn documents(text: &str) -> impl Iterator<Item = &str> {
    let text = text.strip_prefix("---\n").unwrap_or(text);
    text.split("\n---\n").filter(|part| part.lines().any(|line| !line.is_empty() && !line.starts_with('#')))
}

fn manifest(document: &str, manifests: &mut Vec<Manifest>) -> Result<()> {
    let source = document.lines().find_map(|line| line.strip_prefix("# Source: ")).unwrap_or("-").to_owned();
    let body: Value = serde_saphyr::from_str(document).map_err(|error| {
        Problem::new(ErrorKind::Failed, "chart.manifest_unreadable", "a rendered manifest is no YAML")
            .place(source.clone())
            .found(error.to_string())
    })?;
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = word(&body["kind"]);
    if let (true, Value::Array(items)) = (kind.ends_with("List"), &body["items"]) {
        manifests.extend(items.iter().map(|item| one(item.clone(), &source)));
        return Ok(());
    }
    if !body.is_null() {
        manifests.push(one(body, &source));
    }
    Ok(())
}

fn one(body: Value, source: &str) -> Manifest {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let hooks = word(&body["metadata"]["annotations"]["helm.sh/hook"]);
    let hooks = hooks.split(',').map(str::trim).filter(|hook| !hook.is_empty()).map(str::to_owned);
    Manifest {
        kind: word(&body["kind"]),
        name: word(&body["metadata"]["name"]),
        hooks: hooks.collect(),
        source: source.to_owned(),
        body,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_helm_prints_is_taken_apart_object_by_object() {
        let text = "---\n# Source: shop/templates/a.yaml\napiVersion: v1\nkind: Secret\nmetadata: {name: a, annotations: {\"helm.sh/hook\": \"post-install, post-upgrade\"}}\n---\n# Source: shop/templates/empty.yaml\n---\n# Source: shop/templates/l.yaml\nkind: List\nitems: [{kind: Service, metadata: {name: b}}, {kind: Service, metadata: {name: c}}]\n";
        let mut manifests = Vec::new();
        for document in documents(text) {
            manifest(document, &mut manifests).unwrap();
        }
        let places: Vec<String> = manifests.iter().map(Manifest::place).collect();
        assert_eq!(
            places,
            [
                "Secret a (shop/templates/a.yaml)",
                "Service b (shop/templates/l.yaml)",
                "Service c (shop/templates/l.yaml)"
            ]
        );
        assert_eq!(manifests[0].hooks, ["post-install", "post-upgrade"]);
    }
}
