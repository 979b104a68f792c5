//! Findings, plans and proofs as people read them.

use std::fmt::Write as _;

use api::chart::{Lookup, LookupState};
use api::seed::{ApplyReply, Change, ChangeKind, Consent, Hop, Plan, Proof};
use client::Failure;
use model::counted;
use seed::{Finding, Severity};
use serde::Serialize;
use serde_json::json;

use crate::output::{Format, Output};

/// As compilers print them, so that editors find the place.
pub fn findings(findings: &[Finding], out: &Output) -> Result<(), Failure> {
    match out.format {
        Format::Table => {
            let text: String = findings.iter().map(|finding| format!("{finding}\n")).collect();
            out.write(&text)
        }
        Format::Ndjson => out.lines(findings),
        Format::Json | Format::Yaml => {
            let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
            let report = json!({"findings": findings, "errors": errors, "warnings": findings.len() - errors});
            out.document(&report)
        }
    }
}

/// A plan as text, or the whole reply for programs; one change a line as NDJSON.
pub fn plan(plan: &Plan, reply: &impl Serialize, out: &Output) -> Result<(), Failure> {
    match out.format {
        Format::Table => out.write(&plan_text(plan)),
        Format::Ndjson => out.lines(&plan.changes.iter().chain(&plan.drift).collect::<Vec<_>>()),
        Format::Json | Format::Yaml => out.document(reply),
    }
}

pub fn plan_text(plan: &Plan) -> String {
    let mut text = changes_text(&plan.changes);
    if !plan.drift.is_empty() {
        text.push_str("\nDrift: the installation changed, the seed did not\n");
        text.push_str(&changes_text(&plan.drift));
    }
    if plan.changes.is_empty() {
        text.push_str("Nothing to apply.\n");
    }
    if !plan.impact.is_empty() {
        text.push_str("\nImpact\n");
    }
    for impact in &plan.impact {
        let system = impact.system.as_deref().map_or_else(String::new, |code| format!("{code}: "));
        put(&mut text, format_args!("  {system}{}\n", impact.effect));
        for value in &impact.values {
            let before = value.before.as_deref().unwrap_or("-");
            let after = value.after.as_deref().unwrap_or("-");
            put(&mut text, format_args!("    {}: {before} -> {after}  ({})\n", value.key, value.origin));
        }
    }
    let counts: Vec<String> = plan.counts().iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let counts = if counts.is_empty() { "no difference".to_owned() } else { counts.join(", ") };
    put(&mut text, format_args!("\nPlan {}: {counts}\n", plan.hash));
    text
}

/// Whether the charts can be had; nothing where there is none.
pub fn charts_text(charts: &[Lookup]) -> String {
    let mut text = String::new();
    if !charts.is_empty() {
        text.push_str("\nCharts\n");
    }
    for chart in charts {
        let (name, place) = (format!("{} {}", chart.name, chart.version), &chart.repo_url);
        put(
            &mut text,
            format_args!(
                "  {} {} {}: {name} of {place}\n",
                if chart.state == LookupState::NotPublished { '!' } else { ' ' },
                chart.system,
                chart.pedestal_version
            ),
        );
        let words = match (chart.state, &chart.reason) {
            (LookupState::NotAsked, _) => "not asked; `--charts` asks its repository".to_owned(),
            (state, Some(reason)) => format!("{}: {reason}", state.as_str()),
            (state, None) => state.as_str().to_owned(),
        };
        put(&mut text, format_args!("      {words}\n"));
    }
    text
}

/// Changes under the object that they are of.
pub fn changes_text(changes: &[Change]) -> String {
    let mut text = String::new();
    let mut last = None;
    for change in changes {
        let object = (change.object, &change.name);
        if last != Some(object) {
            let system = change.system.as_deref().map_or_else(String::new, |code| format!("  [{code}]"));
            put(&mut text, format_args!("{} {} {}{system}\n", sign(change), change.object, change.name));
            last = Some(object);
        }
        let field = change.field.as_deref().unwrap_or("all of it");
        let values = match (&change.before, &change.after) {
            (None, None) => String::new(),
            (before, after) => {
                format!(": {} -> {}", short(before.as_deref().unwrap_or("-")), short(after.as_deref().unwrap_or("-")))
            }
        };
        put(&mut text, format_args!("    {} {field}{values}\n", sign(change)));
        let place = change.place.as_deref().map_or_else(String::new, |place| format!("{place}: "));
        let flag = match change.consent {
            Consent::Refused => "; refused".to_owned(),
            consent => consent.flag().map_or_else(String::new, |flag| format!("; only with {flag}")),
        };
        put(&mut text, format_args!("        {place}{}, {}{flag}\n", change.kind, change.reason));
        if let Some(fix) = &change.fix {
            put(&mut text, format_args!("        {fix}\n"));
        }
    }
    text
}

/// A digest as people know it; anything else as it is.
fn short(value: &str) -> &str {
    let is_digest = value.len() == 64 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_digest { &value[..12] } else { value }
}

const fn sign(change: &Change) -> char {
    match change.kind {
        ChangeKind::Added | ChangeKind::NewVersion | ChangeKind::Backfilled => '+',
        ChangeKind::Removed => '-',
        ChangeKind::Conflict | ChangeKind::Immutable => '!',
        ChangeKind::ChangedDefault | ChangeKind::OverlayChanged | ChangeKind::OperatorValue | ChangeKind::Drift => '~',
    }
}

pub fn applied_text(reply: &ApplyReply) -> String {
    let mut text = changes_text(&reply.applied);
    if !reply.left.is_empty() {
        text.push_str("\nLeft as it is\n");
        text.push_str(&changes_text(&reply.left));
    }
    let revision = reply.revision.map_or_else(String::new, |number| format!("revision {number}: "));
    let words = if reply.changed {
        format!("{} applied", counted(reply.applied.len(), "change"))
    } else {
        "nothing to apply".to_owned()
    };
    put(&mut text, format_args!("\n{revision}{words}\n"));
    text
}

/// One line a value: the hops it has passed. With `all`, also those that are as they should be.
pub fn proof_text(proof: &Proof, all: bool) -> String {
    let mut text = String::new();
    for line in proof.lines.iter().filter(|line| all || line.first_difference.is_some()) {
        let place = line.place.as_deref().unwrap_or("-");
        let hops: Vec<String> = line.hops.iter().map(hop).collect();
        put(
            &mut text,
            format_args!("{place} {} {} = {}\n    {}\n", line.name, line.field, short(&line.value), hops.join(" | ")),
        );
        if let Some(why) = &line.first_difference {
            put(&mut text, format_args!("    still old: {why}\n"));
        }
    }
    let old = proof.lines.iter().filter(|line| line.first_difference.is_some()).count();
    let words = match old {
        0 => "every hop has the seed's value".to_owned(),
        old => format!("{} still old", counted(old, "value")),
    };
    put(&mut text, format_args!("Proof of {}: {words}\n", counted(proof.lines.len(), "value")));
    text
}

fn hop(hop: &Hop) -> String {
    if hop.state.is_good() {
        format!("{} {}", hop.hop, hop.state.as_str())
    } else {
        format!("{} {} ({})", hop.hop, hop.state.as_str(), hop.found)
    }
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    text.write_fmt(line).expect("a String takes every text");
}
