//! Programs that nobody here wrote read our datapacks as they are: DuckDB, pandas, the public platform with its gate, its
//! algorithms and its board, and RCAEval.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use datapack::schema::{Kind, files};
use model::{Answer, Level};
use score::{Metric, score};
use serde_json::{Value, json};
use testkit::process::{Ran, Site, finish};
use testkit::{Tool, tool};

use crate::pack;
use crate::round::{self, ORIGIN, register_as, strength, text};

const SYSTEMS: [&str; 8] = ["hs", "media", "ob", "otel-demo", "sn", "sockshop", "teastore", "ts"];
/// The public platform's algorithms that run; its others end with errors of their own.
const ALGORITHMS: [&str; 3] = ["random", "baro", "nsigma"];

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("consumers").join(name)
}

/// Submits requests and follows all of them; the names of their datapacks, in order.
fn run_all(site: &Site, requests: &[Value]) -> Vec<Value> {
    let file = site.write("batch.json", &json!(requests).to_string());
    let replies = site.ctl(&["inject", "submit", "-f", file.to_str().unwrap()]).ok().json();
    let replies = replies.as_array().cloned().unwrap_or_else(|| vec![replies]);
    let runs = replies.iter().map(|reply| text(&reply["reply"]["items"][0]["trace_id"]));
    runs.collect::<Vec<_>>()
        .into_iter()
        .map(|run| {
            site.ctl(&["run", "watch", &run, "--timeout", "170s"]);
            round::get(site, &run)
        })
        .collect()
}

fn cheap(more: Value) -> Value {
    let mut request = json!({
        "origin": ORIGIN.parse::<i64>().unwrap(), "load": 6, "windows": {"normal_seconds": 60, "abnormal_seconds": 60},
    });
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request
}

/// Downloads a datapack in the public layout.
fn download(site: &Site, name: &str) -> PathBuf {
    site.ctl(&["datapack", "download", name, "--output-dir", "downloads"]).ok();
    site.path().join("downloads").join(name)
}

/// One datapack without a fault of each system, in the public layout.
fn one_of_each(site: &Site) -> Vec<PathBuf> {
    SYSTEMS.iter().for_each(|system| register_as(site, system));
    let requests = SYSTEMS.map(|system| cheap(json!({"system": system, "no_fault": true, "seed": 1})));
    let folder = |run: &Value| {
        assert_eq!(run["verdict"], "no_anomaly", "{run:#}");
        download(site, &text(&run["injection_name"]))
    };
    run_all(site, &requests).iter().map(folder).collect()
}

#[test]
fn duckdb_pandas_and_the_public_gate_take_every_file_of_every_system() {
    let Some(python) = tool("DuckDB, pandas and the public gate", Tool::Consumers) else { return };
    let site = Site::new();
    let _daemon = site.serve(&[]);
    let folders = one_of_each(&site);
    let ask = |name: &str| finish(Command::new(&python).arg(script(name)).args(&folders)).ok().json();
    let gate = ask("gate.py");
    for folder in &folders {
        let told = &gate[folder.to_str().unwrap()];
        assert_eq!(told["whole"], Value::Null, "{}: {told}", folder.display());
        // What a system without histograms would have. No row is made up for it: our own build refuses it as well.
        assert!(text(&told["bare"]).contains("metrics_histogram.parquet"), "{}: {told}", folder.display());
    }
    let seen = ask("open.py");
    for folder in &folders {
        let manifest = pack::json(folder, "manifest.json");
        for (window, signal) in files() {
            let name = signal.file(window);
            let file = &seen[folder.to_str().unwrap()][&name];
            let stored =
                manifest["content"]["files"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
            assert_eq!(file["rows"], stored["rows"], "{}: {name}", folder.display());
            for column in signal.table().columns {
                let found = [&file["duckdb"][column.name], &file["pandas"][column.name]];
                let (duckdb, pandas) = in_their_words(column.kind);
                assert_eq!(found, [&json!(duckdb), &json!(pandas)], "{}: {name}: {}", folder.display(), column.name);
            }
            assert_eq!(file["duckdb"].as_object().unwrap().len(), signal.table().columns.len(), "{name}");
        }
    }
}

/// What the two call a column of this kind.
fn in_their_words(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Time => ("TIMESTAMPTZ_NS", "datetime64[ns, UTC]"),
        Kind::Text | Kind::Id | Kind::Json => ("VARCHAR", "object"),
        Kind::U8 => ("UTINYINT", "uint8"),
        Kind::U64 => ("UBIGINT", "uint64"),
        Kind::I32 => ("INTEGER", "int32"),
        Kind::F64 => ("DOUBLE", "float64"),
        Kind::ListU64 => ("UBIGINT[]", "object"),
        Kind::ListF64 => ("DOUBLE[]", "object"),
    }
}

