//! What a run sets: nested or dotted keys, matched with the parameters that they mean.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::{Finding, Findings, KeyPath, Parameter, Spot};

/// Values by the path of the parameter that each of them sets.
pub(super) struct Overrides(HashMap<String, (Value, Spot)>);

impl Overrides {
    /// Unknown keys and keys that stand twice are reported.
    pub fn read(value: &Value, parameters: &[Parameter], report: &mut Findings) -> Self {
        let mut walk = Walk {
            known: parameters.iter().filter_map(|p| KeyPath::parse(&p.key).ok()).collect(),
            found: HashMap::new(),
            report,
        };
        match value {
            Value::Null => {}
            Value::Object(entries) => walk.mapping(entries, &KeyPath::root()),
            other => walk.report.push(
                Finding::error("override.not_a_mapping", &spot(None), "the run's values are not a mapping")
                    .found(other.to_string())
                    .expected("keys and values"),
            ),
        }
        Self(walk.found)
    }

    pub fn take(&mut self, parameter: &Parameter) -> Option<(Value, Spot)> {
        self.0.remove(&parameter.key)
    }
}

struct Walk<'a> {
    known: Vec<KeyPath>,
    found: HashMap<String, (Value, Spot)>,
    report: &'a mut Findings,
}

impl Walk<'_> {
    fn mapping(&mut self, entries: &Map<String, Value>, prefix: &KeyPath) {
        for (key, value) in entries {
            // A key of a nested mapping may be one key with dots in it, or a path of its own.
            let candidates = [Some(prefix.then(key)), KeyPath::parse(key).ok().map(|path| prefix.join(&path))];
            let candidates: Vec<KeyPath> = candidates.into_iter().flatten().collect();
            if let Some(path) = candidates.iter().find(|path| self.known.contains(path)) {
                self.set(path.to_string(), value);
            } else if let (Some(path), Value::Object(inner)) = (self.towards_known(&candidates), value) {
                self.mapping(inner, &path);
            } else {
                let path = candidates.last().expect("the first candidate always stands").to_string();
                self.unknown(&path);
            }
        }
    }

    fn towards_known(&self, candidates: &[KeyPath]) -> Option<KeyPath> {
        candidates.iter().find(|path| self.known.iter().any(|known| known.starts_with(path))).cloned()
    }

    fn set(&mut self, path: String, value: &Value) {
        let at = spot(Some(&path));
        if self.found.insert(path, (value.clone(), at.clone())).is_some() {
            self.report.push(Finding::error("override.duplicate", &at, "the run sets a key twice, in two spellings"));
        }
    }

    fn unknown(&mut self, path: &str) {
        let known: Vec<String> = self.known.iter().map(KeyPath::to_string).collect();
        self.report.push(
            Finding::error("override.unknown", &spot(Some(path)), "the run sets a key that is no parameter")
                .found(format!("`{path}`"))
                .expected(if known.is_empty() {
                    "no value: there are no parameters".to_owned()
                } else {
                    known.join(", ")
                })
                .nearest(path, known.iter().map(String::as_str)),
        );
    }
}

/// The place of a run's value: the request has no lines.
fn spot(path: Option<&str>) -> Spot {
    Spot::whole(&path.map_or("overrides".to_owned(), |path| format!("overrides.{path}")))
}
