//! The one total order of a table's rows, so that equal records give equal bytes in any order of arrival.

use std::cmp::Ordering;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int32Array, ListArray, RecordBatch, StringArray, TimestampNanosecondArray,
    UInt8Array, UInt64Array,
};
use arrow::compute::interleave_record_batch;
use arrow::datatypes::{Float64Type, Int32Type, TimestampNanosecondType, UInt8Type, UInt64Type};
use arrow::error::ArrowError;

use crate::schema::{Kind, Table};

/// One column of a batch by its type.
enum Typed {
    Time(TimestampNanosecondArray),
    Text(StringArray),
    U8(UInt8Array),
    U64(UInt64Array),
    I32(Int32Array),
    F64(Float64Array),
    ListU64(ListArray),
    ListF64(ListArray),
}

impl Typed {
    fn of(kind: Kind, array: &ArrayRef) -> Self {
        match kind {
            Kind::Time => Self::Time(array.as_primitive::<TimestampNanosecondType>().clone()),
            Kind::Text | Kind::Id | Kind::Json => Self::Text(array.as_string::<i32>().clone()),
            Kind::U8 => Self::U8(array.as_primitive::<UInt8Type>().clone()),
            Kind::U64 => Self::U64(array.as_primitive::<UInt64Type>().clone()),
            Kind::I32 => Self::I32(array.as_primitive::<Int32Type>().clone()),
            Kind::F64 => Self::F64(array.as_primitive::<Float64Type>().clone()),
            Kind::ListU64 => Self::ListU64(array.as_list::<i32>().clone()),
            Kind::ListF64 => Self::ListF64(array.as_list::<i32>().clone()),
        }
    }

    /// Absent values come first.
    fn compare(&self, row: usize, other: &Self, other_row: usize) -> Ordering {
        match (self, other) {
            (Self::Time(a), Self::Time(b)) => a.value(row).cmp(&b.value(other_row)),
            (Self::Text(a), Self::Text(b)) => a.value(row).cmp(b.value(other_row)),
            (Self::U8(a), Self::U8(b)) => a.value(row).cmp(&b.value(other_row)),
            (Self::U64(a), Self::U64(b)) => a.value(row).cmp(&b.value(other_row)),
            (Self::I32(a), Self::I32(b)) => a.value(row).cmp(&b.value(other_row)),
            (Self::F64(a), Self::F64(b)) => match (a.is_valid(row), b.is_valid(other_row)) {
                (true, true) => a.value(row).total_cmp(&b.value(other_row)),
                (left, right) => left.cmp(&right),
            },
            (Self::ListU64(a), Self::ListU64(b)) => {
                let (a, b) = (a.value(row), b.value(other_row));
                a.as_primitive::<UInt64Type>().values().cmp(b.as_primitive::<UInt64Type>().values())
            }
            (Self::ListF64(a), Self::ListF64(b)) => {
                let (a, b) = (a.value(row), b.value(other_row));
                let (a, b) = (a.as_primitive::<Float64Type>().values(), b.as_primitive::<Float64Type>().values());
                let unequal = a.iter().zip(b.iter()).map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne());
                unequal.unwrap_or_else(|| a.len().cmp(&b.len()))
            }
            _ => unreachable!("columns of one table have one type each"),
        }
    }
}

/// The rows of one batch in terms of the table's order.
pub(crate) struct Ordered {
    columns: Vec<Typed>,
}

impl Ordered {
    /// The batch has the table's schema.
    pub fn new(table: &Table, batch: &RecordBatch) -> Self {
        let column = |name: &&str| {
            let at = table.index(name).expect("the order names columns of the table");
            Typed::of(table.columns[at].kind, batch.column(at))
        };
        Self { columns: table.order.iter().map(column).collect() }
    }

    pub fn times(&self) -> &[i64] {
        match &self.columns[0] {
            Typed::Time(times) => times.values(),
            _ => unreachable!("every order starts with an instant"),
        }
    }

    pub fn compare(&self, row: usize, other: &Self, other_row: usize) -> Ordering {
        let mut columns = self.columns.iter().zip(&other.columns).map(|(a, b)| a.compare(row, b, other_row));
        columns.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

/// All rows of the batches in the table's order, as batches of `rows` rows.
pub(crate) fn sorted(
    table: &Table,
    batches: &[RecordBatch],
    rows: usize,
) -> impl Iterator<Item = Result<RecordBatch, ArrowError>> {
    let ordered: Vec<Ordered> = batches.iter().map(|batch| Ordered::new(table, batch)).collect();
    let mut places: Vec<(i64, u32, u32)> = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
    for (at, batch) in (0..).zip(&ordered) {
        places.extend(batch.times().iter().zip(0..).map(|(&time, row)| (time, at, row)));
    }
    // Rows that compare equal are equal in every column, so their order among themselves does not show.
    places.sort_unstable_by(|a, b| {
        let full = || ordered[a.1 as usize].compare(a.2 as usize, &ordered[b.1 as usize], b.2 as usize);
        a.0.cmp(&b.0).then_with(full)
    });
    let starts = (0..places.len()).step_by(rows);
    starts.map(move |start| {
        let chunk = &places[start..places.len().min(start + rows)];
        let indices: Vec<(usize, usize)> = chunk.iter().map(|&(_, at, row)| (at as usize, row as usize)).collect();
        let all: Vec<&RecordBatch> = batches.iter().collect();
        interleave_record_batch(&all, &indices)
    })
}
