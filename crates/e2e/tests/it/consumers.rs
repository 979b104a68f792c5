//! Programs that nobody here wrote read our datapacks as they are: DuckDB, pandas, the public platform with its gate, its
//! algorithms and its board, and RCAEval.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use datapack::schema::{Kind, files};
use serde_json::{Value, json};
use testkit::process::{Ran, Site, finish};
use testkit::{Tool, tool};

use crate::pack;
use crate::round::{self, ORIGIN, register_as, strength, text};

const SYSTEMS: [&str; 8] = ["hs", "media", "ob", "otel-demo", "sn", "sockshop", "teastore", "ts"];
/// The systems whose datapacks stand on the platform's board and on ours.
const SYSTEMS_OF_BOARDS: [&str; 2] = ["hs", "ob"];
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
    let packs = SYSTEMS_OF_BOARDS.map(|system| faulty_packs(&site, system, 3));
    assert!(packs.iter().all(|packs| packs.len() > 3) && packs.concat().len() >= 10, "{packs:?}");
    let packs = packs.concat();
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
    let packs = faulty_packs(&site, "hs", 1);
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

/// Three capabilities on each of so many services; the names of the datapacks whose target felt the fault.
fn faulty_packs(site: &Site, system: &str, services: usize) -> Vec<String> {
    register_as(site, system);
    let mut requests = Vec::new();
    for capability in ["cpu_stress", "memory_stress", "network_delay"] {
        let points = site.ctl(&["point", "list", "--system", system, "--capability", capability, "--on-path", "--all"]);
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
    let felt =
        runs.iter().filter(|run| ["anomaly", "no_anomaly"].contains(&run["verdict"].as_str().unwrap_or_default()));
    felt.map(|run| text(&run["injection_name"])).collect()
}

/// One algorithm's places for services on one datapack, best first.
type Places = Vec<(i64, String)>;

/// The platform's board of its own answers is ours of the same answers, handed over as results of algorithms that run elsewhere,
/// by the rule `public`. Three differences of definition are accounted for, to the last digit: the platform gives a place to each
/// metric of a service where ours gives one to the service, it leaves datapacks without a hit out of its mean reciprocal rank
/// where ours counts them as zero, and it takes the mean over datapacks where our headline is the mean over systems and families.
fn assert_boards(site: &Site, packs: &[String], told: &Value) {
    let mut answers: BTreeMap<(String, String), Places> = BTreeMap::new();
    for row in told["answers"].as_array().unwrap() {
        let Some(name) = row["name"].as_str() else { continue };
        let places = answers.entry((text(&row["algorithm"]), text(&row["datapack"]))).or_default();
        places.push((row["rank"].as_i64().unwrap(), name.to_owned()));
    }
    answers.values_mut().for_each(|places| places.sort());
    for algorithm in ALGORITHMS {
        hand_over(site, algorithm, packs, &answers);
    }
    let boards = SYSTEMS_OF_BOARDS.map(|system| board(site, &["--system", system]));
    let whole = board(site, &[]);
    let truth: Vec<Vec<String>> = packs
        .iter()
        .map(|pack| {
            let detail = site.ctl(&["datapack", "get", pack]).ok().json();
            let truths = detail["ground_truth"].as_array().unwrap();
            truths.iter().flat_map(|truth| truth["service"].as_array().unwrap()).map(text).collect()
        })
        .collect();
    let rows = told["board"].as_array().unwrap();
    assert_eq!(rows.len(), ALGORITHMS.len(), "{rows:#?}");
    let mut direct = 0;
    for row in rows {
        let algorithm = text(&row["algorithm"]);
        assert_eq!((&row["total"], &row["error"]), (&json!(packs.len()), &json!(0)), "{row:#}");
        let lists: Vec<&Places> = packs.iter().map(|pack| &answers[&(algorithm.clone(), pack.clone())]).collect();
        let ranks = |list: &dyn Fn(&Places) -> Places| -> Vec<Option<i64>> {
            let first = |(places, truth): (&&Places, &Vec<String>)| {
                list(places).iter().find(|(_, name)| truth.contains(name)).map(|(rank, _)| *rank)
            };
            lists.iter().zip(&truth).map(first).collect()
        };
        let (by_place, by_service) = (ranks(&Places::clone), ranks(&once));
        let name = format!("platform-{algorithm}");
        let cells: Vec<(f64, &Value)> = boards.iter().flat_map(|board| cells(board, &name)).collect();
        let count: f64 = cells.iter().map(|(packs, _)| packs).sum();
        assert_eq!(count, packs.len() as f64, "every datapack is on both boards");
        for (metric, named) in
            [("ac1", "AC@1"), ("ac3", "AC@3"), ("ac5", "AC@5"), ("avg3", "Avg@3"), ("avg5", "Avg@5"), ("mrr", "MRR")]
        {
            let value = |cell: &Value| cell[metric]["value"].as_f64().unwrap();
            let ours = cells.iter().map(|(packs, cell)| packs * value(cell)).sum::<f64>() / count;
            let headline = cells.iter().map(|(_, cell)| value(cell)).sum::<f64>() / cells.len() as f64;
            let theirs = row[named].as_f64().unwrap();
            let (want_theirs, want_ours) =
                (mean(named, &by_place, Misses::LeftOut), mean(named, &by_service, Misses::Zero));
            println!("{algorithm} {named}: theirs {theirs:.6}, ours {ours:.6}, our headline {headline:.6}");
            assert!((theirs - want_theirs).abs() < 2e-6, "{algorithm} {named}: {theirs} is not {want_theirs}");
            assert!((ours - want_ours).abs() < 1e-9, "{algorithm} {named}: {ours} is not {want_ours}");
            assert!((value(of(&whole, &name)) - headline).abs() < 1e-9, "{algorithm} {named}: {headline}");
            // Where no service is named twice and every list has a hit, the two definitions are one.
            if by_place == by_service && by_place.iter().all(Option::is_some) {
                assert!((ours - theirs).abs() < 2e-6, "{algorithm} {named}: {ours} and {theirs}");
                direct += 1;
            }
        }
    }
    assert!(direct >= 6, "one algorithm at least needs no accounting: {direct}");
}

/// Uploads the platform's answers as those of an algorithm that runs elsewhere.
fn hand_over(site: &Site, algorithm: &str, packs: &[String], answers: &BTreeMap<(String, String), Places>) {
    let name = format!("platform-{algorithm}:1");
    let chosen = packs.iter().flat_map(|pack| ["--datapack", pack.as_str()]);
    let arguments: Vec<&str> =
        ["execution", "submit", "--remote", "--algorithm", &name].into_iter().chain(chosen).collect();
    for item in site.ctl(&arguments).ok().json().as_array().unwrap() {
        let places = &answers[&(algorithm.to_owned(), text(&item["datapack_name"]))];
        let result = |(rank, service): &(i64, String)| json!({"level": "service", "result": service, "rank": rank});
        let results: Vec<Value> = places.iter().map(result).collect();
        let file = site.write("answer.json", &json!({"duration": 1.0, "results": results}).to_string());
        site.ctl(&["execution", "upload", &item["execution_id"].to_string(), "--file", file.to_str().unwrap()]).ok();
    }
}

fn board(site: &Site, more: &[&str]) -> Value {
    site.ctl(&[&["board", "--rule", "public", "--row", "ranking"], more].concat()).ok().json()
}

/// An algorithm's row on a board.
fn of<'a>(board: &'a Value, algorithm: &str) -> &'a Value {
    let rows = board["rows"].as_array().unwrap();
    rows.iter().find(|row| row["algorithm"] == algorithm).unwrap_or_else(|| panic!("no {algorithm}: {board:#}"))
}

