//! Settings: declared here, published where others read them, and applied by every process.

use std::collections::HashSet;

use ::settings::SYSTEM_PREFIX;
use api::doctor::Repair;
use model::{Problem, Result, WallTime, counted};

use super::store::RESTORE;
use super::{Facts, Look, Odd, Seen, again};
use crate::app::system::MANDATORY;

pub(super) const LOOKS: &[(&str, Look)] = &[
    ("settings.reachable", reachable),
    ("settings.adopted", adopted),
    ("settings.kept", kept),
    ("settings.declared", declared),
    ("settings.complete", complete),
    ("settings.placed", placed),
    ("settings.declared_first", declared_first),
    ("settings.names_current", names_current),
    ("settings.legal", legal),
    ("settings.applied", applied),
];

/// How long a process may take to apply a change, in microseconds.
const LAG_US: i64 = 2_000_000;
/// What is found where values are published, and has a check of its own.
const STRAYS: [&str; 3] = ["setting.wrong_scope", "setting.at_root", "setting.undeclared"];

fn reachable(facts: &Facts<'_>) -> Result<Seen> {
    let Some(place) = &facts.settings.place else { return Ok(Seen::Good("the store alone keeps them".into())) };
    Ok(match &facts.settings.problem {
        None => Seen::Good(format!("{place} answers")),
        Some(problem) => Seen::Bad {
            observed: problem.clone(),
            fix: format!("let {place} be reached again; nothing else is needed"),
            repair: Repair::Person,
        },
    })
}

/// The findings with one of these codes.
fn findings<'a>(facts: &'a Facts<'_>, codes: &'a [&str]) -> impl Iterator<Item = &'a Problem> {
    facts.settings.findings.iter().filter(|finding| codes.contains(&finding.code.as_ref()))
}

fn told(finding: &Problem) -> String {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}: {}; found {}", part(&finding.place), finding.message, part(&finding.found))
}

fn adopted(facts: &Facts<'_>) -> Result<Seen> {
    let mut odd = Odd::default();
    for finding in findings(facts, &["settings.not_adopted"]) {
        odd.add(told(finding), Repair::Consent, "aegisctl settings adopt --yes");
    }
    odd.seen("this installation publishes its values there")
}

fn kept(facts: &Facts<'_>) -> Result<Seen> {
    let mut odd = Odd::default();
    for finding in findings(facts, &["settings.mass_deletion"]) {
        odd.add(told(finding), Repair::Safe, RESTORE);
    }
    odd.seen("what was published is there")
}

fn declared(facts: &Facts<'_>) -> Result<Seen> {
    let stored = facts.stored()?;
    let mut odd = Odd::default();
    for one in ::settings::catalogue() {
        if stored.setting(&one.key).is_none() {
            odd.add(format!("not declared: {}", one.key), Repair::Safe, RESTORE);
        }
    }
    odd.seen("every key that the program reads is declared")
}

fn complete(facts: &Facts<'_>) -> Result<Seen> {
    let stored = facts.stored()?;
    let mut odd = Odd::default();
    for system in &stored.systems {
        let key = |name: &&str| format!("{SYSTEM_PREFIX}{}.{name}", system.code);
        let lives = |key: &String| stored.setting(key).is_some_and(|setting| setting.live.is_some());
        let missing: Vec<String> = MANDATORY.iter().map(key).filter(|key| !lives(key)).collect();
        if !missing.is_empty() {
            let has = MANDATORY.len() - missing.len();
            let observed =
                format!("{} has {has} of {} keys, without {}", system.code, MANDATORY.len(), missing.join(", "));
            odd.fixed_by(observed, stored.register_again(system.code.as_str()));
        }
    }
    odd.seen(format!("all keys of {}", counted(stored.systems.len(), "system")))
}

/// The whole name of a stray where it stands, without the source's address.
fn path_of(finding: &Problem) -> &str {
    let place = finding.place.as_deref().unwrap_or_default();
    let path = place.rsplit_once(": ").map_or(place, |(_, path)| path);
    path.trim_start_matches("key ").trim_end_matches(" outside of the prefix")
}

fn discard(path: &str) -> String {
    format!("aegisctl settings discard {path} --yes")
}

fn placed(facts: &Facts<'_>) -> Result<Seen> {
    let mut odd = Odd::default();
    for finding in findings(facts, &["setting.wrong_scope", "setting.at_root"]) {
        odd.add(told(finding), Repair::Consent, discard(path_of(finding)));
    }
    odd.seen("every key stands where it is read")
}

