//! Writing one parquet file with fixed properties: the same rows give the same bytes, however they were batched.

use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::compute::BatchCoalescer;
use model::{Problem, Result};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use serde::{Deserialize, Serialize};

use crate::disk::{Digesting, failed, failed_within};
use crate::schema::{Kind, Table};

/// What the footers name as their writer; holds no version, so that an upgrade alone changes no bytes.
pub(crate) const CREATED_BY: &str = "aegis datapack";

/// Rows of a row group.
const GROUP_ROWS: usize = 1 << 17;

/// Rows that are handed to the encoder at a time. Page boundaries depend on it, so it is fixed.
pub(crate) const BATCH_ROWS: usize = 8192;

/// One file of a pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    pub name: String,
    /// Of a parquet file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rows: Option<u64>,
    pub bytes: u64,
    /// 64 lower-case hexadecimal digits.
    pub sha256: String,
}

/// A parquet file that is being written.
pub(crate) struct ParquetFile {
    path: PathBuf,
    name: String,
    writer: ArrowWriter<Digesting>,
    coalescer: BatchCoalescer,
    rows: u64,
}

impl ParquetFile {
    pub fn create(folder: &Path, name: String, table: &Table) -> Result<Self> {
        let path = folder.join(&name);
        // The arrow schema is not embedded: it is base64 in a key-value pair that tells readers nothing that the parquet
        // schema does not, and without it a footer has no free text at all.
        let options = ArrowWriterOptions::new().with_properties(properties(table)).with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(Digesting::create(&path)?, table.schema(), options)
            .map_err(failed_within(&path))?;
        Ok(Self { path, name, writer, coalescer: BatchCoalescer::new(table.schema(), BATCH_ROWS), rows: 0 })
    }

    /// Appends rows; the batch has the table's schema.
    pub fn write(&mut self, batch: RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        if self.coalescer.is_empty() && batch.num_rows() == BATCH_ROWS {
            return self.encode(&batch);
        }
        self.coalescer.push_batch(batch).map_err(too_much_text)?;
        self.encode_completed()
    }

    fn encode_completed(&mut self) -> Result<()> {
        while let Some(batch) = self.coalescer.next_completed_batch() {
            self.encode(&batch)?;
        }
        Ok(())
    }

    fn encode(&mut self, batch: &RecordBatch) -> Result<()> {
        self.writer.write(batch).map_err(failed_within(&self.path))
    }

    /// On disk when this returns.
    pub fn finish(mut self) -> Result<FileRecord> {
        self.coalescer.finish_buffered_batch().map_err(too_much_text)?;
        self.encode_completed()?;
        let sink = self.writer.into_inner().map_err(failed_within(&self.path))?;
        let (bytes, sha256) = sink.finish().map_err(failed(&self.path))?;
        Ok(FileRecord { name: self.name, rows: Some(self.rows), bytes, sha256 })
    }
}

/// The only failure of gathering rows: more than 2 GiB of text in one batch of one column.
fn too_much_text(error: arrow::error::ArrowError) -> Problem {
    Problem::internal("datapack.batch_too_large", "a batch holds more text than a column can").cause(error)
}

fn properties(table: &Table) -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).expect("1 is a level of zstd")))
        .set_created_by(CREATED_BY.to_owned())
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(Some(GROUP_ROWS));
    for column in table.columns {
        // Instants, measurements and span ids hardly repeat, so a dictionary of them is only work.
        let unique = matches!(column.kind, Kind::Time | Kind::U64 | Kind::F64)
            || matches!(column.name, "SpanId" | "ParentSpanId");
        if unique {
            builder = builder.set_column_dictionary_enabled(ColumnPath::from(column.name), false);
        }
    }
    builder.build()
}
