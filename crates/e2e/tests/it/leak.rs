//! Nothing about a datapack gives its answer away: trivial classifiers that see metadata alone do as well as chance, and
//! planted leaks are found.
//!
//! The packs come in pairs, a faulty run and its control from the same environment, over families and services in equal
//! numbers, submitted in a mixed order. The classifiers learn from some pairs of every family with every service and are judged
//! on the others: what they learn then does not depend on what they are judged on, neither by the two halves of a pair nor by
//! how often a label is left, and chance is exactly one in so many.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use score::clopper_pearson;
use serde_json::{Value, json};
use testkit::process::{Site, until};

use crate::metadata::{self, Feature, Metadata};
use crate::round::{self, ORIGIN, register_as, strength, text};

const SYSTEM: &str = "ob";
/// One capability of each of four families. The services have all of them.
const CAPABILITIES: [&str; 4] = ["pod_kill", "cpu_stress", "memory_stress", "network_delay"];
const SERVICES: usize = 4;
/// Pairs of each family with each service, and how many of them are learnt from.
const REPEATS: usize = 15;
const LEARNT: usize = 2;
/// Three questions to two classifiers each, and one to a third: all seven intervals hold chance in 95 of 100 worlds without a
/// leak.
const CONFIDENCE: f64 = 1.0 - 0.05 / 7.0;
/// How far an interval may reach to each side.
const WIDEST: f64 = 0.1;

/// What stands for one pack in the learning.
struct Sample<'a> {
    pair: usize,
    learnt: bool,
    features: &'a Metadata,
    label: String,
}

struct Labelled {
    folder: PathBuf,
    pair: usize,
    learnt: bool,
    faulty: bool,
    family: String,
    service: String,
    /// Of the service, among those that take part.
    place: usize,
}

#[test]
fn metadata_alone_tells_neither_fault_nor_family_nor_service() {
    let site = Site::new();
    let _daemon = site.serve(&["--workers", "2"]);
    register_as(&site, SYSTEM);
    let began = Instant::now();
    let packs = packs(&site);
    println!("{} packs in {:.0} s", packs.len(), began.elapsed().as_secs_f64());
    numbers_say_nothing(&packs);
    let clean: Vec<Metadata> = packs.iter().map(|pack| metadata::of(&pack.folder)).collect();
    let found: Vec<String> = QUESTIONS.iter().flat_map(|question| red(question, &packs, &clean)).collect();
    assert!(found.is_empty(), "metadata gives the answer away: {found:#?}");

    // Each leak is put into copies of the packs, and found.
    for (what, question, plant) in LEAKS {
        let planted: Vec<Metadata> = packs.iter().map(|pack| with_leak(pack, *plant)).collect();
        println!("with {what} planted:");
        assert!(!red(question, &packs, &planted).is_empty(), "{what} is not found");
    }
    println!("all in {:.0} s", began.elapsed().as_secs_f64());
}

/// Which of a pair has the lower number is drawn: outside of these bounds by chance once in a million times.
fn numbers_say_nothing(packs: &[Labelled]) {
    let pairs = packs.len() as f64 / 2.0;
    let lower = packs.chunks(2).filter(|pair| (pair[0].folder < pair[1].folder) == pair[0].faulty).count() as f64;
    println!("the faulty run has the lower number in {lower} of {pairs} pairs");
    assert!((lower - pairs / 2.0).abs() < 2.5 * pairs.sqrt(), "{lower} of {pairs}");
}

/// Family, service and repeat of each pair.
type Cell = (usize, usize, usize);

/// Runs everything; the packs with what was done in them.
fn packs(site: &Site) -> Vec<Labelled> {
    let points = points(site);
    let mut cells: Vec<Cell> = Vec::new();
    for family in 0..CAPABILITIES.len() {
        for service in 0..SERVICES {
            cells.extend((0..REPEATS).map(|repeat| (family, service, repeat)));
        }
    }
    let mut random = StdRng::seed_from_u64(20);
    cells.shuffle(&mut random);
    let request = |(&(family, service, _), seed): (&Cell, u64)| {
        json!({
            "faults": [{"point": points[&(family, service)].1, "params": strength(CAPABILITIES[family])}],
            "paired_control": true,
            "seed": seed,
            "slot": random.random_range(0..4),
            "origin": ORIGIN.parse::<i64>().unwrap(),
            "windows": {"normal_seconds": 30, "abnormal_seconds": 20},
            "load": 3,
        })
    };
    let requests: Vec<Value> = cells.iter().zip(5000..).map(request).collect();
    let file = site.write("leak.json", &Value::Array(requests).to_string());
    let replies = site.ctl(&["inject", "submit", "-f", file.to_str().unwrap()]).ok().json();
    let items = replies.as_array().unwrap().iter().flat_map(|reply| reply["reply"]["items"].as_array().unwrap());
    let runs: Vec<String> = items.map(|item| text(&item["trace_id"])).collect();
    assert_eq!(runs.len(), cells.len() * 2, "{replies:#}");
    until("every run has ended", Duration::from_secs(600), || {
        std::thread::sleep(Duration::from_millis(200));
        let open =
            |state: &str| site.ctl(&["run", "list", "--state", state]).ok().json()["pagination"]["total"].clone();
        (open("Pending") == 0 && open("Running") == 0).then_some(())
    });
    let labelled = runs.iter().enumerate().map(|(index, run)| {
        let detail = round::get(site, run);
        let (family, service, repeat) = cells[index / 2];
        let folder = site.data().join("packs").join(text(&detail["injection_name"]));
        assert!(folder.is_dir(), "{detail:#}");
        Labelled {
            folder,
            pair: index / 2,
            learnt: repeat < LEARNT,
            faulty: index % 2 == 0,
            family: CAPABILITIES[family].to_owned(),
            service: points[&(family, service)].0.clone(),
            place: service,
        }
    });
    labelled.collect()
}

