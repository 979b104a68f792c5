//! One whole round for each system, all of them through one server.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::process::{Running, Scratch, Server, resident_mib};
use super::{Better, Figure};
use crate::tools;

/// A fault that every system can carry, in a service that its users need: nothing answers there for the whole window.
const CAPABILITY: &str = "pod_failure";
const SEED: &str = "101";
/// Journeys per second, the same for every system.
const LOAD: &str = "20";
const SECONDS_BAR: f64 = 180.0;
const MIB_BAR: f64 = 1536.0;

/// Seconds for a round of each of the systems, and the peak of the resident memory of the server and its children.
pub fn measure() -> Result<Vec<Figure>> {
    let binaries = tools::build_binaries()?;
    let codes = tools::systems()?;
    let (mut seconds, mut memory, mut ends) = (Vec::new(), Vec::new(), Value::Null);
    for _ in 0..2 {
        let scratch = Scratch::new("rounds")?;
        let server = Server::start(&binaries, &scratch.path().join("data"), &[], None)?;
        write_seed(scratch.path(), &codes)?;
        let start = Instant::now();
        let runs = submit(&server, &binaries, &codes, scratch.path())?;
        let (peak, ended) = follow(&server, &binaries, &runs, scratch.path())?;
        seconds.push(start.elapsed().as_secs_f64());
        memory.push(peak);
        ends = ended;
        server.process.stop()?;
    }
    let figure = |name: &str, unit, bar, samples| Figure {
        name: name.into(),
        unit,
        peer: "bar",
        peer_figure: bar,
        samples,
        better: Better::Smaller,
        command: format!(
            "aegisctl inject submit --system CODE --service SERVICE --capability {CAPABILITY} --load {LOAD}, for {}",
            codes.join(" ")
        ),
        beside: BTreeMap::from([("verdicts".to_owned(), ends.clone())]),
    };
    Ok(vec![figure("rounds", "s", SECONDS_BAR, seconds), figure("memory-rounds", "MiB", MIB_BAR, memory)])
}

/// Registers and enables every system, and submits a run on each: code and the run's id.
fn submit(server: &Server, binaries: &Path, codes: &[String], seeds: &Path) -> Result<Vec<(String, String)>> {
    let (mut runs, mut without_data) = (Vec::new(), Vec::new());
    for code in codes {
        let target = match target(server, binaries, code) {
            Err(error) if error.to_string().contains("system.no_simulation_data") => {
                without_data.push(code.as_str());
                continue;
            }
            other => other?,
        };
        let seeds = seeds.to_str().context("the scratch folder's name is no text")?;
        server.ask(binaries, &["system", "register", "--from-seed", seeds, "--env", "rounds", "--name", code])?;
        server.ask(binaries, &["system", "enable", code])?;
        let service = target["service"].as_str().context("a point names no service")?;
        let what = ["--system", code, "--service", service, "--capability", CAPABILITY, "--seed", SEED, "--load", LOAD];
        let algorithms = ["--algorithm", "nsigma", "--algorithm", "baro"];
        let reply = server.ask(binaries, &[&["inject", "submit"], &what[..], &algorithms].concat())?;
        let id = reply["items"][0]["trace_id"].as_str().context("the reply to a submission names no run")?;
        runs.push((code.clone(), id.to_owned()));
    }
    if !without_data.is_empty() {
        bail!("no simulation data for {}", without_data.join(", "));
    }
    Ok(runs)
}

