//! YAML to a tree that keeps the source text of every scalar and the place of every node.
//!
//! Nothing is typed here: whoever reads the tree says what a scalar means. Duplicate keys, tab indentation, several
//! documents, complex keys and unknown tags are findings. Depth, size and the expansion of aliases are bounded.

mod bytes;
mod tree;

pub(crate) use bytes::{LARGEST, text, too_large};
pub(crate) use tree::{Key, Kind, Node, Scalar, Tag};

use std::collections::HashMap;
use std::sync::Arc;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use crate::{Finding, Findings, Spot};

/// Deepest nesting that is read. Real seeds and overlays stay below 20.
const DEEPEST: usize = 64;
/// Most nodes that aliases may add to a file.
const MOST_EXPANDED: usize = 100_000;

/// Reads the one document of a file. `None` when the file has no readable tree; then `report` says why.
pub(crate) fn load(file: &str, content: &[u8], report: &mut Findings) -> Option<Node> {
    let file: Arc<str> = Arc::from(file);
    let read = bytes::text(&file, content).and_then(|text| {
        let mut loader = Loader::new(&file, text, report);
        match loader.document(text) {
            Ok(Some(root)) if !root.is_null() => Ok(root),
            Ok(_) => Err(bytes::empty(&file)),
            Err(finding) => Err(finding),
        }
    });
    read.map_err(|finding| report.push(finding)).ok()
}

/// A collection whose end has not been read yet.
enum Open {
    List { at: Spot, anchor: usize, items: Vec<Node> },
    Map { at: Spot, anchor: usize, entries: Vec<(Key, Node)>, key: Option<Key>, seen: HashMap<String, u32> },
}

struct Loader<'a> {
    file: &'a Arc<str>,
    /// Width of the leading white space of each line that has a tab in it, by line.
    tabs: HashMap<u32, u32>,
    open: Vec<Open>,
    anchors: HashMap<usize, (Node, usize)>,
    expanded: usize,
    root: Option<Node>,
    documents: usize,
    tab_told: bool,
    report: &'a mut Findings,
}

impl<'a> Loader<'a> {
    fn new(file: &'a Arc<str>, text: &str, report: &'a mut Findings) -> Self {
        Self {
            file,
            tabs: bytes::tab_indents(text),
            open: Vec::new(),
            anchors: HashMap::new(),
            expanded: 0,
            root: None,
            documents: 0,
            tab_told: false,
            report,
        }
    }

    fn document(&mut self, text: &str) -> Result<Option<Node>, Finding> {
        let mut parser = Parser::new_from_str(text);
        while let Some(next) = parser.next_event() {
            let (event, span) = next.map_err(|error| self.malformed(&error))?;
            self.event(event, span)?;
        }
        Ok(self.root.take())
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Finding> {
        let at = self.spot(span);
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(Finding::error("yaml.several_documents", &at, "the file has more than one document")
                        .expected("one document a file"));
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.no_tab(&at);
                let tag = Tag::of(tag.as_deref(), &at)?;
                let plain = style == ScalarStyle::Plain;
                let node = Node { at, kind: Kind::Scalar(Scalar { text: text.into_owned(), plain, tag }) };
                self.value(node, anchor)?;
            }
            Event::SequenceStart(anchor, tag) => {
                Tag::of_collection(tag.as_deref(), "seq", &at)?;
                self.nest(Open::List { at, anchor, items: Vec::new() })?;
            }
            Event::MappingStart(anchor, tag) => {
                Tag::of_collection(tag.as_deref(), "map", &at)?;
                self.nest(Open::Map { at, anchor, entries: Vec::new(), key: None, seen: HashMap::new() })?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close()?,
            Event::Alias(anchor) => {
                self.no_tab(&at);
                let node = self.expand(anchor, &at)?;
                self.value(node, 0)?;
            }
            Event::StreamStart | Event::StreamEnd | Event::DocumentEnd | Event::Nothing => {}
        }
        Ok(())
    }