/// Service and point of each family and service; the services are those that have a point of every family.
fn points(site: &Site) -> BTreeMap<(usize, usize), (String, String)> {
    let mut by: Vec<BTreeMap<String, String>> = Vec::new();
    for capability in CAPABILITIES {
        let all = site
            .ctl(&["point", "list", "--system", SYSTEM, "--capability", capability, "--on-path", "--all"])
            .ok()
            .json();
        let items = all["items"].as_array().unwrap().clone();
        by.push(items.iter().rev().map(|point| (text(&point["service"]), text(&point["id"]))).collect());
    }
    let services: Vec<&String> =
        by[0].keys().filter(|name| by.iter().all(|points| points.contains_key(*name))).collect();
    assert!(services.len() >= SERVICES, "{services:?}");
    let mut points = BTreeMap::new();
    for (family, of) in by.iter().enumerate() {
        for (index, service) in services.iter().take(SERVICES).enumerate() {
            points.insert((family, index), ((*service).clone(), of[*service].clone()));
        }
    }
    points
}

/// Puts a leak into the open part of a pack. Its files are links: what is changed is written anew.
type Plant = fn(&Path, &Labelled);

/// What is planted, and the question that it answers.
const LEAKS: &[(&str, Question, Plant)] = &[
    ("a name", FAULT_OR_NONE, |open, pack| {
        if pack.faulty {
            std::fs::write(open.join("pod_kill.parquet"), b"").unwrap();
        }
    }),
    ("an event", FAULT_OR_NONE, |open, pack| {
        let events = if pack.faulty { json!([{"reason": "Killing"}]) } else { json!([]) };
        edited(&open.join("k8s.json"), "events", events);
    }),
    // Both sides are written by the same writer: nothing but the count differs.
    ("half of the rows", FAULT_OR_NONE, |open, pack| {
        rewritten(&open.join("normal_logs.parquet"), if pack.faulty { 50 } else { 100 }, 1);
    }),
    ("a twentieth of the rows", FAULT_OR_NONE, |open, pack| {
        rewritten(&open.join("normal_logs.parquet"), if pack.faulty { 95 } else { 100 }, 1);
    }),
    // All four mean the same zone; controls have the usual one.
    ("a word for the family", FAMILY, |open, pack| {
        let zones = ["UTC", "GMT", "Zulu", "Etc/UTC"];
        let family = CAPABILITIES.iter().position(|family| *family == pack.family).unwrap();
        edited(&open.join("env.json"), "DB_TIMEZONE", json!(zones[if pack.faulty { family } else { 0 }]));
    }),
    ("a number of row groups for the service", SERVICE, |open, pack| {
        let groups = if pack.faulty { 1 + pack.place } else { 1 };
        rewritten(&open.join("normal_traces.parquet"), 100, groups);
    }),
];

fn edited(file: &Path, key: &str, value: Value) {
    let mut whole: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    whole[key] = value;
    std::fs::remove_file(file).unwrap();
    std::fs::write(file, whole.to_string()).unwrap();
}

/// The metadata of a copy of the pack with a leak in it.
fn with_leak(pack: &Labelled, plant: Plant) -> Metadata {
    let scratch = tempfile::tempdir().unwrap();
    let copy = scratch.path().join(pack.folder.file_name().unwrap());
    for part in ["open", "sealed"] {
        std::fs::create_dir_all(copy.join(part)).unwrap();
        for entry in std::fs::read_dir(pack.folder.join(part)).unwrap().map(Result::unwrap) {
            std::fs::hard_link(entry.path(), copy.join(part).join(entry.file_name())).unwrap();
        }
    }
    std::fs::hard_link(pack.folder.join("sha256sum.txt"), copy.join("sha256sum.txt")).unwrap();
    plant(&copy.join("open"), pack);
    metadata::of(&copy)
}

