//! What is in the folder of the simulated cluster: the outside world's own word on what happened to it.

use std::path::Path;
use std::time::Duration;

use cluster::JournalEntry;
use serde_json::Value;
use testkit::process::{Site, until};

/// The journal of effects, oldest first.
pub fn journal(site: &Site) -> Vec<JournalEntry> {
    let bytes = read(&site.data().join("sim/journal.ndjson")).unwrap_or_default();
    let text = String::from_utf8(bytes).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The state of a namespace, or null.
pub fn slot(data: &Path, namespace: &str) -> Value {
    let file = data.join(format!("sim/slots/{namespace}.json"));
    read(&file).map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).unwrap())
}

/// A file of the outside world; `None` when there is none, which is not the same as one that cannot be read.
fn read(file: &Path) -> Option<Vec<u8>> {
    match std::fs::read(file) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => panic!("{}: {error}", file.display()),
    }
}

/// The namespaces that have a release.
pub fn installed(site: &Site) -> Vec<String> {
    let files = std::fs::read_dir(site.data().join("sim/slots")).unwrap().map(|entry| entry.unwrap().path());
    let slots = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let states = slots.map(|path| serde_json::from_slice::<Value>(&std::fs::read(path).unwrap()).unwrap());
    states.filter(|state| !state["release"].is_null()).map(|state| state["slot"].to_string()).collect()
}

/// Waits until nothing of any run is left: no release, no fault, no slot and no task held.
pub fn until_clean(site: &Site) {
    until("nothing is left of the runs", Duration::from_secs(30), || {
        let status = site.ctl(&["status"]).ok().json();
        let held = status["leases"].as_array().unwrap().iter().any(|lease| {
            let resource = lease["resource"].as_str().unwrap();
            ["slot:", "task:", "limit:"].iter().any(|kind| resource.starts_with(kind))
        });
        (!held && status["releases"] == 0 && status["active_faults"] == 0 && installed(site).is_empty()).then_some(())
    });
}

/// Asserts that one run did each thing to the cluster once and in order, with `faults` faults.
#[track_caller]
pub fn assert_each_effect_once(entries: &[JournalEntry], faults: usize) {
    let mut expect = vec!["release_installed"];
    expect.extend(vec!["fault_started"; faults]);
    expect.extend(vec!["fault_ended"; faults]);
    expect.push("namespace_removed");
    let effects: Vec<&str> = entries.iter().map(|entry| entry.effect.as_str()).collect();
    assert_eq!(effects, expect, "{entries:#?}");
    let objects = |effect: &str| {
        let mut names: Vec<&str> =
            entries.iter().filter(|entry| entry.effect == effect).map(|entry| entry.object.as_str()).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(objects("fault_started"), objects("fault_ended"));
}
