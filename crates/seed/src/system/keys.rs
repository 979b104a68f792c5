//! The settings `injection.system.<code>.*`: seven that every system has, and a few that it may have.

use std::collections::{BTreeMap, BTreeSet};

use regex_lite::Regex;
use serde::{Deserialize, Serialize};

use crate::schema::{DynamicConfig, Scope, SettingType, Status};
use crate::{Finding, Findings, Seed, Spot};

pub(crate) const PREFIX: &str = "injection.system.";

const MANDATORY: [(&str, SettingType); 7] = [
    ("count", SettingType::Int),
    ("ns_pattern", SettingType::String),
    ("extract_pattern", SettingType::String),
    ("display_name", SettingType::String),
    ("app_label_key", SettingType::String),
    ("is_builtin", SettingType::Bool),
    ("status", SettingType::Int),
];

const OPTIONAL: &[&str] = &["max_count", "readiness_timeout_seconds", "warmup_seconds", "reclaim_mode"];

/// The mandatory settings of one system, typed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemKeys {
    /// Number of slots.
    pub count: u32,
    /// Matches the namespaces of the system's slots.
    pub ns_pattern: String,
    /// The same with two groups: code and number.
    pub extract_pattern: String,
    pub display_name: String,
    /// Label that names the service of a pod.
    pub app_label_key: String,
    pub is_builtin: bool,
    pub status: Status,
}

/// Codes of all systems that have at least one setting.
pub(crate) fn codes(seed: &Seed) -> BTreeSet<&str> {
    seed.document.dynamic_configs.iter().filter_map(|row| split(&row.key)).map(|(code, _)| code).collect()
}

/// The declarations of one system's settings.
pub(crate) fn of_system<'a>(seed: &'a Seed, code: &'a str) -> impl Iterator<Item = &'a DynamicConfig> {
    seed.document.dynamic_configs.iter().filter(move |row| split(&row.key).is_some_and(|(own, _)| own == code))
}

/// The declarations of every system's settings, by its code.
pub(crate) fn by_system(seed: &Seed) -> BTreeMap<&str, Vec<&DynamicConfig>> {
    let mut systems: BTreeMap<&str, Vec<&DynamicConfig>> = BTreeMap::new();
    for row in &seed.document.dynamic_configs {
        if let Some((code, _)) = split(&row.key) {
            systems.entry(code).or_default().push(row);
        }
    }
    systems
}

/// The system whose setting a key is.
pub(crate) fn system_of(key: &str) -> Option<&str> {
    split(key).map(|(code, _)| code)
}

/// Code and the rest of the key.
fn split(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix(PREFIX)?.split_once('.')
}

impl SystemKeys {
    /// Types the settings of a system; `None` after it reported why not. `at` is where the system is declared.
    pub(crate) fn of(code: &str, at: &Spot, settings: &[DynamicConfig], report: &mut Findings) -> Option<Self> {
        let rows = Rows { code, at, settings };
        rows.check_names(report);
        // All of them before the first return, so that one reading names every key that is missing.
        let found = MANDATORY.map(|(name, kind)| rows.mandatory(name, kind, report));
        let [count, ns_pattern, extract_pattern, display_name, app_label_key, is_builtin, status] = found;
        let (count, ns_pattern, extract_pattern) = (count?, ns_pattern?, extract_pattern?);
        let (display_name, app_label_key, is_builtin, status) = (display_name?, app_label_key?, is_builtin?, status?);
        let before = report.errors().count();
        check_namespace_pattern(code, ns_pattern, report);
        check_extract_pattern(code, extract_pattern, report);
        let status_value = status_of(status, report);
        let count_value = count_of(count, report);
        for row in [display_name, app_label_key] {
            if row.default_text().trim().is_empty() {
                report.push(Finding::error("system.key_empty", row.default_at(), format!("`{}` is empty", *row.key)));
            }
        }
        if report.errors().count() > before {
            return None;
        }
        Some(Self {
            count: count_value?,
            ns_pattern: ns_pattern.default_text().to_owned(),
            extract_pattern: extract_pattern.default_text().to_owned(),
            display_name: display_name.default_text().to_owned(),
            app_label_key: app_label_key.default_text().to_owned(),
            is_builtin: is_builtin.default_text() == "true",
            status: status_value?,
        })
    }
}

struct Rows<'a> {
    code: &'a str,
    at: &'a Spot,
    settings: &'a [DynamicConfig],
}

