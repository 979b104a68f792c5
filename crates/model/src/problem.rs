//! The one error form of the product, and the closed list of kinds that decides HTTP status, exit code and retries.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use serde::{Deserialize, Serialize};

pub type Result<T, E = Problem> = std::result::Result<T, E>;

/// What kind of thing went wrong. Mapped once to an HTTP status, a CLI exit code and a retry policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The caller's input is wrong; the same call fails again.
    Invalid,
    /// The caller is not known, or its token is wrong or expired.
    Unauthenticated,
    /// The caller is known and may not do this.
    Denied,
    NotFound,
    /// The call contradicts the present state.
    Conflict,
    /// A limit is reached for now; the same call may succeed later.
    Busy,
    Timeout,
    /// An outside part (database, cluster, disk) does not answer or is full for now.
    Unavailable,
    /// Something that this machine or installation lacks.
    Missing,
    /// A workflow ran and failed.
    Failed,
    /// A defect of ours.
    Internal,
}

/// The kind of the first failed operation on a file among an error and its causes.
pub fn io_kind(error: &(dyn StdError + 'static)) -> Option<std::io::ErrorKind> {
    let own = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    own.or_else(|| error.source().and_then(io_kind))
}

impl ErrorKind {
    pub fn http_status(self) -> u16 {
        match self {
            Self::Invalid => 400,
            Self::Unauthenticated => 401,
            Self::Denied => 403,
            Self::NotFound => 404,
            Self::Conflict => 409,
            Self::Missing | Self::Failed => 422,
            Self::Busy => 429,
            Self::Internal => 500,
            Self::Unavailable => 503,
            Self::Timeout => 504,
        }
    }

    /// Exit codes 0 to 11 have one meaning each; 0 and 9 are outcomes, not errors.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Internal => 1,
            Self::Invalid => 2,
            Self::Unauthenticated | Self::Denied => 3,
            Self::Missing => 4,
            Self::Failed => 5,
            Self::Timeout => 6,
            Self::NotFound => 7,
            Self::Conflict => 8,
            Self::Busy | Self::Unavailable => 10,
        }
    }

    /// Whether the same call may succeed later without a change by the caller.
    pub fn retryable(self) -> bool {
        matches!(self, Self::Busy | Self::Timeout | Self::Unavailable)
    }
}

/// An error with a stable code, the place, what was found, what was expected and what to do.
///
/// The message is a lower-case fragment without a full stop. `code` is `noun.what_is_wrong` and never changes once released.
/// The cause is kept for logs and is not sent over the wire.
#[derive(Debug, Serialize, Deserialize)]
pub struct Problem {
    pub kind: ErrorKind,
    pub code: Cow<'static, str>,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub place: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub found: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expected: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fix: Option<String>,
    #[serde(skip)]
    pub cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl Problem {
    pub fn new(kind: ErrorKind, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            code: Cow::Borrowed(code),
            message: message.into(),
            place: None,
            found: None,
            expected: None,
            fix: None,
            cause: None,
        }
    }

    /// A defect of ours; the cause goes to the log, not to the caller.
    pub fn internal(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, code, message)
    }

    /// A name that is not in a closed list: says which names there are and which one is nearest.
    pub fn unknown<'a>(
        code: &'static str,
        noun: &str,
        found: &str,
        known: impl IntoIterator<Item = &'a str> + Clone,
    ) -> Self {
        let near = nearest(found, known.clone());
        let mut all: Vec<&str> = Vec::new();
        for name in known {
            // A name that stands for several things is told once.
            if !all.contains(&name) {
                all.push(name);
            }
        }
        let expected = if all.len() <= 40 { all.join(", ") } else { format!("one of {} known names", all.len()) };
        let problem = Self::new(ErrorKind::NotFound, code, format!("unknown {noun}"))
            .found(format!("`{found}`"))
            .expected(if expected.is_empty() { format!("a known {noun}; there is none yet") } else { expected });
        match near {
            Some(name) => problem.fix(format!("did you mean `{name}`?")),
            None => problem,
        }
    }

    pub fn place(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
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

    pub fn cause(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// The message with the whole chain of causes, for logs.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut next = StdError::source(self);
        while let Some(error) = next {
            text.push_str(": ");
            text.push_str(&error.to_string());
            next = error.source();
        }
        text
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        write!(f, "{}", self.message)?;
        if let Some(found) = &self.found {
            write!(f, "; found {found}")?;
        }
        if let Some(expected) = &self.expected {
            write!(f, "; expected {expected}")?;
        }
        if let Some(fix) = &self.fix {
            write!(f, "; {fix}")?;
        }
        write!(f, " [{}]", self.code)
    }
}

impl StdError for Problem {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn StdError + 'static))
    }
}

/// The known name closest to `found` by Damerau-Levenshtein distance, if it is close enough to be a slip of the hand.
pub fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (found.chars().count() / 3).max(1) + 1;
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(found, name), name))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// A number with its noun, in the plural where that is due: `1 run`, `2 runs`.
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_suggests_the_nearest() {
        let problem =
            Problem::unknown("capability.unknown", "capability", "network_dealy", ["network_delay", "pod_kill"]);
        assert_eq!(problem.fix.as_deref(), Some("did you mean `network_delay`?"));
        assert_eq!(problem.kind.http_status(), 404);
        let far = Problem::unknown("capability.unknown", "capability", "zzzzzz", ["network_delay", "pod_kill"]);
        assert_eq!(far.fix, None);
        let twice = Problem::unknown("algorithm.unknown", "algorithm", "nosuch", ["random", "baro", "random"]);
        assert_eq!(twice.expected.as_deref(), Some("random, baro"));
    }

    #[test]
    fn display_names_place_found_expected_fix_and_code() {
        let problem = Problem::new(ErrorKind::Invalid, "window.empty", "the window is empty")
            .place("windows.normal")
            .found("0 s")
            .expected("5 s to 3600 s")
            .fix("set `--normal 60s`");
        assert_eq!(
            problem.to_string(),
            "windows.normal: the window is empty; found 0 s; expected 5 s to 3600 s; set `--normal 60s` [window.empty]"
        );
    }
}
