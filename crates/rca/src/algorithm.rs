//! The algorithms: one trait, one closed list, one file per method.
//!
//! To add a method: write `algorithm/<name>.rs` with a unit struct that implements [`Algorithm`], and name it in
//! [`algorithms`]. State every difference to the published definition in [`About::deviations`].

mod baro;
mod baro_bocpd;
mod circa;
mod constant;
mod correlation_pagerank;
mod epsilon_diagnosis;
mod granger_pagerank;
mod graph_method;
mod loudest_metric;
mod max_change;
mod metric_columns;
mod microrank;
mod most_frequent;
mod nsigma;
mod operations;
mod own_evidence;
mod pc_pagerank;
mod pdiagnose;
mod random;
mod random_walk;
mod suspects;
mod tracerca;
mod variant;

use model::{Answer, Problem, Result};
use serde::Serialize;

use crate::frame::Pack;
pub use crate::minimum::{Minimum, Samples};

/// A producer of ranked suspects.
pub trait Algorithm: Sync {
    /// The name on the command line, in the store and on the board.
    fn name(&self) -> &'static str;

    fn about(&self) -> About;

    /// Ranks the services of `pack.candidates`, most suspect first: each at most once, ranks 1..n, finite scores.
    /// Only methods that draw at random use `seed`; the same pack and seed give the same answer.
    ///
    /// # Errors
    /// `algorithm.insufficient_data` below the declared minimum, `algorithm.no_suspect` when nothing stands out.
    fn rank(&self, pack: &Pack, seed: u64) -> Result<Vec<Answer>>;
}

/// A part of the pack that a method reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// The list of candidates.
    Inventory,
    Traces,
    Logs,
    Metrics,
}

impl Input {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inventory => "inventory",
            Self::Traces => "traces",
            Self::Logs => "logs",
            Self::Metrics => "metrics",
        }
    }
}

/// What a reader of a board should know about a method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct About {
    /// One sentence: how it ranks.
    pub summary: &'static str,
    /// The publication or the reason that the method comes from.
    pub source: &'static str,
    pub input: &'static [Input],
    /// What it makes of the input: rows, columns, lists.
    pub shapes: &'static str,
    /// Of what goes in, and of the score.
    pub units: &'static str,
    pub complexity: &'static str,
    pub minimum: Minimum,
    /// Where the implementation differs from the publication, one sentence each.
    pub deviations: &'static [&'static str],
    /// A trivial method that a real one has to beat.
    pub control: bool,
    /// Devised in this project.
    pub in_house: bool,
}

/// Every built-in algorithm, in the order of `algorithm list`. `METHOD@rcaeval` is a method as that program has it.
pub fn algorithms() -> &'static [&'static dyn Algorithm] {
    &[
        &random::Random,
        &constant::Constant,
        &most_frequent::MostFrequent,
        &loudest_metric::LoudestMetric,
        &max_change::MaxChange,
        &nsigma::NSigma,
        &baro::Baro,
        &baro_bocpd::BaroBocpd,
        &tracerca::TraceRca,
        &microrank::MicroRank,
        &pdiagnose::PDiagnose,
        &epsilon_diagnosis::EpsilonDiagnosis,
        &pc_pagerank::PcPageRank,
        &correlation_pagerank::CorrelationPageRank,
        &granger_pagerank::GrangerPageRank,
        &random_walk::RandomWalk,
        &circa::Circa,
        &own_evidence::OwnEvidence,
        &variant::NSIGMA,
        &variant::BARO,
        &variant::TRACERCA,
        &variant::MICRORANK,
        &variant::PDIAGNOSE,
        &variant::PC_PAGERANK,
        &variant::GRANGER_PAGERANK,
        &variant::RANDOM_WALK,
        &variant::CIRCA,
    ]
}

/// The trivial methods that are on every board.
pub fn controls() -> impl Iterator<Item = &'static dyn Algorithm> {
    algorithms().iter().copied().filter(|method| method.about().control)
}

/// The algorithm of that name.
///
/// # Errors
/// `algorithm.unknown`, with the nearest name.
pub fn algorithm(name: &str) -> Result<&'static dyn Algorithm> {
    algorithms().iter().copied().find(|algorithm| algorithm.name() == name).ok_or_else(|| {
        let names: Vec<&str> = algorithms().iter().map(|algorithm| algorithm.name()).collect();
        Problem::unknown("algorithm.unknown", "algorithm", name, names)
    })
}
