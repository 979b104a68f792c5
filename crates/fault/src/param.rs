//! Parameters: declaration and check of values.

use std::collections::BTreeMap;

use model::{ErrorKind, Problem, Result, nearest};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::Capability;

/// One parameter of a fault kind. A name ends in its unit.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    pub name: &'static str,
    pub unit: Unit,
    pub domain: Domain,
    pub presence: Presence,
    /// The same parameter in the public schema, where it is called something else.
    pub public_name: Option<&'static str>,
    pub doc: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    None,
    Milliseconds,
    Seconds,
    Percent,
    Mebibytes,
    Bytes,
    KilobytesPerSecond,
}

impl Unit {
    /// How names of parameters in this unit end.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Milliseconds => "_ms",
            Self::Seconds => "_s",
            Self::Percent => "_pct",
            Self::Mebibytes => "_mib",
            Self::Bytes => "_bytes",
            Self::KilobytesPerSecond => "_kbytes_per_s",
        }
    }

    /// How the unit is written after a number.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::Percent => "%",
            Self::Mebibytes => "MiB",
            Self::Bytes => "bytes",
            Self::KilobytesPerSecond => "kB/s",
        }
    }
}

/// Which values are legal.
#[derive(Debug, Clone, Copy)]
pub enum Domain {
    /// Whole numbers, both ends included.
    Integer {
        min: i64,
        max: i64,
    },
    /// The same without 0, which would do nothing.
    NonZero {
        min: i64,
        max: i64,
    },
    Choice(&'static [&'static str]),
    /// Printable text of 1 to `max` characters.
    Text {
        max: usize,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Literal {
    Integer(i64),
    Text(&'static str),
}

impl From<Literal> for Value {
    fn from(literal: Literal) -> Self {
        match literal {
            Literal::Integer(number) => number.into(),
            Literal::Text(text) => text.into(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    Required,
    Default(Literal),
    /// May be left out; the row's own check says when it is needed.
    Optional,
}

impl Param {
    pub(crate) const fn integer(name: &'static str, unit: Unit, min: i64, max: i64, doc: &'static str) -> Self {
        let domain = Domain::Integer { min, max };
        Self { name, unit, domain, presence: Presence::Required, public_name: None, doc }
    }

    pub(crate) const fn choice(name: &'static str, choices: &'static [&'static str], doc: &'static str) -> Self {
        let domain = Domain::Choice(choices);
        Self { name, unit: Unit::None, domain, presence: Presence::Required, public_name: None, doc }
    }

    pub(crate) const fn text(name: &'static str, max: usize, doc: &'static str) -> Self {
        let domain = Domain::Text { max };
        Self { name, unit: Unit::None, domain, presence: Presence::Required, public_name: None, doc }
    }

    pub(crate) const fn or(mut self, default: i64) -> Self {
        self.presence = Presence::Default(Literal::Integer(default));
        self
    }

    pub(crate) const fn or_text(mut self, default: &'static str) -> Self {
        self.presence = Presence::Default(Literal::Text(default));
        self
    }

    pub(crate) const fn optional(mut self) -> Self {
        self.presence = Presence::Optional;
        self
    }

    pub(crate) const fn public(mut self, name: &'static str) -> Self {
        self.public_name = Some(name);
        self
    }

    /// What is expected, in words.
    pub fn expected(&self) -> String {
        let unit = self.unit.symbol();
        let space = if unit.is_empty() { "" } else { " " };
        match self.domain {
            Domain::Integer { min, max } => format!("a whole number from {min} to {max}{space}{unit}"),
            Domain::NonZero { min, max } => format!("a whole number from {min} to {max}{space}{unit}, not 0"),
            Domain::Choice(choices) => choices.join(", "),
            Domain::Text { max } => format!("text of 1 to {max} characters"),
        }
    }

    /// # Errors
    /// `param.wrong_type`, `param.out_of_range`, `param.not_a_choice`, `param.gives_away`.
    pub(crate) fn check(&self, value: &Value) -> Result<()> {
        match self.domain {
            Domain::Integer { min, max } => self.check_number(value, min, max, true),
            Domain::NonZero { min, max } => self.check_number(value, min, max, false),
            Domain::Choice(choices) => self.check_choice(value, choices),
            Domain::Text { max } => self.check_text(value, max),
        }
    }

    fn check_number(&self, value: &Value, min: i64, max: i64, zero: bool) -> Result<()> {
        let Some(number) = value.as_i64() else {
            // A whole number beyond 64 bits is out of range, not of the wrong type.
            let code = if value.is_u64() { "param.out_of_range" } else { "param.wrong_type" };
            return Err(self.problem(code, "the parameter is not a usable number", value));
        };
        if number < min || number > max || (number == 0 && !zero) {
            return Err(self.problem("param.out_of_range", "the parameter is out of range", value));
        }
        Ok(())
    }

    fn check_choice(&self, value: &Value, choices: &[&'static str]) -> Result<()> {
        let Some(text) = value.as_str() else {
            return Err(self.problem("param.wrong_type", "the parameter is not text", value));
        };
        if choices.contains(&text) {
            return Ok(());
        }
        let problem = self.problem("param.not_a_choice", "the parameter is none of the choices", value);
        Err(match nearest(text, choices.iter().copied()) {
            Some(name) => problem.fix(format!("did you mean `{name}`?")),
            None => problem,
        })
    }

    fn check_text(&self, value: &Value, max: usize) -> Result<()> {
        let Some(text) = value.as_str() else {
            return Err(self.problem("param.wrong_type", "the parameter is not text", value));
        };
        if text.is_empty() || text.chars().count() > max || text.chars().any(char::is_control) {
            return Err(self.problem("param.out_of_range", "the text is empty, too long or not printable", value));
        }
        let lower = text.to_lowercase();
        match GIVE_AWAYS.iter().find(|word| lower.contains(**word)) {
            Some(word) => Err(self
                .problem("param.gives_away", "the text would name the fault in the collected telemetry", value)
                .expected(format!("text without `{word}`"))),
            None => Ok(()),
        }
    }

    fn problem(&self, code: &'static str, message: &str, value: &Value) -> Problem {
        Problem::new(ErrorKind::Invalid, code, message)
            .place(format!("params.{}", self.name))
            .found(format!("`{value}`"))
            .expected(self.expected())
    }
}

/// Words that would tell an algorithm, in a message or a body, that the trouble is made.
const GIVE_AWAYS: &[&str] = &["chaos", "inject", "byteman"];

/// Every parameter of the capability with its effective value, in the order of the table.
///
/// # Errors
/// `param.unknown`, `param.missing` and what [`Param::check`] reports.
pub(crate) fn effective(capability: &Capability, given: &BTreeMap<String, Value>) -> Result<Map<String, Value>> {
    for name in given.keys() {
        if !capability.params.iter().any(|param| param.name == name) {
            return Err(unknown(capability, name));
        }
    }
    let mut values = Map::new();
    for param in capability.params {
        let value = match (given.get(param.name), param.presence) {
            (Some(value), _) => value.clone(),
            (None, Presence::Default(literal)) => literal.into(),
            (None, Presence::Optional) => continue,
            (None, Presence::Required) => return Err(missing(capability, param)),
        };
        param.check(&value)?;
        values.insert(param.name.to_owned(), value);
    }
    Ok(values)
}

fn unknown(capability: &Capability, name: &str) -> Problem {
    let known: Vec<&str> = capability.params.iter().map(|param| param.name).collect();
    let problem =
        Problem::unknown("param.unknown", "parameter", name, known).place(format!("{}: params", capability.name));
    match capability.params.iter().find(|param| param.public_name == Some(name)) {
        Some(param) => problem.fix(format!("here it is called `{}`", param.name)),
        None if name == "duration_s" || name == "duration" => {
            problem.fix("set the length of the abnormal window; a fault lasts as long as the window")
        }
        None => problem,
    }
}

fn missing(capability: &Capability, param: &Param) -> Problem {
    Problem::new(ErrorKind::Invalid, "param.missing", "a required parameter is missing")
        .place(format!("{}: params.{}", capability.name, param.name))
        .expected(param.expected())
        .fix(format!("add `{}`: {}", param.name, param.doc))
}
