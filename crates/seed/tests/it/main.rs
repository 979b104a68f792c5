//! The seed engine as its users meet it: real seeds, bad input, one system, composed values.

#![expect(clippy::unwrap_used, reason = "helpers of tests stand outside of test functions")]

mod bad_input;
mod composition;
mod helm;
mod one_system;
mod plan;
mod real_seeds;

use std::collections::BTreeMap;

use seed::{Finding, Findings, Seed};

/// A seed out of files in memory.
fn parse(files: &[(&str, &str)]) -> Result<Seed, Findings> {
    let files: BTreeMap<String, &str> = files.iter().map(|(name, text)| ((*name).to_owned(), *text)).collect();
    Seed::parse(&files)
}

/// `code at place`, for comparing.
fn brief(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(|finding| format!("{} {}", finding.code, finding.place())).collect()
}

/// The one finding that there must be.
fn only(findings: Findings) -> Finding {
    let findings = findings.into_vec();
    assert_eq!(findings.len(), 1, "{findings:#?}");
    findings.into_iter().next().unwrap()
}

/// The project's own seed.
fn demo() -> BTreeMap<String, String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../seeds/demo");
    let names = ["data.yaml", "ts.yaml"];
    names.map(|name| (name.to_owned(), std::fs::read_to_string(folder.join(name)).unwrap())).into()
}

/// The project's own seed with a text replaced; the text must be there.
fn demo_with(from: &str, to: &str) -> Seed {
    let mut files = demo();
    let data = files.get_mut("data.yaml").unwrap();
    assert!(data.contains(from), "`{from}` is not in the demo's seed");
    *data = data.replace(from, to);
    Seed::parse(&files).unwrap_or_else(|findings| panic!("{findings}"))
}
