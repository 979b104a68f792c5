//! Reading a case's metric table, from any of the forms that it comes in, as gauge points.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use model::{ErrorKind, Problem, Result};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Map, Value};

use super::TIME;
use crate::disk::{corrupt, failed, failed_within, read};

/// One value of one series.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Unix seconds.
    pub time: f64,
    /// Index into [`Wide::columns`].
    pub column: usize,
    pub value: f64,
}

/// The values that are there; an empty cell is none.
#[derive(Debug, Default)]
pub struct Wide {
    /// Service and metric of each column.
    pub columns: Vec<(String, String)>,
    pub cells: Vec<Cell>,
    /// Columns whose name has no service.
    pub skipped: Vec<String>,
    /// Cells that hold an infinite number, or one that is none where the file can tell that from an empty one.
    pub not_finite: u64,
}

impl Wide {
    /// # Errors
    /// `import.cell_malformed`, `import.time_missing`, `import.column_twice`, `import.table_malformed`,
    /// `datapack.file_corrupt`.
    pub fn read(path: &Path) -> Result<Self> {
        let mut wide = Self::default();
        match path.extension().and_then(|end| end.to_str()) {
            Some("csv") => wide.csv(path)?,
            Some("json") => wide.json(path)?,
            _ => wide.parquet(path)?,
        }
        Ok(wide)
    }

    /// The place of a column, nothing when its name has no service.
    fn column(&mut self, name: &str) -> Option<usize> {
        match name.split_once('_') {
            Some((service, metric)) if !service.is_empty() && !metric.is_empty() => {
                self.columns.push((service.to_owned(), metric.to_owned()));
                Some(self.columns.len() - 1)
            }
            _ => {
                self.skipped.push(name.to_owned());
                None
            }
        }
    }

    fn push(&mut self, time: f64, column: usize, value: f64) {
        if value.is_finite() {
            self.cells.push(Cell { time, column, value });
        } else {
            self.not_finite += 1;
        }
    }

    fn csv(&mut self, path: &Path) -> Result<()> {
        let mut reader = csv::Reader::from_path(path).map_err(table(path))?;
        let header = reader.headers().map_err(table(path))?.clone();
        let time_at = time_column(path, header.iter())?;
        let columns: Vec<Option<usize>> =
            header.iter().map(|name| if name == TIME { None } else { self.column(name) }).collect();
        for record in reader.records() {
            let record = record.map_err(table(path))?;
            let line = record.position().map_or(0, csv::Position::line);
            // Some published files repeat their header among the rows.
            if record.get(time_at) == Some(TIME) {
                continue;
            }
            let number = |at: usize| -> Result<Option<f64>> {
                match record.get(at).unwrap_or_default().trim() {
                    "" | "NaN" | "nan" => Ok(None),
                    text => text.parse().map(Some).map_err(|_| malformed(path, line, &header[at], text)),
                }
            };
            let time = number(time_at)?.ok_or_else(|| malformed(path, line, TIME, ""))?;
            for (at, column) in columns.iter().enumerate() {
                if let (Some(column), Some(value)) = (column, number(at)?) {
                    self.push(time, *column, value);
                }
            }
        }
        Ok(())
    }

    /// `{name: [[time, value], …]}`.
    fn json(&mut self, path: &Path) -> Result<()> {
        let series: Map<String, Value> = serde_json::from_slice(&read(path)?).map_err(|error| corrupt(path, error))?;
        for (name, points) in &series {
            let Some(column) = self.column(name) else { continue };
            for point in points.as_array().into_iter().flatten() {
                let number = |at: usize| match point.get(at) {
                    Some(Value::String(text)) => text.parse().ok(),
                    other => other.and_then(Value::as_f64),
                };
                let time = number(0).ok_or_else(|| malformed(path, 0, name, &point.to_string()))?;
                if let Some(value) = number(1) {
                    self.push(time, column, value);
                }
            }
        }
        Ok(())
    }

    fn parquet(&mut self, path: &Path) -> Result<()> {
        let file = File::open(path).map_err(failed(path))?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| corrupt(path, error))?;
        let names: Vec<String> = builder.schema().fields().iter().map(|field| field.name().clone()).collect();
        let time_at = time_column(path, names.iter().map(String::as_str))?;
        let columns: Vec<Option<usize>> =
            names.iter().map(|name| if name == TIME { None } else { self.column(name) }).collect();
        for batch in builder.build().map_err(|error| corrupt(path, error))? {
            let batch = batch.map_err(|error| corrupt(path, error))?;
            let doubles = |at: usize| -> Result<_> {
                let array = cast(batch.column(at), &DataType::Float64);
                Ok(array.map_err(|error| corrupt(path, error))?.as_primitive::<Float64Type>().clone())
            };
            let times = doubles(time_at)?;
            for (at, column) in columns.iter().enumerate() {
                let Some(column) = column else { continue };
                let values = doubles(at)?;
                for row in (0..values.len()).filter(|&row| values.is_valid(row)) {
                    self.push(times.value(row), *column, values.value(row));
                }
            }
        }
        Ok(())
    }
}

fn time_column<'a>(path: &Path, names: impl Iterator<Item = &'a str>) -> Result<usize> {
    let names: Vec<&str> = names.collect();
    let mut seen = BTreeSet::new();
    if let Some(name) = names.iter().find(|name| !seen.insert(**name)) {
        return Err(Problem::new(ErrorKind::Invalid, "import.column_twice", "a column is there twice")
            .place(path.display().to_string())
            .found(format!("`{name}`")));
    }
    names.iter().position(|name| *name == TIME).ok_or_else(|| {
        Problem::new(ErrorKind::Invalid, "import.time_missing", "the table has no column of time")
            .place(path.display().to_string())
            .found(names.iter().take(10).copied().collect::<Vec<_>>().join(", "))
            .expected("a column `time` with Unix seconds")
    })
}

/// What is wrong with the lines of a CSV file: bytes that are no text, a line of another length than the header.
pub fn table(path: &Path) -> impl Fn(csv::Error) -> Problem + '_ {
    move |error| {
        if error.is_io_error() {
            return failed_within(path)(error);
        }
        let line = error.position().map_or_else(String::new, |at| format!(":{}", at.line()));
        Problem::new(ErrorKind::Invalid, "import.table_malformed", "a table cannot be read")
            .place(format!("{}{line}", path.display()))
            .found(error.to_string())
            .expected("CSV in UTF-8, each line with as many cells as the header")
    }
}

pub fn malformed(path: &Path, line: u64, column: &str, found: &str) -> Problem {
    let place = if line == 0 { String::new() } else { format!(":{line}") };
    Problem::new(ErrorKind::Invalid, "import.cell_malformed", "a cell is not what its column holds")
        .place(format!("{}{place}: {column}", path.display()))
        .found(format!("`{}`", found.chars().take(80).collect::<String>()))
        .expected("a number")
}