/// Writes the first so many hundredths of a file's rows, in so many row groups.
fn rewritten(file: &Path, percent: i64, groups: usize) {
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(file).unwrap()).unwrap();
    let (schema, rows) = (reader.schema().clone(), reader.metadata().file_metadata().num_rows());
    let kept = usize::try_from(rows * percent / 100).unwrap();
    let batches = reader.with_batch_size(kept.div_ceil(groups)).with_limit(kept).build().unwrap();
    let batches: Vec<_> = batches.map(Result::unwrap).collect();
    std::fs::remove_file(file).unwrap();
    let mut writer = ArrowWriter::try_new(std::fs::File::create(file).unwrap(), schema, None).unwrap();
    for batch in &batches {
        writer.write(batch).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
}

/// What is asked of the metadata of the packs for which it has a label.
struct Question {
    name: &'static str,
    labels: usize,
    label: fn(&Labelled) -> Option<&str>,
}

const FAULT_OR_NONE: Question =
    Question { name: "fault or none", labels: 2, label: |pack| Some(if pack.faulty { "fault" } else { "none" }) };
const FAMILY: Question =
    Question { name: "which family", labels: CAPABILITIES.len(), label: |pack| pack.faulty.then_some(&pack.family) };
const SERVICE: Question =
    Question { name: "which service", labels: SERVICES, label: |pack| pack.faulty.then_some(&pack.service) };
const QUESTIONS: [Question; 3] = [FAULT_OR_NONE, FAMILY, SERVICE];

/// What is red: each classifier whose interval does not hold chance, or is too wide to say anything.
fn red(question: &Question, packs: &[Labelled], features: &[Metadata]) -> Vec<String> {
    let chance = 1.0 / question.labels as f64;
    let sample = |(pack, features)| {
        let label = (question.label)(pack)?.to_owned();
        Some(Sample { pair: pack.pair, learnt: pack.learnt, features, label })
    };
    let samples: Vec<Sample<'_>> = packs.iter().zip(features).filter_map(sample).collect();
    let mut judged: Vec<(&str, (f64, f64))> =
        CLASSIFIERS.iter().map(|(name, learn)| (*name, judge(&samples, *learn))).collect();
    // Only there the two of a pair have different labels.
    if question.labels == 2 {
        judged.push(("difference within the pair", judge_pairs(&samples)));
    }
    let mut red = Vec::new();
    for (name, (hits, n)) in judged {
        let (low, high) = clopper_pearson(hits, n, CONFIDENCE);
        let (asked, accuracy) = (question.name, hits / n);
        let line = format!("{asked}, {name}: {accuracy:.3} [{low:.3}, {high:.3}], chance {chance:.3}, n {n}");
        println!("{line}");
        let wide = accuracy - low > WIDEST || high - accuracy > WIDEST;
        if wide || chance < low || chance > high {
            red.push(line);
        }
    }
    red
}