#[test]
fn the_public_platform_ranks_our_datapacks_and_its_board_agrees_with_ours() {
    let Some(python) = tool("the public platform", Tool::Consumers) else { return };
    let site = Site::new();
    let _daemon = site.serve(&[]);
    let packs = faulty_packs(&site, 4);
    assert!(packs.len() >= 10, "{packs:?}");
    // Raw, as the server hands it out; the platform flattens it by itself.
    let raw = download(&site, &packs[0]);
    let out = site.path().join("answers");
    std::fs::create_dir(&out).unwrap();
    for algorithm in ALGORITHMS {
        let folders = ["-a", algorithm, "-i", raw.to_str().unwrap(), "-o", out.to_str().unwrap()];
        rca(&site, &python, &[&["container", "run"][..], &folders].concat()).ok();
    }
    let mut written: Vec<String> =
        std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    written.sort();
    assert_eq!(written.len(), ALGORITHMS.len(), "{written:?}");
    for file in written {
        let csv = std::fs::read_to_string(out.join(&file)).unwrap();
        assert!(csv.starts_with("level,result,rank,confidence\nservice,"), "{file}: {csv}");
    }
    // Flattened by us; the platform takes it as its own.
    let data = site.path().join("root/data/rcabench");
    for name in &packs {
        site.ctl(&["datapack", "convert", name]).ok();
        let folder = download(&site, &if *name == packs[0] { again(&site, name) } else { name.clone() });
        std::fs::create_dir_all(&data).unwrap();
        std::fs::rename(folder.join("converted"), data.join(name)).unwrap();
    }
    let root = site.path().join("root");
    finish(Command::new(&python).arg(script("board.py")).arg("describe").arg(&root)).ok();
    let chosen = ALGORITHMS.iter().flat_map(|algorithm| ["-a", algorithm]);
    rca(&site, &python, &["eval", "batch"].into_iter().chain(chosen).chain(["-d", "rcabench"]).collect::<Vec<_>>())
        .ok();
    let report = rca(&site, &python, &["eval", "perf-report", "rcabench"]).ok();
    println!("{}{}", report.out, report.err);
    let told =
        finish(Command::new(&python).arg(script("board.py")).arg("read").arg(site.path().join("output"))).ok().json();
    assert_boards(&site, &packs, &told);
}

