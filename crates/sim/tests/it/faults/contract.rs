//! The contract of every kind of fault, on a target under load: what must show does, what cannot show does not, and what
//! the mechanism cannot reach is as in the control.

use std::collections::HashMap;

use fault::{Resolved, Sign, capabilities, capability};

use super::lab::{CONTROL, Case, END, START, fault};
use super::sign::shows;
use crate::probe::{Probe, SECOND, Span};

const ITEMS: [(&str, &str); 2] = [("method", "GET"), ("path", "/items")];
const MICROSECONDS: i64 = 20_000;
const CONTROLLER: [(&str, &str); 2] = [("class", "ItemController"), ("method", "items")];

/// One target of each kind that feels it.
fn felt(capability: &str) -> Resolved {
    let with = |base: &[(&'static str, &'static str)], more: &[(&'static str, &'static str)]| [base, more].concat();
    let link = |more: &[(&'static str, &'static str)]| with(&[("target_service", "stock")], more);
    let table = |more: &[(&'static str, &'static str)]| with(&[("table", "items"), ("operation", "select")], more);
    let (service, pairs) = match capability {
        "pod_kill" | "pod_failure" | "container_kill" | "jvm_gc" | "jvm_memory_stress" => ("stock", vec![]),
        "memory_stress" => ("stock", vec![("size_mib", "300")]),
        "cpu_stress" => ("stock", vec![("load_pct", "100"), ("workers", "4")]),
        "jvm_cpu_stress" => ("stock", vec![("cpu_count", "4")]),
        "time_skew" => ("stock", vec![("offset_s", "120")]),
        "http_request_delay" | "http_response_delay" => ("stock", with(&ITEMS, &[("delay_ms", "400")])),
        "http_request_replace_path" => ("stock", with(&ITEMS, &[("new_path", "/nowhere")])),
        "http_request_replace_method" => ("stock", with(&ITEMS, &[("new_method", "DELETE")])),
        "http_response_replace_code" => ("stock", with(&ITEMS, &[("status_code", "503")])),
        name if name.starts_with("http_") => ("stock", ITEMS.to_vec()),
        "dns_error" | "dns_random" => ("front", vec![("domain", "shop")]),
        "network_delay" => ("shop", link(&[("latency_ms", "200"), ("jitter_ms", "10")])),
        "network_loss" => ("shop", link(&[("loss_pct", "15")])),
        "network_duplicate" => ("shop", link(&[("duplicate_pct", "80")])),
        "network_corrupt" => ("shop", link(&[("corrupt_pct", "15")])),
        "network_bandwidth" => ("shop", link(&[("rate_kbytes_per_s", "10"), ("buffer_bytes", "2000")])),
        "network_partition" => ("shop", link(&[])),
        "jvm_method_latency" => ("stock", with(&CONTROLLER, &[("delay_ms", "500")])),
        "jvm_method_return" => ("stock", with(&CONTROLLER, &[("return_type", "string")])),
        "jvm_method_exception" => ("stock", CONTROLLER.to_vec()),
        "jvm_mysql_latency" => ("stock", table(&[("delay_ms", "300")])),
        "jvm_mysql_exception" => ("stock", table(&[])),
        "jvm_runtime_mutator" => ("stock", with(&CONTROLLER, &[("mutation", "operator"), ("strategy", "add_to_sub")])),
        other => panic!("no target for `{other}`"),
    };
    fault(capability, service, &pairs)
}

/// Everything that is wrong with one kind.
fn broken(name: &str) -> Vec<String> {
    let contract = capability(name).unwrap().contract;
    let case = Case::new(felt(name));
    let mut findings = Vec::new();
    if !case.witness.exposed {
        findings.push(format!("not exposed: {}", case.witness.reason));
    }
    for sign in contract.must {
        if !shows(*sign, &case) {
            findings.push(format!("`{}` must show and does not", sign.as_str()));
        }
    }
    for sign in contract.must_not {
        if shows(*sign, &case) {
            findings.push(format!("`{}` must not show and does", sign.as_str()));
        }
    }
    findings.extend(before_differs(&case.probe));
    findings.extend(elsewhere_differs(&case.probe));
    let pods: u64 = case.witness.pods.iter().map(|pod| pod.touched).sum();
    if pods != case.witness.touched {
        findings.push(format!("{pods} touched on the pods, {} in all", case.witness.touched));
    }
    findings.into_iter().map(|finding| format!("{name}: {finding}")).collect()
}

