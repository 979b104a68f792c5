//! Nothing in a pack's open part may give the answer away.
//!
//! Looked at: the file set, parquet footers and schemas, the key sets of the JSON files, and every text value. A word of a
//! fault tool, or one that the caller forbids, is a leak wherever it stands. A word that an application may use as well is
//! a leak only when the abnormal window has it and the normal window has not. Numbers are symptoms and are not looked at;
//! events of Kubernetes name what was done to a pod and are a leak as such.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::hash::BuildHasher;
use std::path::Path;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use foldhash::fast::FixedState;
use model::{ErrorKind, Problem, Result, Window};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde::Serialize;
use serde_json::Value;

use crate::disk::{corrupt, failed, list, read};
use crate::parquet_file::CREATED_BY;
use crate::schema::{Signal, files};
use crate::{ENV_FILE, INJECTION_FILE, K8S_FILE};

/// Words of tools that inject faults; no benchmark system has them by itself.
const TOOL_WORDS: [&str; 9] = [
    "chaos",
    "stress-ng",
    "stressng",
    "byteman",
    "toxiproxy",
    "fault injection",
    "fault-injection",
    "fault_injection",
    "faultinject",
];

/// Words that applications use too.
const GENERIC_WORDS: [&str; 2] = ["injected", "injection"];

/// An event of Kubernetes that arrived as a log record. Quotes inside values are escaped, so only a real pair matches.
const EVENT_PAIR: &str = r#""event.domain":"k8s""#;

/// The keys of `env.json`, in order.
pub const ENV_KEYS: [&str; 6] =
    ["NAMESPACE", "DB_TIMEZONE", "NORMAL_START", "NORMAL_END", "ABNORMAL_START", "ABNORMAL_END"];

/// One thing that gives the answer away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// File, and column or key.
    pub place: String,
    /// What it is: a word, an unexpected key, an unexpected file, ...
    pub what: String,
    /// The text around it, shortened.
    pub found: String,
    /// In how many distinct texts.
    pub count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Always,
    OnlyAbnormal,
}

/// The words that are looked for.
pub struct Lexicon {
    search: AhoCorasick,
    words: Vec<(String, Rule)>,
}

impl Lexicon {
    /// The built-in words and the caller's, compared without regard to case. Underscores of the caller's words match
    /// hyphens as well.
    pub fn new(forbidden: &[String]) -> Self {
        let mut words: Vec<(String, Rule)> = TOOL_WORDS.iter().map(|&word| (word.to_owned(), Rule::Always)).collect();
        words.push((EVENT_PAIR.to_owned(), Rule::Always));
        words.extend(GENERIC_WORDS.iter().map(|&word| (word.to_owned(), Rule::OnlyAbnormal)));
        for word in forbidden.iter().filter(|word| !word.is_empty()) {
            for form in [word.clone(), word.replace('_', "-")] {
                if !words.iter().any(|(known, _)| *known == form) {
                    words.push((form, Rule::Always));
                }
            }
        }
        let search = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(words.iter().map(|(word, _)| word.as_str()))
            .expect("a list of short words fits into an automaton");
        Self { search, words }
    }

    /// Words of one text that is the same in both windows, such as `k8s.json`.
    fn scan_text(&self, place: &str, text: &str, findings: &mut Vec<Finding>) {
        let mut tally = Tally::default();
        self.search_in("", text, &mut tally);
        for ((word, _), hit) in tally.hits {
            let (word, rule) = &self.words[word];
            // Clusters use "injection" for side-cars; "injected" is only said of something that was done.
            if *rule == Rule::Always || word == "injected" {
                findings.push(finding(place.to_owned(), word, hit));
            }
        }
    }

    fn search_in(&self, column: &'static str, text: &str, tally: &mut Tally) {
        for found in self.search.find_overlapping_iter(text) {
            let hit = tally.hits.entry((found.pattern().as_usize(), column)).or_default();
            hit.count += 1;
            if hit.example.is_empty() {
                hit.example = around(text, found.start(), found.end());
            }
        }
    }

    /// Looks at the text columns of a batch that has the signal's schema. Each distinct text is looked at once.
    pub(crate) fn scan_batch(&self, signal: Signal, batch: &RecordBatch, tally: &mut Tally) {
        for (column, array) in signal.table().columns.iter().zip(batch.columns()) {
            if column.kind.is_text() {
                self.scan_column(column.name, array.as_string::<i32>(), tally);
            }
        }
    }

    fn scan_column(&self, column: &'static str, array: &StringArray, tally: &mut Tally) {
        let mut seen = tally.seen.remove(column).unwrap_or_default();
        for row in 0..array.len() {
            let text = array.value(row);
            if seen.insert(FixedState::default().hash_one(text)) {
                self.search_in(column, text, tally);
            }
        }
        tally.seen.insert(column, seen);
    }

