//! What is wrong with a seed: one finding a fault, each with its place, and how findings become a `Problem`.

use std::borrow::Cow;
use std::fmt;

use model::{ErrorKind, Problem};
use serde::Serialize;

use crate::Spot;

/// Whether a finding stops the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Warning,
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// One thing that is wrong, or may be, at one place of one file.
///
/// `line` and `column` count from 1, columns in characters; both are 0 when the finding is about the whole file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    /// `noun.what_is_wrong`; never changes once released.
    pub code: Cow<'static, str>,
    pub file: String,
    pub line: u32,
    pub column: u32,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    pub fn error(code: &'static str, at: &Spot, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, at, message.into())
    }

    pub fn warning(code: &'static str, at: &Spot, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, at, message.into())
    }

    fn new(severity: Severity, code: &'static str, at: &Spot, message: String) -> Self {
        Self {
            severity,
            code: Cow::Borrowed(code),
            file: at.file().to_owned(),
            line: at.line(),
            column: at.column(),
            message,
            found: None,
            expected: None,
            fix: None,
        }
    }

    pub fn found(mut self, found: impl Into<String>) -> Self {
        self.found = Some(found.into());
        self
    }

    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Names the nearest of `known`, when one is close enough to be meant.
    pub(crate) fn nearest<'a>(self, wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match model::nearest(wrong, known) {
            Some(name) => self.fix(format!("did you mean `{name}`?")),
            None => self,
        }
    }

    /// `file:line:column`, or the file alone.
    pub fn place(&self) -> String {
        match self.line {
            0 => self.file.clone(),
            line => format!("{}:{line}:{}", self.file, self.column),
        }
    }

    fn kind(&self) -> ErrorKind {
        match &*self.code {
            "seed.system_unknown" => ErrorKind::NotFound,
            "seed.folder_missing" | "seed.file_missing" | "seed.unreadable" => ErrorKind::Missing,
            _ => ErrorKind::Invalid,
        }
    }
}

impl From<Finding> for Problem {
    fn from(finding: Finding) -> Self {
        let place = finding.place();
        let mut problem = Problem::new(finding.kind(), "seed.invalid", finding.message).place(place);
        problem.code = finding.code;
        problem.found = finding.found;
        problem.expected = finding.expected;
        problem.fix = finding.fix;
        problem
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place(), self.severity, self.message)?;
        for (word, text) in [("; found ", &self.found), ("; expected ", &self.expected), ("; ", &self.fix)] {
            if let Some(text) = text {
                write!(f, "{word}{text}")?;
            }
        }
        write!(f, " [{}]", self.code)
    }
}

/// Everything that was found, in the order of the files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Findings(Vec<Finding>);

impl Findings {
    pub fn has_errors(&self) -> bool {
        self.errors().next().is_some()
    }

    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.0.iter().filter(|finding| finding.severity == Severity::Error)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Finding> {
        self.0.iter()
    }

    pub fn into_vec(self) -> Vec<Finding> {
        self.0
    }

    pub(crate) fn push(&mut self, finding: Finding) {
        self.0.push(finding);
    }

    pub(crate) fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        self.0.extend(findings);
    }

    /// By file, line and column; each finding once.
    pub(crate) fn sorted(mut self) -> Self {
        self.0.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
        self.0.dedup();
        self
    }

    /// `value` with the warnings, or all findings when one of them is an error.
    pub(crate) fn unless_wrong<T>(self, value: T) -> Result<(T, Vec<Finding>), Self> {
        let sorted = self.sorted();
        if sorted.has_errors() { Err(sorted) } else { Ok((value, sorted.0)) }
    }
}

impl IntoIterator for Findings {
    type Item = Finding;
    type IntoIter = std::vec::IntoIter<Finding>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl From<Finding> for Findings {
    fn from(finding: Finding) -> Self {
        Self(vec![finding])
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, finding) in self.0.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write!(f, "{finding}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Findings {}

/// The first error; the others are named by place and code, so that none of them is lost.
impl From<Findings> for Problem {
    fn from(findings: Findings) -> Self {
        let mut errors = findings.into_iter().filter(|finding| finding.severity == Severity::Error);
        let Some(first) = errors.next() else {
            return Problem::internal("seed.no_error", "findings without an error were reported as an error");
        };
        let others: Vec<String> = errors.map(|other| format!("{} [{}]", other.place(), other.code)).collect();
        let mut problem = Problem::from(first);
        if !others.is_empty() {
            const SHOWN: usize = 10;
            let more = if others.len() > SHOWN { ", ..." } else { "" };
            let shown = others[..others.len().min(SHOWN)].join(", ");
            problem.message.push_str(&format!(" (and {} more: {shown}{more})", others.len()));
        }
        problem
    }
}
