//! Tables on a terminal that is too narrow for them: the ids of runs are shortened to a beginning that every command takes,
//! prose is wrapped, and what says least is left out. Only for eyes: pipes and files always get everything.

use std::str::FromStr;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table};
use model::RunId;

/// Between two columns.
pub const GAP: usize = 2;
/// Columns in which ids of runs stand; those of tasks must be given whole.
const OF_RUNS: [&str; 2] = ["ID", "RUN"];
/// Characters of a run's id that are shown.
const SHORT_ID: usize = 8;
/// Text with spaces that is longer than this is wrapped to no less than this.
const PROSE: usize = 24;
/// Columns that can be spared, those that say least first; after them the last one of the others goes.
const SPARE: [&str; 11] = [
    "READ FROM",
    "STARTED",
    "LAST-EVENT",
    "NS-PATTERN",
    "DISPLAY",
    "BUILTIN",
    "RUN",
    "VISIBLE",
    "SEVERITY",
    "FAMILY",
    "ATTEMPT",
];
/// Columns that a table is read for.
const KEPT: [&str; 7] = ["STATE", "FIX", "REGISTRY", "CONFIG", "DATABASE", "CHART", "TELEMETRY"];

/// What is shown of a table.
#[derive(Debug, PartialEq)]
pub struct Layout {
    /// Places of the columns that are shown.
    pub columns: Vec<usize>,
    /// Which of them are wrapped.
    wrapped: Vec<usize>,
    width: usize,
}

/// Fits rows into a width; ids in them are shortened where that is needed. `None` when everything has room as it is.
pub fn fit(headings: &[&str], rows: &mut [Vec<String>], width: usize) -> Option<Layout> {
    let columns: Vec<usize> = (0..headings.len()).collect();
    let sum = |columns: &[usize], size: &dyn Fn(usize) -> usize| {
        columns.iter().map(|&at| size(at)).sum::<usize>() + GAP * columns.len().saturating_sub(1)
    };
    let whole = |rows: &[Vec<String>], at: usize| {
        let cells = rows.iter().flat_map(|row| row[at].lines()).chain([headings[at]]);
        cells.map(|line| line.chars().count()).max().unwrap_or_default()
    };
    if sum(&columns, &|at| whole(rows, at)) <= width {
        return None;
    }
    for row in rows.iter_mut() {
        for (cell, heading) in row.iter_mut().zip(headings) {
            if OF_RUNS.contains(heading) && RunId::from_str(cell).is_ok() {
                cell.truncate(SHORT_ID);
            }
        }
    }
    let sizes: Vec<usize> = columns.iter().map(|&at| whole(rows, at)).collect();
    let is_prose = |at: usize| sizes[at] > PROSE && rows.iter().any(|row| row[at].contains(' '));
    let least = |at: usize| if is_prose(at) { PROSE } else { sizes[at] };
    let mut shown = columns;
    while shown.len() > 2 && sum(&shown, &least) > width {
        let spare = SPARE.iter().find_map(|name| shown[1..].iter().position(|&at| headings[at] == *name));
        let last = || shown[1..].iter().rposition(|&at| !KEPT.contains(&headings[at]));
        match spare.or_else(last) {
            Some(place) => drop(shown.remove(place + 1)),
            None => break,
        }
    }
    let wrapped = if sum(&shown, &|at| sizes[at]) <= width {
        Vec::new()
    } else {
        shown.iter().copied().filter(|&at| is_prose(at)).collect()
    };
    Some(Layout { columns: shown, wrapped, width })
}

impl Layout {
    /// Lets the table wrap what is to be wrapped.
    pub fn arrange(&self, table: &mut Table) {
        if self.wrapped.is_empty() {
            return;
        }
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(self.width).unwrap_or(u16::MAX));
        for (place, column) in table.column_iter_mut().enumerate() {
            column.set_cell_alignment(CellAlignment::Left);
            if !self.wrapped.contains(&self.columns[place]) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "7a1c5c8e-7a49-4d1e-9f34-0c8c8b0f8d11";

    fn rows(row: &[&str]) -> Vec<Vec<String>> {
        vec![row.iter().map(|cell| (*cell).to_owned()).collect()]
    }

    #[test]
    fn a_table_loses_only_what_has_no_room_and_what_says_least_first() {
        let headings = ["ID", "SYSTEM", "FAULT", "SERVICE", "STATE", "LAST-EVENT", "STARTED"];
        let cells =
            [ID, "ts", "network_delay", "ts-order-service", "Completed", "trace.completed", "2026-01-05T10:00:00Z"];
        let shown = |width: usize| {
            let mut rows = rows(&cells);
            let layout = fit(&headings, &mut rows, width);
            let columns = layout.map_or((0..7).collect(), |layout| layout.columns);
            columns.iter().map(|&at| rows[0][at].clone()).collect::<Vec<_>>()
        };
        assert_eq!(shown(200), cells);
        let mut short = cells;
        short[0] = &ID[..8];
        assert_eq!(shown(110), short);
        assert_eq!(shown(80), short[..6]);
        assert_eq!(shown(60), short[..5]);
        assert_eq!(shown(30), [short[0], short[1], short[4]]);
        assert_eq!(shown(26), [short[0], short[4]]);
        assert_eq!(shown(3), [short[0], short[4]], "there is no sense in less than two columns");
    }

    #[test]
    fn prose_is_wrapped_before_anything_is_left_out() {
        let headings = ["CHECK", "STATE", "OBSERVED", "FIX"];
        let long = "a sentence that is much longer than the terminal is wide, because it says what is wrong".to_owned();
        let mut rows = rows(&["telemetry.accepted", "warning", &long, &long]);
        let layout = fit(&headings, &mut rows, 80).unwrap();
        assert_eq!((layout.columns.as_slice(), layout.wrapped.as_slice()), (&[0, 1, 2, 3][..], &[2, 3][..]));
    }
}
