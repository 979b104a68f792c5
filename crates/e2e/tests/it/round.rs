//! One cheap benchmark run, as the other files need it: how it is asked for, submitted and followed.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::process::{Daemon, Site, finish};

/// Where data time starts in every run of these tests: 2026-01-05 09:00 UTC.
pub const ORIGIN: &str = "1767603600";

/// A minute each way, which the algorithms need, and a low load: about two seconds of work.
const CHEAP: &[(&str, &str)] = &[("--normal", "60s"), ("--abnormal", "60s"), ("--load", "10"), ("--origin", ORIGIN)];

/// A fault that every user of the system feels at once.
pub const FAULT: &[&str] = &[
    "--service",
    "ts-travel-service",
    "--capability",
    "network_delay",
    "--target",
    "target_service=ts-basic-service",
    "--param",
    "latency_ms=2000",
    "--algorithm",
    "baro",
];

pub const CONTROL: &[&str] = &["--no-fault"];

/// The folder of the project's own seeds.
pub fn seeds() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../seeds").canonicalize().unwrap()
}

/// Our own seed with a second version of the pedestal, at this version of the chart and with these values (YAML).
pub fn seed_with_second(chart_version: &str, values: &str) -> String {
    let text = std::fs::read_to_string(seeds().join("demo/data.yaml")).unwrap();
    let second = format!(
        "      - name: 1.1.0
        github_link: OperationsPAI/train-ticket
        status: 1
        helm_config:
          version: {chart_version}
          chart_name: trainticket
          repo_name: train-ticket
          repo_url: https://operationspai.github.io/train-ticket
          status: 1
          values: {values}

projects:
"
    );
    text.replacen("projects:\n", &second, 1)
}

/// An installation with `ts` registered from our own seed and enabled.
pub fn ts(daemon_arguments: &[&str]) -> (Site, Daemon) {
    let site = Site::new();
    let daemon = site.serve(daemon_arguments);
    register(&site);
    (site, daemon)
}

pub fn register(site: &Site) {
    let seeds = seeds();
    site.ctl(&["system", "register", "--from-seed", seeds.to_str().unwrap(), "--env", "demo", "--name", "ts"]).ok();
    site.ctl(&["system", "enable", "ts"]).ok();
}

/// Our own seed for another system, at a place of that site.
pub fn seed_for(site: &Site, code: &str) -> PathBuf {
    let seed = std::fs::read_to_string(seeds().join("demo/data.yaml")).unwrap();
    let seed = seed
        .replace("name: ts\n", &format!("name: {code}\n"))
        .replace("injection.system.ts.", &format!("injection.system.{code}."))
        .replace(r"^ts\d+$", &format!(r"^{code}\d+$"))
        .replace(r"^(ts)(\d+)$", &format!(r"^({code})(\d+)$"));
    let file = site.write(&format!("seed-{code}/data.yaml"), &seed);
    file.parent().unwrap().to_owned()
}

/// Registers any system from our own seed and enables it.
pub fn register_as(site: &Site, code: &str) {
    let seed = seed_for(site, code);
    site.ctl(&["system", "register", "--from-seed", seed.to_str().unwrap(), "--name", code]).ok();
    site.ctl(&["system", "enable", code]).ok();
}

/// Parameters of a capability that have no default, strong enough to be felt.
pub fn strength(capability: &str) -> Value {
    match capability {
        "cpu_stress" => json!({"workers": 4, "load_pct": 100}),
        "memory_stress" => json!({"workers": 1, "size_mib": 512}),
        "network_delay" => json!({"latency_ms": 1000}),
        _ => json!({}),
    }
}

/// The arguments of a submission on `ts`. What `more` says stands in the place of what is cheap.
pub fn submission<'a>(what: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = [&["inject", "submit", "--system", "ts"][..], what, more].concat();
    for &(flag, value) in CHEAP {
        if !more.contains(&flag) {
            arguments.extend([flag, value]);
        }
    }
    arguments
}

/// Submits one run; its id.
pub fn submit(site: &Site, what: &[&str], more: &[&str]) -> String {
    let reply = site.ctl(&submission(what, more)).ok().json();
    text(&reply["items"][0]["trace_id"])
}

/// Follows a run to its end and returns it with its specification. Asserts that `run watch` ends with `code`.
#[track_caller]
pub fn follow(site: &Site, run: &str, code: i32) -> Value {
    let watch = site.ctl(&["run", "watch", run, "--timeout", "150s"]);
    let detail = get(site, run);
    assert_eq!(watch.code, code, "{}{}\n{detail:#}", watch.out, watch.err);
    detail
}

pub fn get(site: &Site, run: &str) -> Value {
    site.ctl(&["run", "get", run]).ok().json()
}

/// Submits one run and follows it.
#[track_caller]
pub fn run(site: &Site, what: &[&str], more: &[&str], code: i32) -> Value {
    follow(site, &submit(site, what, more), code)
}

#[track_caller]
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not text: {value}")).to_owned()
}

/// What an algorithm answered on a pack, or null.
pub fn ranking(site: &Site, pack: &Value, algorithm: &str) -> Value {
    let executions = site.ctl(&["execution", "list", "--all"]).ok().json();
    let ours = |execution: &&Value| execution["datapack_name"] == *pack && execution["algorithm_name"] == algorithm;
    let Some(execution) = executions["items"].as_array().unwrap().iter().find(ours) else { return Value::Null };
    site.ctl(&["execution", "get", &execution["id"].to_string()]).ok().json()["granularity_results"].clone()
}

/// How many of each thing are stored: equal before and after what was refused.
pub fn counts(site: &Site) -> Vec<(&'static str, i64)> {
    let count = |noun: &'static str| {
        let page = site.ctl(&[noun, "list"]).ok().json();
        (noun, page["pagination"]["total"].as_i64().unwrap_or_else(|| panic!("no total: {page}")))
    };
    ["system", "run", "task", "datapack", "execution"].map(count).to_vec()
}

/// Process numbers of the children that a daemon runs detectors and algorithms in.
pub fn executing(parent: u32) -> Vec<u32> {
    children(parent, "exec")
}

/// The children of a daemon that do one of its hidden verbs.
pub fn children(parent: u32, verb: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    let is_ours = |pid: &u32| {
        let read =
            |file: &str| std::fs::read_to_string(PathBuf::from(format!("/proc/{pid}/{file}"))).unwrap_or_default();
        let is_child = read("status").lines().any(|line| line == format!("PPid:\t{parent}"));
        is_child && read("cmdline").split('\0').nth(1) == Some(verb)
    };
    processes.filter(is_ours).collect()
}

/// Sends a signal to one process, which may have ended meanwhile.
pub fn signal(pid: u32, signal: &str) {
    finish(std::process::Command::new("kill").args([signal, &pid.to_string()]));
}
