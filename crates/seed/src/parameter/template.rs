//! Templates of parameters: `31%03d` with the number of the slot, `{{ .Name }}` with a field of the container version.

use crate::{Finding, Spot};

/// Widest number that `%0Nd` may ask for.
const WIDEST: usize = 20;

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The slot's number, padded to a width with zeros or spaces.
    Slot {
        width: usize,
        zeros: bool,
    },
    Field(String),
}

/// Why a template cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateError {
    Malformed(String),
    UnknownField { field: String, known: Vec<String> },
}

impl TemplateError {
    pub(crate) fn finding(&self, at: &Spot, key: &str) -> Finding {
        match self {
            Self::Malformed(reason) => {
                Finding::error("template.malformed", at, format!("the template of `{key}` is malformed: {reason}"))
                    .expected(
                        "`%d` or `%03d` for the slot's number, `%%` for a percent sign, `{{ .Name }}` for a field",
                    )
            }
            Self::UnknownField { field, known } => {
                Finding::error("template.unknown_field", at, format!("the template of `{key}` names an unknown field"))
                    .found(format!("`.{field}`"))
                    .expected(known.join(", "))
                    .nearest(field, known.iter().map(String::as_str))
            }
        }
    }
}

impl Template {
    /// # Errors
    /// [`TemplateError::Malformed`].
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(position) = rest.find(['%', '{']) {
            let (before, from) = rest.split_at(position);
            push_text(&mut parts, before);
            rest = if let Some(inner) = from.strip_prefix("{{") {
                let (field, after) = inner.split_once("}}").ok_or_else(|| malformed("`{{` is not closed by `}}`"))?;
                parts.push(field_part(field)?);
                after
            } else if let Some(after) = from.strip_prefix("%%") {
                push_text(&mut parts, "%");
                after
            } else if let Some(verb) = from.strip_prefix('%') {
                let (part, after) = slot_part(verb)?;
                parts.push(part);
                after
            } else {
                push_text(&mut parts, "{");
                &from[1..]
            };
        }
        push_text(&mut parts, rest);
        Ok(Self(parts))
    }

    /// # Errors
    /// [`TemplateError::UnknownField`].
    pub fn render(&self, slot: u32, fields: &[(&str, &str)]) -> Result<String, TemplateError> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Slot { width, zeros: true } => text.push_str(&format!("{slot:0width$}")),
                Part::Slot { width, zeros: false } => text.push_str(&format!("{slot:width$}")),
                Part::Field(name) => match fields.iter().find(|(known, _)| known == name) {
                    Some((_, value)) => text.push_str(value),
                    None => {
                        let known = fields.iter().map(|(known, _)| (*known).to_owned()).collect();
                        return Err(TemplateError::UnknownField { field: name.clone(), known });
                    }
                },
            }
        }
        Ok(text)
    }
}

fn malformed(reason: impl Into<String>) -> TemplateError {
    TemplateError::Malformed(reason.into())
}

fn push_text(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Text(last)) => last.push_str(text),
        _ => parts.push(Part::Text(text.to_owned())),
    }
}

fn field_part(inner: &str) -> Result<Part, TemplateError> {
    let name = inner.trim().strip_prefix('.').unwrap_or_default();
    if !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(Part::Field(name.to_owned()));
    }
    Err(malformed(format!("`{{{{{inner}}}}}` is no field")))
}

/// What stands after `%`: an optional `0`, an optional width, `d`.
fn slot_part(verb: &str) -> Result<(Part, &str), TemplateError> {
    let digits = verb.len() - verb.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = verb.split_at(digits);
    let Some(rest) = rest.strip_prefix('d') else {
        return Err(malformed(format!("`%{}` is not known", verb.chars().take(digits + 1).collect::<String>())));
    };
    let zeros = number.starts_with('0');
    let width = if number.is_empty() { 0 } else { number.parse().unwrap_or(usize::MAX) };
    if width > WIDEST {
        return Err(malformed(format!("the width of `%{number}d` is above {WIDEST}")));
    }
    Ok((Part::Slot { width, zeros }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(text: &str, slot: u32) -> Result<String, TemplateError> {
        Template::parse(text)?.render(slot, &[("Name", "1.0.0"), ("GithubLink", "a/b")])
    }

    #[test]
    fn slot_numbers_and_fields_are_filled_in() {
        let cases = [
            ("31%03d", "31007"),
            ("%d", "7"),
            ("%5d|", "    7|"),
            ("100%% {x} %d", "100% {x} 7"),
            ("{{ .Name }}-{{.GithubLink}}", "1.0.0-a/b"),
            ("plain", "plain"),
        ];
        for (text, expect) in cases {
            assert_eq!(render(text, 7).unwrap(), expect);
        }
        assert_eq!(render("31%03d", 1234).unwrap(), "311234");
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for text in ["%s", "%", "%03", "%-3d", "{{ .Name", "{{ Name }}", "{{ .a b }}", "%99999999999999999999d", "%21d"]
        {
            assert!(matches!(render(text, 1), Err(TemplateError::Malformed(_))), "{text}");
        }
        let error = render("{{ .Nam }}", 1).unwrap_err();
        assert_eq!(error.finding(&Spot::whole("f"), "k").fix.as_deref(), Some("did you mean `Name`?"));
    }
}