#[test]
fn rcaeval_ranks_the_exported_tables() {
    let Some(python) = tool("RCAEval on exported tables", Tool::RcaEval) else { return };
    let site = Site::new();
    let _daemon = site.serve(&[]);
    let packs = faulty_packs(&site, 1);
    assert!(!packs.is_empty(), "a fault is felt and detected");
    let to = site.path().join("cases");
    let names: Vec<&str> = packs.iter().map(String::as_str).collect();
    let format = ["--format", "rcaeval", "--to", to.to_str().unwrap()];
    site.ctl(&[&["datapack", "export"][..], &names, &format].concat()).ok();
    for pack in &packs {
        let detail = site.ctl(&["datapack", "get", pack]).ok().json();
        let root = text(&detail["ground_truth"][0]["service"][0]);
        let fault = text(&detail["fault_type"]).replace('_', "-");
        let case = to.join("hs").join(format!("{root}_{fault}")).join(pack);
        let peer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/rcaeval/peer.py");
        let ran = finish(Command::new(&python).arg(peer).arg("baro,nsigma").arg(&case)).ok();
        let answers: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(answers.len(), 2, "{}", ran.out);
        for answer in answers {
            assert_eq!(answer["failed"], Value::Null, "{answer:#}");
            let columns: Vec<&str> =
                answer["ranks"].as_array().unwrap().iter().map(|column| column.as_str().unwrap()).collect();
            let mut services: Vec<&str> = Vec::new();
            for service in columns.iter().map(|column| column.split('_').next().unwrap()) {
                if !services.contains(&service) {
                    services.push(service);
                }
            }
            let place = services.iter().position(|service| *service == root);
            println!("{pack} {}: {root} is at {place:?} of {}", answer["method"], services.len());
            assert!(columns.len() > 50 && place.is_some(), "{pack}: {services:?}");
        }
    }
}

/// Removes what was downloaded, so that it can be once more.
fn again(site: &Site, name: &str) -> String {
    std::fs::remove_dir_all(site.path().join("downloads").join(name)).unwrap();
    name.to_owned()
}

/// The public platform's program.
fn rca(site: &Site, python: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new(python);
    command
        .current_dir(site.path())
        .env("HOME", site.path())
        .env("RCABENCH_SUBMITION", "false")
        .env("LOGURU_COLORIZE", "0")
        .env("DATA_ROOT", site.path().join("root"))
        .env("OUTPUT_ROOT", site.path().join("output"));
    finish(command.arg(script("rca.py")).args(arguments))
}

/// Three capabilities on each of so many services; the names of the datapacks that were built.
fn faulty_packs(site: &Site, services: usize) -> Vec<String> {
    register_as(site, "hs");
    let mut requests = Vec::new();
    for capability in ["cpu_stress", "memory_stress", "network_delay"] {
        let points = site.ctl(&["point", "list", "--system", "hs", "--capability", capability, "--on-path", "--all"]);
        let points = points.ok().json();
        let mut seen = std::collections::BTreeSet::new();
        for point in points["items"].as_array().unwrap() {
            if seen.len() < services && seen.insert(text(&point["service"])) {
                let seed = requests.len() + 100;
                requests.push(cheap(
                    json!({"faults": [{"point": point["id"], "params": strength(capability)}], "seed": seed}),
                ));
            }
        }
    }
    let runs = run_all(site, &requests);
    let built = runs.iter().filter(|run| {
        let name = run["injection_name"].as_str().unwrap_or_default();
        site.data().join("packs").join(name).is_dir()
    });
    built.map(|run| text(&run["injection_name"])).collect()
}

