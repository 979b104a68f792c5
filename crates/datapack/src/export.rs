//! One window of one signal, from its source to its file: conformed, in order, measured, searched and written in one pass.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampNanosecondArray};
use model::{DataTime, Problem, Result, Window};

use crate::conform::conform;
use crate::input::Source;
use crate::leak::{Lexicon, Tally};
use crate::meter::Meter;
use crate::order::{self, Ordered};
use crate::parquet_file::{BATCH_ROWS, FileRecord, ParquetFile};
use crate::schema::Signal;

/// What one file is exported from and to.
pub(crate) struct Export<'a> {
    pub folder: &'a Path,
    pub source: &'a dyn Source,
    pub lexicon: &'a Lexicon,
    pub window: Window,
    pub signal: Signal,
    /// Inclusive start, exclusive end.
    pub bounds: (DataTime, DataTime),
}

pub(crate) struct Exported {
    pub file: FileRecord,
    pub meter: Meter,
    pub tally: Tally,
}

impl Export<'_> {
    /// Streams when the source is in order already; else reads it again and sorts in memory.
    pub fn run(&self) -> Result<Exported> {
        if let Some(exported) = self.pass(self.batches()?)? {
            return Ok(exported);
        }
        let table = self.signal.table();
        let batches = self.batches()?.collect::<Result<Vec<_>>>()?;
        let sorted = order::sorted(table, &batches, BATCH_ROWS).map(|batch| {
            batch.map_err(|error| {
                Problem::internal("datapack.batch_too_large", "rows cannot be gathered in order").cause(error)
            })
        });
        let exported = self.pass(sorted)?;
        exported.ok_or_else(|| Problem::internal("datapack.order_broken", "sorted rows are not in order"))
    }

    fn batches(&self) -> Result<impl Iterator<Item = Result<RecordBatch>>> {
        let place = self.signal.file(self.window);
        let batches = self.source.batches(self.window, self.signal)?;
        Ok(batches.map(move |batch| conform(self.signal.table(), &batch?, &place)))
    }

    /// Nothing when the rows are not in order.
    fn pass(&self, batches: impl Iterator<Item = Result<RecordBatch>>) -> Result<Option<Exported>> {
        let (table, name) = (self.signal.table(), self.signal.file(self.window));
        let mut file = ParquetFile::create(self.folder, name.clone(), table)?;
        let mut meter = Meter::new(self.signal, name, self.bounds);
        let mut tally = Tally::default();
        let mut before: Option<(Ordered, usize)> = None;
        for batch in batches {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            let rows = Ordered::new(table, &batch);
            let Some(duplicates) = duplicates(before.as_ref(), &rows) else { return Ok(None) };
            meter.observe(&batch, rows.times(), duplicates)?;
            self.lexicon.scan_batch(self.signal, &batch, &mut tally);
            before = Some((rows, batch.num_rows() - 1));
            file.write(batch)?;
        }
        Ok(Some(Exported { file: file.finish()?, meter, tally }))
    }
}

/// How many rows equal the row before them; nothing when a row comes before its predecessor.
fn duplicates(before: Option<&(Ordered, usize)>, rows: &Ordered) -> Option<u64> {
    let times = rows.times();
    let mut duplicates = 0;
    let mut meet = |order: Ordering| {
        duplicates += u64::from(order.is_eq());
        order.is_le()
    };
    if let Some((last, at)) = before
        && !meet(last.compare(*at, rows, 0))
    {
        return None;
    }
    for at in 1..times.len() {
        let in_order = match times[at - 1].cmp(&times[at]) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => meet(rows.compare(at - 1, rows, at)),
        };
        if !in_order {
            return None;
        }
    }
    Some(duplicates)
}

/// Writes the traces that a window's spans belong to.
pub(crate) fn trace_id_ts(folder: &Path, window: Window, traces: &Meter) -> Result<FileRecord> {
    const SECOND: i64 = 1_000_000_000;
    let whole = |time: i64| time.div_euclid(SECOND) * SECOND;
    let mut rows: Vec<(i64, u128, i64)> =
        traces.traces.iter().map(|(&trace, &(first, last))| (whole(first), trace, whole(last))).collect();
    rows.sort_unstable();
    let table = Signal::TraceIdTs.table();
    let mut file = ParquetFile::create(folder, Signal::TraceIdTs.file(window), table)?;
    for rows in rows.chunks(BATCH_ROWS) {
        let ids: StringArray = rows.iter().map(|(_, trace, _)| Some(format!("{trace:032x}"))).collect();
        let instants = |times: Vec<i64>| Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC"));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(ids),
            instants(rows.iter().map(|row| row.0).collect()),
            instants(rows.iter().map(|row| row.2).collect()),
        ];
        file.write(RecordBatch::try_new(table.schema(), columns).expect("the columns are those of the table"))?;
    }
    file.finish()
}