/// Writes a seed that has every system, made from the systems' own data.
fn write_seed(folder: &Path, codes: &[String]) -> Result<()> {
    let mut containers = String::new();
    let mut configs = String::new();
    for name in ["detector", "nsigma", "baro"] {
        containers +=
            &format!("  - {{type: 0, name: {name}, is_public: true, status: 1, versions: [{{name: builtin}}]}}\n");
    }
    containers += "  - type: 1\n    name: clickhouse\n    is_public: true\n    status: 1\n    versions:\n      \
                   - name: 1.0.0\n        image_ref: 'docker.io/clickhouse/clickhouse-server:25.8.2.29'\n        \
                   command: bash /entrypoint.sh\n        env_vars:\n          \
                   - {key: NAMESPACE, type: 0, category: 0, value_type: 0, default_value: ns0, required: true, overridable: true}\n";
    for code in codes {
        let field = |key: &str| field(code, key);
        let versions = field("known_versions")?;
        let version = versions.trim_matches(['[', ']']).rsplit(',').next().unwrap_or_default().trim().to_owned();
        containers += &format!(
            "  - type: 2\n    name: {code}\n    is_public: true\n    status: 1\n    versions:\n      - name: 1.0.0\n        status: 1\n        \
             helm_config: {{version: {version}, chart_name: {}, repo_name: {code}, repo_url: '{}', status: 1, values: []}}\n",
            field("name")?,
            field("repository")?
        );
        let texts = ["ns_pattern", "extract_pattern", "display_name", "app_label_key"];
        let keys = ["namespace_pattern", "extract_pattern", "display_name", "app_label_key"];
        for (key, from) in texts.iter().zip(keys) {
            configs += &config(code, key, &field(from)?, 0);
        }
        configs += &config(code, "count", "'1'", 2);
        configs += &config(code, "is_builtin", "'true'", 1);
        configs += &config(code, "status", "'1'", 2);
    }
    configs += "  - {key: algo.detector, default_value: detector, value_type: 0, scope: 2, category: algo, is_secret: false}\n";
    let projects = "projects:\n  - {name: default, description: Runs, status: 1}\n";
    let folder = folder.join("rounds");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(
        folder.join("data.yaml"),
        format!("containers:\n{containers}{projects}dynamic_configs:\n{configs}"),
    )?;
    Ok(())
}

fn config(code: &str, key: &str, value: &str, kind: u8) -> String {
    format!(
        "  - {{key: injection.system.{code}.{key}, default_value: {value}, value_type: {kind}, scope: 2, \
         category: injection.system.{key}, is_secret: false}}\n"
    )
}

/// The first point on the way of users behind the entrance: an entrance that is gone leaves no telemetry to build a pack from.
fn target(server: &Server, binaries: &Path, code: &str) -> Result<Value> {
    let points =
        server.ask(binaries, &["point", "list", "--system", code, "--capability", CAPABILITY, "--on-path", "--all"])?;
    let points = points["items"].as_array().context("the points are no list")?;
    let entrance = field(code, "service")?;
    let found = points.iter().find(|point| point["service"] != entrance);
    found.cloned().with_context(|| format!("{code} has no point for {CAPABILITY}"))
}

/// A value of a system's registration, as its YAML has it on one line.
fn field(code: &str, key: &str) -> Result<String> {
    let path = tools::root().join("systems").join(code).join("system.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'));
    Ok(line.with_context(|| format!("{}: no {key}", path.display()))?.trim().to_owned())
}

/// Waits for every run. Gives the peak of the memory meanwhile, and the verdicts.
fn follow(server: &Server, binaries: &Path, runs: &[(String, String)], scratch: &Path) -> Result<(f64, Value)> {
    let mut peak: f64 = 0.0;
    let mut verdicts = serde_json::Map::new();
    for (code, id) in runs {
        let mut watch = Running::start(
            &mut server.ctl(binaries, &["run", "watch", id, "--timeout", "600s"])?,
            &scratch.join("watch"),
        )?;
        while !watch.has_ended()? {
            peak = peak.max(resident_mib(server.process.id()));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let run = server.ask(binaries, &["run", "get", id])?;
        if run["verdict"].is_null() {
            bail!("the round of {code} ended without a verdict: {} {}", run["state"], run["message"]);
        }
        verdicts.insert(code.clone(), json!(run["verdict"]));
    }
    Ok((peak, Value::Object(verdicts)))
}
