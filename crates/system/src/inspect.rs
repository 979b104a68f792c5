//! The lint of a folder: every finding about the systems in it, each with file, line, place and fix.

use std::fs;
use std::path::{Path, PathBuf};

use model::{ErrorKind, Problem, Result};
use serde::Serialize;

use crate::Catalog;
use crate::catalog::folder_review;
use crate::folder::{FILES, is_system, systems_in};
use crate::review::Review;
use crate::spot::Node;

/// Whether a finding keeps the system from being used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    /// Legal, and probably not what was meant.
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

/// One thing that is wrong with a system's data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    /// Stable: `system.what_is_wrong`.
    pub code: String,
    pub file: PathBuf,
    /// From 1; absent where the whole file is meant.
    pub line: Option<usize>,
    /// Path inside the file, such as `calls.cart.redis`; empty where only the line is known.
    pub place: String,
    pub message: String,
    pub found: Option<String>,
    pub expected: Option<String>,
    pub fix: Option<String>,
}

/// What the lint saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Folders of the systems that were read.
    pub systems: Vec<PathBuf>,
    pub findings: Vec<Finding>,
}

impl Report {
    pub fn errors(&self) -> usize {
        self.findings.iter().filter(|finding| finding.severity == Severity::Error).count()
    }
}

/// Checks the system in a folder, or each system in the folders of a folder, by the rules of [`crate::Catalog`].
///
/// # Errors
/// `system.folder_unreadable`; `system.none_here` when there is no system.
pub fn lint(folder: &Path) -> Result<Report> {
    let systems = if is_system(folder) { vec![folder.to_owned()] } else { systems_in(folder)? };
    let mut catalog = Catalog::builtin()?;
    let mut reviews: Vec<Option<Review>> = Vec::new();
    for path in &systems {
        let review = fs::metadata(path).is_ok().then(|| folder_review(path));
        // What is wrong with a system does not keep the others from being compared with it.
        if let Some(registration) = review.as_ref().and_then(|review| review.registration.as_ref()) {
            catalog.know(registration);
        }
        reviews.push(review);
    }
    let findings = systems.iter().zip(reviews).flat_map(|(path, review)| match review {
        Some(mut review) => {
            let taken = review.registration.as_ref().and_then(|registration| catalog.overlap(registration));
            review.findings.extend(taken);
            inspect(path, review)
        }
        None => vec![leads_nowhere(path)],
    });
    Ok(Report { findings: findings.collect(), systems })
}

/// A link that leads nowhere is told as one, where the catalog would stop at it.
fn leads_nowhere(path: &Path) -> Finding {
    let problem = Problem::new(ErrorKind::Invalid, "system.folder_unreadable", "the system's folder cannot be read")
        .found(fs::metadata(path).err().map_or_else(String::new, |error| error.to_string()))
        .fix("remove the link, or let it lead somewhere");
    Finding::new(Severity::Error, path, None, String::new(), problem)
}

fn inspect(folder: &Path, review: Review) -> Vec<Finding> {
    let mut trees = Trees { folder, read: Vec::new() };
    let errors = review.findings.into_iter().map(|problem| (Severity::Error, problem));
    let notes = review.notes.into_iter().map(|problem| (Severity::Warning, problem));
    let mut findings: Vec<Finding> = Vec::new();
    for (severity, problem) in errors.chain(notes) {
        let finding = trees.finding(severity, problem);
        // Two rules may see one thing.
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
    findings.sort_by_key(|finding| (order(&finding.file), finding.line));
    findings
}

/// Files in the order in which a system is understood.
fn order(file: &Path) -> usize {
    FILES.iter().position(|name| file.ends_with(name)).unwrap_or(FILES.len())
}

impl Finding {
    fn new(severity: Severity, file: &Path, line: Option<usize>, place: String, problem: Problem) -> Self {
        Self {
            severity,
            code: problem.code.into_owned(),
            file: file.to_owned(),
            line,
            place,
            message: problem.message,
            found: problem.found,
            expected: problem.expected,
            fix: problem.fix,
        }
    }
}

/// The trees of the files that findings are about, each read once.
struct Trees<'a> {
    folder: &'a Path,
    read: Vec<(String, Option<Node>)>,
}

impl Trees<'_> {
    /// The place of a problem is `FILE`, `FILE:LINE:COLUMN` or `FILE: PLACE`.
    fn finding(&mut self, severity: Severity, problem: Problem) -> Finding {
        let whole = problem.place.clone().unwrap_or_default();
        let (file, rest) = whole.split_once(':').unwrap_or((&whole, ""));
        let path = self.folder.join(file);
        let line = rest.split(':').next().and_then(|number| number.parse::<usize>().ok());
        if let Some(line) = line {
            return Finding::new(severity, &path, Some(line), String::new(), problem);
        }
        let place = rest.trim().to_owned();
        let line = if place.is_empty() { None } else { self.tree(file).map(|tree| tree.locate(&place)) };
        Finding::new(severity, &path, line, place, problem)
    }

    fn tree(&mut self, file: &str) -> Option<&Node> {
        let known = self.read.iter().position(|(name, _)| name == file);
        let at = known.unwrap_or_else(|| {
            let text = fs::read_to_string(self.folder.join(file)).ok();
            self.read.push((file.to_owned(), text.and_then(|text| Node::of(text.trim_start_matches('\u{feff}')))));
            self.read.len() - 1
        });
        self.read[at].1.as_ref()
    }
}
