//! The layout of [`Pack::export_csv`], whoever wrote it, back into a labelled pack of origin `imported`.
//!
//! Nothing is guessed: every column of the [table](crate::Table) is there under its name, and a cell is what the export would
//! have written. The windows and the profile are those of `manifest.json`, the truth is that of `truth.json`. Times of
//! traces are derived again.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int32Array, ListBuilder, RecordBatch, StringArray, TimestampNanosecondArray, UInt8Array,
    UInt64Array,
};
use arrow::array::{Float64Builder, UInt64Builder};
use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use arrow::datatypes::{DataType, Field};
use csv::StringRecord;
use model::{ErrorKind, Problem, Result, Slot, SystemCode, Truth, Window};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::disk::{corrupt, list, read};
use crate::input::{InMemory, PackInput};
use crate::manifest::{Manifest, check_truth};
use crate::pack::{MANIFEST_FILE, Pack, TRUTH_FILE};
use crate::rcaeval::{Import, Imported, malformed, table as malformed_table, there as is_there};
use crate::schema::{Column, Kind, Signal};
use crate::{Builder, INJECTION_FILE, K8S_FILE};

/// Rows that are made into arrays at a time.
const BATCH_ROWS: usize = 8192;

/// The exported packs in a folder, which may be one itself.
///
/// # Errors
/// `import.folder_missing`, `import.no_case`.
pub fn csv_cases(folder: &Path) -> Result<Vec<PathBuf>> {
    let is_case = |folder: &Path| folder.join(MANIFEST_FILE).is_file() && folder.join(csv_name(FIRST)).is_file();
    is_there(folder)?;
    if is_case(folder) {
        return Ok(vec![folder.to_owned()]);
    }
    let found: Vec<PathBuf> =
        list(folder)?.iter().map(|name| folder.join(name)).filter(|folder| is_case(folder)).collect();
    if found.is_empty() {
        return Err(Problem::new(ErrorKind::Invalid, "import.no_case", "there is no exported datapack in the folder")
            .place(folder.display().to_string())
            .expected(format!("`<name>/{MANIFEST_FILE}` beside `<name>/{}`", csv_name(FIRST))));
    }
    Ok(found)
}

const FIRST: (Window, Signal) = (Window::Normal, Signal::Traces);

/// Builds and publishes the pack in the folder `packs`. Under another name it is the pack that was exported.
///
/// # Errors
/// `import.file_missing`, `import.table_malformed`, `import.column_missing`, `import.cell_malformed`,
/// `import.fault_unnamed`, `datapack.file_corrupt`, `datapack.truth_service_twice`, and what building refuses.
pub fn import_csv(case: &Path, import: &Import, packs: &Path) -> Result<(Pack, Imported)> {
    let manifest: Manifest = document(&case.join(MANIFEST_FILE))?;
    let truth: Truth = document(&case.join(TRUTH_FILE))?;
    check_truth(&truth).map_err(|problem| problem.place(case.join(TRUTH_FILE).display().to_string()))?;
    let mut source = InMemory::default();
    for window in Window::BOTH {
        for signal in Signal::SOURCED {
            let batches = table(&case.join(csv_name((window, signal))), signal)?;
            source.replace(window, signal, batches);
        }
    }
    let input = input(case, import, &manifest, truth)?;
    let fault = input.injection.get("fault_type").and_then(Value::as_str).map(str::to_owned);
    let fault = fault.ok_or_else(|| {
        Problem::new(
            ErrorKind::Invalid,
            "import.fault_unnamed",
            "the injection of the exported datapack names no fault",
        )
        .place(case.join(INJECTION_FILE).display().to_string())
        .expected("a text `fault_type`, `none` for a run without a fault")
    })?;
    let service = input.truth.roots().join("+");
    let pack = Builder::new(packs, input)?.build(&source).map_err(Problem::from)?.publish()?;
    let report = Imported::of(&pack, case, service, fault);
    Ok((pack, report))
}

/// The system whose pack was exported.
///
/// # Errors
/// `import.file_missing`, `datapack.file_corrupt`.
pub fn system_of(case: &Path) -> Result<SystemCode> {
    Ok(document::<Manifest>(&case.join(MANIFEST_FILE))?.content.system)
}

fn csv_name((window, signal): (Window, Signal)) -> String {
    Path::new(&signal.file(window)).with_extension("csv").display().to_string()
}

fn document<T: DeserializeOwned>(path: &Path) -> Result<T> {
    there(path)?;
    serde_json::from_slice(&read(path)?).map_err(|error| corrupt(path, error))
}

fn there(path: &Path) -> Result<()> {
    if path.is_file() {
        return Ok(());
    }
    Err(Problem::new(ErrorKind::Invalid, "import.file_missing", "the exported datapack lacks a file")
        .place(path.display().to_string()))
}