/// Every record that was complete before the start is as in the control.
fn before_differs(probe: &Probe) -> Option<String> {
    let limit = START * SECOND;
    let complete = |probe: &Probe| {
        let mut spans: Vec<Span> = probe.spans.iter().filter(|span| span.end < limit).cloned().collect();
        spans.sort();
        let points = probe.points.iter().filter(|point| point.at < limit).count();
        (spans, points, probe.logs.iter().filter(|log| log.at < limit).count())
    };
    let (expect, found) = (complete(&CONTROL), complete(probe));
    (expect != found).then(|| "records that were complete before the start differ".to_owned())
}

/// The news page and its archive lie on no way to or from any of the targets.
fn elsewhere_differs(probe: &Probe) -> Option<String> {
    let spans = |probe: &Probe| -> HashMap<Vec<u8>, (bool, i64)> {
        let own = |span: &&Span| matches!(span.service.as_str(), "news" | "archive") && span.start < END * SECOND;
        probe.spans.iter().filter(own).map(|span| (span.id.clone(), (span.failed, span.lasted()))).collect()
    };
    let (expect, found) = (spans(&CONTROL), spans(probe));
    assert!(expect.len() > 1000, "{}", expect.len());
    // The gateway's processor is shared with requests to the target, which moves arrivals here by microseconds.
    let alike = |a: &(bool, i64), b: &(bool, i64)| a.0 == b.0 && (a.1 - b.1).abs() < MICROSECONDS;
    let same = expect.iter().filter(|(id, span)| found.get(*id).is_some_and(|other| alike(span, other))).count();
    let same = same as f64 / expect.len() as f64;
    let ids = expect.keys().filter(|id| !found.contains_key(*id)).count();
    (same < 0.97 || ids * 200 > expect.len())
        .then(|| format!("only {:.1} % of the spans elsewhere are the same, {ids} are missing", 100.0 * same))
}

fn check(family: impl Fn(&str) -> bool) {
    let names: Vec<&str> = capabilities().iter().map(|row| row.name).filter(|name| family(name)).collect();
    assert!(!names.is_empty());
    let findings: Vec<String> = names.into_iter().flat_map(broken).collect();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn pods_stress_and_time() {
    check(|name| !["http_", "dns_", "network_", "jvm_"].iter().any(|prefix| name.starts_with(prefix)));
}

#[test]
fn messages_at_the_proxy() {
    check(|name| name.starts_with("http_"));
}

#[test]
fn links_and_names() {
    check(|name| name.starts_with("network_") || name.starts_with("dns_"));
}

#[test]
fn virtual_machines() {
    check(|name| name.starts_with("jvm_"));
}

/// Which of the signs that a wrong value can have show at some variant, and whether another variant has none of them; all
/// are felt at the mechanism.
fn wrong_values(capability: &str, target: &[(&str, &str)], variants: &[Vec<(&str, &str)>]) -> (Vec<Sign>, bool) {
    let (mut shown, mut silent) = (Vec::new(), false);
    for variant in variants {
        let case = Case::new(fault(capability, "stock", &[target, variant].concat()));
        assert!(case.witness.exposed, "{capability} {variant:?}: {}", case.witness.reason);
        let signs = [Sign::CallersFail, Sign::ServerSpansFail].into_iter().filter(|sign| shows(*sign, &case));
        let before = shown.len();
        shown.extend(signs);
        silent |= shown.len() == before;
    }
    shown.sort_unstable_by_key(|sign| sign.as_str());
    shown.dedup();
    (shown, silent)
}

#[test]
fn a_wrong_value_shows_where_somebody_reads_it_and_nowhere_else() {
    let patches =
        [r#"{"id":0}"#, r#"{"name":""}"#, r#"{"price":0}"#, r#"{"stock":-1}"#, r#"{"items":[]}"#, r#"{"a":1}"#];
    let patches = patches.map(|patch| vec![("patch_json", patch)]);
    assert_eq!(wrong_values("http_response_patch_body", &ITEMS, &patches), (vec![Sign::CallersFail], true));
    let operators = ["add_to_sub", "sub_to_add", "mul_to_div", "div_to_mul"];
    let mutants = operators.map(|strategy| vec![("mutation", "operator"), ("strategy", strategy)]);
    let strings = ["empty", "null", "reverse", "uppercase"];
    let strings = strings.map(|strategy| vec![("mutation", "string"), ("strategy", strategy)]);
    let mutants: Vec<_> = mutants.into_iter().chain(strings).collect();
    let both = vec![Sign::CallersFail, Sign::ServerSpansFail];
    assert_eq!(wrong_values("jvm_runtime_mutator", &CONTROLLER, &mutants), (both, true));
}
