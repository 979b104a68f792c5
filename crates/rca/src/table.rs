//! The metric table: one column per service and metric, one row per time step, forward-filled.
//!
//! Rows are laid out from the start of the fault in both directions, so no row mixes the two windows. A cell is the mean
//! of the points that fall into it; a cell without points repeats the last one before it. There is no backward fill: it
//! would carry values of the abnormal window into the normal one. Cells before a column's first value do not exist.

use std::collections::HashMap;

use crate::frame::{HistogramPoint, Pack};

const SECOND: i64 = 1_000_000_000;

/// Rows per table at most; longer windows get a coarser step, a whole number of seconds.
const MAX_ROWS: i64 = 1200;

/// What identifies a column and how many points stand behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Index into the pack's names.
    pub service: u32,
    /// Index into the pack's names.
    pub metric: u32,
    /// Cells of the normal window that have points of their own.
    pub own_normal: usize,
    /// Cells of the abnormal window that have points of their own.
    pub own_abnormal: usize,
}

/// Columns sorted by `<service>_<metric>`; each column's values are contiguous.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    /// Column-major, `rows` values per column.
    values: Vec<f64>,
    /// Row of each column's first value.
    first: Vec<usize>,
    rows: usize,
    normal_rows: usize,
    step_s: i64,
}

impl Table {
    /// The table of gauges (their values) and histograms (their sums); plain sums are not taken, as in the published
    /// adapter. Cumulative histogram sums are differenced per series first. Non-finite values are left out.
    pub fn build(pack: &Pack) -> Self {
        let (normal, abnormal) = (pack.windows.normal_length(), pack.windows.abnormal_length());
        let (normal, abnormal) = (normal.as_secs() as i64, abnormal.as_secs() as i64);
        let step_s = ((normal + abnormal + MAX_ROWS - 1) / MAX_ROWS).max(1);
        let normal_rows = (normal + step_s - 1) / step_s;
        let rows = normal_rows + (abnormal + step_s - 1) / step_s;
        let mut table = Self {
            columns: Vec::new(),
            values: Vec::new(),
            first: Vec::new(),
            rows: rows as usize,
            normal_rows: normal_rows as usize,
            step_s,
        };
        let origin = pack.windows.abnormal_start.0;
        for group in group(pack, collect(pack)) {
            table.push(&group, origin);
        }
        table
    }

    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Seconds per row.
    pub const fn step_s(&self) -> i64 {
        self.step_s
    }

    /// A column's values in the normal window, from its first value on.
    pub fn normal(&self, column: usize) -> &[f64] {
        let from = self.first[column].min(self.normal_rows);
        &self.cells(column)[from..self.normal_rows]
    }

    /// A column's values in the abnormal window, from its first value on.
    pub fn abnormal(&self, column: usize) -> &[f64] {
        let from = self.first[column].max(self.normal_rows);
        &self.cells(column)[from..]
    }

    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Rows of the normal window; they come first.
    pub const fn normal_rows(&self) -> usize {
        self.normal_rows
    }

    /// A column's values, one per row, not a number before its first one.
    pub fn cells(&self, column: usize) -> &[f64] {
        &self.values[column * self.rows..(column + 1) * self.rows]
    }

    /// Adds one column; points outside the windows are left out.
    fn push(&mut self, group: &Group, origin: i64) {
        let base = self.values.len();
        self.values.resize(base + self.rows, f64::NAN);
        let cells = &mut self.values[base..];
        let mut counts = vec![0_u32; self.rows];
        for &(time, value) in &group.points {
            let row = (time - origin).div_euclid(self.step_s * SECOND) + self.normal_rows as i64;
            let Some(row) = usize::try_from(row).ok().filter(|&row| row < self.rows) else { continue };
            // A running mean: no overflow of a sum of large byte counts, and one pass.
            counts[row] += 1;
            let cell = &mut cells[row];
            *cell = if counts[row] == 1 { value } else { *cell + (value - *cell) / f64::from(counts[row]) };
        }
        let Some(first) = counts.iter().position(|&count| count > 0) else {
            self.values.truncate(base);
            return;
        };
        for row in first..self.rows {
            cells[row] = if counts[row] == 0 { cells[row - 1] } else { nine_digits(cells[row]) };
        }
        let own = |part: &[u32]| part.iter().filter(|&&count| count > 0).count();
        self.columns.push(Column {
            service: group.service,
            metric: group.metric,
            own_normal: own(&counts[..self.normal_rows]),
            own_abnormal: own(&counts[self.normal_rows..]),
        });
        self.first.push(first);
    }
}

/// Rounded to nine significant digits. Differences of growing sums and running means carry noise in the last bits; it
/// would make a metric that stands still look as if it varied by 1e-17, and any later change infinitely significant.
fn nine_digits(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let factor = 10_f64.powf(8.0 - value.abs().log10().floor());
    let rounded = (value * factor).round() / factor;
    if rounded.is_finite() { rounded } else { value }
}

/// One value of one column.
struct Value {
    service: u32,
    metric: u32,
    time: i64,
    value: f64,
}

fn collect(pack: &Pack) -> Vec<Value> {
    let both = [&pack.normal, &pack.abnormal];
    let gauges = both.iter().flat_map(|signals| &signals.gauges);
    let mut values: Vec<Value> = gauges
        .map(|point| Value { service: point.service, metric: point.metric, time: point.time, value: point.value })
        .collect();
    let mut last: HashMap<u32, (f64, f64)> = HashMap::new();
    for point in both.iter().flat_map(|signals| &signals.histograms) {
        if let Some(value) = increase(point, &mut last) {
            values.push(Value { service: point.service, metric: point.metric, time: point.time, value });
        }
    }
    values.retain(|value| value.value.is_finite());
    values
}

/// The sum that a histogram point adds to its series: its own for delta points, the difference to the series' last
/// point for cumulative ones. A count that went down is a restart, where the new sum is the increase.
fn increase(point: &HistogramPoint, last: &mut HashMap<u32, (f64, f64)>) -> Option<f64> {
    if !point.cumulative {
        return Some(point.sum);
    }
    let (count, sum) = last.insert(point.series, (point.count, point.sum))?;
    Some(if point.count < count { point.sum } else { point.sum - sum })
}

/// The points of one column, as `(time, value)`, in the order in which they came.
struct Group {
    service: u32,
    metric: u32,
    points: Vec<(i64, f64)>,
}

/// The points by column, columns in the order of their text.
fn group(pack: &Pack, values: Vec<Value>) -> Vec<Group> {
    let mut place: HashMap<(u32, u32), usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for Value { service, metric, time, value } in values {
        let index = *place.entry((service, metric)).or_insert_with(|| {
            groups.push(Group { service, metric, points: Vec::new() });
            groups.len() - 1
        });
        groups[index].points.push((time, value));
    }
    groups.sort_by_cached_key(|group| format!("{}_{}", pack.names.get(group.service), pack.names.get(group.metric)));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_noise_of_a_growing_sum_is_no_variation() {
        let mut sum = 0.1_f64;
        let mut seen = std::collections::HashSet::new();
        let mut raw = std::collections::HashSet::new();
        for _ in 0..1000 {
            let before = sum;
            sum += 0.0037;
            raw.insert((sum - before).to_bits());
            seen.insert(nine_digits(sum - before).to_bits());
        }
        assert!(raw.len() > 1, "the differences do carry noise");
        assert_eq!(seen.len(), 1);
        assert!((nine_digits(-1.5e300) / -1.5e300 - 1.0).abs() < 1e-12);
        assert_eq!(nine_digits(f64::MIN_POSITIVE), f64::MIN_POSITIVE);
    }
}
