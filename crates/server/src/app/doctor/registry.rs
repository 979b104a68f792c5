//! What is registered: systems, and the containers that they are made of.

use std::collections::BTreeMap;

use ::seed::ObjectKind;
use ::store::{Container, ContainerKind};
use api::doctor::Repair;
use model::{Result, counted};

use super::facts::Stored;
use super::{Facts, Look, Odd, Seen};

pub(super) const LOOKS: &[(&str, Look)] = &[
    ("systems.enabled", enabled),
    ("systems.namespaces_match", namespaces_match),
    ("systems.named_by_code", named_by_code),
    ("containers.commands_set", commands_set),
    ("containers.names_distinct", names_distinct),
    ("benchmarks.environment_set", environment_set),
    ("systems.label_key_kept", label_key_kept),
    ("systems.targets_known", targets_known),
    ("containers.owned_by_one", owned_by_one),
];

fn enabled(facts: &Facts<'_>) -> Result<Seen> {
    let stored = facts.stored()?;
    let (all, enabled) = (stored.systems.len(), stored.enabled().count());
    let mut odd = Odd::default();
    if enabled == 0 {
        let runnable = stored.systems.iter().find(|system| facts.app.cluster().can_run(&system.code).is_ok());
        match runnable {
            Some(system) => {
                let fix = format!("aegisctl system enable {}", system.code);
                odd.add(format!("none of {} is enabled", counted(all, "system")), Repair::Safe, fix);
            }
            None => {
                odd.add("no system is registered that can run here", Repair::Safe, "aegisctl system register --name ts")
            }
        }
    }
    odd.seen(format!("{enabled} of {} enabled", counted(all, "system")))
}

fn namespaces_match(facts: &Facts<'_>) -> Result<Seen> {
    let stored = facts.stored()?;
    let mut odd = Odd::default();
    for system in stored.enabled() {
        let slot = format!("{}0", system.code);
        for (name, pattern) in [("ns_pattern", &system.ns_pattern), ("extract_pattern", &system.extract_pattern)] {
            if regex_lite::Regex::new(pattern).is_ok_and(|regex| regex.is_match(&slot)) {
                continue;
            }
            let key = format!("{}{}.{name}", ::settings::SYSTEM_PREFIX, system.code);
            let observed = format!("`{slot}` does not match `{pattern}`, the value of {key}");
            odd.add(observed, Repair::Consent, declared_again(stored, &key));
        }
        let key = format!("{}{}.status", ::settings::SYSTEM_PREFIX, system.code);
        let status = stored.setting(&key).and_then(|setting| setting.live.as_ref()).map(|live| live.value.as_str());
        if status.is_some_and(|status| status != "1") {
            let observed = format!("{} is enabled, and {key} is `{}`", system.code, status.unwrap_or_default());
            odd.add(observed, Repair::Safe, format!("aegisctl system enable {}", system.code));
        }
    }
    odd.seen("each enabled system's slots match its own patterns")
}

/// The command that gives a key the value that was declared for it.
fn declared_again(stored: &Stored, key: &str) -> String {
    let declared = stored.setting(key).map(|one| one.declaration.seed.as_ref().unwrap_or(&one.declaration.default));
    format!("aegisctl settings set {key} {}", super::settings::quoted(declared.map_or("", String::as_str)))
}

fn named_by_code(facts: &Facts<'_>) -> Result<Seen> {
    let stored = facts.stored()?;
    let mut odd = Odd::default();
    for system in &stored.systems {
        if stored.pedestal(system).is_some() {
            continue;
        }
        let code = system.code.as_str();
        let linked = stored
            .live
            .containers
            .iter()
            .find(|one| one.kind == ContainerKind::Pedestal && one.systems.iter().any(|other| other == code));
        let has = linked.map_or_else(|| "none".to_owned(), |one| format!("`{}`", one.name));
        odd.fixed_by(format!("the pedestal of `{code}` is {has}"), stored.register_again(code));
    }
    odd.seen("each system's pedestal has its short code")
}

/// The system that a container belongs to, which is registered again to put it right.
fn owner<'a>(stored: &'a Stored, container: &Container) -> Option<&'a str> {
    let linked = stored.live.containers.iter().find(|one| one.kind == container.kind && one.name == container.name)?;
    linked.systems.first().map(String::as_str)
}

fn put_right(stored: &Stored, container: &Container) -> (String, Repair) {
    match owner(stored, container) {
        Some(code) => stored.register_again(code),
        None => ("aegisctl seed drift".to_owned(), Repair::Person),
    }
}

