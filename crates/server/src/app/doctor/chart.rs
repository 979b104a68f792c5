//! Charts: declared, addressed, archived, published, and what they render to.

use ::chart::Kept;
use ::seed::VersionOrder;
use ::store::{ContainerKind, Version};
use api::chart::CheckState;
use api::doctor::Repair;
use model::Result;

use super::{Facts, Look, Odd, Seen, again};

pub(super) const LOOKS: &[(&str, Look)] = &[
    ("charts.declared", declared),
    ("charts.addressed", addressed),
    ("charts.archived", archived),
    ("charts.published", published),
    ("charts.become_ready", become_ready),
    ("charts.commands_found", commands_found),
    ("charts.images_mirrored", images_mirrored),
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
        let is_meant = |code: &str| codes.contains(&code);
        for finding in check.findings.iter().filter(|one| one.severity == "error" && is_meant(&one.code)) {
            let observed =
                format!("{code}: {}: {} [{}]; found {}", finding.place, finding.message, finding.code, finding.found);
            odd.add(observed, Repair::Person, format!("aegisctl pedestal helm verify {code}"));
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
        let fix = format!("aegisctl pedestal version retire {code} {} --yes", version.name);
        if !VersionOrder::of(&version.name).is_parsed() {
            odd.add(
                format!("pedestal {code} `{}` is no version that can be ordered", version.name),
                Repair::Consent,
                fix,
            );
        }
    }
    odd.seen("every version that runs may install has its place in the order")
}
