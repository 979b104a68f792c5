//! Containers, checked: what an algorithm, a benchmark or a pedestal is once its seed rows were found right.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::schema::{Container, ContainerKind, ContainerVersion, HelmConfig, ParameterCategory, ParameterRow, Status};
use crate::versions::{VersionOrder, is_exact, newest};
use crate::{Chart, Finding, Findings, KeyPath, Overlay, Parameter, Revision, Seed, Spot, ValueSource, ValueType};

/// Tags that are moved to other images as a habit.
const MOVING_TAGS: &[&str] =
    &["latest", "main", "master", "dev", "develop", "nightly", "edge", "stable", "canary", "head", "next"];

/// A container with its versions in the order of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerSeed {
    pub kind: ContainerKind,
    pub name: String,
    pub is_public: bool,
    pub status: Status,
    pub versions: Vec<VersionSeed>,
    pub at: Spot,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionSeed {
    pub name: String,
    pub status: Status,
    pub github_link: String,
    /// What to run; `None` for a pedestal and for what is part of the program.
    pub image: Option<Image>,
    pub environment: Vec<Parameter>,
    /// What to install; only a pedestal has it.
    pub revision: Option<Revision>,
    pub at: Spot,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    pub reference: String,
    /// Never empty.
    pub command: String,
}

impl ContainerSeed {
    /// The version that is used when nobody names one: the highest that is enabled.
    pub fn newest(&self) -> Option<&VersionSeed> {
        newest(self.versions.iter().filter(|version| version.status == Status::Enabled), |version| &version.name)
    }

    /// Checks a container and everything in it; `None` after errors were reported.
    pub(crate) fn of(container: &Container, seed: &Seed, report: &mut Findings) -> Option<Self> {
        let mut own = Findings::default();
        version_names(container, &mut own);
        let versions = container.versions.iter().map(|version| Build { container, version, seed }.version(&mut own));
        let versions: Option<Vec<VersionSeed>> = versions.collect::<Vec<_>>().into_iter().collect();
        let wrong = own.has_errors();
        report.extend(own);
        if wrong {
            return None;
        }
        Some(Self {
            kind: container.kind.value,
            name: container.name.value.clone(),
            is_public: container.is_public(),
            status: container.status.as_ref().map_or(Status::Enabled, |status| status.value),
            versions: versions?,
            at: container.at.clone(),
        })
    }
}

fn version_names(container: &Container, report: &mut Findings) {
    let mut lines: HashMap<&str, u32> = HashMap::new();
    if container.is_enabled() && !container.versions.iter().any(ContainerVersion::is_enabled) {
        report.push(
            Finding::error("container.no_version", &container.at, "a container has no enabled version")
                .found(format!("`{}`", *container.name))
                .expected("at least one entry in `versions`"),
        );
    }
    for version in &container.versions {
        let name = &version.name;
        if let Some(first) = lines.insert(name, name.at.line()) {
            report.push(
                Finding::error("version.duplicate", &name.at, "a version stands twice in one container")
                    .found(format!("`{}` again, first at line {first}", **name)),
            );
        }
        if !version.is_builtin() && !VersionOrder::of(name).is_parsed() {
            report.push(
                Finding::warning("version.not_ordered", &name.at, "a version's name cannot be ordered")
                    .found(format!("`{}`", **name))
                    .expected("one to three numbers, for example 1.4.0; other names stand below all numbered ones"),
            );
        }
    }
}

/// One version on its way from rows to what is registered.
struct Build<'a> {
    container: &'a Container,
    version: &'a ContainerVersion,
    seed: &'a Seed,
}