impl<'a> Rows<'a> {
    fn mandatory(&self, name: &str, kind: SettingType, report: &mut Findings) -> Option<&'a DynamicConfig> {
        let row = self.settings.iter().find(|row| split(&row.key).is_some_and(|(_, rest)| rest == name));
        let Some(row) = row else {
            report.push(
                Finding::error(
                    "system.key_missing",
                    self.at,
                    format!("the system `{}` has no setting `{name}`", self.code),
                )
                .expected(format!("`{PREFIX}{}.{name}` in `dynamic_configs`, scope 2 (global)", self.code)),
            );
            return None;
        };
        if row.scope.value != Scope::Global {
            report.push(
                Finding::error(
                    "system.key_wrong_scope",
                    &row.scope.at,
                    format!("`{}` is in a scope where nothing reads it", *row.key),
                )
                .found(format!("scope {} ({})", row.scope.value.code(), row.scope.value))
                .expected("scope 2 (global)"),
            );
        }
        if row.value_type.value != kind {
            let found = row.value_type.value;
            report.push(
                Finding::error(
                    "system.key_wrong_type",
                    &row.value_type.at,
                    format!("`{}` has the wrong type", *row.key),
                )
                .found(format!("value_type {} ({found})", found.code()))
                .expected(format!("value_type {} ({kind})", kind.code())),
            );
            return None;
        }
        Some(row)
    }

    /// A setting that nothing reads may be a misspelt one.
    fn check_names(&self, report: &mut Findings) {
        let known = || MANDATORY.iter().map(|(name, _)| *name).chain(OPTIONAL.iter().copied());
        for row in self.settings {
            let name = split(&row.key).map_or("", |(_, rest)| rest);
            if !known().any(|known| known == name) {
                report.push(
                    Finding::warning("system.key_unknown", &row.key.at, "a setting of a system that nothing reads")
                        .found(format!("`{}`", *row.key))
                        .expected(known().collect::<Vec<_>>().join(", "))
                        .nearest(name, known()),
                );
            }
        }
    }
}

fn pattern(row: &DynamicConfig, report: &mut Findings) -> Option<Regex> {
    match Regex::new(row.default_text()) {
        Ok(regex) => Some(regex),
        Err(error) => {
            report.push(
                Finding::error(
                    "system.pattern_malformed",
                    row.default_at(),
                    format!("`{}` is no regular expression", *row.key),
                )
                .found(format!("`{}`: {error}", row.default_text())),
            );
            None
        }
    }
}

fn check_namespace_pattern(code: &str, row: &DynamicConfig, report: &mut Findings) {
    let Some(regex) = pattern(row, report) else { return };
    let slots = [format!("{code}0"), format!("{code}12")];
    let fits = slots.iter().all(|slot| regex.is_match(slot)) && !regex.is_match(&format!("x{code}0x"));
    if !fits {
        report.push(
            Finding::error(
                "system.pattern_wrong",
                row.default_at(),
                format!("`{}` does not match exactly the slots of `{code}`", *row.key),
            )
            .found(format!("`{}`", row.default_text()))
            .expected(format!("a match of `{code}0` and `{code}12` and of nothing longer, for example `^{code}\\d+$`")),
        );
    }
}

fn check_extract_pattern(code: &str, row: &DynamicConfig, report: &mut Findings) {
    let Some(regex) = pattern(row, report) else { return };
    let slot = format!("{code}12");
    let groups = regex.captures(&slot).map(|found| [1, 2].map(|number| found.get(number).map(|group| group.as_str())));
    if groups != Some([Some(code), Some("12")]) {
        report.push(
            Finding::error(
                "system.pattern_wrong",
                row.default_at(),
                format!("`{}` does not give code and number of a slot", *row.key),
            )
            .found(format!("`{}`", row.default_text()))
            .expected(format!("two groups, `{code}` and `12` of `{slot}`, for example `^({code})(\\d+)$`")),
        );
    }
}

fn status_of(row: &DynamicConfig, report: &mut Findings) -> Option<Status> {
    let known = [Status::Deleted, Status::Disabled, Status::Enabled];
    let status = known.into_iter().find(|status| status.code().to_string() == row.default_text());
    if status.is_none() {
        report.push(
            Finding::error("system.status_unknown", row.default_at(), format!("`{}` is no status", *row.key))
                .found(format!("`{}`", row.default_text()))
                .expected("1 (enabled), 0 (disabled) or -1 (deleted)"),
        );
    }
    status
}

fn count_of(row: &DynamicConfig, report: &mut Findings) -> Option<u32> {
    let count = row.default_text().parse().ok();
    if count.is_none() {
        report.push(
            Finding::error("system.count_wrong", row.default_at(), format!("`{}` is no number of slots", *row.key))
                .found(format!("`{}`", row.default_text()))
                .expected("a whole number, 0 or more"),
        );
    }
    count
}
