//! A source's batch in the shape of a table: the right columns, the right types, nothing absent.
//!
//! Only changes that cannot lose anything are made: another text layout, another unit of an instant in UTC. A number of
//! another type is refused, because a reader downstream would misread what a silent cast made of it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field};
use model::{ErrorKind, Problem, Result};

use crate::schema::{Column, Kind, Table};

/// The batch's columns in the table's schema; others are left out. `place` names the file.
///
/// # Errors
/// `datapack.column_missing`, `datapack.column_type`, `datapack.null_value`.
pub(crate) fn conform(table: &Table, batch: &RecordBatch, place: &str) -> Result<RecordBatch> {
    let mut arrays = Vec::with_capacity(table.columns.len());
    for column in table.columns {
        let array = batch.column_by_name(column.name).ok_or_else(|| missing(table, batch, column, place))?;
        let array = convert(column, array, place)?;
        if !column.nullable && array.null_count() > 0 {
            return Err(Problem::new(
                ErrorKind::Failed,
                "datapack.null_value",
                "a column has absent values where the format allows none",
            )
            .place(format!("{place}: {}", column.name))
            .found(format!("{} absent values", array.null_count()))
            .expected("an empty text or a zero"));
        }
        arrays.push(array);
    }
    RecordBatch::try_new(table.schema(), arrays).map_err(|error| {
        Problem::internal("datapack.batch_malformed", "a batch has columns of unequal form").cause(error)
    })
}

fn missing(table: &Table, batch: &RecordBatch, column: &Column, place: &str) -> Problem {
    let schema = batch.schema();
    let found: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    Problem::new(ErrorKind::Failed, "datapack.column_missing", "the source does not give a column")
        .place(format!("{place}: {}", column.name))
        .found(found.join(", "))
        .expected(table.columns.iter().map(|column| column.name).collect::<Vec<_>>().join(", "))
}

fn convert(column: &Column, array: &ArrayRef, place: &str) -> Result<ArrayRef> {
    let want = column.kind.data_type();
    if *array.data_type() == want {
        return Ok(array.clone());
    }
    let refused = || {
        Problem::new(ErrorKind::Failed, "datapack.column_type", "a column has the wrong type")
            .place(format!("{place}: {}", column.name))
            .found(array.data_type().to_string())
            .expected(column.kind.describe())
    };
    match (column.kind, array.data_type()) {
        (Kind::Time, DataType::Timestamp(_, Some(zone))) if matches!(zone.as_ref(), "UTC" | "+00:00") => {
            let options = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(array, &want, &options).map_err(|error| refused().cause(error))
        }
        (Kind::Text | Kind::Id | Kind::Json, found) if is_text(found) => {
            cast_with_options(array, &want, &CastOptions::default()).map_err(|error| refused().cause(error))
        }
        (Kind::ListU64 | Kind::ListF64, DataType::List(item)) => rename_item(array, item, &want).ok_or_else(refused),
        _ => Err(refused()),
    }
}

fn is_text(found: &DataType) -> bool {
    match found {
        DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, value) => matches!(**value, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
        _ => false,
    }
}

/// The same list under the name that the parquet format gives to a list's item.
fn rename_item(array: &ArrayRef, item: &Field, want: &DataType) -> Option<ArrayRef> {
    let DataType::List(element) = want else { return None };
    let list = array.as_list::<i32>();
    if item.data_type() != element.data_type() || list.values().null_count() > 0 {
        return None;
    }
    let nulls = list.nulls().cloned();
    Some(Arc::new(ListArray::new(element.clone(), list.offsets().clone(), list.values().clone(), nulls)))
}
