//! Checks across the records of a seed.

use std::collections::{BTreeSet, HashMap};

use model::SystemCode;

use crate::schema::{Container, ContainerKind, Membership, User};
use crate::system::{SystemKeys, by_system, codes};
use crate::{
    Checked, CheckedSystem, ContainerSeed, DATA_FILE, DynamicConfig, Finding, Findings, Located, Seed,
    names as system_names, setting,
};

/// Roles that the public format knows.
const TEAM_ROLES: &[&str] = &["team_admin", "team_member", "team_viewer"];
const PROJECT_ROLES: &[&str] = &["project_admin", "project_algo_developer", "project_data_developer", "project_viewer"];

/// Every check, in one pass over the seed. What is collected is complete when the report has no error.
pub(crate) fn everything(seed: &Seed) -> (Checked, Findings) {
    let mut report = Findings::default();
    names(seed, &mut report);
    let mut containers = Vec::with_capacity(seed.document.containers.len());
    for container in &seed.document.containers {
        let checked = ContainerSeed::of(container, seed, &mut report);
        // One that is not used is checked all the same; it is no part of the desired state.
        containers.extend(checked.filter(|_| container.is_enabled()));
        prerequisites(container, &mut report);
    }
    setting::check_keys(&seed.document.dynamic_configs, &mut report);
    for row in &seed.document.dynamic_configs {
        setting::check(row, &mut report);
    }
    let systems = systems(seed, &mut report);
    overlays(seed, &mut report);
    people(seed, &mut report);
    (Checked { containers, systems, warnings: Vec::new() }, report.sorted())
}

/// Each container has a name of its own, over all types; a pedestal's name is the code of its system.
pub(crate) fn names(seed: &Seed, report: &mut Findings) {
    let mut seen: HashMap<&str, &Container> = HashMap::new();
    let declared = codes(seed);
    for container in seed.document.containers.iter().filter(|container| container.is_enabled()) {
        let name = &container.name;
        if let Some(first) = seen.insert(name, container) {
            report.push(
                Finding::error("container.name_taken", &name.at, "two containers have one name")
                    .found(format!("{} `{}`, and {} at {}", container.kind.value, **name, first.kind.value, first.at))
                    .expected("a name of its own for each algorithm, benchmark and pedestal")
                    .fix(format!("rename one of them, for example to `{}-bench`", **name)),
            );
        }
        if container.kind.value == ContainerKind::Pedestal {
            pedestal_name(&declared, name, report);
        }
    }
}

fn pedestal_name(declared: &BTreeSet<&str>, name: &Located<String>, report: &mut Findings) {
    let wrong = |meant: Option<&str>| {
        let finding =
            Finding::error("pedestal.name_not_code", &name.at, "a pedestal's name is not the code of a system")
                .found(format!("`{}`", **name))
                .expected("the short code that stands in `injection.system.<code>.*`");
        match meant {
            Some(meant) => finding.fix(format!("did you mean `{meant}`?")),
            None => finding,
        }
    };
    if let Some(meant) = system_names::retired(name) {
        report.push(wrong(Some(meant)));
    } else if !declared.contains(name.as_str()) {
        report.push(wrong(system_names::meant(name, declared.iter().copied())));
    } else if let Err(problem) = SystemCode::parse(name) {
        report.push(
            Finding::error("pedestal.name_malformed", &name.at, problem.message)
                .found(format!("`{}`", **name))
                .expected(problem.expected.unwrap_or_default()),
        );
    }
}

/// Every system with settings has a pedestal, all its keys, and a benchmark.
fn systems(seed: &Seed, report: &mut Findings) -> Vec<CheckedSystem> {
    let pedestals: BTreeSet<&str> = seed.systems().into_iter().collect();
    let names: BTreeSet<&str> = seed.document.containers.iter().map(|container| container.name.as_str()).collect();
    let mut checked = Vec::new();
    for (code, rows) in by_system(seed) {
        let Some(first) = rows.first() else { continue };
        let at = first.key.at.clone();
        let settings: Vec<DynamicConfig> = rows.into_iter().cloned().collect();
        let keys = SystemKeys::of(code, &at, &settings, report);
        if pedestals.contains(code) {
            let benchmark = seed.benchmark(code, &at, report);
            if let (Ok(code), Some(keys), Some(benchmark)) = (SystemCode::parse(code), keys, benchmark) {
                checked.push(CheckedSystem { code, keys, benchmark: benchmark.container.name, at });
            }
        } else if !names.contains(code) {
            report.push(
                Finding::error("system.pedestal_missing", &at, "a system has settings and no pedestal")
                    .found(format!("`{code}`"))
                    .expected(format!("a container of type 2 (pedestal) named `{code}`")),
            );
        }
    }
    checked
}

