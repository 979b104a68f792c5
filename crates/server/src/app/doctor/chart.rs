//! Charts: declared, addressed, archived and published.

use ::chart::Kept;
use ::seed::VersionOrder;
use ::store::{ContainerKind, Version};
use api::doctor::Repair;
use model::Result;

use super::{Facts, Look, Odd, Seen};

pub(super) const LOOKS: &[(&str, Look)] = &[
    ("charts.declared", declared),
    ("charts.addressed", addressed),
    ("charts.archived", archived),
    ("charts.published", published),
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
        let charts = facts.app.charts();
        let state = charts.state(digest);
        if !matches!(state, Kept::Whole(_)) {
            let problem = charts.problem(digest, &state);
            let (file, found) = (charts.file(digest), problem.found.as_deref().unwrap_or_default());
            let observed =
                format!("pedestal {code} {}: {}: {}: {found}", version.name, file.display(), problem.message);
            odd.add(observed, Repair::Person, format!("aegisctl pedestal chart push --name {code} --tgz FILE"));
        }
    }
    odd.seen(format!("every archive that was fetched is there and unchanged: {archives}"))
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
