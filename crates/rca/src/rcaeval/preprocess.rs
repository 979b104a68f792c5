//! What the program does to a table first: constant columns are dropped, memory is told in millions of bytes.

use crate::wide::Wide;

/// A column as the methods see it.
pub(super) struct Prepared {
    /// Of the table.
    pub index: usize,
    pub values: Vec<f64>,
}

/// The columns that vary somewhere in these rows.
pub(super) fn prepare(table: &Wide, rows: std::ops::Range<usize>) -> Vec<Prepared> {
    let columns = table.columns.iter().enumerate();
    let varying = columns.filter(|(_, column)| {
        let values = &column.values[rows.clone()];
        values.iter().any(|value| *value != values[0])
    });
    let prepared = varying.map(|(index, column)| {
        let divisor = if column.name.ends_with("_mem") { 1e6 } else { 1.0 };
        Prepared { index, values: column.values[rows.clone()].iter().map(|value| value / divisor).collect() }
    });
    prepared.collect()
}
