//! The rows that a read found, given out batch by batch.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::Signal;
use crate::column::Form;
use crate::table::{self, Table};

/// Rows of a batch that is given out.
const BATCH_ROWS: usize = 8192;

/// Text of one column of a batch, bytes at most; arrow's plain strings end at 2 GiB.
const BATCH_TEXT: usize = 1 << 30;

/// Rows in their total order; iterates over batches.
pub struct Rows {
    signal: Signal,
    table: Box<dyn Table>,
    schema: SchemaRef,
    order: Vec<u32>,
    given: usize,
    batch_rows: usize,
}

impl Rows {
    pub(crate) fn new(signal: Signal, mut table: Box<dyn Table>) -> Self {
        let order = table::sorted(&mut *table);
        let schema = table::schema(signal, &*table, Form::Plain);
        let longest = table.columns().iter().map(|(_, column)| column.longest()).max().unwrap_or(0);
        let batch_rows = (BATCH_TEXT / longest.max(1)).clamp(1, BATCH_ROWS);
        Self { signal, table, schema, order, given: 0, batch_rows }
    }

    /// The number of rows not yet given out.
    pub fn len(&self) -> usize {
        self.order.len() - self.given
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

impl Iterator for Rows {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        let end = self.order.len().min(self.given + self.batch_rows);
        let rows = &self.order[self.given..end];
        if rows.is_empty() {
            return None;
        }
        self.given = end;
        Some(table::batch(self.signal, &*self.table, &self.schema, rows, Form::Plain))
    }
}
