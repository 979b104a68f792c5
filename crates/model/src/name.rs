//! Names of systems and of their slots.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ErrorKind, Problem, Result};

/// The short code of a benchmark system: `ts`, `otel-demo`, ...
///
/// Lower-case letters, digits and inner hyphens, starting with a letter, at most 32 characters, not ending in a digit
/// (a slot's name is the code followed by a number, so `foo1` and slot 1 of `foo` would be the same name).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SystemCode(String);

impl SystemCode {
    pub fn parse(text: &str) -> Result<Self> {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let legal = text.len() <= 32
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.ends_with(|c: char| c.is_ascii_lowercase())
            && text.chars().all(inner);
        if legal {
            return Ok(Self(text.to_owned()));
        }
        Err(Problem::new(ErrorKind::Invalid, "system.code_malformed", "a system's short code is malformed")
            .found(format!("`{text}`"))
            .expected("lower-case letters, digits and inner hyphens, first and last a letter, at most 32 characters"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SystemCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SystemCode {
    type Error = Problem;
    fn try_from(text: String) -> Result<Self> {
        Self::parse(&text)
    }
}

impl From<SystemCode> for String {
    fn from(code: SystemCode) -> Self {
        code.0
    }
}

/// One namespace of a system's pool: `<code><number>`; leased to one run at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Slot {
    pub system: SystemCode,
    pub number: u32,
}

impl Slot {
    pub fn new(system: SystemCode, number: u32) -> Self {
        Self { system, number }
    }

    /// The Kubernetes namespace, which is also the Helm release's name.
    pub fn namespace(&self) -> String {
        format!("{}{}", self.system, self.number)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.system, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_checked() {
        for good in ["ts", "otel-demo", "a1b"] {
            assert!(SystemCode::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "ts0", "Ts", "-a", "a-", "a b", "a/../b", &"a".repeat(33)] {
            assert!(SystemCode::parse(bad).is_err(), "{bad}");
        }
    }
}
