//! Charts: declared, addressed, archived, published, and what they render to.

use std::collections::BTreeMap;

use ::chart::Kept;
use ::seed::VersionOrder;
use ::store::{ContainerKind, Version};
use api::chart::{ChartFinding, CheckState, LookupState};
use api::doctor::Repair;
use model::{Result, counted};

use super::settings::quoted;
use super::{Facts, Look, Odd, Seen, again};
use crate::app::chart::short;

pub(super) const LOOKS: &[(&str, Look)] = &[
    ("charts.declared", declared),
    ("charts.addressed", addressed),
    ("charts.archived", archived),
    ("charts.published", published),
    ("charts.become_ready", become_ready),
    ("charts.commands_found", commands_found),
    ("charts.images_mirrored", images_mirrored),
    ("charts.used", used),
];

/// The versions of pedestals that runs may install, with the system's code.
fn versions<'a>(facts: &'a Facts<'_>) -> Result<impl Iterator<Item = (&'a str, &'a Version)>> {
    let pedestals = facts.stored()?.containers.iter().filter(|one| one.kind == ContainerKind::Pedestal);
    let enabled = |one: &'a ::store::Container| one.versions.iter().filter(|version| version.enabled);
    Ok(pedestals.flat_map(move |one| enabled(one).map(|version| (one.name.as_str(), version))))
}

fn declared(facts: &Facts<'_>) -> Result<Seen> {
    let stored = facts.stored()?;
    let mut odd = Odd::default();
    for (code, version) in versions(facts)? {
        if version.chart.is_none() {
            odd.fixed_by(format!("pedestal {code} {} has no chart", version.name), stored.register_again(code));
        }
    }
    odd.seen("every pedestal names its chart")
}

/// Classic repositories have an index over HTTP, registries have none and are addressed by `oci://`.
fn addressed(facts: &Facts<'_>) -> Result<Seen> {
    let stored = facts.stored()?;
    let mut odd = Odd::default();
    for (code, version) in versions(facts)? {
        let Some(chart) = &version.chart else { continue };
        let url = chart.repository.as_str();
        let is_right = match url.split_once("://") {
            Some(("http" | "https" | "oci", rest)) => !rest.is_empty() && !url.ends_with("index.yaml"),
            _ => false,
        };
        if !is_right {
            let observed = format!("pedestal {code} {}: `{url}` is neither `https://` nor `oci://`", version.name);
            odd.fixed_by(observed, stored.register_anew(code));
        }
    }
    odd.seen("every repository is addressed as what it is")
}

fn archived(facts: &Facts<'_>) -> Result<Seen> {
    let mut odd = Odd::default();
    let mut archives = 0;
    for (code, version) in versions(facts)? {
        let Some(digest) = version.chart.as_ref().and_then(|chart| chart.archive_digest.as_ref()) else { continue };
        archives += 1;
        let state = facts.app.charts().state(digest);
        if !matches!(state, Kept::Whole(_)) {
            let problem = facts.app.charts().problem(digest, &state);
            let place = problem.place.as_deref().unwrap_or_default();
            let observed = format!("pedestal {code} {}: {}: {place}", version.name, problem.message);
            // It is fetched again, and compared with what was recorded.
            let fix = format!("aegisctl pedestal helm verify {code} --version {}", version.name);
            odd.add(observed, Repair::Safe, fix);
        }
    }
    odd.seen(format!("every archive that was fetched is whole: {archives}"))
}

/// Which finding of the render check is about what.
const NEVER_READY: &[&str] = &[
    "chart.load_balancer",
    "chart.ready_needs_hook",
    "chart.probe_port_unknown",
    "chart.not_rendered",
    "chart.node_port_shared",
];
const COMMANDS: &[&str] = &["chart.command_relative", "chart.mount_relative"];
const IMAGES: &[&str] =
    &["chart.image_not_mirrored", "chart.image_empty", "chart.image_never_pulled", "chart.platform_unavailable"];

fn rendered(facts: &Facts<'_>, codes: &[&str], good: &str) -> Result<Seen> {
    let checks = facts.rendered.as_ref().map_err(again)?;
    let mut odd = Odd::default();
    for (code, check) in checks {
        let is_meant = |one: &&ChartFinding| one.severity == "error" && codes.contains(&one.code.as_str());
        let found: Vec<&ChartFinding> = check.findings.iter().filter(is_meant).collect();
        for finding in &found {
            let observed =
                format!("{code}: {}: {} [{}]; found {}", finding.place, finding.message, finding.code, finding.found);
            odd.fixed_by(observed, put_right(facts, code, &found)?);
        }
    }
    let unseen = checks.iter().find(|(_, check)| check.state == CheckState::NotChecked);
    match unseen {
        _ if checks.is_empty() => Ok(Seen::Not("no chart of an enabled system was fetched".into())),
        Some((code, check)) if odd.things.is_empty() => {
            Ok(Seen::Not(format!("{code}: {}", check.reason.as_deref().unwrap_or("it was not rendered"))))
        }
        _ => odd.seen(good),
    }
}

