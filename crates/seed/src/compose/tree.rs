//! Values with the layer that each of them comes from.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{KeyPath, Segment, Spot};

/// The layers of a composed values file, lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueLayer {
    ChartDefault,
    Overlay,
    /// A default in the seed.
    Parameter,
    /// A template in the seed, rendered for one slot.
    Template,
    RunOverride,
}

impl fmt::Display for ValueLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ChartDefault => "chart default",
            Self::Overlay => "overlay",
            Self::Parameter => "seed default",
            Self::Template => "seed template",
            Self::RunOverride => "run override",
        })
    }
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub layer: ValueLayer,
    /// File, line and column, for what a file says.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub at: Option<Spot>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some(at) => write!(f, "{}, {at}", self.layer),
            None => write!(f, "{}", self.layer),
        }
    }
}

/// One value at the end of a path: a scalar, or an empty collection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Leaf {
    /// Canonical spelling of a [`KeyPath`].
    pub path: String,
    pub value: Value,
    #[serde(flatten)]
    pub origin: Origin,
}

/// A value in which every part knows its origin.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tree {
    Leaf(Value, Origin),
    List(Vec<Tree>, Origin),
    Map(BTreeMap<String, Tree>, Origin),
}

impl Tree {
    pub(crate) fn of(value: &Value, origin: &Origin) -> Self {
        match value {
            Value::Array(items) => {
                Self::List(items.iter().map(|item| Self::of(item, origin)).collect(), origin.clone())
            }
            Value::Object(entries) => {
                let entries = entries.iter().map(|(key, item)| (key.clone(), Self::of(item, origin)));
                Self::Map(entries.collect(), origin.clone())
            }
            scalar => Self::Leaf(scalar.clone(), origin.clone()),
        }
    }

    pub(crate) fn value(&self) -> Value {
        match self {
            Self::Leaf(value, _) => value.clone(),
            Self::List(items, _) => items.iter().map(Self::value).collect(),
            Self::Map(entries, _) => {
                Value::Object(entries.iter().map(|(key, item)| (key.clone(), item.value())).collect())
            }
        }
    }

    pub(crate) fn origin(&self) -> &Origin {
        match self {
            Self::Leaf(_, origin) | Self::List(_, origin) | Self::Map(_, origin) => origin,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Leaf(Value::Null, _))
    }

    /// What it is, for a message.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Leaf(value, origin) => format!("`{value}` ({origin})"),
            Self::List(items, origin) => format!("a list of {} ({origin})", items.len()),
            Self::Map(entries, origin) => format!("a mapping of {} ({origin})", entries.len()),
        }
    }

    /// What the chart sees: its own defaults where this tree says nothing, and nothing where it says null.
    ///
    /// A null of a key that the chart does not know stays, as Helm keeps it.
    pub(crate) fn over_defaults(self, defaults: &Tree) -> Self {
        let (mut own, origin, theirs) = match (self, defaults) {
            (Self::Map(own, origin), Self::Map(theirs, _)) => (own, origin, theirs),
            (own, _) => return own,
        };
        for (key, default) in theirs {
            match own.remove(key) {
                None => {
                    own.insert(key.clone(), default.clone());
                }
                Some(tree) if tree.is_null() => {}
                Some(tree) => {
                    own.insert(key.clone(), tree.over_defaults(default));
                }
            }
        }
        Self::Map(own, origin)
    }

    pub(crate) fn leaves(&self, path: &mut Vec<Segment>, out: &mut Vec<Leaf>) {
        match self {
            Self::List(items, _) if !items.is_empty() => {
                for (number, item) in items.iter().enumerate() {
                    path.push(Segment::Index(number));
                    item.leaves(path, out);
                    path.pop();
                }
            }
            Self::Map(entries, _) if !entries.is_empty() => {
                for (key, item) in entries {
                    path.push(Segment::Key(key.clone()));
                    item.leaves(path, out);
                    path.pop();
                }
            }
            leaf if path.is_empty() && matches!(leaf, Self::Map(..)) => {}
            leaf => out.push(Leaf {
                path: KeyPath::of(path).to_string(),
                value: leaf.value(),
                origin: leaf.origin().clone(),
            }),
        }
    }
}
