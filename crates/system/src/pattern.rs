//! Matching of request paths against route templates.

use serde::{Deserialize, Serialize};

/// A path in which `*` stands for one segment, or for the whole rest when it is the last one.
///
/// This is the form that HTTP faults match with. Frameworks write variable segments as `{name}`; no real request
/// contains that text, so templates are converted before they are used as a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PathPattern(String);

impl PathPattern {
    /// The pattern of a route template: every `{name}` segment becomes `*`.
    pub fn of_route(route: &str) -> Self {
        let segments: Vec<&str> =
            route.split('/').map(|segment| if segment.starts_with('{') { "*" } else { segment }).collect();
        Self(segments.join("/"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn matches(&self, path: &str) -> bool {
        let mut found = path.split('/');
        let mut wanted = self.0.split('/').peekable();
        while let Some(segment) = wanted.next() {
            let Some(actual) = found.next() else { return false };
            if segment == "*" && wanted.peek().is_none() {
                return !actual.is_empty();
            }
            if segment != "*" && segment != actual {
                return false;
            }
        }
        found.next().is_none()
    }
}

impl std::fmt::Display for PathPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_matches_real_paths() {
        let pattern = PathPattern::of_route("/api/v1/order/{orderId}/status/{status}");
        assert_eq!(pattern.as_str(), "/api/v1/order/*/status/*");
        assert!(pattern.matches("/api/v1/order/42/status/1"));
        assert!(pattern.matches("/api/v1/order/42/status/1/more"));
        for miss in ["/api/v1/order/42", "/api/v1/order/42/status/", "/api/v1/orders/42/status/1", ""] {
            assert!(!pattern.matches(miss), "{miss}");
        }
        assert!(!PathPattern::of_route("/a").matches("/a/b"));
    }
}
