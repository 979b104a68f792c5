//! Overlays: the values file `<code>.yaml` of a system, read as Helm reads a values file.

mod scalar;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::compose::{Origin, Tree, ValueLayer};
use crate::yaml::{self, Key, Kind, Node};
use crate::{Finding, Findings, Spot, digest};

/// A values file, kept whole so that it can be stored by its content hash and printed as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overlay {
    /// The file's name as the seed has it.
    pub file: String,
    pub text: String,
    /// SHA-256 of the file's bytes, in hexadecimal.
    pub sha256: String,
}

impl Overlay {
    /// Reads a file and checks that it can be used: well-formed, not empty, a mapping.
    ///
    /// # Errors
    /// Codes `overlay.*` and `yaml.*`, with the place.
    pub fn read(file: &str, content: &[u8]) -> Result<Self, Findings> {
        if content.is_empty() {
            return Err(empty(file).into());
        }
        let text = std::str::from_utf8(content).unwrap_or_default().to_owned();
        tree(file, content)?;
        Ok(Self { file: file.to_owned(), text, sha256: digest::of_bytes(content) })
    }

    /// What the file says, typed as Helm types it.
    ///
    /// # Errors
    /// As [`Overlay::read`].
    pub fn values(&self) -> Result<serde_json::Value, Findings> {
        Ok(self.tree()?.value())
    }

    pub(crate) fn tree(&self) -> Result<Tree, Findings> {
        tree(&self.file, self.text.as_bytes())
    }
}

fn empty(file: &str) -> Finding {
    Finding::error("overlay.empty", &Spot::whole(file), "the values file is empty")
        .found("no value")
        .fix("fill it, or remove the file; an overlay that changes nothing is written `{}`")
}

fn tree(file: &str, content: &[u8]) -> Result<Tree, Findings> {
    let mut report = Findings::default();
    let tree = match yaml::load(file, content, &mut report) {
        Some(root) if matches!(root.kind, Kind::Map(_)) => typed(&root, &mut report),
        Some(root) => {
            report.push(
                Finding::error("overlay.not_a_mapping", &root.at, "the values file is not a mapping")
                    .found(root.describe())
                    .expected("keys and values"),
            );
            None
        }
        None => None,
    };
    match tree {
        Some(tree) if !report.has_errors() => Ok(tree),
        _ => Err(report.sorted()),
    }
}

/// The node with its scalars typed as Helm types them; `None` after it reported what cannot be typed.
fn typed(node: &Node, report: &mut Findings) -> Option<Tree> {
    let origin = Origin { layer: ValueLayer::Overlay, at: Some(node.at.clone()) };
    match &node.kind {
        Kind::Scalar(scalar) => match scalar::resolve(scalar) {
            Ok(value) => Some(Tree::Leaf(value, origin)),
            Err(reason) => {
                report.push(not_typed(&node.at, &scalar.text, reason));
                None
            }
        },
        Kind::List(items) => {
            let read: Vec<_> = items.iter().map(|item| typed(item, report)).collect();
            read.into_iter().collect::<Option<_>>().map(|items| Tree::List(items, origin))
        }
        Kind::Map(entries) => {
            let mut lines: HashMap<String, u32> = HashMap::new();
            let mut read = Vec::with_capacity(entries.len());
            for (key, value) in entries {
                let name = name(key, report);
                let value = typed(value, report);
                if let Some((name, value)) = name.zip(value) {
                    if let Some(first) = lines.insert(name.clone(), key.at.line()) {
                        report.push(same_name(key, &name, first));
                    }
                    read.push((name, value));
                }
            }
            (read.len() == entries.len()).then(|| Tree::Map(read.into_iter().collect(), origin))
        }
    }
}

/// Keys become texts after they were typed: `on:` is the key `true`, as it is for Helm.
fn name(key: &Key, report: &mut Findings) -> Option<String> {
    match scalar::resolve(&key.scalar) {
        Ok(serde_json::Value::String(text)) => Some(text),
        Ok(serde_json::Value::Null) => {
            report.push(not_typed(&key.at, key.text(), "a key cannot be null"));
            None
        }
        Ok(other) => Some(other.to_string()),
        Err(reason) => {
            report.push(not_typed(&key.at, key.text(), reason));
            None
        }
    }
}

fn not_typed(at: &Spot, text: &str, reason: &str) -> Finding {
    Finding::error("overlay.wrong_value", at, format!("a value cannot be handed to Helm: {reason}"))
        .found(format!("`{text}`"))
        .fix("put it into quotes if it is meant as a text")
}

fn same_name(key: &Key, name: &str, first: u32) -> Finding {
    Finding::error("yaml.duplicate_key", &key.at, "two spellings of one key stand in one mapping")
        .found(format!("`{}` is the key `{name}`, first at line {first}", key.text()))
        .fix("remove one of the two, or put them into quotes")
}