    fn nest(&mut self, open: Open) -> Result<(), Finding> {
        let (Open::List { at, .. } | Open::Map { at, .. }) = &open;
        self.deep_enough(self.open.len() + 1, at)?;
        self.open.push(open);
        Ok(())
    }

    fn deep_enough(&self, depth: usize, at: &Spot) -> Result<(), Finding> {
        if depth <= DEEPEST { Ok(()) } else { Err(too_deep(at)) }
    }

    fn close(&mut self) -> Result<(), Finding> {
        match self.open.pop() {
            Some(Open::List { at, anchor, items }) => self.value(Node { at, kind: Kind::List(items) }, anchor),
            Some(Open::Map { at, anchor, entries, .. }) => {
                let entries = tree::merged(entries)?;
                self.value(Node { at, kind: Kind::Map(entries) }, anchor)
            }
            None => Ok(()),
        }
    }

    /// Takes a finished node into the collection that is open, or as the root.
    fn value(&mut self, node: Node, anchor: usize) -> Result<(), Finding> {
        if anchor > 0 {
            let size = node.size();
            self.anchors.insert(anchor, (node.clone(), size));
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { entries, key, seen, .. }) => match key.take() {
                Some(key) => entries.push((key, node)),
                None => {
                    let next = Key::of(node)?;
                    if let Some(first) = seen.insert(next.text().to_owned(), next.at.line()) {
                        self.report.push(duplicate(&next, first));
                    }
                    *key = Some(next);
                }
            },
        }
        Ok(())
    }

    fn expand(&mut self, anchor: usize, at: &Spot) -> Result<Node, Finding> {
        let Some((node, size)) = self.anchors.get(&anchor) else {
            return Err(Finding::error("yaml.alias_recursive", at, "an alias stands inside of what it repeats"));
        };
        self.expanded += size;
        if self.expanded > MOST_EXPANDED {
            return Err(Finding::error("yaml.alias_bomb", at, "the aliases of this file expand to too much")
                .expected(format!("at most {MOST_EXPANDED} repeated values"))
                .fix("write the values out, or repeat smaller parts"));
        }
        self.deep_enough(self.open.len() + node.depth(), at)?;
        Ok(node.clone())
    }

    fn spot(&self, span: Span) -> Spot {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Spot::new(self.file, number(span.start.line()), number(span.start.col() + 1))
    }

    /// A node that starts a line after white space with a tab: some programs read it, others refuse it.
    fn no_tab(&mut self, at: &Spot) {
        if !self.tab_told && self.tabs.get(&at.line()) == Some(&(at.column() - 1)) {
            self.tab_told = true;
            let finding = self.tab(at.line());
            self.report.push(finding);
        }
    }

    fn tab(&self, line: u32) -> Finding {
        Finding::error("yaml.tab", &Spot::new(self.file, line, 1), "a tab is used as indentation")
            .expected("spaces")
            .fix("replace each tab by spaces")
    }

    fn malformed(&self, error: &ScanError) -> Finding {
        let line = u32::try_from(error.marker().line()).unwrap_or(u32::MAX);
        // A tab is often told at the line before or after it.
        let suspect = [line, line + 1, line.saturating_sub(1)].into_iter().find(|line| self.tabs.contains_key(line));
        if let Some(line) = suspect {
            return self.tab(line);
        }
        let at = self.spot(Span::empty(*error.marker()));
        // The scanner looks ahead and has a bound of its own for `[` and `{`.
        if error.info() == "recursion limit exceeded" {
            return too_deep(&at);
        }
        Finding::error("yaml.malformed", &at, "the file is not well-formed YAML").found(error.info())
    }
}

fn too_deep(at: &Spot) -> Finding {
    Finding::error("yaml.too_deep", at, "the file is nested too deeply").expected(format!("at most {DEEPEST} levels"))
}

fn duplicate(key: &Key, first: u32) -> Finding {
    Finding::error("yaml.duplicate_key", &key.at, "a key stands twice in one mapping")
        .found(format!("`{}` again, first at line {first}", key.text()))
        .expected("each key once")
        .fix("remove one of the two")
}