/// The platform's figures from its own answers are ours from the same answers, by the rule `public`, up to two differences that
/// are accounted for: it gives a place to each metric of a service where we give one to the service, and it leaves packs without
/// a hit out of its mean reciprocal rank where we count them as zero.
fn assert_boards(site: &Site, packs: &[String], told: &Value) {
    let mut answers: BTreeMap<(String, String), Vec<Answer>> = BTreeMap::new();
    for row in told["answers"].as_array().unwrap() {
        let Some(name) = row["name"].as_str() else { continue };
        let rank = u32::try_from(row["rank"].as_u64().unwrap()).unwrap();
        let answer = Answer { level: Level::Service, name: name.to_owned(), rank, score: None };
        answers.entry((text(&row["algorithm"]), text(&row["datapack"]))).or_default().push(answer);
    }
    let public = |pack: &String| -> Vec<String> {
        let detail = site.ctl(&["datapack", "get", pack]).ok().json();
        let truths = detail["ground_truth"].as_array().unwrap();
        truths.iter().flat_map(|truth| truth["service"].as_array().unwrap()).map(text).collect()
    };
    let truth: BTreeMap<&String, Vec<String>> = packs.iter().map(|pack| (pack, public(pack))).collect();
    let rows = told["board"].as_array().unwrap();
    assert_eq!(rows.len(), ALGORITHMS.len(), "{rows:#?}");
    for row in rows {
        let algorithm = text(&row["algorithm"]);
        assert_eq!((&row["total"], &row["error"]), (&json!(packs.len()), &json!(0)), "{row:#}");
        let list = |pack| &answers[&(algorithm.clone(), String::clone(pack))];
        let lists: Vec<(&Vec<Answer>, &Vec<String>)> = packs.iter().map(|pack| (list(pack), &truth[pack])).collect();
        let theirs = |name: &str| row[name].as_f64().unwrap();
        for (metric, name) in
            [(Metric::Ac1, "AC@1"), (Metric::Ac3, "AC@3"), (Metric::Ac5, "AC@5"), (Metric::Avg5, "Avg@5")]
        {
            let ours = mean(&lists, |(list, truth)| score(list, Level::Service, truth).get(metric));
            let by_place = mean(&lists, |lists| places(lists, name));
            println!(
                "{algorithm} {name}: theirs {:.6}, ours by place {by_place:.6}, by service {ours:.6}",
                theirs(name)
            );
            assert!((by_place - theirs(name)).abs() < 2e-6, "{algorithm} {name}: {row:#}");
            // A service that is counted once can only move up; without one that is named twice nothing differs.
            let once = lists.iter().all(|(list, _)| !repeats(list));
            assert!(ours >= by_place - 1e-9 && (!once || ours - by_place < 1e-9), "{algorithm} {name}: {ours}");
        }
        assert_mrr(&algorithm, &lists, theirs("MRR"));
    }
}

type List<'a> = (&'a Vec<Answer>, &'a Vec<String>);

fn mean(lists: &[List<'_>], value: impl Fn(&List<'_>) -> f64) -> f64 {
    lists.iter().map(value).sum::<f64>() / lists.len() as f64
}

/// The platform's definition: whether one of the first `k` places names a service of the label; `Avg@5` is the mean over `k`.
fn places((list, truth): &List<'_>, name: &str) -> f64 {
    let hit = |k: u32| list.iter().any(|answer| answer.rank <= k && truth.contains(&answer.name));
    let at = |k: u32| f64::from(u8::from(hit(k)));
    match name {
        "Avg@5" => (1..=5).map(at).sum::<f64>() / 5.0,
        other => at(other.trim_start_matches("AC@").parse().unwrap()),
    }
}

/// Whether a service has more than one place.
fn repeats(list: &[Answer]) -> bool {
    let mut names: Vec<&str> = list.iter().map(|answer| answer.name.as_str()).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

fn assert_mrr(algorithm: &str, lists: &[List<'_>], theirs: f64) {
    let first = |(list, truth): &List<'_>| {
        list.iter().filter(|answer| truth.contains(&answer.name)).map(|answer| answer.rank).min()
    };
    let hits: Vec<f64> = lists.iter().filter_map(first).map(|rank| 1.0 / f64::from(rank)).collect();
    let by_place = if hits.is_empty() { 0.0 } else { hits.iter().sum::<f64>() / hits.len() as f64 };
    let ours = mean(lists, |(list, truth)| score(list, Level::Service, truth).mrr);
    println!(
        "{algorithm} MRR: theirs {theirs:.6}, ours by place {by_place:.6} over {} of {} packs, by service {ours:.6}",
        hits.len(),
        lists.len()
    );
    assert!((by_place - theirs).abs() < 2e-6, "{algorithm}: {by_place} and {theirs}");
    assert!(ours >= hits.iter().sum::<f64>() / lists.len() as f64 - 1e-9 && ours <= 1.0, "{algorithm}: {ours}");
}