/// Undeclared keys with the system that they name.
fn undeclared<'a>(facts: &'a Facts<'_>) -> impl Iterator<Item = (&'a Problem, Option<&'a str>)> {
    findings(facts, &STRAYS[2..]).map(|finding| {
        let key = path_of(finding).rsplit('/').next().unwrap_or_default();
        (finding, key.strip_prefix(SYSTEM_PREFIX).and_then(|rest| rest.split_once('.')).map(|(code, _)| code))
    })
}

/// Whether the code is one that a registration could have.
fn is_code(facts: &Facts<'_>, code: &str) -> bool {
    let registered = facts.stored.as_ref().is_ok_and(|stored| stored.system(code).is_some());
    registered || facts.app.catalog().codes().any(|known| known.as_str() == code)
}

fn declared_first(facts: &Facts<'_>) -> Result<Seen> {
    let stored = facts.stored()?;
    let mut odd = Odd::default();
    for (finding, code) in undeclared(facts) {
        match code {
            Some(code) if !is_code(facts, code) => {}
            Some(code) if stored.system(code).is_none() => {
                odd.fixed_by(told(finding), stored.register_again(code));
            }
            _ => odd.add(told(finding), Repair::Consent, discard(path_of(finding))),
        }
    }
    odd.seen("every value has its declaration")
}

fn names_current(facts: &Facts<'_>) -> Result<Seen> {
    let mut odd = Odd::default();
    let mut seen = HashSet::new();
    for (finding, code) in undeclared(facts) {
        let Some(code) = code.filter(|code| !is_code(facts, code) && seen.insert(code.to_string())) else { continue };
        let codes: Vec<&str> = facts.app.catalog().codes().map(model::SystemCode::as_str).collect();
        let meant =
            ::seed::code_meant_by(code, codes.iter().copied()).map(|meant| format!(", an old name of `{meant}`"));
        let path = path_of(finding);
        let all = path
            .split_once(SYSTEM_PREFIX)
            .map_or(path.to_owned(), |(scope, _)| format!("{scope}{SYSTEM_PREFIX}{code}."));
        let observed = format!("keys of `{code}`{}, which is not registered", meant.unwrap_or_default());
        odd.add(observed, Repair::Consent, discard(&all));
    }
    odd.seen("only registered systems have keys")
}

fn legal(facts: &Facts<'_>) -> Result<Seen> {
    let stored = facts.stored()?;
    let mut odd = Odd::default();
    let known = ["settings.not_adopted", "settings.mass_deletion"];
    for finding in facts.settings.findings.iter().filter(|finding| !known.contains(&finding.code.as_ref())) {
        if STRAYS.contains(&finding.code.as_ref()) {
            continue;
        }
        let key = path_of(finding).rsplit('/').next().unwrap_or_default();
        let setting = stored.setting(key);
        let value = setting.map(|one| one.live.as_ref().map_or(&one.declaration.default, |live| &live.value));
        match (value, setting.is_some_and(|one| one.declaration.is_secret)) {
            (Some(value), false) => {
                odd.add(told(finding), Repair::Safe, format!("aegisctl settings set {key} {}", quoted(value)));
            }
            _ => odd.add(told(finding), Repair::Person, format!("aegisctl settings set {key} VALUE")),
        }
    }
    odd.seen("every published value is legal")
}

/// A word as a shell reads it.
pub(super) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

fn applied(facts: &Facts<'_>) -> Result<Seen> {
    let processes = facts.settings.processes.as_ref().map_err(again)?;
    let mut odd = Odd::default();
    let long_ago = WallTime::now().0 - LAG_US;
    for (process, missed) in processes {
        let Some(missed) = missed.filter(|at| at.0 < long_ago) else { continue };
        let observed = format!(
            "process {} on {} applies revision {} and none of the changes since {missed}",
            process.pid, process.host, process.revision
        );
        odd.add(observed, Repair::Person, wake(&process.host, process.pid));
    }
    odd.seen(format!("processes that apply the newest values: {}", processes.len()))
}

/// A process of this machine that was stopped is let go on; any other is ended where it runs, and whoever keeps it running
/// starts it again.
fn wake(host: &str, pid: u32) -> String {
    let here = std::fs::read_to_string("/proc/sys/kernel/hostname");
    if here.is_ok_and(|here| here.trim() != host) {
        return format!("ssh {} kill {pid}", quoted(host));
    }
    // One that cannot be looked at is not stopped, as far as can be known: ending it says whether it is there at all.
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    let stopped = |state: String| state.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']));
    if state.is_ok_and(stopped) { format!("kill -CONT {pid}") } else { format!("kill {pid}") }
}
