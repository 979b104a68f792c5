//! The declaration of a setting, and the check of a value against it.

use std::fmt;

use model::{ErrorKind, Problem, Result};
use regex_lite::Regex;
use serde::{Deserialize, Serialize};

/// Which processes read a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    Producer,
    Consumer,
    Global,
}

impl Scope {
    pub const ALL: [Self; 3] = [Self::Producer, Self::Consumer, Self::Global];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Consumer => "consumer",
            Self::Global => "global",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What kind of text a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueType {
    String,
    Bool,
    Int,
    Float,
    /// A JSON list of texts.
    StringArray,
}

impl ValueType {
    pub const ALL: [Self; 5] = [Self::String, Self::Bool, Self::Int, Self::Float, Self::StringArray];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Float => "float",
            Self::StringArray => "string_array",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a value must satisfy beside its type. Bounds hold for numbers, the pattern for texts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The only legal values, when there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// One declared key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// Dotted; unique over all scopes.
    pub key: String,
    pub scope: Scope,
    pub value_type: ValueType,
    pub default: String,
    /// The value that the seed declares; absent for a key that only the code declares.
    #[serde(default)]
    pub seed: Option<String>,
    #[serde(default)]
    pub bounds: Bounds,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub is_secret: bool,
}

impl Declaration {
    /// Checks a value that is to become live.
    ///
    /// # Errors
    /// `setting.wrong_type`, `setting.out_of_bounds`, `setting.unlike_pattern`, `setting.no_option`.
    pub fn check(&self, value: &str) -> Result<()> {
        let number = self.number(value)?;
        let low = self.bounds.min.filter(|_| number.is_some()).unwrap_or(f64::NEG_INFINITY);
        let high = self.bounds.max.filter(|_| number.is_some()).unwrap_or(f64::INFINITY);
        if number.is_some_and(|number| number < low || number > high) {
            let range = match (self.bounds.min, self.bounds.max) {
                (Some(low), Some(high)) => format!("{low} to {high}"),
                (Some(low), None) => format!("at least {low}"),
                (None, Some(high)) => format!("at most {high}"),
                (None, None) => "any number".to_owned(),
            };
            return Err(self.wrong("setting.out_of_bounds", "the value is out of bounds", value).expected(range));
        }
        if let Some(pattern) = self.bounds.pattern.as_deref().filter(|_| self.value_type == ValueType::String) {
            let regex = Regex::new(pattern).map_err(|error| {
                self.wrong("setting.pattern_malformed", "the key's own pattern is malformed", pattern).cause(error)
            })?;
            if !regex.is_match(value) {
                let problem = self.wrong("setting.unlike_pattern", "the value does not match the key's pattern", value);
                return Err(problem.expected(format!("a match of `{pattern}`")));
            }
        }
        if !self.bounds.options.is_empty() && !self.bounds.options.iter().any(|option| option == value) {
            let problem = self.wrong("setting.no_option", "the value is none of the key's options", value);
            return Err(problem.expected(self.bounds.options.join(", ")));
        }
        Ok(())
    }

    /// The number, for the types that have one.
    fn number(&self, value: &str) -> Result<Option<f64>> {
        let wrong = |expected: &str| {
            let text = format!("the value is no {}", self.value_type);
            Err(self.wrong("setting.wrong_type", &text, value).expected(expected))
        };
        match self.value_type {
            ValueType::String => Ok(None),
            ValueType::Bool if matches!(value, "true" | "false") => Ok(None),
            ValueType::Bool => wrong("`true` or `false`"),
            // Bounds are decimal numbers as well, so the comparison may round.
            ValueType::Int => match value.parse::<i64>() {
                Ok(number) => Ok(Some(number as f64)),
                Err(_) => wrong("a whole number"),
            },
            ValueType::Float => match value.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Some(number)),
                _ => wrong("a finite number"),
            },
            ValueType::StringArray => match serde_json::from_str::<Vec<String>>(value) {
                Ok(_) => Ok(None),
                Err(_) => wrong("a JSON list of texts"),
            },
        }
    }

    fn wrong(&self, code: &'static str, message: &str, value: &str) -> Problem {
        let found = if self.is_secret { "a secret".to_owned() } else { format!("`{value}`") };
        Problem::new(ErrorKind::Invalid, code, message).place(self.key.clone()).found(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declaration(value_type: ValueType, bounds: Bounds) -> Declaration {
        Declaration {
            key: "a.b".into(),
            scope: Scope::Global,
            value_type,
            default: String::new(),
            seed: None,
            bounds,
            description: String::new(),
            is_secret: false,
        }
    }

    #[test]
    fn a_value_is_checked_by_type_bounds_pattern_and_options() {
        let check = |value_type, bounds: &Bounds, value: &str, expect: Option<&str>| {
            let code = declaration(value_type, bounds.clone()).check(value).err().map(|problem| problem.code);
            assert_eq!(code.as_deref(), expect, "{value_type} `{value}`");
        };
        let free = Bounds::default();
        let small = Bounds { min: Some(1.0), max: Some(50.0), ..Bounds::default() };
        check(ValueType::Int, &small, "50", None);
        check(ValueType::Int, &small, "0", Some("setting.out_of_bounds"));
        check(ValueType::Int, &small, "5.0", Some("setting.wrong_type"));
        check(ValueType::Float, &small, "50.1", Some("setting.out_of_bounds"));
        check(ValueType::Float, &free, "inf", Some("setting.wrong_type"));
        check(ValueType::Bool, &free, "True", Some("setting.wrong_type"));
        // A bound has no meaning for a text, even for one that looks like a number.
        check(ValueType::String, &small, "17.6", None);
        check(ValueType::StringArray, &free, r#"["a", "b"]"#, None);
        check(ValueType::StringArray, &free, r#"["a", 1]"#, Some("setting.wrong_type"));
        let slot = Bounds { pattern: Some(r"^ts\d+$".into()), ..Bounds::default() };
        check(ValueType::String, &slot, "ts12", None);
        check(ValueType::String, &slot, "ts", Some("setting.unlike_pattern"));
        let two = Bounds { options: vec!["plan".into(), "apply".into()], ..Bounds::default() };
        check(ValueType::String, &two, "plan", None);
        check(ValueType::String, &two, "Plan", Some("setting.no_option"));
    }

    #[test]
    fn a_secret_is_not_repeated_in_an_error() {
        let mut secret = declaration(ValueType::Int, Bounds::default());
        secret.is_secret = true;
        assert!(!secret.check("hunter2").unwrap_err().to_string().contains("hunter2"));
    }
}
