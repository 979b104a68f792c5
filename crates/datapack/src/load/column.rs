//! Reading the columns of one parquet file, texts as dictionaries.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Int32Array, PrimitiveArray, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use model::Result;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use crate::check::check_columns;
use crate::disk::{corrupt, failed};
use crate::schema::Table;

/// Rows per batch: few enough to stay in cache, enough that a dictionary is mapped seldom.
const BATCH_ROWS: usize = 1 << 16;

/// What is read of a table.
#[derive(Clone, Copy)]
pub(crate) struct Projection {
    pub table: &'static Table,
    /// Columns as they are stored.
    pub plain: &'static [&'static str],
    /// Text columns with few distinct values, read as dictionaries.
    pub dictionaries: &'static [&'static str],
}

/// Calls `each` with every batch of the projection, and the number of rows of the file before the first one.
pub(crate) fn read(path: &Path, projection: Projection, mut each: impl FnMut(&Batch<'_>) -> Result<()>) -> Result<()> {
    let file = File::open(path).map_err(failed(path))?;
    let wrong = |error| corrupt(path, error);
    let options = ArrowReaderOptions::new().with_schema(Arc::new(schema(projection)));
    // A column of another type is told as that, any other failure as what it is.
    let metadata = ArrowReaderMetadata::load(&file, options)
        .map_err(|error| check_columns(path, projection.table.signal).err().unwrap_or_else(|| corrupt(path, error)))?;
    let wanted = projection.plain.iter().chain(projection.dictionaries).copied();
    let mask = ProjectionMask::columns(metadata.parquet_schema(), wanted);
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
        .with_projection(mask)
        .with_batch_size(BATCH_ROWS)
        .build()
        .map_err(wrong)?;
    for batch in reader {
        let batch = batch.map_err(|error| corrupt(path, error))?;
        each(&Batch { path, batch })?;
    }
    Ok(())
}

fn schema(projection: Projection) -> Schema {
    let column = |field: &Arc<Field>| {
        if projection.dictionaries.contains(&field.name().as_str()) {
            let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
            Arc::new(field.as_ref().clone().with_data_type(text))
        } else {
            field.clone()
        }
    };
    Schema::new(projection.table.schema().fields().iter().map(column).collect::<Vec<_>>())
}

/// One batch, whose columns have the types that were asked for.
pub(crate) struct Batch<'a> {
    pub path: &'a Path,
    batch: RecordBatch,
}

impl Batch<'_> {
    pub fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    fn column(&self, name: &str) -> &ArrayRef {
        self.batch.column_by_name(name).expect("a column of the projection")
    }

    pub fn numbers<T: ArrowPrimitiveType>(&self, name: &str) -> &PrimitiveArray<T> {
        self.column(name).as_primitive()
    }

    pub fn text(&self, name: &str) -> &StringArray {
        self.column(name).as_string()
    }

    /// The column's texts through `map`, which is asked once for each distinct text that a row has.
    pub fn mapped<T: Copy>(&self, name: &str, mut map: impl FnMut(&str) -> Result<T>) -> Result<Vec<T>> {
        let array = self.column(name).as_dictionary::<Int32Type>();
        let (keys, values): (&Int32Array, &StringArray) = (array.keys(), array.values().as_string());
        let mut known: Vec<Option<T>> = vec![None; values.len()];
        let mut rows = Vec::with_capacity(keys.len());
        for &key in keys.values() {
            let slot = &mut known[key as usize];
            rows.push(match slot {
                Some(value) => *value,
                None => *slot.insert(map(values.value(key as usize))?),
            });
        }
        Ok(rows)
    }
}
