//! A diagnosis in sentences: the verdict, what is wrong with its probable cause, and what was measured.

use std::collections::BTreeMap;

use model::{PackState, Window, Windows, counted};

use super::{Diagnosis, Health, Skew};
use crate::quality::{Quality, SignalQuality};
use crate::schema::Signal;

/// A silence that is worth a sentence.
const LONG_GAP_NS: u64 = 15_000_000_000;

/// What is wrong first.
pub(super) fn notes(diagnosis: &Diagnosis, state: PackState, windows: &Windows) -> Vec<String> {
    let mut notes = vec![verdict(diagnosis, state)];
    for file in diagnosis.parquets.iter().chain(&diagnosis.json) {
        if let Some(problem) = &file.problem {
            notes.push(format!("{}: {problem}", file.name));
        }
    }
    if !diagnosis.unexpected_extras.is_empty() {
        notes.push(format!("files that no datapack has: {}", diagnosis.unexpected_extras.join(", ")));
    }
    let Some(quality) = &diagnosis.quality else {
        notes.push("what was measured when it was built is left out: the files are not those any more".to_owned());
        return notes;
    };
    for finding in &quality.findings {
        notes.push(format!(
            "{}: {} ({}, expected {}); probable cause: {}",
            finding.place, finding.message, finding.found, finding.expected, finding.cause
        ));
    }
    notes.extend(diagnosis.clock_skew.iter().map(skewed));
    notes.extend(Window::BOTH.map(|window| covered(quality, window, windows)));
    notes.extend(Window::BOTH.iter().flat_map(|&window| repeated_and_silent(quality, window)));
    notes.extend(untraced(quality));
    notes.extend(lacking(quality));
    notes
}

fn verdict(diagnosis: &Diagnosis, state: PackState) -> String {
    match diagnosis.health {
        Health::NotBuilt => format!("the datapack is not built: its state is {state}"),
        Health::StateInconsistent => format!("the state {state} and the files do not agree"),
        Health::Incomplete if diagnosis.missing_files.is_empty() => "files are not what was built".to_owned(),
        Health::Incomplete => format!("files are missing: {}", diagnosis.missing_files.join(", ")),
        Health::EmptyParquets => format!("required signals are empty: {}", diagnosis.empty_parquets.join(", ")),
        Health::Healthy => "every file is what was built, and no required signal is empty".to_owned(),
    }
}

fn skewed(skew: &Skew) -> String {
    format!(
        "{}: {} of its {} begin before the span that calls them, by up to {:.1} ms: its clock runs behind its callers'",
        skew.service,
        skew.early,
        counted(skew.calls, "called span"),
        skew.worst_ns as f64 / 1e6,
    )
}

/// How much of a window its records cover, and how much happened in it.
fn covered(quality: &Quality, window: Window, windows: &Windows) -> String {
    let (measured, (from, to)) = (quality.window(window), windows.bounds(window));
    let rows: u64 = measured.signals.values().map(|signal| signal.rows).sum();
    let seconds = |nanoseconds: i64| nanoseconds as f64 / 1e9;
    let reach = match (measured.first, measured.last) {
        (Some(first), Some(last)) => format!(
            " from {:.1} s after its start to {:.1} s before its end",
            seconds(first - from.0),
            seconds(to.0 - last)
        ),
        _ => String::new(),
    };
    format!(
        "the {} window of {:.0} s has {}{reach}, and {}",
        window.as_str(),
        seconds(to.0 - from.0),
        counted(rows, "record"),
        counted(measured.root_spans, "root span"),
    )
}

fn repeated_and_silent(quality: &Quality, window: Window) -> Vec<String> {
    let name = window.as_str();
    let mut notes = Vec::new();
    for (signal, measured) in &quality.window(window).signals {
        if measured.duplicates > 0 {
            notes.push(format!(
                "{} of {signal} in the {name} window equal another",
                counted(measured.duplicates, "row")
            ));
        }
        if measured.rows > 0 && *signal != Signal::TraceIdTs && measured.longest_gap_ns > LONG_GAP_NS {
            let seconds = measured.longest_gap_ns as f64 / 1e9;
            notes.push(format!("no {signal} for {seconds:.1} s in the {name} window"));
        }
    }
    notes
}

fn untraced(quality: &Quality) -> Vec<String> {
    let [normal, abnormal] = Window::BOTH.map(|window| quality.window(window).services_without_traces.as_slice());
    let told = |names: &[String], where_: &str| {
        (!names.is_empty()).then(|| format!("no traces {where_}: {}", names.join(", ")))
    };
    if normal == abnormal {
        return told(normal, "in either window").into_iter().collect();
    }
    let each = [told(normal, "in the normal window"), told(abnormal, "in the abnormal window")];
    each.into_iter().flatten().collect()
}

/// Attributes that not every record has; both windows in one sentence.
fn lacking(quality: &Quality) -> Vec<String> {
    let share = |window: Window, signal: Signal, name: &str| {
        let found = quality.window(window).signals.get(&signal).filter(|measured| measured.rows > 0);
        found.and_then(|measured: &SignalQuality| measured.attributes.get(name).copied())
    };
    let mut places: BTreeMap<(&str, Signal), [Option<f64>; 2]> = BTreeMap::new();
    for window in Window::BOTH {
        for (&signal, measured) in &quality.window(window).signals {
            for name in measured.attributes.keys() {
                places.entry((name, signal)).or_insert_with(|| Window::BOTH.map(|window| share(window, signal, name)));
            }
        }
    }
    let note = |((name, signal), shares): ((&str, Signal), [Option<f64>; 2])| {
        let text =
            |share: Option<f64>| share.map_or_else(|| "none".to_owned(), |share| format!("{:.1} %", share * 100.0));
        shares.iter().flatten().any(|share| *share < 1.0).then(|| {
            let [normal, abnormal] = shares.map(text);
            format!("`{name}` is on {normal} of {signal} in the normal window and {abnormal} in the abnormal one")
        })
    };
    places.into_iter().filter_map(note).collect()
}
