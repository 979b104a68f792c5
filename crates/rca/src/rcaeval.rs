//! Methods as RCAEval 1.8.1 has them: its preprocessing, its shortcuts and its slips, on tables of its own layout.
//!
//! Each function takes what the program's function of that name takes and gives back its ranking, best first, with the
//! scores that the program keeps to itself. Equal scores stand in the order of the columns. Where the program adds up
//! numbers in another order, scores that are equal by their definition come out different in their last digits there,
//! and it orders them by that noise; here they are equal up to [`NOISE`] and count as ties.

mod graphs;
mod microrank;
mod pdiagnose;
mod preprocess;
mod random_walk;
mod regression;
mod scalers;
mod sorted;
mod spans;
mod tracerca;

pub use graphs::{granger_pagerank, pc_pagerank};
pub use microrank::{ANSWERED, microrank};
pub use pdiagnose::{pdiagnose, services_of};
pub use random_walk::random_walk;
pub use regression::{Circa, circa};
pub use scalers::{baro, nsigma};
pub use spans::{Operations, Row};
pub use tracerca::tracerca;

/// Indices of columns, operations or services, best first, each with its score.
pub type Ranking = Vec<(usize, f64)>;

/// Columns at most of a table for the methods that score columns one by one, where a table is made small.
pub const COLUMNS: usize = 60;

/// Columns at most of a table for the methods that learn a graph: their time grows with the number of subsets.
pub const GRAPH_COLUMNS: usize = 20;

/// Operations at most of a table of spans.
pub const OPERATIONS: usize = 60;

/// Scores that differ by less than this share of their size are equal; rounding moves them by 1e-12 at most.
pub const NOISE: f64 = 1e-9;

/// Whether two scores are equal but for rounding.
pub fn tied(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= NOISE * a.abs().max(b.abs())
}

/// Descending by score; what is equal keeps its order.
fn descending(mut ranking: Ranking) -> Ranking {
    ranking.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap_or(std::cmp::Ordering::Equal));
    ranking
}