impl Build<'_> {
    fn version(&self, report: &mut Findings) -> Option<VersionSeed> {
        let image = self.image(report);
        let environment = parameters(&self.version.env_vars, &self.version.name, List::Environment, report);
        let revision = self.revision(report);
        Some(VersionSeed {
            name: self.version.name.value.clone(),
            status: self.version.status.as_ref().map_or(Status::Enabled, |status| status.value),
            github_link: self.version.github_link.as_ref().map_or(String::new(), |link| link.value.clone()),
            image: image?,
            environment: environment?,
            revision: revision?,
            at: self.version.at.clone(),
        })
    }

    /// `Some(None)`: there is rightly no image.
    fn image(&self, report: &mut Findings) -> Option<Option<Image>> {
        let ContainerVersion { image_ref, command, .. } = self.version;
        let kind = self.container.kind.value;
        let builtin = kind == ContainerKind::Algorithm && self.version.is_builtin();
        if builtin || kind == ContainerKind::Pedestal {
            for (key, value) in [("image_ref", image_ref), ("command", command)] {
                if let Some(value) = value {
                    let what = if builtin { "the version `builtin`" } else { "a pedestal" };
                    report.push(
                        Finding::warning("version.no_effect", &value.at, format!("`{key}` has no effect on {what}"))
                            .fix("remove it"),
                    );
                }
            }
            return Some(None);
        }
        let image = self.text("image_ref", image_ref.as_ref(), "image.missing", report);
        let command = self.text("command", command.as_ref(), "command.empty", report);
        if let Some((reference, at)) = &image {
            check_image(reference, at, report);
        }
        Some(Some(Image { reference: image?.0, command: command?.0 }))
    }

    fn text(
        &self,
        key: &str,
        value: Option<&crate::Located<String>>,
        code: &'static str,
        report: &mut Findings,
    ) -> Option<(String, Spot)> {
        match value {
            Some(text) if !text.trim().is_empty() => Some((text.value.clone(), text.at.clone())),
            _ => {
                let at = value.map_or(&self.version.at, |text| &text.at);
                let kind = self.container.kind.value;
                report.push(
                    Finding::error(code, at, format!("the {kind} `{}` has no {key}", *self.container.name))
                        .found(format!("version `{}` with nothing to run", *self.version.name))
                        .expected(format!("`{key}` with a value")),
                );
                None
            }
        }
    }

    /// `Some(None)`: there is rightly no chart.
    fn revision(&self, report: &mut Findings) -> Option<Option<Revision>> {
        let is_pedestal = self.container.kind.value == ContainerKind::Pedestal;
        match &self.version.helm_config {
            None if !is_pedestal => Some(None),
            None => {
                report.push(
                    Finding::error("chart.missing", &self.version.at, "a pedestal's version has no chart")
                        .found(format!("`{}` {}", *self.container.name, *self.version.name))
                        .expected("`helm_config` with `chart_name` and `version`"),
                );
                None
            }
            Some(helm) if !is_pedestal => {
                report.push(
                    Finding::error("chart.not_a_pedestal", &helm.at, "only a pedestal installs a chart")
                        .found(format!("`{}` is of type {}", *self.container.name, self.container.kind.value)),
                );
                None
            }
            Some(helm) => {
                check_chart(helm, report);
                let overlay = self.overlay(helm, report);
                let parameters = self.effective(report);
                Some(Some(Revision {
                    version: self.version.name.value.clone(),
                    github_link: self.version.github_link.as_ref().map_or(String::new(), |link| link.value.clone()),
                    chart: chart(helm),
                    parameters: parameters?,
                    overlay: overlay?,
                }))
            }
        }
    }

    /// The values file: the one that the version names, which must be there, else `<code>.yaml` if there is one.
    fn overlay(&self, helm: &HelmConfig, report: &mut Findings) -> Option<Option<Overlay>> {
        let overlays = &self.seed.overlays;
        let Some(named) = &helm.value_file else {
            return Some(overlays.get(&format!("{}.yaml", *self.container.name)).cloned());
        };
        let found = overlays.get(named.as_str()).cloned();
        if found.is_none() {
            report.push(
                Finding::error("overlay.missing", &named.at, "the values file is not in the seed's folder")
                    .found(format!("`{}`", **named))
                    .expected(overlays.keys().map(String::as_str).collect::<Vec<_>>().join(", "))
                    .nearest(named, overlays.keys().map(String::as_str)),
            );
        }
        found.map(Some)
    }

    /// The version's own values over those of the next lower version, and so on down, unless one says `reset: true`.
    ///
    /// A version that lists only what it changes would otherwise lose all the rest.
    fn effective(&self, report: &mut Findings) -> Option<Vec<Parameter>> {
        let own = VersionOrder::of(&self.version.name);
        let mut lower: Vec<&ContainerVersion> = self.container.versions.iter().collect();
        lower.retain(|other| other.is_enabled() && VersionOrder::of(&other.name) < own);
        lower.sort_by_key(|other| VersionOrder::of(&other.name));
        lower.push(self.version);
        let mut effective: BTreeMap<String, (usize, Parameter)> = BTreeMap::new();
        for version in lower {
            let Some(helm) = &version.helm_config else { continue };
            if helm.reset.as_ref().is_some_and(|flag| flag.value) {
                effective.clear();
            }
            // The lower versions' own faults are reported where they stand.
            let mut elsewhere = Findings::default();
            let heard = if version.name == self.version.name { &mut *report } else { &mut elsewhere };
            for parameter in parameters(&helm.values, &version.name, List::Values, heard)? {
                let next = effective.len();
                let place = effective.get(&parameter.key).map_or(next, |(place, _)| *place);
                effective.insert(parameter.key.clone(), (place, parameter));
            }
        }
        let mut effective: Vec<(usize, Parameter)> = effective.into_values().collect();
        effective.sort_by_key(|(place, _)| *place);
        Some(effective.into_iter().map(|(_, parameter)| parameter).collect())
    }
}

fn chart(helm: &HelmConfig) -> Chart {
    let text = |value: &Option<crate::Located<String>>| value.as_ref().map_or(String::new(), |text| text.value.clone());
    Chart {
        name: helm.chart_name.value.clone(),
        version: helm.version.value.clone(),
        repo_url: text(&helm.repo_url),
        repo_name: text(&helm.repo_name),
    }
}

