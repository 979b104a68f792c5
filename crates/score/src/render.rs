//! A board as a document: Markdown for people, CSV for spreadsheets, SVG and PNG for papers. The funnel is in each of them.

mod csv;
mod markdown;
mod png;
mod svg;

pub use csv::csv;
pub use markdown::markdown;
pub use png::png;
pub use svg::svg;

use crate::board::{EnvironmentBoard, View};
use crate::estimate::Estimate;

/// The views under the names that they have everywhere.
fn views(board: &EnvironmentBoard) -> [(&'static str, &View); 3] {
    [("ranking", &board.ranking), ("pipeline", &board.pipeline), ("detected only", &board.detected_only)]
}

/// `0.50 [0.31, 0.69]`, or why there is no interval.
fn figure(estimate: &Estimate) -> String {
    match (estimate.low, estimate.high, &estimate.note) {
        (Some(low), Some(high), _) => format!("{:.2} [{low:.2}, {high:.2}]", estimate.value),
        _ if estimate.is_not_run() => "not run".to_owned(),
        (_, _, Some(note)) => format!("{:.2} ({note})", estimate.value),
        _ => format!("{:.2}", estimate.value),
    }
}

fn funnel(board: &EnvironmentBoard) -> String {
    let funnel = board.funnel;
    format!(
        "{} submitted, {} completed, {} exposed, {} valid, {} scored",
        funnel.submitted, funnel.completed, funnel.exposed, funnel.valid, funnel.scored
    )
}
