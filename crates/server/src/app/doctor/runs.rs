//! What runs hold and leave behind.

use ::store::Sample;
use api::doctor::Repair;
use model::{Result, counted};

use super::settings::quoted;
use super::{Facts, Look, Odd, Seen, sampled};
use crate::app::release::release;

pub(super) const LOOKS: &[(&str, Look)] = &[
    ("tasks.claimed", claimed),
    ("leases.owned", leases_owned),
    ("faults.owned", faults_owned),
    ("releases.owned", releases_owned),
    ("releases.as_composed", releases_as_composed),
    ("datapacks.present", packs_present),
    ("kill_switch.off", kill_switch_off),
];

fn claimed(facts: &Facts<'_>) -> Result<Seen> {
    let late = &facts.runs()?.unclaimed;
    let good = "no task that is due lies unclaimed";
    Ok(sampled(late, good, "tasks that are due and unclaimed", "aegis serve", Repair::Person))
}

fn leases_owned(facts: &Facts<'_>) -> Result<Seen> {
    let runs = facts.runs()?;
    let orphans = &runs.orphaned_leases;
    let items = orphans.items.iter().map(|(resource, run)| format!("{resource} of run {run}")).collect();
    let fix = orphans.items.iter().map(|(resource, _)| format!("aegisctl lease release {resource} --yes"));
    let fix = fix.collect::<Vec<_>>().join(" && ");
    let good = format!("{} leases, all of them of something that goes on", runs.held_leases);
    let orphans = Sample { items, total: orphans.total };
    Ok(sampled(&orphans, &good, "leases of runs that have ended", &fix, Repair::Safe))
}

fn faults_owned(facts: &Facts<'_>) -> Result<Seen> {
    let runs = facts.runs()?;
    let mut odd = Odd::default();
    for fault in runs.faults.iter().filter(|fault| !runs.open_runs.contains(&fault.run)) {
        let fix = "aegisctl kill-switch on --reason leftovers && aegisctl kill-switch off";
        odd.add(format!("fault {} of run {}, which has ended", fault.name, fault.run), Repair::Consent, fix);
    }
    odd.seen(format!("{}, each of a run that goes on", counted(runs.faults.len(), "active fault")))
}

fn releases_owned(facts: &Facts<'_>) -> Result<Seen> {
    let runs = facts.runs()?;
    // One that is of other values as well goes with the fix of the check that tells that.
    let other: Vec<&str> = uncomposed(facts)?.into_iter().map(|(release, _)| release).collect();
    let is_unheld = |release: &&cluster::ReleaseObservation| {
        !runs.held_namespaces.contains(&release.release) && !other.contains(&release.release.as_str())
    };
    let mut odd = Odd::default();
    for release in runs.releases.iter().filter(is_unheld) {
        let fix = "the next run in that slot replaces it";
        odd.add(format!("release {} without a run", release.release), Repair::Person, fix);
    }
    odd.seen(format!("{} releases, each of a run", runs.releases.len()))
}

fn releases_as_composed(facts: &Facts<'_>) -> Result<Seen> {
    let mut odd = Odd::default();
    for (release, code) in uncomposed(facts)? {
        let observed = format!("release {release} was edited, or is older than the values that are declared now");
        odd.add(observed, Repair::Consent, format!("aegisctl seed proof --system {code} --restart-slots"));
    }
    odd.seen("every release has the values that are composed for its slot")
}

/// Releases that are not what their slots would get now, with their systems; those of another chart or version are not compared.
fn uncomposed<'a>(facts: &'a Facts<'_>) -> Result<Vec<(&'a str, &'a str)>> {
    let stored = facts.stored()?;
    let mut odd = Vec::new();
    for found in &facts.runs()?.releases {
        let code = found.release.trim_end_matches(|c: char| c.is_ascii_digit());
        let (Some(system), Ok(slot)) = (stored.system(code), found.release[code.len()..].parse()) else { continue };
        let Some(pedestal) = stored.pedestal(system) else { continue };
        let used = ::seed::newest(pedestal.versions.iter().filter(|version| version.enabled), |version| &version.name);
        let Some(used) = used else { continue };
        // What is composed without a damaged archive is not what was installed; another check tells of the archive.
        let Ok(own) = facts.app.own_values(used) else { continue };
        let wanted = release(used, own.as_deref(), &[slot])?;
        let same_chart = wanted.chart == found.chart && wanted.chart_version == found.chart_version;
        if same_chart && wanted.per_slot.iter().all(|slot| slot.digest != found.values_digest) {
            odd.push((found.release.as_str(), system.code.as_str()));
        }
    }
    Ok(odd)
}

fn packs_present(facts: &Facts<'_>) -> Result<Seen> {
    let packs = &facts.runs()?.packs;
    let mut odd = Odd::default();
    for pack in packs {
        let folder = facts.app.packs().join(&pack.path);
        if folder.is_dir() {
            continue;
        }
        // A simulated run that is submitted again with its seed gives the same datapack, and that is another one of this list.
        let fix = format!("cp -a BACKUP/{} {}", pack.path, quoted(&folder.display().to_string()));
        odd.add(format!("datapack {} is not on disk", pack.name), Repair::Person, fix);
    }
    odd.seen(format!("all {} datapacks are on disk", packs.len()))
}

fn kill_switch_off(facts: &Facts<'_>) -> Result<Seen> {
    let switch = &facts.runs()?.kill_switch;
    let mut odd = Odd::default();
    if switch.engaged {
        let observed = format!("on since {}: {}", switch.changed_at, switch.reason);
        odd.add(observed, Repair::Consent, "aegisctl kill-switch off");
    }
    odd.seen("off")
}