    /// The findings behind the tallies of both windows.
    pub(crate) fn judge(&self, tallies: &[(Window, Signal, Tally)]) -> Vec<Finding> {
        let normal: HashSet<usize> = tallies
            .iter()
            .filter(|(window, ..)| *window == Window::Normal)
            .flat_map(|(_, _, tally)| tally.hits.keys().map(|(word, _)| *word))
            .collect();
        let mut findings = Vec::new();
        for (window, signal, tally) in tallies {
            for (&(word, column), hit) in &tally.hits {
                let own = self.words[word].1 == Rule::OnlyAbnormal && normal.contains(&word);
                if !own {
                    let place = format!("{}: {column}", signal.file(*window));
                    findings.push(finding(place, &self.words[word].0, hit.clone()));
                }
            }
        }
        findings
    }
}

/// What was found in one file.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    hits: BTreeMap<(usize, &'static str), Hit>,
    seen: BTreeMap<&'static str, HashSet<u64>>,
}

#[derive(Debug, Default, Clone)]
struct Hit {
    count: u64,
    example: String,
}

fn finding(place: String, word: &str, hit: Hit) -> Finding {
    let what = if word == EVENT_PAIR { "an event of Kubernetes".to_owned() } else { format!("the word `{word}`") };
    Finding { place, what, found: hit.example, count: hit.count }
}

/// At most 30 bytes either side of a hit, cut at character boundaries.
fn around(text: &str, start: usize, end: usize) -> String {
    let from = text.floor_char_boundary(start.saturating_sub(30));
    let to = text.ceil_char_boundary((end + 30).min(text.len()));
    text[from..to].to_owned()
}

/// Looks at an open part on disk.
///
/// # Errors
/// `datapack.file_missing`, `datapack.file_corrupt` when a file cannot be read.
pub fn lint(open: &Path, forbidden: &[String]) -> Result<Vec<Finding>> {
    let lexicon = Lexicon::new(forbidden);
    let mut findings = lint_documents(open, &lexicon)?;
    let mut tallies = Vec::new();
    for (window, signal) in files() {
        let mut tally = Tally::default();
        lint_parquet(open, window, signal, &lexicon, &mut tally, &mut findings)?;
        tallies.push((window, signal, tally));
    }
    findings.extend(lexicon.judge(&tallies));
    Ok(findings)
}

/// The file set, the JSON files and their key sets.
pub(crate) fn lint_documents(open: &Path, lexicon: &Lexicon) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut expected: Vec<String> = files().map(|(window, signal)| signal.file(window)).collect();
    expected.extend([ENV_FILE, K8S_FILE, INJECTION_FILE].map(str::to_owned));
    for name in list(open)? {
        lexicon.scan_text("file names", &name, &mut findings);
        if !expected.contains(&name) {
            findings.push(extra("file names", "a file that no open part has", &name));
        }
    }
    for (file, keys) in [(ENV_FILE, Some(&ENV_KEYS[..])), (INJECTION_FILE, Some(&["name"][..])), (K8S_FILE, None)] {
        let path = open.join(file);
        let text = String::from_utf8(read(&path)?).map_err(|error| corrupt(&path, error))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| corrupt(&path, error))?;
        let Some(map) = value.as_object() else { return Err(corrupt(&path, "not a JSON object")) };
        lexicon.scan_text(file, &text, &mut findings);
        let unexpected = map.keys().filter(|key| keys.map_or(*key == "events", |keys| !keys.contains(&key.as_str())));
        findings.extend(unexpected.map(|key| extra(file, "a key that gives more than it should", key)));
    }
    Ok(findings)
}

fn extra(place: &str, what: &str, found: &str) -> Finding {
    Finding { place: place.to_owned(), what: what.to_owned(), found: found.to_owned(), count: 1 }
}

fn lint_parquet(
    open: &Path,
    window: Window,
    signal: Signal,
    lexicon: &Lexicon,
    tally: &mut Tally,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let name = signal.file(window);
    let path = open.join(&name);
    let file = File::open(&path).map_err(failed(&path))?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| corrupt(&path, error))?;
    let footer = builder.metadata().file_metadata();
    let writer = footer.created_by().unwrap_or_default();
    if writer != CREATED_BY {
        findings.push(extra(&format!("{name}: footer"), "another writer", writer));
    }
    for pair in footer.key_value_metadata().into_iter().flatten() {
        findings.push(extra(&format!("{name}: footer"), "a key", &pair.key));
    }
    let want = signal.table().schema();
    if builder.schema().fields() != want.fields() {
        let names: Vec<&str> = builder.schema().fields().iter().map(|field| field.name().as_str()).collect();
        findings.push(extra(&format!("{name}: schema"), "other columns than the format has", &names.join(", ")));
        return Ok(());
    }
    for batch in builder.build().map_err(|error| corrupt(&path, error))? {
        lexicon.scan_batch(signal, &batch.map_err(|error| corrupt(&path, error))?, tally);
    }
    Ok(())
}

/// The refusal of a pack that gives the answer away.
pub(crate) fn problem(findings: &[Finding]) -> Option<Problem> {
    let first = findings.first()?;
    let more = if findings.len() > 1 { format!(", and {} more findings", findings.len() - 1) } else { String::new() };
    let found = format!("{} in {} texts: `{}`{more}", first.what, first.count, first.found);
    Some(
        Problem::new(ErrorKind::Failed, "datapack.leak", "the open part gives the answer away")
            .place(first.place.clone())
            .found(found)
            .expected("nothing that names the fault or its tool")
            .fix("leave the record or object out at its source"),
    )
}