fn commands_set(facts: &Facts<'_>) -> Result<Seen> {
    let stored = facts.stored()?;
    let mut odd = Odd::default();
    for container in stored.containers.iter().filter(|one| one.kind != ContainerKind::Pedestal) {
        for version in container.versions.iter().filter(|version| version.enabled) {
            // A version without an image is a part of the program.
            if version.command.trim().is_empty() && !version.image_ref.is_empty() {
                let observed =
                    format!("{} {} {} has no command", container.kind.as_str(), container.name, version.name);
                odd.fixed_by(observed, put_right(stored, container));
            }
        }
    }
    odd.seen("every image has its command")
}

fn names_distinct(facts: &Facts<'_>) -> Result<Seen> {
    let stored = facts.stored()?;
    let mut odd = Odd::default();
    for benchmark in stored.containers.iter().filter(|one| one.kind == ContainerKind::Benchmark) {
        let twin =
            stored.containers.iter().find(|one| one.kind == ContainerKind::Pedestal && one.name == benchmark.name);
        if twin.is_some() {
            let code = owner(stored, benchmark).unwrap_or(&benchmark.name);
            let observed = format!("a benchmark and a pedestal are both named `{}`", benchmark.name);
            odd.fixed_by(observed, stored.register_anew(code));
        }
    }
    odd.seen("no benchmark has the name of a pedestal")
}

/// The variables of the benchmark's version are compared with those that were declared for it.
fn environment_set(facts: &Facts<'_>) -> Result<Seen> {
    let stored = facts.stored()?;
    let pending = stored.pending()?;
    let mut odd = Odd::default();
    for (id, declared) in pending.base.objects.iter().filter(|(id, _)| id.kind == ObjectKind::Version) {
        if !id.name.starts_with("benchmark ") {
            continue;
        }
        let live = pending.live.objects.get(id);
        let variables = declared.fields.keys().filter_map(|name| name.strip_prefix(::seed::field::ENV));
        let missing: Vec<&str> = variables
            .filter(|name| {
                let field = format!("{}{name}", ::seed::field::ENV);
                live.is_some_and(|live| !live.fields.contains_key(&field))
            })
            .collect();
        if !missing.is_empty() {
            let container = id.name.split(' ').nth(1).unwrap_or_default();
            let found =
                stored.containers.iter().find(|one| one.kind == ContainerKind::Benchmark && one.name == container);
            let fix = found.map(|found| put_right(stored, found));
            let fix = fix.unwrap_or_else(|| ("aegisctl seed drift".to_owned(), Repair::Person));
            odd.fixed_by(format!("{} is without {}", id.name, missing.join(", ")), fix);
        }
    }
    odd.seen("every benchmark has the variables that were declared for it")
}

fn label_key_kept(facts: &Facts<'_>) -> Result<Seen> {
    let stored = facts.stored()?;
    let mut odd = Odd::default();
    for system in &stored.systems {
        let key = format!("{}{}.app_label_key", ::settings::SYSTEM_PREFIX, system.code);
        let Some(declared) = stored.setting(&key).and_then(|one| one.declaration.seed.as_ref()) else { continue };
        if *declared != system.app_label_key {
            let observed = format!("{key} is `{}` and was declared as `{declared}`", system.app_label_key);
            odd.add(observed, Repair::Consent, declared_again(stored, &key));
        }
    }
    odd.seen("every system tells its pods apart by the label that was declared")
}

fn targets_known(facts: &Facts<'_>) -> Result<Seen> {
    let stored = facts.stored()?;
    let mut odd = Odd::default();
    for system in stored.enabled() {
        if let Err(error) = facts.app.cluster().can_run(&system.code) {
            let observed = format!("{}: {}", system.code, error.problem.message);
            odd.add(observed, Repair::Consent, format!("aegisctl system disable {} --yes", system.code));
        }
    }
    odd.seen("the targets of every enabled system are known without its namespaces")
}

fn owned_by_one(facts: &Facts<'_>) -> Result<Seen> {
    let stored = facts.stored()?;
    let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for pedestal in stored.live.containers.iter().filter(|one| one.kind == ContainerKind::Pedestal) {
        owners.insert(&pedestal.name, pedestal.systems.iter().map(String::as_str).collect());
    }
    let mut odd = Odd::default();
    for (name, systems) in owners {
        if let Some(other) = systems.iter().find(|system| **system != name).filter(|_| systems.len() > 1) {
            odd.fixed_by(
                format!("the pedestal `{name}` is that of {}", systems.join(" and ")),
                stored.register_anew(other),
            );
        }
    }
    odd.seen("each pedestal, with its values, is one system's")
}