fn check_chart(helm: &HelmConfig, report: &mut Findings) {
    if !is_exact(&helm.version) {
        report.push(
            Finding::error("chart.version_not_exact", &helm.version.at, "a chart's version must be exact")
                .found(format!("`{}`", *helm.version))
                .expected("three numbers, for example 0.4.6"),
        );
    }
    if helm.chart_name.trim().is_empty() {
        report.push(Finding::error("chart.missing", &helm.chart_name.at, "the chart's name is empty"));
    }
    if let Some(url) = &helm.repo_url {
        let known = ["https://", "http://", "oci://"].iter().any(|scheme| url.starts_with(scheme));
        if !known && !url.is_empty() {
            report.push(
                Finding::error("chart.repo_url_malformed", &url.at, "the chart repository's address is malformed")
                    .found(format!("`{}`", **url))
                    .expected("an address that starts with https://, http:// or oci://"),
            );
        }
    }
}

fn check_image(reference: &str, at: &Spot, report: &mut Findings) {
    let name = reference.rsplit('/').next().unwrap_or(reference);
    let moving = match (name.contains('@'), name.split_once(':')) {
        (true, _) => None,
        (false, None) => Some("no tag, which means `latest`".to_owned()),
        (false, Some((_, tag))) => MOVING_TAGS.contains(&tag).then(|| format!("the tag `{tag}`")),
    };
    if let Some(moving) = moving {
        report.push(
            Finding::warning("image.moving_tag", at, "an image reference may mean another image tomorrow")
                .found(format!("{moving} in `{reference}`"))
                .expected("a fixed tag or a digest"),
        );
    }
}

/// Which list a parameter stands in; the list decides what it goes into.
#[derive(Clone, Copy, PartialEq)]
enum List {
    Environment,
    Values,
}

fn parameters(rows: &[ParameterRow], version: &str, list: List, report: &mut Findings) -> Option<Vec<Parameter>> {
    let before = report.errors().count();
    let read: Vec<(&ParameterRow, Parameter)> =
        rows.iter().filter_map(|row| Some((row, Parameter::of(row, version, list == List::Values, report)?))).collect();
    for (row, parameter) in &read {
        check_category(row, list, report);
        if list == List::Environment {
            check_control_characters(row, parameter, report);
        }
    }
    check_keys(&read, list, report);
    let wrong = report.errors().count() > before;
    (!wrong).then(|| read.into_iter().map(|(_, parameter)| parameter).collect())
}

fn check_category(row: &ParameterRow, list: List, report: &mut Findings) {
    let Some(category) = &row.category else { return };
    let right = match list {
        List::Environment => ParameterCategory::EnvVar,
        List::Values => ParameterCategory::HelmValue,
    };
    if category.value != right {
        report.push(
            Finding::warning("parameter.category_ignored", &category.at, "the category contradicts the list")
                .found(format!("category {} on `{}`", category.value.code(), *row.key))
                .expected(format!("{} ({right}), as its list decides", right.code()))
                .fix(format!("write `category: {}`", right.code())),
        );
    }
}

/// A block scalar keeps its last line break, and no program expects one in an address.
fn check_control_characters(row: &ParameterRow, parameter: &Parameter, report: &mut Findings) {
    let ValueSource::Default(text) = &parameter.source else { return };
    if text.chars().any(char::is_control) {
        let at = row.default_value.as_ref().map_or(&row.at, |value| &value.at);
        report.push(
            Finding::error("parameter.control_character", at, "an environment variable has a control character")
                .found(format!("{text:?} in `{}`", *row.key))
                .fix("write it on one line, or end the block style with `-`: `|-`"),
        );
    }
}

/// No key twice, and no key below another one that is not a collection.
fn check_keys(read: &[(&ParameterRow, Parameter)], list: List, report: &mut Findings) {
    let mut lines: HashMap<&str, u32> = HashMap::new();
    for (row, parameter) in read {
        if let Some(first) = lines.insert(&parameter.key, row.key.at.line()) {
            report.push(
                Finding::error("parameter.duplicate", &row.key.at, "a parameter stands twice in one list")
                    .found(format!("`{}` again, first at line {first}", parameter.key)),
            );
        }
    }
    if list == List::Environment {
        return;
    }
    let mut paths: Vec<(KeyPath, &(&ParameterRow, Parameter))> =
        read.iter().filter_map(|entry| Some((KeyPath::parse(&entry.1.key).ok()?, entry))).collect();
    paths.sort_by(|a, b| a.0.cmp(&b.0));
    for pair in paths.windows(2) {
        let [(upper, (_, above)), (lower, (row, below))] = pair else { continue };
        let collection = matches!(above.value_type, ValueType::Array | ValueType::Object);
        if lower != upper && lower.starts_with(upper) && !collection {
            report.push(
                Finding::error("parameter.key_shadows", &row.key.at, "a key stands below a key that has a value")
                    .found(format!("`{}` below `{}` ({})", below.key, above.key, above.at))
                    .fix("remove one of the two"),
            );
        }
    }
}