/// What puts a chart right: the values that its findings name, else another version of the pedestal, else a person's look.
fn put_right(facts: &Facts<'_>, code: &str, findings: &[&ChartFinding]) -> Result<(String, Repair)> {
    let set: BTreeMap<&String, &String> = findings.iter().flat_map(|finding| &finding.set).collect();
    if !set.is_empty() {
        let words = set.iter().map(|(key, value)| format!(" --set {}", quoted(&format!("{key}={value}"))));
        return Ok((format!("aegisctl pedestal helm set {code}{}", words.collect::<String>()), Repair::Consent));
    }
    let versions: Vec<&Version> =
        versions(facts)?.filter(|(other, _)| *other == code).map(|(_, version)| version).collect();
    let used = ::seed::newest(versions.iter().copied(), |version| &version.name);
    Ok(match used.filter(|_| versions.len() > 1) {
        Some(used) => {
            (format!("aegisctl pedestal version retire {code} {} --yes", quoted(&used.name)), Repair::Consent)
        }
        None => (format!("aegisctl pedestal helm verify {code}"), Repair::Person),
    })
}

fn become_ready(facts: &Facts<'_>) -> Result<Seen> {
    rendered(facts, NEVER_READY, "nothing that is rendered waits for ever")
}

fn commands_found(facts: &Facts<'_>) -> Result<Seen> {
    rendered(facts, COMMANDS, "no command and no mount depends on the folder that it starts in")
}

fn images_mirrored(facts: &Facts<'_>) -> Result<Seen> {
    rendered(facts, IMAGES, "the nodes can fetch every image")
}

fn published(facts: &Facts<'_>) -> Result<Seen> {
    let mut odd = Odd::default();
    for (code, version) in versions(facts)? {
        if !VersionOrder::of(&version.name).is_parsed() {
            let observed = format!("pedestal {code} `{}` is no version that can be ordered", version.name);
            odd.fixed_by(observed, retired(facts, code, &version.name)?);
        }
    }
    let lookups = facts.lookups.as_ref().map_err(again)?;
    for chart in lookups.iter().filter(|chart| chart.state == LookupState::NotPublished) {
        let observed = format!(
            "pedestal {} {}: chart {} {} is not published in {}: {}",
            chart.system,
            chart.pedestal_version,
            chart.name,
            chart.version,
            chart.repo_url,
            chart.reason.as_deref().unwrap_or_default()
        );
        odd.fixed_by(observed, retired(facts, &chart.system, &chart.pedestal_version)?);
    }
    let silent = lookups.iter().find(|chart| chart.state == LookupState::Unknown).filter(|_| odd.things.is_empty());
    if let Some(chart) = silent {
        let reason = chart.reason.as_deref().unwrap_or("its repository says nothing");
        return Ok(Seen::Not(format!("chart {} {}: {reason}", chart.name, chart.version)));
    }
    let unasked = versions(facts)?.filter(|(_, version)| {
        let chart = version.chart.as_ref().filter(|chart| chart.archive_digest.is_none());
        chart.is_some_and(|chart| !facts.app.fetches_from(&chart.repository))
    });
    let good = "every version that runs may install has its place in the order";
    match unasked.count() {
        0 => odd.seen(format!("{good}, and its chart is published")),
        count => {
            odd.seen(format!("{good}; not looked up, for nothing says here where from: {}", counted(count, "chart")))
        }
    }
}

/// The command that takes a version out of use, where another one is left.
fn retired(facts: &Facts<'_>, code: &str, version: &str) -> Result<(String, Repair)> {
    let others = versions(facts)?.any(|(other, one)| other == code && one.name != version);
    Ok(if others {
        (format!("aegisctl pedestal version retire {code} {} --yes", quoted(version)), Repair::Consent)
    } else {
        (format!("aegisctl system disable {code} --yes"), Repair::Consent)
    })
}

fn used(facts: &Facts<'_>) -> Result<Seen> {
    let unused = facts.unused_charts.as_ref().map_err(again)?;
    let mut odd = Odd::default();
    for archive in unused {
        let observed = format!(
            "archive sha256:{} of {} bytes is of no version and no release",
            short(&archive.digest),
            archive.size
        );
        odd.add(observed, Repair::Consent, "aegisctl pedestal chart prune --yes");
    }
    odd.seen("every archive is that of a version or of a release")
}
