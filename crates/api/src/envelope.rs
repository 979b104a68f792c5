//! The envelope around every JSON response, the page form of lists, and the problem object of errors.

use model::{ErrorKind, Problem, WallTime};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Every JSON response, errors included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Envelope<T> {
    /// The HTTP status, repeated.
    pub code: i32,
    /// `Success`, or what went wrong in words.
    pub message: String,
    pub data: T,
    /// Seconds since the Unix epoch.
    pub timestamp: i64,
}

impl<T> Envelope<T> {
    pub fn success(status: u16, data: T, now: WallTime) -> Self {
        Self { code: i32::from(status), message: "Success".into(), data, timestamp: now.seconds() }
    }
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub pagination: Pagination,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pagination {
    /// From 1.
    pub page: i32,
    pub size: i32,
    /// Number of items on all pages.
    pub total: i32,
    pub total_pages: i32,
}

impl Pagination {
    pub fn new(query: PageQuery, total: u64) -> Self {
        let total = i32::try_from(total).unwrap_or(i32::MAX);
        let size = query.size();
        Self { page: query.page(), size, total, total_pages: total / size + i32::from(total % size != 0) }
    }
}

/// Which page of a list is wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// From 1; 1 when absent.
    #[param(minimum = 1)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<i32>,
    /// Items on a page: 1 to 100; 20 when absent.
    #[param(minimum = 1, maximum = 100)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
}

impl PageQuery {
    pub const LARGEST: i32 = 100;

    /// Refuses what cannot be a page.
    ///
    /// # Errors
    /// `page.out_of_range`.
    pub fn check(self) -> model::Result<Self> {
        let wrong = |place: &str, found: i32, expected: &str| {
            Err(Problem::new(ErrorKind::Invalid, "page.out_of_range", "there is no such page")
                .place(place)
                .found(found.to_string())
                .expected(expected))
        };
        match (self.page, self.size) {
            (Some(page), _) if page < 1 => wrong("page", page, "a number from 1"),
            (_, Some(size)) if !(1..=Self::LARGEST).contains(&size) => wrong("size", size, "a number from 1 to 100"),
            _ => Ok(self),
        }
    }

    pub fn page(self) -> i32 {
        self.page.unwrap_or(1).max(1)
    }

    pub fn size(self) -> i32 {
        self.size.unwrap_or(20).clamp(1, Self::LARGEST)
    }

    /// Number of items before the page.
    pub fn offset(self) -> u64 {
        u64::from((self.page() - 1).unsigned_abs()) * u64::from(self.size().unsigned_abs())
    }

    pub fn limit(self) -> u64 {
        u64::from(self.size().unsigned_abs())
    }
}

/// What stands in `data` of an error: the members of RFC 9457 and ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorData {
    /// `urn:aegis:problem:` and the code.
    #[serde(rename = "type")]
    pub type_uri: String,
    pub title: String,
    pub status: u16,
    /// Everything below in one sentence.
    pub detail: String,
    /// The request's path.
    pub instance: String,
    /// Which kind of thing went wrong; decides the exit code of `aegisctl`.
    #[schema(value_type = String)]
    pub kind: ErrorKind,
    /// Stable: `noun.what_is_wrong`.
    pub code: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub place: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub found: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expected: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fix: Option<String>,
    pub request_id: String,
    /// Whether the same call may succeed later without a change.
    pub retryable: bool,
}

impl ErrorData {
    pub fn new(problem: &Problem, request_id: &str, instance: &str) -> Self {
        Self::with_status(problem, problem.kind.http_status(), request_id, instance)
    }

    /// For the statuses that HTTP itself gives a meaning to (405, 413, 415).
    pub fn with_status(problem: &Problem, status: u16, request_id: &str, instance: &str) -> Self {
        Self {
            type_uri: format!("urn:aegis:problem:{}", problem.code),
            title: problem.message.clone(),
            status,
            detail: problem.to_string(),
            instance: instance.to_owned(),
            kind: problem.kind,
            code: problem.code.to_string(),
            message: problem.message.clone(),
            place: problem.place.clone(),
            found: problem.found.clone(),
            expected: problem.expected.clone(),
            fix: problem.fix.clone(),
            request_id: request_id.to_owned(),
            retryable: problem.kind.retryable(),
        }
    }

    /// The error as it was raised in the server, without its cause.
    pub fn into_problem(self) -> Problem {
        Problem {
            kind: self.kind,
            code: self.code.into(),
            message: self.message,
            place: self.place,
            found: self.found,
            expected: self.expected,
            fix: self.fix,
            cause: None,
        }
    }

    /// The envelope of this error. The message is the one-sentence form, because older clients show nothing else.
    pub fn into_envelope(self, now: WallTime) -> Envelope<Self> {
        Envelope { code: i32::from(self.status), message: self.detail.clone(), timestamp: now.seconds(), data: self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_and_bounded() {
        let query = |page, size| PageQuery { page: Some(page), size: Some(size) };
        assert_eq!(Pagination::new(query(1, 20), 0).total_pages, 0);
        assert_eq!(Pagination::new(query(1, 20), 40).total_pages, 2);
        assert_eq!(Pagination::new(query(1, 20), 41).total_pages, 3);
        assert_eq!(query(3, 50).offset(), 100);
        for wrong in [query(0, 20), query(1, 0), query(1, 101)] {
            assert_eq!(wrong.check().unwrap_err().code, "page.out_of_range");
        }
    }

    #[test]
    fn a_problem_survives_the_wire() {
        let problem =
            Problem::new(ErrorKind::Failed, "fault.no_targets", "nothing was hit").place("faults[0]").fix("x");
        let data = ErrorData::new(&problem, "r-1", "/api/v2/runs");
        assert_eq!(data.status, 422);
        let back: ErrorData = serde_json::from_str(&serde_json::to_string(&data).unwrap()).unwrap();
        assert_eq!(back.into_problem().to_string(), problem.to_string());
    }
}
