//! In what two packs differ: files, columns, rows, and the first cell.

use std::fs::File;
use std::path::Path;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::error::ArrowError;
use model::{Result, Window};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::disk::{corrupt, failed, read};
use crate::pack::{OPEN, Pack, SEALED, TRUTH_FILE};
use crate::schema::{Signal, files};
use crate::shown;
use crate::{ENV_FILE, K8S_FILE};

/// Rows that are compared at a time; both sides give them in the same steps.
const BATCH_ROWS: usize = 8192;

/// What stands in the place of no value.
const ABSENT: &str = "absent";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diff {
    /// Whether the open parts, the truths and the manifests' contents are equal. Ids and times of the builds may differ.
    pub same: bool,
    /// Files that are equal, byte for byte.
    pub equal: Vec<String>,
    pub tables: Vec<TableDiff>,
    pub documents: Vec<DocumentDiff>,
}

/// A parquet file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableDiff {
    pub file: String,
    /// Columns that one side lacks or has in another type, as `name: left / right`.
    pub columns: Vec<String>,
    /// Rows of the left and of the right side.
    pub rows: [u64; 2],
    /// Absent when one side is the beginning of the other, or when the bytes alone differ.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first: Option<Cell>,
}

/// The first cell that differs, in the files' order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Counted from zero.
    pub row: u64,
    pub column: String,
    /// Of a column of attributes: the first attribute that differs, whose values the sides are then.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub attribute: Option<String>,
    pub left: String,
    pub right: String,
}

/// A JSON file that differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DocumentDiff {
    pub file: String,
    /// The first place where they differ, as a JSON pointer.
    pub at: String,
    pub left: Value,
    pub right: Value,
}

/// Compares two packs.
///
/// # Errors
/// `datapack.file_missing`, `datapack.file_corrupt`.
pub fn diff(left: &Pack, right: &Pack) -> Result<Diff> {
    let compare = |(window, signal): (Window, Signal)| {
        let name = signal.file(window);
        let (a, b) = (left.open_part().join(&name), right.open_part().join(&name));
        Ok((name.clone(), table(name, signal, &a, &b)?))
    };
    let compared = files().collect::<Vec<_>>().into_par_iter().map(compare).collect::<Result<Vec<_>>>()?;
    let mut result = Diff { same: true, equal: Vec::new(), tables: Vec::new(), documents: Vec::new() };
    for (name, found) in compared {
        match found {
            Some(found) => result.tables.push(found),
            None => result.equal.push(name),
        }
    }
    let truth = format!("{SEALED}/{TRUTH_FILE}");
    for name in [format!("{OPEN}/{ENV_FILE}"), format!("{OPEN}/{K8S_FILE}"), truth] {
        let short = name.rsplit('/').next().unwrap_or(&name).to_owned();
        match document(&short, &left.folder().join(&name), &right.folder().join(&name))? {
            Some(found) => result.documents.push(found),
            None => result.equal.push(short),
        }
    }
    result.same = result.tables.is_empty() && result.documents.is_empty();
    Ok(result)
}

/// Nothing when the files are equal.
fn table(name: String, signal: Signal, left: &Path, right: &Path) -> Result<Option<TableDiff>> {
    if crate::disk::digest(left)? == crate::disk::digest(right)? {
        return Ok(None);
    }
    let (a, b) = (reader(left)?, reader(right)?);
    let rows = [&a, &b].map(|reader| {
        u64::try_from(reader.metadata().file_metadata().num_rows())
            .expect("a file was read that has fewer than no rows")
    });
    let columns = other_columns(signal, &a, &b);
    let build =
        |reader: Reader, path: &Path| reader.with_batch_size(BATCH_ROWS).build().map_err(|error| corrupt(path, error));
    let first = match columns.is_empty() {
        true => first_cell(build(a, left)?, build(b, right)?, left, right)?,
        false => None,
    };
    Ok(Some(TableDiff { file: name, columns, rows, first }))
}

type Reader = ParquetRecordBatchReaderBuilder<File>;

fn reader(path: &Path) -> Result<Reader> {
    let file = File::open(path).map_err(failed(path))?;
    Reader::try_new(file).map_err(|error| corrupt(path, error))
}

