//! What arrives: of each enabled system, the records from the network of the last half hour.

use std::collections::BTreeMap;

use api::doctor::Repair;
use api::otel::{OtelFinding, OtelReport};
use model::{Result, counted};

use super::{Facts, Look, Odd, SHOWN, Seen, again};

pub(super) const LOOKS: &[(&str, Look)] = &[
    ("telemetry.accepted", accepted),
    ("telemetry.under_namespace", under_namespace),
    ("telemetry.logs_arrive", logs_arrive),
    ("telemetry.traces_arrive", traces_arrive),
    ("telemetry.service_namespace_set", service_namespace_set),
    ("telemetry.histograms_arrive", histograms_arrive),
    ("telemetry.service_named", service_named),
    ("telemetry.database_right", database_right),
    ("telemetry.peers_agree", peers_agree),
    ("telemetry.complete", complete),
];

/// What a finding of the telemetry's contract is about: the check that tells it.
fn check_of(finding: &OtelFinding) -> &'static str {
    let is_absent = finding.code == "otel.signal_missing";
    match (is_absent, finding.signal.as_str(), finding.missing.as_str()) {
        (true, "logs", _) => "telemetry.logs_arrive",
        (true, "traces", _) => "telemetry.traces_arrive",
        (true, "metrics_histogram", _) => "telemetry.histograms_arrive",
        (false, _, "k8s.namespace.name") => "telemetry.under_namespace",
        // Without the one the other cannot be set either.
        (false, _, _) if finding.namespace.is_empty() => "telemetry.under_namespace",
        (false, _, "service.namespace") => "telemetry.service_namespace_set",
        (false, _, "service.name") => "telemetry.service_named",
        _ => "telemetry.complete",
    }
}

fn of_contract(facts: &Facts<'_>, id: &str, good: &str) -> Result<Seen> {
    let reports = facts.telemetry.as_ref().map_err(again)?;
    if reports.iter().all(|report| report.namespaces.is_empty()) {
        return Ok(Seen::Good("no records came from the network".into()));
    }
    let mut odd = Odd::default();
    for report in reports {
        for finding in report.findings.iter().filter(|finding| check_of(finding) == id) {
            let share = if finding.records == 0 {
                String::new()
            } else {
                let since = finding.since.as_deref().unwrap_or("the beginning");
                format!(" on {} of {} since {since}", finding.without, counted(finding.records, "record"))
            };
            let place = if finding.namespace.is_empty() { "no namespace" } else { finding.namespace.as_str() };
            let observed = format!("{place}: {} without {}{share}: {}", finding.signal, finding.missing, finding.fix);
            odd.add(
                observed,
                Repair::Person,
                format!("aegisctl otel render {} | kubectl apply --filename -", report.system),
            );
        }
    }
    odd.seen(good)
}

fn under_namespace(facts: &Facts<'_>) -> Result<Seen> {
    of_contract(facts, "telemetry.under_namespace", "every record names its namespace")
}

fn logs_arrive(facts: &Facts<'_>) -> Result<Seen> {
    of_contract(facts, "telemetry.logs_arrive", "log lines arrive")
}

fn traces_arrive(facts: &Facts<'_>) -> Result<Seen> {
    of_contract(facts, "telemetry.traces_arrive", "spans arrive")
}

fn service_namespace_set(facts: &Facts<'_>) -> Result<Seen> {
    of_contract(facts, "telemetry.service_namespace_set", "every span and line has its service.namespace")
}

fn histograms_arrive(facts: &Facts<'_>) -> Result<Seen> {
    of_contract(facts, "telemetry.histograms_arrive", "histograms arrive where they are required")
}

fn service_named(facts: &Facts<'_>) -> Result<Seen> {
    of_contract(facts, "telemetry.service_named", "every record names its service")
}

fn complete(facts: &Facts<'_>) -> Result<Seen> {
    of_contract(facts, "telemetry.complete", "records carry the rest of what they must")
}

fn database_right(facts: &Facts<'_>) -> Result<Seen> {
    let Some((place, elsewhere)) = &facts.clickhouse else {
        return Ok(Seen::Not("records come straight to this server: no ClickHouse lies between".into()));
    };
    let mut odd = Odd::default();
    for (database, records) in elsewhere.as_ref().map_err(again)? {
        let observed = format!("the database `{database}` has {} of a collector", counted(*records, "record"));
        let code = facts.stored()?.enabled().next().map_or("CODE", |system| system.code.as_str());
        let fix =
            format!("aegisctl otel render {code} --clickhouse http://{}", place.trim_start_matches("clickhouse://"));
        odd.add(observed, Repair::Person, fix.rsplit_once('/').map_or(fix.clone(), |(fix, _)| fix.to_owned()));
    }
    odd.seen(format!("only {place} has records"))
}

/// The number of records in each namespace of a system.
fn counts(report: &OtelReport) -> BTreeMap<&str, u64> {
    let named = report.namespaces.iter().filter(|one| !one.namespace.is_empty());
    named.map(|one| (one.namespace.as_str(), one.signals.iter().map(|signal| signal.records).sum())).collect()
}

fn peers_agree(facts: &Facts<'_>) -> Result<Seen> {
    let mut odd = Odd::default();
    for report in facts.telemetry.as_ref().map_err(again)? {
        let counts = counts(report);
        let Some((peer, records)) = counts.iter().max_by_key(|(_, records)| **records).filter(|(_, n)| **n > 0) else {
            continue;
        };
        for (namespace, _) in counts.iter().filter(|(_, records)| **records == 0) {
            let observed =
                format!("{namespace} sent nothing for half an hour, and {peer} {}", counted(*records, "record"));
            let fix = format!("kubectl -n {namespace} rollout restart deployment");
            odd.add(observed, Repair::Person, fix);
        }
    }
    odd.seen("no namespace is silent while its peers send")
}

fn accepted(facts: &Facts<'_>) -> Result<Seen> {
    let status = facts.app.signals().status();
    let (mut accepted, mut records, mut requests) = (0, Refused::default(), Refused::default());
    for (kind, counts) in &status.kinds {
        accepted += counts.accepted;
        records.add(kind.as_str(), &counts.refused);
        requests.add(kind.as_str(), &counts.requests_refused);
    }
    requests.add("unknown paths", &status.strays);
    let since = facts.app.started_at();
    let accepted = format!("{} accepted since {since}", counted(accepted, "record"));
    let parts: Vec<String> = [records.words("record"), requests.words("request")].into_iter().flatten().collect();
    if parts.is_empty() {
        return Ok(Seen::Good(format!("{accepted}, none refused")));
    }
    Ok(Seen::Bad {
        observed: format!("{accepted}; refused: {}", parts.join("; ")),
        fix: "correct what sends them; the codes say what is wrong".into(),
        repair: Repair::Person,
    })
}

/// What was refused of one sort, records or whole requests.
#[derive(Default)]
struct Refused {
    total: u64,
    parts: Vec<String>,
}

impl Refused {
    fn add(&mut self, kind: &str, codes: &BTreeMap<String, u64>) {
        self.total += codes.values().sum::<u64>();
        self.parts.extend(codes.iter().map(|(code, count)| format!("{count} of {kind} ({code})")));
    }

    fn words(self, noun: &str) -> Option<String> {
        let left = self.parts.len().saturating_sub(SHOWN);
        let more = (left > 0).then(|| format!("and {}", counted(left, "more reason")));
        let parts: Vec<String> = self.parts.into_iter().take(SHOWN).chain(more).collect();
        (self.total > 0).then(|| format!("{}, {}", counted(self.total, noun), parts.join(", ")))
    }
}
