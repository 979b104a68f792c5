//! The tree: scalars as written, lists, and mappings in the order of the file.

use std::collections::{HashMap, HashSet};

use saphyr_parser::Tag as SourceTag;

use crate::{Finding, Spot};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub at: Spot,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A scalar as it stands in the file; `plain` means without quotes or block style.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scalar {
    pub text: String,
    pub plain: bool,
    pub tag: Option<Tag>,
}

/// The tags of YAML's core schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    Str,
    Int,
    Float,
    Bool,
    Null,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Key {
    pub at: Spot,
    pub scalar: Scalar,
}

impl Node {
    pub fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar(scalar) if scalar.is_null())
    }

    /// What it is, for a message.
    pub fn describe(&self) -> String {
        match &self.kind {
            Kind::Scalar(scalar) if scalar.is_null() => "nothing".to_owned(),
            Kind::Scalar(scalar) => format!("`{}`", scalar.text),
            Kind::List(items) => format!("a list of {}", items.len()),
            Kind::Map(entries) => format!("a mapping of {}", entries.len()),
        }
    }

    /// Number of nodes in it, itself included.
    pub fn size(&self) -> usize {
        1 + match &self.kind {
            Kind::Scalar(_) => 0,
            Kind::List(items) => items.iter().map(Self::size).sum(),
            Kind::Map(entries) => entries.iter().map(|(_, value)| value.size()).sum(),
        }
    }

    /// Levels of collections in it; 0 for a scalar.
    pub fn depth(&self) -> usize {
        match &self.kind {
            Kind::Scalar(_) => 0,
            Kind::List(items) => 1 + items.iter().map(Self::depth).max().unwrap_or(0),
            Kind::Map(entries) => 1 + entries.iter().map(|(_, value)| value.depth()).max().unwrap_or(0),
        }
    }
}

impl Scalar {
    pub fn is_null(&self) -> bool {
        match self.tag {
            None => self.plain && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL"),
            Some(tag) => tag == Tag::Null,
        }
    }
}

impl Tag {
    pub fn of(tag: Option<&SourceTag>, at: &Spot) -> Result<Option<Self>, Finding> {
        let Some(tag) = tag else { return Ok(None) };
        let known = match (tag.is_yaml_core_schema(), tag.suffix.as_str()) {
            (true, "str") => Self::Str,
            (true, "int") => Self::Int,
            (true, "float") => Self::Float,
            (true, "bool") => Self::Bool,
            (true, "null") => Self::Null,
            // The non-specific tag `!` says that the scalar is a string.
            (false, "") => Self::Str,
            _ => return Err(Self::unsupported(tag, at)),
        };
        Ok(Some(known))
    }

    pub fn of_collection(tag: Option<&SourceTag>, own: &str, at: &Spot) -> Result<(), Finding> {
        match tag {
            Some(tag) if !(tag.is_yaml_core_schema() && tag.suffix == own) => Err(Self::unsupported(tag, at)),
            _ => Ok(()),
        }
    }

    fn unsupported(tag: &SourceTag, at: &Spot) -> Finding {
        Finding::error("yaml.tag_unsupported", at, "a tag that is not read here")
            .found(format!("`{tag}`"))
            .expected("no tag, or one of !!str !!int !!float !!bool !!null !!seq !!map")
    }
}

impl Key {
    pub fn of(node: Node) -> Result<Self, Finding> {
        match node.kind {
            Kind::Scalar(scalar) => Ok(Self { at: node.at, scalar }),
            _ => Err(Finding::error("yaml.complex_key", &node.at, "a key is a list or a mapping")
                .expected("a word as the key")),
        }
    }

    pub fn text(&self) -> &str {
        &self.scalar.text
    }

    fn is_merge(&self) -> bool {
        self.scalar.plain && self.scalar.tag.is_none() && self.scalar.text == "<<"
    }
}

/// The entries with those of a merge key `<<` added; a key that stands in the mapping itself wins.
///
/// Readers disagree when a key stands before the `<<` that brings the same key, so that is refused.
pub(super) fn merged(entries: Vec<(Key, Node)>) -> Result<Vec<(Key, Node)>, Finding> {
    let Some(position) = entries.iter().position(|(key, _)| key.is_merge()) else { return Ok(entries) };
    let mut own = entries;
    let (merge, value) = own.remove(position);
    let not_mappings = |at: &Spot| {
        Finding::error("yaml.merge_key", at, "the merge key `<<` does not bring in a mapping")
            .expected("an alias of a mapping, or a list of such aliases")
    };
    let sources = match value.kind {
        Kind::Map(_) => vec![value],
        Kind::List(items) => items,
        Kind::Scalar(_) => return Err(not_mappings(&value.at)),
    };
    let places: HashMap<String, usize> = own.iter().map(|(key, _)| key.text().to_owned()).zip(0..).collect();
    let mut brought: Vec<(Key, Node)> = Vec::new();
    let mut names = HashSet::new();
    for source in sources {
        let Kind::Map(entries) = source.kind else { return Err(not_mappings(&source.at)) };
        for (key, value) in entries {
            match places.get(key.text()) {
                Some(place) if *place < position => {
                    return Err(Finding::error(
                        "yaml.merge_key",
                        &merge.at,
                        "a merge key stands after a key that it brings",
                    )
                    .found(format!("`{}` before `<<`", key.text()))
                    .fix("make `<<` the first key"));
                }
                Some(_) => {}
                None => {
                    if names.insert(key.text().to_owned()) {
                        brought.push((key, value));
                    }
                }
            }
        }
    }
    own.splice(position..position, brought);
    Ok(own)
}