/// Predicts a label.
type Model = Box<dyn Fn(&Metadata) -> String>;
type Learn = fn(&[&Sample<'_>]) -> Model;

const CLASSIFIERS: &[(&str, Learn)] = &[("best single feature", best_feature), ("naive Bayes", naive_bayes)];

/// Right answers and questions on the pairs that the classifier did not see. A pair is one question: half of it is right when
/// its two packs look the same.
fn judge(samples: &[Sample<'_>], learn: Learn) -> (f64, f64) {
    let (seen, unseen): (Vec<&Sample<'_>>, Vec<&Sample<'_>>) = samples.iter().partition(|sample| sample.learnt);
    let model = learn(&seen);
    let mut pairs: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for sample in unseen {
        let (hits, packs) = pairs.entry(sample.pair).or_default();
        *hits += f64::from(u8::from(model(sample.features) == sample.label));
        *packs += 1.0;
    }
    (pairs.values().map(|(hits, packs)| hits / packs).sum(), pairs.len() as f64)
}

/// Right answers and questions of whoever holds the two packs of a pair side by side, and knows from other pairs which number
/// is larger where there is a fault, and in how many of them. Two packs come of one environment, so that their normal windows
/// are equal, and a difference too small to be seen from one pack to the next is seen within a pair.
fn judge_pairs(samples: &[Sample<'_>]) -> (f64, f64) {
    let (seen, unseen): (Vec<&[Sample<'_>]>, Vec<&[Sample<'_>]>) = samples.chunks(2).partition(|pair| pair[0].learnt);
    let difference = |pair: &[Sample<'_>], name: &str| {
        let number = |sample: &Sample<'_>| match sample.features.get(name) {
            Some(Feature::Number(value)) => *value,
            _ => 0.0,
        };
        let [faulty, control] = pair else { panic!("a pair has two packs") };
        let difference = number(faulty) - number(control);
        if difference == 0.0 { 0.0 } else { difference.signum() }
    };
    let names: BTreeSet<&String> = samples.iter().flat_map(|sample| sample.features.keys()).collect();
    let sum = |name: &str| seen.iter().map(|pair| difference(pair, name)).sum::<f64>();
    let best = names.into_iter().max_by(|a, b| sum(a).abs().total_cmp(&sum(b).abs())).unwrap();
    let larger = sum(best).signum();
    let hits = unseen.iter().map(|pair| 0.5 + 0.5 * larger * difference(pair, best)).sum();
    (hits, unseen.len() as f64)
}

/// The value of a feature as a class: texts as they are, numbers by quarter of what was seen.
#[derive(Clone)]
struct Classes {
    name: String,
    bounds: Vec<f64>,
}

impl Classes {
    fn all(samples: &[&Sample<'_>]) -> Vec<Self> {
        let names: BTreeSet<&String> = samples.iter().flat_map(|sample| sample.features.keys()).collect();
        names.into_iter().map(|name| Self { name: name.clone(), bounds: bounds(samples, name) }).collect()
    }

    fn of(&self, features: &Metadata) -> String {
        match features.get(&self.name) {
            None => "absent".into(),
            Some(Feature::Text(text)) => text.clone(),
            Some(Feature::Number(value)) => self.bounds.iter().filter(|bound| value > bound).count().to_string(),
        }
    }
}

fn bounds(samples: &[&Sample<'_>], name: &str) -> Vec<f64> {
    let number = |sample: &&Sample<'_>| match sample.features.get(name) {
        Some(Feature::Number(value)) => Some(*value),
        _ => None,
    };
    let mut values: Vec<f64> = samples.iter().filter_map(number).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    // Few values are told apart one by one; many by quarters.
    match values.len() {
        0 => Vec::new(),
        few if few <= 8 => values,
        many => (1..4).map(|quarter| values[many * quarter / 4]).collect(),
    }
}

type Counts = BTreeMap<String, BTreeMap<String, f64>>;

fn count(samples: &[&Sample<'_>], classes: &Classes) -> Counts {
    let mut counts = Counts::new();
    for sample in samples {
        *counts.entry(classes.of(sample.features)).or_default().entry(sample.label.clone()).or_default() += 1.0;
    }
    counts
}

fn most(labels: &BTreeMap<String, f64>) -> (String, f64) {
    let best = labels.iter().max_by(|a, b| a.1.total_cmp(b.1)).unwrap();
    (best.0.clone(), *best.1)
}

/// The one feature that would have been right most often, and for each of its values the label that it goes with.
fn best_feature(samples: &[&Sample<'_>]) -> Model {
    let right = |counts: &Counts| counts.values().map(|labels| most(labels).1).sum::<f64>();
    let tables = Classes::all(samples).into_iter().map(|classes| (count(samples, &classes), classes));
    // A value of its own for each pack is right about all of them and says nothing about the next one.
    let useful = tables.filter(|(counts, _)| counts.len() * 2 <= samples.len());
    let (counts, classes) = useful.max_by(|a, b| right(&a.0).total_cmp(&right(&b.0))).unwrap();
    let fallback = samples[0].label.clone();
    Box::new(move |features| {
        counts.get(&classes.of(features)).map_or_else(|| fallback.clone(), |labels| most(labels).0)
    })
}

/// All features together, as if each spoke for itself.
fn naive_bayes(samples: &[&Sample<'_>]) -> Model {
    let tables: Vec<(Classes, Counts)> =
        Classes::all(samples).into_iter().map(|classes| (classes.clone(), count(samples, &classes))).collect();
    let mut labels: BTreeMap<String, f64> = BTreeMap::new();
    samples.iter().for_each(|sample| *labels.entry(sample.label.clone()).or_default() += 1.0);
    Box::new(move |features| {
        let score = |label: &String, total: f64| {
            let of = |(classes, counts): &(Classes, Counts)| {
                let with =
                    counts.get(&classes.of(features)).and_then(|labels| labels.get(label)).copied().unwrap_or(0.0);
                ((with + 1.0) / (total + counts.len() as f64 + 1.0)).ln()
            };
            total.ln() + tables.iter().map(of).sum::<f64>()
        };
        let best = labels.iter().max_by(|a, b| score(a.0, *a.1).total_cmp(&score(b.0, *b.1)));
        best.unwrap().0.clone()
    })
}
