//! Parameters: typed by their declared type, never by what their text looks like; templates for what differs by slot.

mod template;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

pub use template::{Template, TemplateError};

use crate::schema::{ParameterKind, ParameterRow, ValueType};
use crate::{Finding, Findings, KeyPath, Spot};

/// A parameter as a version holds it: complete in itself, so it can be stored and composed without the seed's files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// A path of Helm values, or the name of an environment variable; canonical spelling.
    pub key: String,
    pub value_type: ValueType,
    pub source: ValueSource,
    pub required: bool,
    /// Whether a run may set it.
    pub overridable: bool,
    /// Name of the container version that declares it.
    pub version: String,
    pub at: Spot,
}

/// Where a parameter's value comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueSource {
    /// The seed's text, of the declared type.
    Default(String),
    /// Rendered for each slot.
    Template(String),
    /// Only a run gives it a value.
    Unset,
}

impl Parameter {
    /// Checks a row of a seed and makes it a parameter; `None` after it reported why not.
    ///
    /// `path` says that the key is a path of Helm values and not the name of an environment variable.
    pub(crate) fn of(row: &ParameterRow, version: &str, path: bool, report: &mut Findings) -> Option<Self> {
        let key = if path { value_path(row, report)? } else { variable_name(row, report)? };
        let source = source(row, report)?;
        Some(Self {
            key,
            value_type: row.value_type(),
            source,
            required: row.is_required(),
            overridable: row.is_overridable(),
            version: version.to_owned(),
            at: row.at.clone(),
        })
    }

    /// The value that holds without an override; `None` when there is none.
    ///
    /// # Errors
    /// `parameter.*`, with the place.
    pub fn value(&self, slot: u32, fields: &[(&str, &str)]) -> Result<Option<Value>, Finding> {
        let text = match &self.source {
            ValueSource::Unset => return Ok(None),
            ValueSource::Default(text) => text.clone(),
            ValueSource::Template(text) => Template::parse(text)
                .and_then(|template| template.render(slot, fields))
                .map_err(|error| error.finding(&self.at, &self.key))?,
        };
        typed(self.value_type, &text).map(Some).map_err(|expected| self.wrong_value(&self.at, &text, expected))
    }

    /// A value that a run sets. A text is read as the declared type, as the seed's own texts are.
    pub(crate) fn overridden(&self, value: &Value, at: &Spot) -> Result<Value, Finding> {
        if !self.overridable {
            return Err(Finding::error(
                "parameter.not_overridable",
                at,
                format!("`{}` cannot be set by a run", self.key),
            )
            .found(value.to_string())
            .expected("no value")
            .fix(format!("remove it, or make it overridable in {}", self.at)));
        }
        let fits = match (self.value_type, value) {
            (_, Value::String(text)) => return self.text(text, at),
            (ValueType::Int, Value::Number(number)) => number.is_i64() || number.is_u64(),
            (ValueType::Float, Value::Number(_))
            | (ValueType::Bool, Value::Bool(_))
            | (ValueType::Array, Value::Array(_))
            | (ValueType::Object, Value::Object(_)) => true,
            _ => false,
        };
        if fits { Ok(value.clone()) } else { Err(self.wrong_value(at, &value.to_string(), expected(self.value_type))) }
    }

    fn text(&self, text: &str, at: &Spot) -> Result<Value, Finding> {
        typed(self.value_type, text).map_err(|expected| self.wrong_value(at, text, expected))
    }

    fn wrong_value(&self, at: &Spot, text: &str, expected: &str) -> Finding {
        wrong_value(at, &self.key, self.value_type, text, expected)
    }
}

fn wrong_value(at: &Spot, key: &str, kind: ValueType, text: &str, expected: &str) -> Finding {
    Finding::error("parameter.wrong_value", at, format!("the value of `{key}` is no {kind}"))
        .found(format!("`{text}`"))
        .expected(expected)
}

fn value_path(row: &ParameterRow, report: &mut Findings) -> Option<String> {
    match KeyPath::parse(&row.key) {
        Ok(path) => Some(path.to_string()),
        Err(reason) => {
            report.push(
                Finding::error("parameter.key_malformed", &row.key.at, format!("a key is malformed: {reason}"))
                    .found(format!("`{}`", *row.key))
                    .expected(r"a path such as `global.image.tag`, `init[0].image` or `a\.b`"),
            );
            None
        }
    }
}

fn variable_name(row: &ParameterRow, report: &mut Findings) -> Option<String> {
    let legal = row.key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && row.key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
    if legal {
        return Some(row.key.value.clone());
    }
    report.push(
        Finding::error("parameter.key_malformed", &row.key.at, "the name of an environment variable is malformed")
            .found(format!("`{}`", *row.key))
            .expected("letters, digits, `_`, `.` and `-`, not starting with a digit"),
    );
    None
}

