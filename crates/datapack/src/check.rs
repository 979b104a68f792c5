//! One file of a pack by its footer: its size, its rows, and whether it has the format's columns.

use std::fs::{self, File};
use std::path::Path;

use arrow::datatypes::DataType;
use model::{ErrorKind, Problem, Result};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::disk::{corrupt, failed};
use crate::schema::Signal;

/// Bytes of a file of a pack.
///
/// # Errors
/// `datapack.file_missing`.
pub fn file_size(path: &Path) -> Result<u64> {
    Ok(fs::metadata(path).map_err(failed(path))?.len())
}

/// Looks at a file's footer; gives the number of its rows.
///
/// # Errors
/// `datapack.file_missing`, `datapack.file_corrupt`, `datapack.column_missing`, `datapack.column_type`.
pub fn check_columns(path: &Path, signal: Signal) -> Result<u64> {
    let file = File::open(path).map_err(failed(path))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| corrupt(path, error))?;
    let schema = reader.schema();
    for column in signal.table().columns {
        let place = format!("{}: {}", path.display(), column.name);
        let Ok(field) = schema.field_with_name(column.name) else {
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            return Err(Problem::new(
                ErrorKind::Failed,
                "datapack.column_missing",
                "a file of the datapack lacks a column",
            )
            .place(place)
            .found(names.join(", "))
            .expected(column.kind.describe())
            .fix("build the datapack again, or download it again"));
        };
        if !same(field.data_type(), &column.kind.data_type()) {
            return Err(Problem::new(ErrorKind::Failed, "datapack.column_type", "a column has the wrong type")
                .place(place)
                .found(field.data_type().to_string())
                .expected(column.kind.describe())
                .fix("build the datapack again, or download it again"));
        }
    }
    u64::try_from(reader.metadata().file_metadata().num_rows()).map_err(|error| corrupt(path, error))
}

/// Whether two types hold the same values: the name of a list's item does not matter.
fn same(found: &DataType, want: &DataType) -> bool {
    match (found, want) {
        (DataType::List(found), DataType::List(want)) => same(found.data_type(), want.data_type()),
        _ => found == want,
    }
}
