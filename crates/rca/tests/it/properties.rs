//! Every algorithm on packs that hold little, or nonsense: a ranking or a clear problem, never a panic.

use proptest::collection::vec;
use proptest::prelude::*;
use rca::algorithm::algorithms;
use rca::frame::SpanStatus;

use crate::packs::{Call, Maker, call};

const SERVICES: [&str; 4] = ["cart", "front", "load-generator", "pay_db"];

/// Something that a window holds.
#[derive(Debug, Clone)]
enum Record {
    Gauge(&'static str, f64),
    Sum(f64),
    Histogram(f64, f64),
    Log(u8),
    /// How many calls below it, seconds, whether it failed.
    Trace(usize, f64, bool),
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 0.0..100.0,
        2 => Just(7.0),
        1 => prop_oneof![Just(0.0), Just(f64::NAN), Just(f64::INFINITY), Just(1e300), Just(-1e300), Just(f64::MIN_POSITIVE)],
    ]
}

fn record() -> impl Strategy<Value = Record> {
    prop_oneof![
        4 => (prop_oneof![Just("container.cpu.usage"), Just("container.memory.working_set")], value())
            .prop_map(|(metric, value)| Record::Gauge(metric, value)),
        1 => value().prop_map(Record::Sum),
        1 => (0.0..50.0, value()).prop_map(|(count, sum)| Record::Histogram(count, sum)),
        2 => (0_u8..24).prop_map(Record::Log),
        4 => (0_usize..4, 0.0..3.0, any::<bool>()).prop_map(|(calls, seconds, failed)| Record::Trace(calls, seconds, failed)),
    ]
}

fn pack() -> impl Strategy<Value = Maker> {
    let lengths = (prop_oneof![Just(10_u64), Just(30), Just(60)], prop_oneof![Just(10_u64), Just(30), Just(60)]);
    let records = vec((0.0..1.0, 0_usize..SERVICES.len(), record()), 0..80);
    (lengths, 1_usize..=SERVICES.len(), records).prop_map(|((normal, abnormal), services, records)| {
        let mut records: Vec<(f64, usize, Record)> = records;
        let names = &SERVICES[..services];
        let mut maker = Maker::new(normal, abnormal, names);
        records.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (share, service, record) in records {
            let (at, service) = (share * (normal + abnormal) as f64, names[service % services]);
            match record {
                Record::Gauge(metric, value) => maker.gauge(at, service, metric, value),
                Record::Sum(value) => maker.sum(at, service, "requests", value),
                Record::Histogram(count, sum) => maker.histogram(at, service, "duration", count, sum),
                Record::Log(severity) => maker.log(at, service, severity, "it failed, or it did not"),
                Record::Trace(calls, seconds, failed) => {
                    let status = if failed { SpanStatus::Error } else { SpanStatus::Unset };
                    let below = names.iter().take(calls).map(|name| call(name, "work", seconds / 2.0));
                    maker.trace(at, Call { status, ..call(service, "GET /", seconds) }, &below.collect::<Vec<_>>());
                }
            }
        }
        maker
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_is_a_ranking_or_a_problem(maker in pack(), seed in 0_u64..4) {
        for algorithm in algorithms() {
            let name = algorithm.name();
            let answer = algorithm.rank(&maker.pack, seed);
            let again = algorithm.rank(&maker.pack, seed);
            prop_assert_eq!(answer.as_ref().ok(), again.as_ref().ok(), "{} is not deterministic", name);
            let answers = match answer {
                Ok(answers) => answers,
                Err(problem) => {
                    let known = ["algorithm.insufficient_data", "algorithm.no_suspect"];
                    prop_assert!(known.contains(&problem.code.as_ref()), "{}: {}", name, problem);
                    continue;
                }
            };
            prop_assert!(!answers.is_empty(), "{}", name);
            let mut seen = std::collections::BTreeSet::new();
            for (answer, rank) in answers.iter().zip(1..) {
                prop_assert_eq!(answer.rank, rank, "{}", name);
                prop_assert!(maker.pack.candidates.contains(&answer.name), "{}: {}", name, answer.name);
                prop_assert!(seen.insert(&answer.name), "{} names {} twice", name, answer.name);
                prop_assert!(answer.score.is_none_or(f64::is_finite), "{}: {:?}", name, answer);
            }
        }
    }
}
