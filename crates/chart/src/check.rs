//! What is looked for in a rendered chart before it is installed: one table of rules, each with what it protects from.

mod pod;
mod pool;
mod ready;
mod table;
mod text;

use model::Problem;

use crate::mirror::Mirrors;
use crate::render::Manifest;

/// Whether an installation would come to grief.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It does not come up, or not everywhere.
    Error,
    /// It may come up; somebody should look.
    Warning,
}

impl Severity {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// What one rule found in one place.
#[derive(Debug)]
pub struct Finding {
    pub severity: Severity,
    /// Place, found, expected and fix; its code is the rule's.
    pub problem: Problem,
}

/// What is rendered, and where it is to run.
pub struct Scene<'a> {
    pub manifests: &'a [Manifest],
    /// The same chart in another slot; empty when there is one slot only.
    pub neighbour: &'a [Manifest],
    pub mirrors: &'a Mirrors,
    /// Platforms of the nodes, `linux/amd64`; empty where nobody said.
    pub platforms: &'a [String],
}

/// What a rule says of a scene.
#[derive(Debug)]
pub struct Checked {
    pub findings: Vec<Finding>,
    /// Rules that could not be judged, with the reason.
    pub skipped: Vec<(&'static str, &'static str)>,
}

impl Checked {
    pub fn errors(&self) -> usize {
        self.findings.iter().filter(|finding| finding.severity == Severity::Error).count()
    }
}

/// Where a rule found something: the object and the path in it, what is there, what should be, what to do.
struct Spot {
    place: String,
    found: String,
    expected: String,
    fix: String,
}

impl Spot {
    fn new(manifest: &Manifest, path: impl AsRef<str>, found: impl Into<String>) -> Self {
        let place = match path.as_ref() {
            "" => manifest.place(),
            path => format!("{}: {path}", manifest.place()),
        };
        Self { place, found: found.into(), expected: String::new(), fix: String::new() }
    }

    fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = expected.into();
        self
    }

    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = fix.into();
        self
    }
}

/// Judges every rule of the table. Errors first, each kind in the order of the table.
pub fn check(scene: &Scene<'_>) -> Checked {
    let mut checked = Checked { findings: Vec::new(), skipped: Vec::new() };
    for rule in table::RULES {
        match (rule.judge)(scene) {
            Ok(spots) => checked.findings.extend(spots.into_iter().map(|spot| finding(rule, spot))),
            Err(reason) => checked.skipped.push((rule.code, reason)),
        }
    }
    checked.findings.sort_by_key(|finding| finding.severity);
    checked
}

fn finding(rule: &table::Rule, spot: Spot) -> Finding {
    let mut problem =
        Problem::new(model::ErrorKind::Failed, rule.code, rule.message).place(spot.place).found(spot.found);
    problem.expected = Some(spot.expected).filter(|text| !text.is_empty());
    problem.fix = Some(spot.fix).filter(|text| !text.is_empty()).or_else(|| Some(rule.fix.to_owned()));
    Finding { severity: rule.severity, problem }
}