/// What was recorded of the run, under the new name and number.
fn input(case: &Path, import: &Import, manifest: &Manifest, truth: Truth) -> Result<PackInput> {
    let provenance = &manifest.provenance;
    let mut injection: Map<String, Value> = document(&case.join(INJECTION_FILE))?;
    injection.insert("id".into(), import.number.0.into());
    injection.insert("source".into(), "imported".into());
    let capability = |fault: &Value| fault.get("capability").and_then(Value::as_str).map(str::to_owned);
    Ok(PackInput {
        slot: Slot::new(import.system.clone(), manifest.content.slot),
        number: import.number,
        windows: manifest.content.windows,
        profile: manifest.content.profile.clone(),
        k8s: document(&case.join(K8S_FILE))?,
        injection,
        truth,
        faults: provenance.faults.clone(),
        witness: provenance.witness.clone(),
        receipt: provenance.receipt.clone(),
        provenance: Map::from_iter([
            ("origin".to_owned(), "imported".into()),
            ("format".to_owned(), "csv".into()),
            ("case".to_owned(), provenance.name.clone().into()),
        ]),
        forbidden: provenance.faults.iter().filter_map(capability).collect(),
    })
}

/// The rows of one file.
fn table(path: &Path, signal: Signal) -> Result<Vec<RecordBatch>> {
    there(path)?;
    let mut reader = csv::Reader::from_path(path).map_err(malformed_table(path))?;
    let header = reader.headers().map_err(malformed_table(path))?.clone();
    let columns = signal.table().columns;
    let places = columns.iter().map(|column| place(path, &header, columns, column)).collect::<Result<Vec<_>>>()?;
    let mut batches = Vec::new();
    loop {
        let records = some_records(path, &mut reader)?;
        if records.is_empty() {
            return Ok(batches);
        }
        let arrays = columns.iter().zip(&places).map(|(column, &at)| Cells { path, column, at }.array(&records));
        let batch = RecordBatch::try_new(signal.table().schema(), arrays.collect::<Result<_>>()?);
        batches.push(batch.expect("the columns are those of the table, in its order"));
    }
}

fn place(path: &Path, header: &StringRecord, columns: &[Column], column: &Column) -> Result<usize> {
    header.iter().position(|name| name == column.name).ok_or_else(|| {
        Problem::new(ErrorKind::Invalid, "import.column_missing", "the file lacks a column")
            .place(format!("{}: {}", path.display(), column.name))
            .found(header.iter().collect::<Vec<_>>().join(", "))
            .expected(columns.iter().map(|column| column.name).collect::<Vec<_>>().join(", "))
    })
}

fn some_records(path: &Path, reader: &mut csv::Reader<File>) -> Result<Vec<StringRecord>> {
    reader.records().take(BATCH_ROWS).collect::<Result<_, _>>().map_err(malformed_table(path))
}

/// The cells of one column.
struct Cells<'a> {
    path: &'a Path,
    column: &'a Column,
    at: usize,
}

impl Cells<'_> {
    fn array(&self, records: &[StringRecord]) -> Result<ArrayRef> {
        Ok(match self.column.kind {
            Kind::Time => {
                let times = self.each(records, |text| string_to_timestamp_nanos(text).ok())?;
                Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC"))
            }
            Kind::Text | Kind::Id | Kind::Json => {
                Arc::new(StringArray::from_iter_values(records.iter().map(|record| self.text(record))))
            }
            Kind::U8 => Arc::new(UInt8Array::from_iter_values(self.each(records, |text| text.parse().ok())?)),
            Kind::U64 => Arc::new(UInt64Array::from_iter_values(self.each(records, |text| text.parse().ok())?)),
            Kind::I32 => Arc::new(Int32Array::from_iter_values(self.each(records, |text| text.parse().ok())?)),
            Kind::F64 => Arc::new(Float64Array::from(self.each(records, |text| self.double(text))?)),
            Kind::ListU64 => {
                let mut lists = ListBuilder::new(UInt64Builder::new()).with_field(element(DataType::UInt64));
                for items in self.each(records, |text| serde_json::from_str::<Vec<u64>>(text).ok())? {
                    lists.append_value(items.into_iter().map(Some));
                }
                Arc::new(lists.finish())
            }
            Kind::ListF64 => {
                let mut lists = ListBuilder::new(Float64Builder::new()).with_field(element(DataType::Float64));
                for items in self.each(records, |text| serde_json::from_str::<Vec<f64>>(text).ok())? {
                    lists.append_value(items.into_iter().map(Some));
                }
                Arc::new(lists.finish())
            }
        })
    }

    fn text<'r>(&self, record: &'r StringRecord) -> &'r str {
        record.get(self.at).expect("the reader refuses records of another length than the header's")
    }

    /// An empty cell is an absent value, where the column may have such.
    fn double(&self, text: &str) -> Option<Option<f64>> {
        if text.is_empty() && self.column.nullable { Some(None) } else { text.parse().ok().map(Some) }
    }

    fn each<T>(&self, records: &[StringRecord], parse: impl Fn(&str) -> Option<T>) -> Result<Vec<T>> {
        let one = |record: &StringRecord| {
            let text = self.text(record);
            parse(text).ok_or_else(|| {
                let line = record.position().map_or(0, csv::Position::line);
                malformed(self.path, line, self.column.name, text).expected(self.column.kind.describe())
            })
        };
        records.iter().map(one).collect()
    }
}

fn element(item: DataType) -> Field {
    Field::new("element", item, false)
}