fn source(row: &ParameterRow, report: &mut Findings) -> Option<ValueSource> {
    match (row.kind(), &row.default_value, &row.template_string) {
        (ParameterKind::Fixed, _, Some(template)) => {
            report.push(
                Finding::error(
                    "parameter.template_of_fixed",
                    &template.at,
                    "a template has no effect on a fixed parameter",
                )
                .found(format!("`{}` of type 0 (fixed)", *row.key))
                .fix("write `type: 1` (dynamic), or remove the template"),
            );
            None
        }
        (ParameterKind::Fixed, None, None) => Some(ValueSource::Unset),
        // A dynamic parameter without a template keeps its default: that is how rows that only runs set are written.
        (ParameterKind::Dynamic, None, None) => Some(ValueSource::Unset),
        (_, Some(text), None) => match typed(row.value_type(), text) {
            Ok(_) => Some(ValueSource::Default(text.value.clone())),
            Err(expected) => {
                report.push(wrong_value(&text.at, &row.key, row.value_type(), text, expected));
                None
            }
        },
        (ParameterKind::Dynamic, default, Some(template)) => {
            if let Some(default) = default {
                report.push(
                    Finding::error(
                        "parameter.default_and_template",
                        &default.at,
                        "a default and a template contradict each other",
                    )
                    .found(format!("both on `{}`", *row.key))
                    .fix("remove one of the two"),
                );
                return None;
            }
            match Template::parse(template) {
                Ok(_) => Some(ValueSource::Template(template.value.clone())),
                Err(error) => {
                    report.push(error.finding(&template.at, &row.key));
                    None
                }
            }
        }
    }
}

const fn expected(kind: ValueType) -> &'static str {
    match kind {
        ValueType::String => "a text; put a number into quotes",
        ValueType::Int => "a whole number in decimal, without leading zeros",
        ValueType::Bool => "`true` or `false`",
        ValueType::Float => "a finite decimal number",
        ValueType::Array => "a list as JSON text",
        ValueType::Object => "a mapping as JSON text",
    }
}

/// The text as a value of the declared type, or what was expected.
fn typed(kind: ValueType, text: &str) -> Result<Value, &'static str> {
    let value = match kind {
        ValueType::String => Some(Value::String(text.to_owned())),
        ValueType::Int => whole(text).map(|number| Value::Number(number.into())),
        ValueType::Bool => match text {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            _ => None,
        },
        ValueType::Float => decimal(text).and_then(Number::from_f64).map(Value::Number),
        ValueType::Array => serde_json::from_str(text).ok().filter(Value::is_array),
        ValueType::Object => serde_json::from_str(text).ok().filter(Value::is_object),
    };
    value.ok_or(expected(kind))
}

/// A whole number as everybody reads it: `007` is 7 for some readers and octal for others, so it is none.
pub(crate) fn whole(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = digits == "0" || !digits.starts_with('0');
    if plain && canonical { text.parse().ok() } else { None }
}

pub(crate) fn decimal(text: &str) -> Option<f64> {
    let digits = text.bytes().any(|byte| byte.is_ascii_digit());
    let legal = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E'));
    if digits && legal { text.parse().ok().filter(|number: &f64| number.is_finite()) } else { None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_declared_type_decides_and_the_look_of_a_text_does_not() {
        for text in ["17.6", "1.10", "00215e6", "on", "0o17", "1_000", "true", "1e3", "007", "", " x "] {
            assert_eq!(typed(ValueType::String, text), Ok(json!(text)));
        }
        assert_eq!(typed(ValueType::Int, "-12"), Ok(json!(-12)));
        assert_eq!(typed(ValueType::Float, "1e3"), Ok(json!(1000.0)));
        assert_eq!(typed(ValueType::Array, r#"["a", 1]"#), Ok(json!(["a", 1])));
        let wrong = [
            (ValueType::Int, "17.6"),
            (ValueType::Int, "007"),
            (ValueType::Int, "0o17"),
            (ValueType::Int, "1_000"),
            (ValueType::Int, ""),
            (ValueType::Bool, "on"),
            (ValueType::Bool, "1"),
            (ValueType::Float, "inf"),
            (ValueType::Float, "1e999"),
            (ValueType::Array, "{}"),
            (ValueType::Object, "[]"),
        ];
        for (kind, text) in wrong {
            assert_eq!(typed(kind, text), Err(expected(kind)), "{kind} {text}");
        }
    }
}
