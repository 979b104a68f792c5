//! `datapack diagnose`, `diff` and `convert`: what the server found, in words.

use std::collections::BTreeSet;

use api::datapack::{Diagnosis, Diff, FileState};
use client::{Client, Failure};
use model::counted;

use crate::error::Exit;
use crate::output::Format;
use crate::session::Session;

/// Ends with success only when the datapack is healthy.
pub fn diagnose(session: &Session, client: &Client, name: &str) -> Result<Exit, Failure> {
    let found = client.diagnose(name)?;
    if session.out.format == Format::Table {
        print_diagnosis(session, &found)?;
    } else {
        session.out.document(&found)?;
    }
    Ok(if found.health == "healthy" { Exit::Success } else { Exit::WorkflowFailed })
}

/// The verdict and the reasons as sentences, then what each window holds of each signal.
fn print_diagnosis(session: &Session, found: &Diagnosis) -> Result<(), Failure> {
    session.out.write(&format!("{} ({}): {}\n\n", found.injection_name, found.injection_id, found.health))?;
    for note in &found.notes {
        session.out.write(&format!("- {note}\n"))?;
    }
    if found.parquets.is_empty() {
        return Ok(());
    }
    session.out.write("\n")?;
    session.out.grid(&["SIGNAL", "NORMAL ROWS", "ABNORMAL ROWS", "BYTES"], &by_signal(&found.parquets))
}

/// One line for each signal. The files of a signal are named for their window first.
fn by_signal(files: &[FileState]) -> Vec<Vec<String>> {
    let of = |file: &FileState| file.name.split_once('_').map(|(_, rest)| rest.to_owned());
    let names: BTreeSet<String> = files.iter().filter_map(of).collect();
    let line = |name: &String| {
        let side = |window: &str| files.iter().find(|file| file.name == format!("{window}_{name}"));
        let (normal, abnormal) = (side("normal"), side("abnormal"));
        let bytes: u64 = [normal, abnormal].into_iter().flatten().filter_map(|file| file.size).sum();
        let signal = name.trim_end_matches(".parquet").to_owned();
        vec![signal, rows(normal), rows(abnormal), bytes.to_string()]
    };
    names.iter().map(line).collect()
}

fn rows(file: Option<&FileState>) -> String {
    match file {
        Some(FileState { problem: Some(_), .. }) => "wrong".into(),
        Some(FileState { rows: Some(rows), .. }) => rows.to_string(),
        _ => "missing".into(),
    }
}

/// Ends with success only when the datapacks are the same.
pub fn diff(session: &Session, client: &Client, left: &str, right: &str) -> Result<Exit, Failure> {
    let query = api::datapack::DiffQuery { left: left.to_owned(), right: right.to_owned() };
    let found = client.diff(&query)?;
    if session.out.format == Format::Table {
        session.out.write(&in_words(&found, left, right))?;
    } else {
        session.out.document(&found)?;
    }
    Ok(if found.same { Exit::Success } else { Exit::WorkflowFailed })
}

fn in_words(found: &Diff, left: &str, right: &str) -> String {
    if found.same {
        return format!("{left} and {right} hold the same\n");
    }
    let mut text = String::new();
    if !found.equal.is_empty() {
        text.push_str(&format!("equal: {}\n", found.equal.join(", ")));
    }
    for table in &found.tables {
        let rows: Vec<String> = table.rows.iter().map(u64::to_string).collect();
        text.push_str(&format!("{}: {} rows\n", table.file, rows.join(" and ")));
        for column in &table.columns {
            text.push_str(&format!("  column {column}\n"));
        }
        match &table.first {
            Some(cell) => {
                let attribute = cell.attribute.as_ref().map(|name| format!(", `{name}`")).unwrap_or_default();
                let place = format!("row {}, column {}{attribute}", cell.row, cell.column);
                text.push_str(&format!("  first in {place}: {} and {}\n", short(&cell.left), short(&cell.right)));
            }
            None if table.columns.is_empty() => text.push_str("  one is the beginning of the other\n"),
            None => {}
        }
    }
    for document in &found.documents {
        let at = if document.at.is_empty() { "/" } else { &document.at };
        let [left, right] = [&document.left, &document.right].map(|value| short(&value.to_string()));
        text.push_str(&format!("{}: at {at}: {left} and {right}\n", document.file));
    }
    text
}

/// A value as far as a line has room for it; `-o json` has all of it.
fn short(value: &str) -> String {
    const ROOM: usize = 100;
    match value.char_indices().nth(ROOM) {
        Some((end, _)) => format!("`{}…`", &value[..end]),
        None => format!("`{value}`"),
    }
}

pub fn convert(session: &Session, client: &Client, name: &str) -> Result<Exit, Failure> {
    let found = client.convert(name)?;
    session.out.record(&found, || vec![("Datapack", found.name.clone()), ("Files", found.files.join("\n"))])?;
    session.out.say(format!("attached {} to {}", counted(found.files.len(), "file"), found.name));
    Ok(Exit::Success)
}
