//! The variants `@rcaeval` on files, for measurements beside that program: `rcaeval make FOLDER` writes tables,
//! `rcaeval METHOD FOLDER` reads one, ranks it several times and prints one line of JSON.
//!
//! `make` writes three folders: `wide` (400 columns, 1200 rows), `small` (20 columns, 600 rows) and `spans` (100,000 spans
//! of some 10,000 traces), each with a fault in its middle. The seconds are those inside of the method, without reading.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rca::rcaeval::{self, ANSWERED, Operations, Ranking, Row, tied};
use rca::wide::{Column, Wide};
use serde_json::json;

const START: i64 = 1_700_000_000;
/// Many, so that a round in which another program had the core does not count.
const ROUNDS: usize = 21;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, folder] = arguments.as_slice() else { panic!("`make FOLDER`, or `METHOD FOLDER`") };
    let folder = Path::new(folder);
    match what.as_str() {
        "make" => make(folder),
        method => println!("{}", measure(method, folder)),
    }
}

fn make(folder: &Path) {
    let write = |name: &str, file: &str, text: String| {
        fs::create_dir_all(folder.join(name)).expect("the folder can be made");
        fs::write(folder.join(name).join(file), text).expect("the file can be written");
    };
    for (name, services, rows) in [("wide", 100, 1200), ("small", 5, 600)] {
        let table = table(services, rows);
        write(name, "data.csv", table.to_csv());
        write(name, "inject_time.txt", table.onset.to_string());
    }
    let spans = spans(100_000);
    write("spans", "traces.csv", spans.to_csv());
    write("spans", "inject_time.txt", (spans.onset / 1_000_000).to_string());
}

/// Four columns a service, noise with a memory; one service burns processor time after two thirds, others wait for it.
fn table(services: usize, rows: usize) -> Wide {
    let mut random = Pcg64::seed_from_u64(1);
    let onset = rows * 2 / 3;
    let mut columns = Vec::new();
    for service in 0..services {
        for (metric, level, step) in
            [("cpu", 50.0, 40.0), ("latency-90", 0.02, 0.02), ("mem", 1e8, 0.0), ("workload", 30.0, 0.0)]
        {
            let mut noise = 0.0;
            let values = (0..rows).map(|row| {
                noise = 0.6 * noise + 0.05 * level * (random.random::<f64>() - 0.5);
                level + noise + if row >= onset && service < 3 { step / (1 + service) as f64 } else { 0.0 }
            });
            let name = format!("service{service:03}_{metric}");
            columns.push(Column { service: format!("service{service:03}"), name, values: values.collect() });
        }
    }
    let times = (0..rows as i64).map(|row| START + row).collect();
    Wide { times, onset: START + onset as i64, columns }
}

/// Traces through a tree of thirty services, each of which calls two or none; one of them is slow after two thirds.
fn spans(count: usize) -> Operations {
    let mut random = Pcg64::seed_from_u64(2);
    let names = (0..30).map(|service| (format!("service{service:02}"), "work".to_owned())).collect();
    let onset = START * 1_000_000 + 600_000_000;
    let mut rows: Vec<Row> = Vec::with_capacity(count);
    let mut trace = 0;
    while rows.len() < count {
        trace += 1;
        let start = START * 1_000_000 + (trace as i64) * 90_000;
        let mut open = vec![(0_usize, 0_u64)];
        while let Some((service, parent)) = open.pop() {
            let id = rows.len() as u64 + 1;
            let slow = if start >= onset && service == 11 { 50_000 } else { 0 };
            // Exponential, so that every operation has a few slow spans of its own.
            let duration = 2_000 + (-1_000.0 * (1.0 - random.random::<f64>()).ln()) as i64 + slow;
            rows.push(Row { trace, id, parent, operation: service, start, duration });
            let below = [2 * service + 1, 2 * service + 2];
            open.extend(
                below.into_iter().filter(|below| *below < 30 && random.random::<f64>() < 0.6).map(|below| (below, id)),
            );
        }
    }
    rows.truncate(count);
    Operations { names, rows, onset }
}

