//! Looks for points where each kind of fault is felt: `cargo run -p sim --example exposed -- [system] > docs/exposed-points.md`.
//!
//! Of every capability and system it tries a few points on the way of users, spread over the list, with one strong
//! setting per kind, and prints what the witness counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::Environment;
use fault::{Capability, Filter, Point, Spec, capabilities, points, resolve};
use model::{DataTime, Problem, RunId};
use serde_json::{Value, json};
use sim::bench::Weigh;
use sim::{Plan, World};
use system::{Catalog, SystemData};

const SECOND: i64 = 1_000_000_000;
/// Points of one capability and system that are tried before it is given up.
const TRIED: usize = 6;
const LOAD: f64 = 20.0;

fn params(row: &Capability) -> Value {
    match row.name {
        "memory_stress" => json!({ "size_mib": 128 }),
        "cpu_stress" => json!({ "load_pct": 100, "workers": 8 }),
        "http_request_delay" | "http_response_delay" | "jvm_method_latency" | "jvm_mysql_latency" => {
            json!({ "delay_ms": 500 })
        }
        "http_request_replace_path" => json!({ "new_path": "/not/there" }),
        "http_request_replace_method" => json!({ "new_method": "PUT" }),
        "http_response_replace_code" => json!({ "status_code": 503 }),
        "time_skew" => json!({ "offset_s": -300 }),
        "network_delay" => json!({ "latency_ms": 300 }),
        "network_loss" => json!({ "loss_pct": 20 }),
        "network_duplicate" => json!({ "duplicate_pct": 50 }),
        "network_corrupt" => json!({ "corrupt_pct": 20 }),
        "network_bandwidth" => json!({ "rate_kbytes_per_s": 2, "limit_bytes": 20000, "buffer_bytes": 1600 }),
        "jvm_method_return" => json!({ "return_type": "string" }),
        "jvm_runtime_mutator" => json!({ "mutation": "string", "strategy": "empty" }),
        _ => json!({}),
    }
}

fn main() -> Result<(), Problem> {
    let only = std::env::args().nth(1);
    println!("# Points where each fault is felt\n");
    println!(
        "Per capability and system the first point that was found to be exposed, at `--load {LOAD}` (journeys a second), with"
    );
    println!("what the witness counted in 60 s. Made by `cargo run -p sim --example exposed`.\n");
    println!("| capability | system | service | target | parameters | passed | touched | unit |");
    println!("|---|---|---|---|---|---|---|---|");
    let catalog = Catalog::builtin()?;
    for row in capabilities() {
        for code in catalog.codes().filter(|code| only.as_deref().is_none_or(|only| code.as_str() == only)) {
            let system = catalog.get(code)?;
            let filter = Filter { capability: Some(row.name), on_path: true, ..Filter::default() };
            let found = points(&system, &filter)?;
            match first_exposed(row, &system, &found)? {
                Some(line) => println!("{line}"),
                None if found.is_empty() => {}
                None => eprintln!("{} on {code}: none of {} points tried is exposed", row.name, TRIED.min(found.len())),
            }
        }
    }
    Ok(())
}

fn first_exposed(row: &Capability, system: &SystemData, found: &[Point]) -> Result<Option<String>, Problem> {
    let step = (found.len() / TRIED).max(1);
    for point in found.iter().step_by(step).take(TRIED) {
        let params: BTreeMap<String, Value> =
            serde_json::from_value(params(row)).expect("the settings above are objects");
        let spec = Spec {
            capability: row.name.to_owned(),
            service: point.service.clone(),
            target: point
                .target
                .iter()
                .filter(|(key, _)| *key != "service")
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
            params,
        };
        let resolved = match resolve(&spec, system) {
            Ok(resolved) => resolved,
            Err(problem) => {
                eprintln!("{} {}: {problem}", row.name, point.id);
                continue;
            }
        };
        let mut world = world(system)?;
        let mut sink = Weigh::default();
        world.run(30 * SECOND, &mut sink)?;
        world.start_fault("f", &resolved)?;
        world.run(90 * SECOND, &mut sink)?;
        world.end_fault("f")?;
        let witness = world.witness("f")?;
        if witness.exposed {
            let pairs = |pairs: &BTreeMap<String, Value>| {
                pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ").replace('"', "")
            };
            let target = spec.target.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ");
            return Ok(Some(format!(
                "| {} | {} | {} | {target} | {} | {} | {} | {} |",
                row.name,
                system.code(),
                point.service,
                pairs(&spec.params),
                witness.passed,
                witness.touched,
                witness.unit
            )));
        }
        eprintln!("{} {} {}: {}", row.name, system.code(), point.service, witness.reason);
    }
    Ok(None)
}

fn world(system: &SystemData) -> Result<World, Problem> {
    let label = &system.registration.app_label_key;
    let plan: Arc<Plan> = Plan::new(system.code().as_str(), label, system.topology()?)?.into();
    let run: RunId = "00000000-0000-4000-8000-000000000001".parse().expect("it is a UUID");
    let origin = DataTime::from_seconds(1_790_000_000);
    Ok(World::new(plan, &format!("{}0", system.code()), Environment { run, origin, seed: 7, load: LOAD, noise: 1.0 }))
}