/// A values file that no pedestal uses is a misspelt name, or a left-over.
fn overlays(seed: &Seed, report: &mut Findings) {
    let mut used: BTreeSet<String> = BTreeSet::new();
    for pedestal in seed.of_kind(ContainerKind::Pedestal) {
        used.insert(format!("{}.yaml", *pedestal.name));
        let named = pedestal.versions.iter().filter_map(|version| version.helm_config.as_ref()?.value_file.as_ref());
        used.extend(named.map(|file| file.value.clone()));
    }
    for (name, overlay) in &seed.overlays {
        if !used.contains(name) {
            report.push(
                Finding::warning(
                    "overlay.unused",
                    &crate::Spot::whole(&overlay.file),
                    "no pedestal uses this values file",
                )
                .found(format!("`{name}`"))
                .expected(format!("`<code>.yaml` of a pedestal in `{DATA_FILE}`"))
                .nearest(name, used.iter().map(String::as_str)),
            );
        }
    }
}

pub(crate) fn prerequisites(container: &Container, report: &mut Findings) {
    for prerequisite in &container.prerequisites {
        if *prerequisite.kind != "helm" {
            report.push(
                Finding::error("prerequisite.kind_unknown", &prerequisite.kind.at, "a prerequisite of an unknown kind")
                    .found(format!("`{}`", *prerequisite.kind))
                    .expected("`helm`"),
            );
        } else if prerequisite.chart.is_none() || prerequisite.version.is_none() {
            report.push(
                Finding::error(
                    "prerequisite.chart_missing",
                    &prerequisite.at,
                    "a prerequisite says not what to install",
                )
                .found(format!("`{}`", *prerequisite.name))
                .expected("`chart` and `version`"),
            );
        }
    }
}

fn people(seed: &Seed, report: &mut Findings) {
    let document = &seed.document;
    unique("team", document.teams.iter().map(|team| &team.name), report);
    unique("project", document.projects.iter().map(|project| &project.name), report);
    unique("data set", document.datasets.iter().map(|dataset| &dataset.name), report);
    unique("service account", document.service_accounts.iter().map(|account| &account.name), report);
    let users = || document.admin_user.iter().chain(&document.users);
    unique("user", users().map(|user| &user.username), report);
    unique("user", users().map(|user| &user.email), report);
    let teams: Vec<&str> = document.teams.iter().map(|team| team.name.as_str()).collect();
    let projects: Vec<&str> = document.projects.iter().map(|project| project.name.as_str()).collect();
    for user in users() {
        memberships(user, &teams, &projects, report);
    }
}

fn memberships(user: &User, teams: &[&str], projects: &[&str], report: &mut Findings) {
    let mut in_project = |membership: &Membership| {
        known("user.unknown_project", "project", &membership.name, projects, report);
        role(&membership.role, PROJECT_ROLES, report);
    };
    user.projects.iter().chain(user.teams.iter().flat_map(|team| &team.projects)).for_each(&mut in_project);
    for membership in &user.teams {
        known("user.unknown_team", "team", &membership.name, teams, report);
        role(&membership.role, TEAM_ROLES, report);
    }
}

fn known(code: &'static str, noun: &str, name: &Located<String>, names: &[&str], report: &mut Findings) {
    if !names.contains(&name.as_str()) {
        report.push(
            Finding::error(code, &name.at, format!("a user belongs to a {noun} that the seed does not declare"))
                .found(format!("`{}`", **name))
                .expected(names.join(", "))
                .nearest(name, names.iter().copied()),
        );
    }
}

fn role(role: &Located<String>, roles: &[&str], report: &mut Findings) {
    if !roles.contains(&role.as_str()) {
        report.push(
            Finding::warning("user.unknown_role", &role.at, "a role that the public format does not know")
                .found(format!("`{}`", **role))
                .expected(roles.join(", "))
                .nearest(role, roles.iter().copied()),
        );
    }
}

fn unique<'a>(noun: &str, names: impl Iterator<Item = &'a Located<String>>, report: &mut Findings) {
    let mut seen: HashMap<&str, u32> = HashMap::new();
    for name in names {
        if let Some(first) = seen.insert(name, name.at.line()) {
            report.push(
                Finding::error("seed.duplicate_name", &name.at, format!("a {noun} stands twice"))
                    .found(format!("`{}` again, first at line {first}", **name)),
            );
        }
    }
}