fn measure(method: &str, folder: &Path) -> serde_json::Value {
    let (names, rank): (Vec<String>, Box<dyn Fn() -> Ranking>) = if matches!(method, "tracerca" | "microrank") {
        let table = read_spans(folder);
        let names = table.names.iter().map(|(service, name)| format!("{service}_{name}")).collect();
        let function = if method == "tracerca" { rcaeval::tracerca } else { rcaeval::microrank };
        (names, Box::new(move || function(&table)))
    } else {
        let table = read_table(folder);
        let names = table.columns.iter().map(|column| column.name.clone()).collect();
        let testable = |ranking: Result<Ranking, _>| ranking.expect("the columns can be tested");
        match method {
            "nsigma" => (names, Box::new(move || rcaeval::nsigma(&table))),
            "baro" => (names, Box::new(move || rcaeval::baro(&table))),
            "pc_pagerank" => (names, Box::new(move || testable(rcaeval::pc_pagerank(&table)))),
            "granger_pagerank" => (names, Box::new(move || testable(rcaeval::granger_pagerank(&table)))),
            other => panic!("no method `{other}`"),
        }
    };
    let mut seconds = Vec::new();
    let mut ranking = Ranking::new();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        ranking = rank();
        seconds.push(started.elapsed().as_secs_f64());
    }
    let mut groups: Vec<Vec<&str>> = Vec::new();
    for (place, (index, score)) in ranking.iter().enumerate() {
        if place == 0 || !tied(ranking[place - 1].1, *score) {
            groups.push(Vec::new());
        }
        groups.last_mut().expect("one was just added").push(&names[*index]);
    }
    let answered = if method == "microrank" { ANSWERED.min(ranking.len()) } else { ranking.len() };
    json!({ "method": method, "seconds": seconds, "groups": groups, "answered": answered })
}

fn read(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).expect("the file can be read")
}

fn read_table(folder: &Path) -> Wide {
    let text = read(folder, "data.csv");
    let mut lines = text.lines();
    let names = lines.next().unwrap_or_default().split(',').skip(1);
    let service = |name: &str| name.split('_').next().unwrap_or_default().to_owned();
    let column = |name: &str| Column { service: service(name), name: name.to_owned(), values: Vec::new() };
    let mut columns: Vec<Column> = names.map(column).collect();
    let mut times = Vec::new();
    for line in lines {
        let mut cells = line.split(',');
        times.push(cells.next().and_then(|cell| cell.parse().ok()).expect("a row starts with its time"));
        for (column, cell) in columns.iter_mut().zip(cells) {
            column.values.push(cell.parse().expect("a cell is a number"));
        }
    }
    let onset = read(folder, "inject_time.txt").trim().parse().expect("the onset is a number of seconds");
    Wide { times, onset, columns }
}

fn read_spans(folder: &Path) -> Operations {
    let (mut names, mut index) = (Vec::new(), HashMap::new());
    let number = |text: &str| u128::from_str_radix(text.get(1..).unwrap_or_default(), 16).unwrap_or(0);
    let text = read(folder, "traces.csv");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let name = (cells[2].to_owned(), cells[3].trim_matches('"').to_owned());
        let operation = *index.entry(name.clone()).or_insert_with(|| {
            names.push(name);
            names.len() - 1
        });
        Row {
            trace: number(cells[0]),
            id: number(cells[1]) as u64,
            parent: number(cells[7]) as u64,
            operation,
            start: cells[5].parse().expect("a start is a number"),
            duration: cells[6].parse().expect("a duration is a number"),
        }
    };
    let rows = text.lines().skip(1).map(row).collect();
    let onset: i64 = read(folder, "inject_time.txt").trim().parse().expect("the onset is a number of seconds");
    Operations { names, rows, onset: onset * 1_000_000 }
}
