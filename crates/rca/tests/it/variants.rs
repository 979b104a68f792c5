//! The variants of RCAEval on small tables, and where that program is left alone.

use rca::algorithm::algorithm;
use rca::rcaeval::{self, Operations, Ranking, Row, tied};
use rca::wide::{Column, Wide};

use crate::packs::{Maker, START, call};

fn table(columns: &[(&str, &[f64])], normal: usize) -> Wide {
    let column = |(name, values): &(&str, &[f64])| Column {
        service: name.split('_').next().unwrap().to_owned(),
        name: (*name).to_owned(),
        values: values.to_vec(),
    };
    let rows = columns[0].1.len() as i64;
    Wide {
        times: (START..START + rows).collect(),
        onset: START + normal as i64,
        columns: columns.iter().map(column).collect(),
    }
}

#[test]
fn scalers_match_the_golden_vectors_and_lose_what_stood_still_before() {
    let rising: Vec<f64> = (1..=10).map(f64::from).chain([10.0, 12.0, 30.0]).collect();
    let still: Vec<f64> = [4.0; 10].into_iter().chain([4.0, 7.0, 7.0]).collect();
    let table = table(&[("a_cpu", &rising), ("b_errors", &still), ("c_cpu", &rising)], 10);
    let check = |ranking: Ranking, expect: f64| {
        assert_eq!(ranking.iter().map(|(column, _)| *column).collect::<Vec<_>>(), [0, 2], "ties stand in column order");
        assert!((ranking[0].1 - expect).abs() < 1e-7, "{ranking:?}");
    };
    check(rcaeval::nsigma(&table), 8.529_805_1);
    check(rcaeval::baro(&table), 5.444_444_4);
}

#[test]
fn memory_is_told_in_millions_of_bytes() {
    // The interquartile range is zero, so the unit is the scale.
    let memory: Vec<f64> = [1e6; 9].into_iter().chain([2e6, 1e6, 4e6]).collect();
    let ranking = rcaeval::baro(&table(&[("a_mem", &memory), ("a_memory", &memory)], 10));
    assert_eq!(ranking, [(1, 3e6), (0, 3.0)]);
}

fn operations(spans: &[(usize, i64, i64)]) -> Operations {
    let row = |(id, &(operation, start, duration)): (usize, &(usize, i64, i64))| Row {
        trace: id as u128,
        id: id as u64 + 1,
        parent: 0,
        operation,
        start,
        duration,
    };
    Operations {
        names: ["front", "orders"].map(|service| (service.to_owned(), "get".to_owned())).to_vec(),
        rows: spans.iter().enumerate().map(row).collect(),
        onset: 1000,
    }
}

#[test]
fn without_a_span_after_the_onset_nothing_is_ranked() {
    // The program ends with an error here.
    let before = operations(&[(0, 0, 10), (0, 20, 12), (1, 30, 10)]);
    assert_eq!(rcaeval::tracerca(&before), []);
    assert_eq!(rcaeval::microrank(&before), []);
}

#[test]
fn an_operation_with_one_normal_span_is_never_slow() {
    let spans = [(0, 0, 10_000), (0, 20, 12_000), (1, 30, 10_000)];
    let mut spans: Vec<(usize, i64, i64)> = spans.iter().map(|&(op, at, took)| (op, at - 20_000, took)).collect();
    spans.extend([(0, 2000, 90_000), (1, 2000, 90_000), (0, 3000, 11_000)]);
    let ranking = rcaeval::tracerca(&operations(&spans));
    // Support 1, confidence 1/2: 2/3. The other one has no deviation, so none of its spans is slow.
    assert!(ranking.len() == 1 && ranking[0].0 == 0 && tied(ranking[0].1, 2.0 / 3.0), "{ranking:?}");
}

#[test]
fn the_wide_table_follows_its_rule() {
    let mut maker = Maker::new(30, 30, &["my_shop"]);
    for step in 0..12 {
        let at = f64::from(step) * 5.0 + 2.0;
        maker.gauge(at, "my_shop", "container.cpu.usage", f64::from(step % 4));
        maker.gauge(at, "my_shop", "copy", 2.0 * f64::from(step % 4));
        maker.gauge(at, "my_shop", "still", 1.0);
    }
    maker.gauge(40.0, "my_shop", "late", 5.0);
    for second in 0..60 {
        maker.trace(f64::from(second), call("my_shop", "get", 0.01 + 0.001 * f64::from(second * 7919 % 11)), &[]);
    }
    let wide = Wide::build(&maker.pack);
    let names: Vec<&str> = wide.columns.iter().map(|column| column.name.as_str()).collect();
    let expect = ["copy", "cpu", "error", "latency-90", "still", "workload"].map(|metric| format!("my-shop_{metric}"));
    assert_eq!(names, expect, "a metric without a normal value is left out");
    assert_eq!((wide.times.len(), wide.normal_rows(), wide.onset), (60, 30, START + 30));
    let cpu = &wide.columns[wide.position("my-shop_cpu").unwrap()].values;
    assert_eq!(cpu[..8], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], "filled back to the start, then forward");
    assert!(wide.columns.iter().flat_map(|column| &column.values).all(|value| value.is_finite()));
    // Errors and workload stand still, and the copy says what the processor says.
    let small = wide.reduced(20);
    let names: Vec<&str> = small.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["my-shop_cpu", "my-shop_latency-90"]);
    assert_eq!(wide.reduced(1).columns[0].name, "my-shop_latency-90", "what users feel comes first");
}

#[test]
fn a_variant_answers_services_and_says_when_the_program_would_not() {
    let mut maker = Maker::new(60, 60, &["cart", "front"]);
    maker.traces(0.0, 120.0, 120, call("front", "GET /", 0.1), &[call("cart", "get", 0.05)]);
    let problem = algorithm("pc-pagerank@rcaeval").unwrap().rank(&maker.pack, 1).unwrap_err();
    assert_eq!(problem.code, "algorithm.insufficient_data");
    let answers = algorithm("microrank@rcaeval").unwrap().rank(&maker.pack, 1).unwrap();
    assert_eq!(answers.len(), 2);
}
