//! Where in a YAML file something stands: a tree of nodes with their lines, and the search for what an error names.

use saphyr_parser::{Event, Parser};

/// Deeper nesting is not followed; the reader refuses it anyway.
const DEEPEST: usize = 64;

/// One value of a file.
#[derive(Debug)]
pub(crate) struct Node {
    /// From 1.
    pub line: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Scalar(String),
    List(Vec<Node>),
    /// Keys with the lines that they stand on.
    Map(Vec<(String, usize, Node)>),
    /// An alias, or what is nested too deeply.
    Other,
}

/// One step of a path into a file, as deserialisers name it.
pub(crate) enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

impl Node {
    /// The tree of a text, as far as it can be read.
    pub fn of(text: &str) -> Option<Self> {
        let mut open: Vec<(Self, Option<(String, usize)>)> = Vec::new();
        let mut parser = Parser::new_from_str(text);
        let mut skipped = 0_usize;
        while let Some(Ok((event, span))) = parser.next_event() {
            let line = span.start.line();
            let node = |kind| Self { line, kind };
            let done = match event {
                Event::SequenceStart(..) | Event::MappingStart(..) if open.len() >= DEEPEST => {
                    skipped += 1;
                    continue;
                }
                Event::SequenceStart(..) => {
                    open.push((node(Kind::List(Vec::new())), None));
                    continue;
                }
                Event::MappingStart(..) => {
                    open.push((node(Kind::Map(Vec::new())), None));
                    continue;
                }
                Event::SequenceEnd | Event::MappingEnd if skipped > 0 => {
                    skipped -= 1;
                    continue;
                }
                _ if skipped > 0 => continue,
                Event::SequenceEnd | Event::MappingEnd => open.pop()?.0,
                Event::Scalar(text, ..) => node(Kind::Scalar(text.into_owned())),
                Event::Alias(_) => node(Kind::Other),
                _ => continue,
            };
            match open.last_mut() {
                None => return Some(done),
                Some((Self { kind: Kind::List(items), .. }, _)) => items.push(done),
                Some((Self { kind: Kind::Map(entries), .. }, key)) => match (key.take(), &done.kind) {
                    (Some((name, at)), _) => entries.push((name, at, done)),
                    (None, Kind::Scalar(text)) => *key = Some((text.clone(), done.line)),
                    (None, _) => *key = Some((String::new(), done.line)),
                },
                Some(_) => return None,
            }
        }
        None
    }

    /// The line of what a path leads to; of the last step that is there.
    pub fn line_at<'a>(&self, path: impl Iterator<Item = Step<'a>>) -> usize {
        let (mut node, mut line) = (self, self.line);
        for step in path {
            let next = match (&node.kind, step) {
                (Kind::Map(entries), Step::Key(key)) => {
                    entries.iter().find(|(name, ..)| name == key).map(|(_, at, value)| (value, *at))
                }
                (Kind::List(items), Step::Index(at)) => items.get(at).map(|item| (item, item.line)),
                _ => None,
            };
            let Some((value, at)) = next else { break };
            (node, line) = (value, at);
        }
        line
    }

    /// The line of what a message's place names, such as `calls.cart.redis: \`get\``: keys and names of list items one after
    /// the other. Of two items of one name the later one.
    pub fn locate(&self, place: &str) -> usize {
        self.find(place).unwrap_or(self.line)
    }

    /// `None` when the place names nothing in here.
    fn find(&self, place: &str) -> Option<usize> {
        let rest = place.trim_start_matches([' ', '.', ':', '`', '-', '>', '[']);
        match &self.kind {
            Kind::Map(entries) => {
                let named =
                    entries.iter().filter(|(name, ..)| starts_with(rest, name)).max_by_key(|(name, ..)| name.len());
                if let Some((name, line, value)) = named {
                    return Some(value.find(&rest[name.len()..]).unwrap_or(*line));
                }
                // A row whose operations the place names.
                let rows = entries.iter().map(|(.., value)| value).filter(|value| matches!(value.kind, Kind::List(_)));
                rows.filter_map(|value| value.item(rest)).map(|(item, _)| item.line).next()
            }
            Kind::List(_) => {
                let (item, name) = self.item(rest)?;
                Some(item.find(&rest[name..]).unwrap_or(item.line))
            }
            _ => None,
        }
    }

    /// The item that the text begins with, and the length of its name.
    fn item(&self, text: &str) -> Option<(&Self, usize)> {
        let Kind::List(items) = &self.kind else { return None };
        if let Some((number, _)) = text.split_once(']')
            && let Ok(at) = number.parse::<usize>()
        {
            return items.get(at).map(|item| (item, number.len() + 1));
        }
        let named = items.iter().flat_map(|item| item.names().into_iter().map(move |name| (item, name)));
        let fits = named.filter(|(_, name)| starts_with(text, name));
        fits.max_by_key(|(_, name)| name.len()).map(|(item, name)| (item, name.len()))
    }

    /// What an item of a list may be called.
    fn names(&self) -> Vec<String> {
        let entries = match &self.kind {
            Kind::Scalar(text) => return vec![text.clone()],
            Kind::Map(entries) => entries,
            _ => return Vec::new(),
        };
        let member = |key: &str| {
            entries.iter().find(|(name, ..)| name == key).and_then(|(.., value)| match &value.kind {
                Kind::Scalar(text) => Some(text.clone()),
                _ => None,
            })
        };
        let mut names: Vec<String> = ["name", "service", "to", "operation"].into_iter().filter_map(member).collect();
        if let (Some(method), Some(route)) = (member("method"), member("route")) {
            names.push(format!("{method} {route}"));
        }
        if let Some((table, verbs)) = member("table").zip(entries.iter().find(|(name, ..)| name == "verbs"))
            && let Kind::List(verbs) = &verbs.2.kind
        {
            names.extend(verbs.iter().flat_map(Self::names).map(|verb| format!("{verb} {table}")));
        }
        names
    }
}

/// Whether the text begins with the whole name.
fn starts_with(text: &str, name: &str) -> bool {
    !name.is_empty()
        && text.strip_prefix(name).is_some_and(|rest| {
            rest.chars().next().is_none_or(|next| !(next.is_alphanumeric() || matches!(next, '-' | '_' | '/')))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "format: 1\nservices:\n- {name: cart, port: 1}\n- name: cart\n  port: 2\ncalls:\n  cart:\n  - to: redis\n    \
         operations: [get,\n      set]\nendpoints:\n  cart:\n  - {method: GET, route: /a}\n  - {method: GET, route: '/a/{b}'}\n";

    #[test]
    fn what_an_error_names_is_found_by_its_line() {
        let tree = Node::of(TEXT).unwrap();
        for (place, line) in [
            ("services: cart", 4),
            ("services.cart.port", 5),
            ("services[0].port", 3),
            ("calls.cart", 7),
            ("calls.cart.redis", 8),
            ("calls.cart.redis: `set`", 10),
            ("calls.cart.rediss", 7),
            ("endpoints.cart.GET /a/{b}", 14),
            ("endpoints.cart.GET /a", 13),
            ("nowhere", 1),
        ] {
            assert_eq!(tree.locate(place), line, "{place}");
        }
        let path = [Step::Key("calls"), Step::Key("cart"), Step::Index(0), Step::Key("operations"), Step::Index(1)];
        assert_eq!(tree.line_at(path.into_iter()), 10);
        assert!(Node::of(&"[".repeat(10_000)).is_none(), "unfinished");
        // Whatever the parser makes of it, it is read without recursion.
        drop(Node::of(&format!("{}{}", "[".repeat(10_000), "]".repeat(10_000))));
    }
}
