//! `aegis demo`: one whole benchmark round on this machine, through the same API that everybody uses.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use api::board::{Board, BoardQuery};
use api::run::{Run, RunDetail};
use api::submit::{FaultRequest, RunRequest, WindowsRequest};
use api::system::RegisterRequest;
use client::{Client, Connection};
use model::{ErrorKind, Problem, Result, RunId};
use serde_json::{Map, Value, json};

use crate::board_table;

/// What the demo injects: one run for each, one of them without a fault, each with a seed of its own.
struct Case {
    service: &'static str,
    capability: &'static str,
    target: &'static [(&'static str, &'static str)],
    params: &'static [(&'static str, u64)],
}

const CASES: &[Case] = &[
    Case {
        service: "ts-travel-service",
        capability: "network_delay",
        target: &[("target_service", "ts-basic-service")],
        params: &[("latency_ms", 400)],
    },
    Case { service: "ts-order-service", capability: "pod_failure", target: &[], params: &[] },
    Case {
        service: "ts-seat-service",
        capability: "cpu_stress",
        target: &[],
        params: &[("workers", 4), ("load_pct", 100)],
    },
    Case {
        service: "ts-station-service",
        capability: "http_response_replace_code",
        target: &[("method", "POST"), ("path", "/api/v1/stationservice/stations/idlist")],
        params: &[("status_code", 503)],
    },
    Case {
        service: "ts-config-service",
        capability: "jvm_method_exception",
        target: &[("class", "config.controller.ConfigController"), ("method", "retrieve")],
        params: &[],
    },
    Case { service: "ts-basic-service", capability: "memory_stress", target: &[], params: &[("size_mib", 2048)] },
    Case { service: "ts-route-service", capability: "pod_kill", target: &[], params: &[] },
];

/// Seeds of the runs; the control's is the last. Fixed, so that two demos give the same packs.
const FIRST_SEED: u64 = 101;
/// Where the simulated time of the demo starts: 2026-01-05 09:00 UTC.
const ORIGIN: i64 = 1_767_603_600;
const SYSTEM: &str = "ts";
/// The trivial baselines come by themselves.
const ALGORITHMS: &[&str] = &["nsigma", "baro"];
const DEADLINE: Duration = Duration::from_secs(600);

/// Where to do what.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder of seeds; its environment `demo` is registered.
    #[arg(long, default_value = "seeds")]
    seeds: PathBuf,
    /// Data folder of the demo; a new one below the state folder of this user when left out.
    #[arg(long)]
    data: Option<PathBuf>,
}

impl Args {
    pub fn data(&self) -> PathBuf {
        self.data.clone().unwrap_or_else(|| {
            let name = format!("demo-{}-{}", model::WallTime::now().seconds(), std::process::id());
            crate::config::state_home().join("aegis").join(name)
        })
    }
}

/// Runs the round against a server that is up, and prints it.
///
/// # Errors
/// When a step fails, or a run ends otherwise than its verdict allows.
pub fn round(args: &Args, connection: Connection, data: &Path) -> Result<()> {
    let start = Instant::now();
    let client = Client::new(connection)?;
    println!("Aegis demo: one benchmark round on the simulated cluster, in {}", data.display());
    register(&client, &args.seeds)?;
    let runs = submit(&client)?;
    let ended = follow(&client, &runs, start)?;
    print_runs(&ended);
    let board = client.board(&BoardQuery { system: Some(SYSTEM.into()), ..BoardQuery::default() }).map_err(problem)?;
    print_board(&board);
    check(&ended)?;
    println!("\nThe whole round took {:.1} s.", start.elapsed().as_secs_f64());
    println!("Look closer:   aegis serve --data {}", data.display());
    println!("then:          aegisctl run list | aegisctl datapack list | aegisctl board | aegisctl doctor");
    Ok(())
}

fn problem(failure: client::Failure) -> Problem {
    failure.problem
}

fn register(client: &Client, seeds: &Path) -> Result<()> {
    let folder = seeds.join("demo");
    let files = seed::texts(&folder).map_err(|finding| {
        Problem::from(finding).fix("run this in the project's folder, or name the folder with `--seeds`")
    })?;
    let request = RegisterRequest {
        name: SYSTEM.into(),
        env: "demo".into(),
        files,
        seed_revision: None,
        force: true,
        dry_run: false,
    };
    let report = client.register(&request).map_err(problem)?;
    println!("\n1. Registered `{}` in five layers:", report.name);
    for layer in &report.layers {
        println!("   {:<13} {:<20} {}", layer.layer.to_string(), layer.state.to_string(), layer.observed);
    }
    client.set_enabled(SYSTEM, true).map_err(problem)?;
    Ok(())
}

