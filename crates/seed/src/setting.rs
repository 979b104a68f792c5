//! Declarations of runtime settings, checked one by one and against each other.

use std::collections::{BTreeMap, HashMap};

use regex_lite::Regex;
use serde_json::Value;

use crate::parameter::{decimal, whole};
use crate::schema::{DynamicConfig, SettingType};
use crate::{Finding, Findings, Scope};

/// One declaration: its default has the declared type and lies within its own bounds.
pub(crate) fn check(row: &DynamicConfig, report: &mut Findings) {
    let text = row.default_text();
    let number = match typed(row.value_type.value, text) {
        Ok(number) => number,
        Err(expected) => {
            report.push(
                Finding::error(
                    "setting.wrong_default",
                    row.default_at(),
                    format!("the default of `{}` is no {}", *row.key, row.value_type.value),
                )
                .found(format!("`{text}`"))
                .expected(expected),
            );
            return;
        }
    };
    bounds(row, number, report);
    pattern(row, text, report);
    options(row, text, report);
    if row.is_secret() && !text.is_empty() {
        report.push(
            Finding::warning(
                "setting.secret_in_seed",
                row.default_at(),
                format!("the secret `{}` has a value in the seed", *row.key),
            )
            .expected("no default for a secret")
            .fix("remove it and set the value at run time"),
        );
    }
}

/// The number, for the types that have one.
fn typed(kind: SettingType, text: &str) -> Result<Option<f64>, &'static str> {
    match kind {
        SettingType::String => Ok(None),
        SettingType::Bool if matches!(text, "true" | "false") => Ok(None),
        SettingType::Bool => Err("`true` or `false`"),
        // Bounds are decimal numbers as well, so the comparison may round.
        SettingType::Int => whole(text).map(|number| Some(number as f64)).ok_or("a whole number in decimal"),
        SettingType::Float => decimal(text).map(Some).ok_or("a finite decimal number"),
        SettingType::StringArray => match serde_json::from_str(text) {
            Ok(Value::Array(items)) if items.iter().all(Value::is_string) => Ok(None),
            _ => Err("a JSON list of texts"),
        },
    }
}

fn bounds(row: &DynamicConfig, number: Option<f64>, report: &mut Findings) {
    let (low, high) = (row.min_value.as_ref(), row.max_value.as_ref());
    if let (Some(low), Some(high)) = (low, high)
        && low.value > high.value
    {
        report.push(
            Finding::error(
                "setting.bounds_empty",
                &low.at,
                format!("no number lies within the bounds of `{}`", *row.key),
            )
            .found(format!("{} to {}", low.value, high.value)),
        );
        return;
    }
    let Some(number) = number else {
        if let Some(bound) = low.or(high) {
            report.push(
                Finding::warning(
                    "setting.bound_ignored",
                    &bound.at,
                    format!("a bound has no effect on a {}", row.value_type.value),
                )
                .fix("remove it"),
            );
        }
        return;
    };
    let (lowest, highest) = (low.map_or(f64::MIN, |bound| bound.value), high.map_or(f64::MAX, |bound| bound.value));
    if number < lowest || number > highest {
        let text =
            |bound: Option<&crate::Located<f64>>| bound.map_or("any".to_owned(), |bound| bound.value.to_string());
        report.push(
            Finding::error(
                "setting.default_out_of_bounds",
                row.default_at(),
                format!("the default of `{}` is out of its bounds", *row.key),
            )
            .found(row.default_text())
            .expected(format!("{} to {}", text(low), text(high))),
        );
    }
}

fn pattern(row: &DynamicConfig, text: &str, report: &mut Findings) {
    let Some(pattern) = row.pattern.as_ref().filter(|pattern| !pattern.is_empty()) else { return };
    match Regex::new(pattern) {
        Err(error) => report.push(
            Finding::error(
                "setting.pattern_malformed",
                &pattern.at,
                format!("the pattern of `{}` is malformed", *row.key),
            )
            .found(error.to_string()),
        ),
        Ok(regex) if row.value_type.value == SettingType::String && !regex.is_match(text) => report.push(
            Finding::error(
                "setting.default_unlike_pattern",
                row.default_at(),
                format!("the default of `{}` does not match its pattern", *row.key),
            )
            .found(format!("`{text}`"))
            .expected(format!("a match of `{}`", **pattern)),
        ),
        Ok(_) => {}
    }
}

fn options(row: &DynamicConfig, text: &str, report: &mut Findings) {
    let Some(options) = row.options.as_ref().filter(|options| !options.is_empty()) else { return };
    let Ok(Value::Array(legal)) = serde_json::from_str(options) else {
        report.push(
            Finding::error(
                "setting.options_malformed",
                &options.at,
                format!("the options of `{}` are malformed", *row.key),
            )
            .found(format!("`{}`", **options))
            .expected("a JSON list"),
        );
        return;
    };
    let legal: Vec<String> =
        legal.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect();
    if !legal.iter().any(|option| option == text) {
        report.push(
            Finding::error(
                "setting.default_no_option",
                row.default_at(),
                format!("the default of `{}` is none of its options", *row.key),
            )
            .found(format!("`{text}`"))
            .expected(legal.join(", "))
            .nearest(text, legal.iter().map(String::as_str)),
        );
    }
}

/// No key twice, and no key below another one: a tree cannot hold a value and more keys at one place.
pub(crate) fn check_keys(rows: &[DynamicConfig], report: &mut Findings) {
    let mut lines: HashMap<(Scope, &str), u32> = HashMap::new();
    let mut names: BTreeMap<Vec<&str>, &DynamicConfig> = BTreeMap::new();
    for row in rows {
        if let Some(first) = lines.insert((row.scope.value, &row.key), row.key.at.line()) {
            report.push(
                Finding::error("setting.duplicate", &row.key.at, "a setting is declared twice")
                    .found(format!("`{}` again, first at line {first}", *row.key)),
            );
        }
        names.insert(row.key.split('.').collect(), row);
    }
    let mut above: Option<(&Vec<&str>, &DynamicConfig)> = None;
    for (name, row) in &names {
        match above {
            Some((upper, other)) if name.starts_with(upper) => report.push(
                Finding::error(
                    "setting.key_below_key",
                    &row.key.at,
                    "a setting's key stands below the key of another setting",
                )
                .found(format!("`{}` below `{}` ({})", *row.key, *other.key, other.key.at))
                .fix("rename one of the two"),
            ),
            _ => above = Some((name, row)),
        }
    }
}