fn other_columns(signal: Signal, a: &Reader, b: &Reader) -> Vec<String> {
    let kind = |reader: &Reader, name: &str| {
        let field = reader.schema().field_with_name(name);
        field.map_or_else(|_| "absent".to_owned(), |field| field.data_type().to_string())
    };
    let known = signal.table().columns.iter().map(|column| column.name.to_owned());
    let found = [a, b].into_iter().flat_map(|reader| reader.schema().fields().iter().map(|field| field.name().clone()));
    let mut names: Vec<String> = Vec::new();
    for name in known.chain(found) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let differs = |name: &String| {
        let (left, right) = (kind(a, name), kind(b, name));
        (left != right).then(|| format!("{name}: {left} / {right}"))
    };
    names.iter().filter_map(differs).collect()
}

fn first_cell(
    mut left: ParquetRecordBatchReader,
    mut right: ParquetRecordBatchReader,
    left_path: &Path,
    right_path: &Path,
) -> Result<Option<Cell>> {
    let mut before = 0;
    loop {
        let (a, b) = (left.next(), right.next());
        let a = a.transpose().map_err(|error| corrupt(left_path, error))?;
        let b = b.transpose().map_err(|error| corrupt(right_path, error))?;
        let (Some(a), Some(b)) = (a, b) else { return Ok(None) };
        let rows = a.num_rows().min(b.num_rows());
        if let Some(cell) = first_in(&a.slice(0, rows), &b.slice(0, rows), before) {
            return Ok(Some(cell));
        }
        before += rows as u64;
    }
}

/// The first differing cell of two batches of as many rows: the lowest row, then the leftmost column.
fn first_in(left: &RecordBatch, right: &RecordBatch, before: u64) -> Option<Cell> {
    let schema = left.schema();
    let mut first: Option<(usize, usize)> = None;
    for (index, (a, b)) in left.columns().iter().zip(right.columns()).enumerate() {
        if a.as_ref() == b.as_ref() {
            continue;
        }
        let until = first.map_or(a.len(), |(row, _)| row);
        if let Some(row) = (0..until).find(|&row| a.slice(row, 1).as_ref() != b.slice(row, 1).as_ref()) {
            first = Some((row, index));
        }
    }
    let (row, index) = first?;
    let shown = |batch: &RecordBatch| {
        let options = shown::options(ABSENT);
        let text = |plain: ArrayRef| Ok(shown::cells(&plain, &options)?.value(row).to_string());
        let text = shown::plain(batch.column(index)).and_then(text);
        text.unwrap_or_else(|error: ArrowError| error.to_string())
    };
    let (left, right) = (shown(left), shown(right));
    let cell =
        Cell { row: before + row as u64, column: schema.field(index).name().clone(), attribute: None, left, right };
    Some(in_attributes(&cell).unwrap_or(cell))
}

/// The attribute that makes two cells differ, where the cells are objects of attributes.
fn in_attributes(cell: &Cell) -> Option<Cell> {
    let parse = |text: &str| serde_json::from_str::<Map<String, Value>>(text).ok();
    let (left, right) = (parse(&cell.left)?, parse(&cell.right)?);
    let key = left.keys().chain(right.keys()).filter(|key| left.get(*key) != right.get(*key)).min()?;
    let shown = |side: &Map<String, Value>| match side.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => ABSENT.to_owned(),
    };
    Some(Cell { attribute: Some(key.clone()), left: shown(&left), right: shown(&right), ..cell.clone() })
}

fn document(name: &str, left: &Path, right: &Path) -> Result<Option<DocumentDiff>> {
    let parse =
        |path: &Path| -> Result<Value> { serde_json::from_slice(&read(path)?).map_err(|error| corrupt(path, error)) };
    let (a, b) = (parse(left)?, parse(right)?);
    let found = first_place(&a, &b, String::new());
    Ok(found.map(|(at, left, right)| DocumentDiff { file: name.to_owned(), at, left, right }))
}

fn first_place(a: &Value, b: &Value, at: String) -> Option<(String, Value, Value)> {
    match (a, b) {
        (Value::Object(left), Value::Object(right)) => {
            let mut keys: Vec<&String> = left.keys().chain(right.keys()).collect();
            keys.sort();
            keys.dedup();
            keys.into_iter().find_map(|key| {
                let [a, b] = [left, right].map(|map| map.get(key).unwrap_or(&Value::Null));
                first_place(a, b, format!("{at}/{key}"))
            })
        }
        (Value::Array(left), Value::Array(right)) => (0..left.len().max(right.len())).find_map(|index| {
            let [a, b] = [left, right].map(|list| list.get(index).unwrap_or(&Value::Null));
            first_place(a, b, format!("{at}/{index}"))
        }),
        _ if a == b => None,
        _ => Some((at, a.clone(), b.clone())),
    }
}