fn submit(client: &Client) -> Result<Vec<RunId>> {
    let faulty = CASES.iter().map(|case| RunRequest {
        faults: vec![FaultRequest {
            service: case.service.into(),
            capability: case.capability.into(),
            point: None,
            target: map(case.target.iter().map(|(key, value)| (*key, json!(value)))),
            params: map(case.params.iter().map(|(key, value)| (*key, json!(value)))),
        }],
        ..blank()
    });
    let control = RunRequest { no_fault: true, ..blank() };
    let mut runs = Vec::new();
    for (request, seed) in faulty.chain([control]).zip(FIRST_SEED..) {
        let request = RunRequest { seed: Some(seed), ..request };
        let reply = client.submit(&request, None).map_err(problem)?;
        runs.extend(reply.items.iter().map(|item| item.trace_id));
    }
    println!(
        "\n2. Submitted {} runs: {} faults of different families and one control without a fault.",
        runs.len(),
        CASES.len()
    );
    Ok(runs)
}

fn map<'a>(pairs: impl Iterator<Item = (&'a str, Value)>) -> Map<String, Value> {
    pairs.map(|(key, value)| (key.to_owned(), value)).collect()
}

fn blank() -> RunRequest {
    RunRequest {
        system: SYSTEM.into(),
        slot: None,
        faults: Vec::new(),
        no_fault: false,
        paired_control: false,
        seed: None,
        origin: Some(ORIGIN),
        windows: WindowsRequest::default(),
        load: None,
        noise: None,
        algorithms: ALGORITHMS.iter().map(|name| (*name).to_owned()).collect(),
        always_rank: false,
        strict: false,
        repeat: 1,
        dry_run: false,
    }
}

/// Polls until every run has ended.
fn follow(client: &Client, runs: &[RunId], start: Instant) -> Result<Vec<RunDetail>> {
    println!("\n3. Each installs the pedestal, warms up, injects, observes, builds a datapack, detects and ranks:");
    let mut ended: BTreeMap<usize, RunDetail> = BTreeMap::new();
    while ended.len() < runs.len() {
        if start.elapsed() > DEADLINE {
            return Err(Problem::new(ErrorKind::Timeout, "demo.timed_out", "the demo's runs did not end in time")
                .found(format!("{} of {} ended", ended.len(), runs.len()))
                .expected(format!("all of them within {} s", DEADLINE.as_secs())));
        }
        for (index, id) in runs.iter().enumerate() {
            if ended.contains_key(&index) {
                continue;
            }
            let detail = client.run(*id).map_err(problem)?;
            if detail.run.state.is_terminal() {
                println!("   {:>5.1} s  {}", start.elapsed().as_secs_f64(), line(&detail.run));
                ended.insert(index, detail);
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(ended.into_values().collect())
}

fn line(run: &Run) -> String {
    let verdict = run.verdict.map_or("-".to_owned(), |verdict| verdict.to_string());
    format!("{:<28} {:<22} {verdict}", run.fault_type, run.services)
}

fn print_runs(ended: &[RunDetail]) {
    println!("\n4. What became of them:");
    println!("   {:<12} {:<28} {:<22} {:<12} WHY", "DATAPACK", "FAULT", "SERVICE", "VERDICT");
    for RunDetail { run, .. } in ended {
        let verdict = run.verdict.map_or("-".to_owned(), |verdict| verdict.to_string());
        let name = run.injection_name.as_deref().unwrap_or("-");
        let why = run.message.as_deref().unwrap_or("");
        let why: String = why.chars().take(90).collect();
        println!("   {name:<12} {:<28} {:<22} {verdict:<12} {why}", run.fault_type, run.services);
    }
}

fn print_board(board: &Board) {
    println!("\n5. The board ({}, hits by rule `{}`, onset {}):", board.origin, board.rule, board.onset);
    board_table::lines(board).iter().for_each(|line| println!("   {line}"));
}

/// The demo is a demonstration only if the pipeline itself worked: a pack for every run. A fault that nobody felt is a
/// finding, not a failure of the demo; a failed step is.
fn check(ended: &[RunDetail]) -> Result<()> {
    let broken: Vec<String> =
        ended.iter().filter(|detail| detail.run.verdict.is_none()).map(|detail| line(&detail.run)).collect();
    if broken.is_empty() {
        return Ok(());
    }
    Err(Problem::new(ErrorKind::Failed, "demo.runs_failed", "some runs of the demo ended without a verdict")
        .found(broken.join("; "))
        .fix("ask `aegisctl run why ID`"))
}