/// The families of one system with how many datapacks each has.
fn cells<'a>(board: &'a Value, algorithm: &str) -> Vec<(f64, &'a Value)> {
    let slices = of(board, algorithm)["slices"].as_array().unwrap();
    slices
        .iter()
        .filter(|slice| slice["by"] == "family")
        .map(|slice| (slice["packs"].as_f64().unwrap(), slice))
        .collect()
}

/// Each service at its first place, and the places counted anew.
fn once(places: &Places) -> Places {
    let mut seen = BTreeSet::new();
    let first = places.iter().filter(|(_, name)| seen.insert(name.clone()));
    first.zip(1..).map(|((_, name), rank)| (rank, name.clone())).collect()
}

/// What a datapack without a hit is in a mean reciprocal rank.
#[derive(PartialEq)]
enum Misses {
    LeftOut,
    Zero,
}

/// A metric from the ranks of the first hits, in the words of its definition.
fn mean(metric: &str, ranks: &[Option<i64>], misses: Misses) -> f64 {
    let share =
        |k: i64| ranks.iter().filter(|rank| rank.is_some_and(|rank| rank <= k)).count() as f64 / ranks.len() as f64;
    let (kind, k) = metric.split_once('@').unwrap_or((metric, "0"));
    let k: i64 = k.parse().unwrap();
    match kind {
        "AC" => share(k),
        "Avg" => (1..=k).map(share).sum::<f64>() / k as f64,
        _ => {
            let hits: Vec<f64> = ranks.iter().flatten().map(|rank| 1.0 / *rank as f64).collect();
            let of = if misses == Misses::Zero { ranks.len() } else { hits.len() };
            if of == 0 { 0.0 } else { hits.iter().sum::<f64>() / of as f64 }
        }
    }
}
