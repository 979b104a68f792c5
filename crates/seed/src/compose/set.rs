//! Setting one value at a path, without losing what stands beside it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::tree::{Origin, Tree, ValueLayer};
use crate::{Finding, KeyPath, Segment, Spot};

/// What the chart itself has at a place.
#[derive(Clone, Copy)]
pub(super) enum Default<'a> {
    /// The chart's values are not at hand.
    Unknown,
    /// `None`: the chart has nothing here.
    Known(Option<&'a Value>),
}

impl<'a> Default<'a> {
    fn key(self, key: &str) -> Self {
        match self {
            Self::Unknown => Self::Unknown,
            Self::Known(value) => Self::Known(value.and_then(|value: &'a Value| value.get(key))),
        }
    }
}

/// One value to set, for the messages.
pub(super) struct Setting<'a> {
    pub path: &'a KeyPath,
    pub at: &'a Spot,
}

impl Setting<'_> {
    /// Puts `new` at the path below `place`. Missing mappings are made. An indexed list that no earlier layer has is
    /// taken over from the chart first, because a list in a values file replaces the chart's list.
    ///
    /// # Errors
    /// `parameter.path_blocked`, `parameter.index_beyond_list`, `parameter.list_unknown`.
    pub fn put(&self, place: &mut Option<Tree>, depth: usize, chart: Default<'_>, new: Tree) -> Result<(), Finding> {
        let Some(segment) = self.path.segments().get(depth) else {
            *place = Some(new);
            return Ok(());
        };
        match segment {
            Segment::Key(key) => {
                let entries = self.mapping(place, depth, new.origin())?;
                let mut inner = entries.remove(key);
                let done = self.put(&mut inner, depth + 1, chart.key(key), new);
                if let Some(inner) = inner {
                    entries.insert(key.clone(), inner);
                }
                done
            }
            Segment::Index(index) => {
                let items = self.list(place, depth, chart, new.origin())?;
                if *index > items.len() {
                    return Err(self.beyond(depth, *index, items.len()));
                }
                let mut inner = (*index < items.len()).then(|| items.remove(*index));
                // The list is in the values file from here on, so the chart's own elements no longer count below it.
                let done = self.put(&mut inner, depth + 1, Default::Known(None), new);
                if let Some(inner) = inner {
                    items.insert(*index, inner);
                }
                done
            }
        }
    }

    fn mapping<'t>(
        &self,
        place: &'t mut Option<Tree>,
        depth: usize,
        origin: &Origin,
    ) -> Result<&'t mut BTreeMap<String, Tree>, Finding> {
        if place.as_ref().is_none_or(Tree::is_null) {
            *place = Some(Tree::Map(BTreeMap::new(), origin.clone()));
        }
        match place {
            Some(Tree::Map(entries, _)) => Ok(entries),
            other => Err(self.blocked(depth, other.as_ref(), "a mapping")),
        }
    }

    fn list<'t>(
        &self,
        place: &'t mut Option<Tree>,
        depth: usize,
        chart: Default<'_>,
        origin: &Origin,
    ) -> Result<&'t mut Vec<Tree>, Finding> {
        match place {
            None => {
                let start = match chart {
                    Default::Unknown => return Err(self.unknown_list(depth)),
                    Default::Known(None | Some(Value::Null)) => Tree::List(Vec::new(), origin.clone()),
                    Default::Known(Some(value)) => {
                        Tree::of(value, &Origin { layer: ValueLayer::ChartDefault, at: None })
                    }
                };
                *place = Some(start);
            }
            // An earlier layer removed the chart's list.
            Some(tree) if tree.is_null() => *place = Some(Tree::List(Vec::new(), origin.clone())),
            Some(_) => {}
        }
        match place {
            Some(Tree::List(items, _)) => Ok(items),
            other => Err(self.blocked(depth, other.as_ref(), "a list")),
        }
    }

    /// The path up to a depth, as text.
    fn prefix(&self, depth: usize) -> String {
        KeyPath::of(&self.path.segments()[..depth]).to_string()
    }

    fn blocked(&self, depth: usize, found: Option<&Tree>, expected: &str) -> Finding {
        let found = found.map_or("nothing".to_owned(), Tree::describe);
        Finding::error("parameter.path_blocked", self.at, format!("`{}` cannot be set", self.path))
            .found(format!("`{}` is {found}", self.prefix(depth)))
            .expected(expected)
    }

    fn beyond(&self, depth: usize, index: usize, length: usize) -> Finding {
        Finding::error("parameter.index_beyond_list", self.at, format!("`{}` is beyond the end of its list", self.path))
            .found(format!("index {index}; `{}` has {length}", self.prefix(depth)))
            .expected(format!("an index of 0 to {length}"))
    }

    fn unknown_list(&self, depth: usize) -> Finding {
        let list = self.prefix(depth);
        Finding::error(
            "parameter.list_unknown",
            self.at,
            format!("`{}` would replace a list that is not known", self.path),
        )
        .found(format!("no layer has `{list}`, and the chart's own values are not at hand"))
        .expected(format!("the whole list: all other elements and fields of the chart's `{list}` would be lost"))
        .fix(format!("write the whole of `{list}` into the overlay, or make the chart's archive available"))
    }
}
