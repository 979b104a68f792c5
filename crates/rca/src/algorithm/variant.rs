//! The variants `@rcaeval`: methods as that program has them, ranked over a datapack's wide table or its spans.
//!
//! What each one keeps of the program's slips is listed in [`About::deviations`]; the functions themselves, and what they
//! are compared with, are in [`crate::rcaeval`].

use model::{Answer, Result};

use super::{About, Algorithm, Input, Minimum, Samples, suspects};
use crate::frame::Pack;
use crate::minimum::insufficient;
use crate::rcaeval::{self, ANSWERED, COLUMNS, GRAPH_COLUMNS, Operations, Ranking};
use crate::wide::Wide;

const MINIMUM: Minimum = Minimum { window_s: 30, normal_samples: 2, abnormal_samples: 1, samples: Samples::Requests };

const SOURCE: &str = "RCAEval 1.8.1 (Pham et al., WWW 2025), with its slips";

/// Services by name, best column or operation first.
type Scores = Vec<(String, f64)>;

pub struct Variant {
    name: &'static str,
    summary: &'static str,
    input: &'static [Input],
    shapes: &'static str,
    units: &'static str,
    complexity: &'static str,
    quirks: &'static [&'static str],
    /// `None` where the program fails, or falls back to the order of the columns.
    scores: fn(&Pack) -> Option<Scores>,
}

impl Algorithm for Variant {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> About {
        About {
            summary: self.summary,
            source: SOURCE,
            input: self.input,
            shapes: self.shapes,
            units: self.units,
            complexity: self.complexity,
            minimum: MINIMUM,
            deviations: self.quirks,
            control: false,
            in_house: false,
        }
    }

    fn rank(&self, pack: &Pack, _seed: u64) -> Result<Vec<Answer>> {
        MINIMUM.check(self.name, &pack.windows)?;
        let scores = (self.scores)(pack).filter(|scores| !scores.is_empty());
        let Some(scores) = scores else {
            return Err(insufficient(
                self.name,
                "the program would fail on this datapack, or answer in the order of its columns",
            ));
        };
        let known = scores.iter().filter_map(|(service, score)| Some((pack.names.find(service)?, *score)));
        suspects::ranked(self.name, pack, known)
    }
}

fn of_columns(table: &Wide, ranking: Ranking) -> Scores {
    ranking.into_iter().map(|(column, score)| (table.columns[column].service.clone(), score)).collect()
}

fn of_operations(table: &Operations, ranking: impl IntoIterator<Item = (usize, f64)>) -> Scores {
    ranking.into_iter().map(|(operation, score)| (table.names[operation].0.clone(), score)).collect()
}

fn small(pack: &Pack) -> Option<Wide> {
    let table = Wide::build(pack).reduced(GRAPH_COLUMNS);
    // Below that the program's tests have no degrees of freedom left.
    (table.columns.len() > 1 && table.times.len() > 30).then_some(table)
}

const TABLE: &str =
    "takes the wide table; a column's service is the one that it was made from, and `-db` is not cut off";
const WIDE: &str = "rows (one a second, both windows) x columns `<service>_<metric>`, without gaps, and the onset";
const ROWS: &str = "one row for each span: trace, operation, start, duration, parent; and the onset";
const SMALL: &str = "takes the wide table made small, 20 columns at most";
const SPANS: &str = "takes the 60 operations with most normal spans; one without a span before the onset, on which the program fails, is left out";
const HALVES: &str =
    "a column that stands still in one of the windows is dropped, so a counter that first moves with the fault is lost";

pub const NSIGMA: Variant = Variant {
    name: "nsigma@rcaeval",
    summary: "nsigma as RCAEval has it",
    input: &[Input::Metrics, Input::Traces],
    shapes: WIDE,
    units: "values in the column's unit; score in normal standard deviations",
    complexity: "O(cells)",
    quirks: &[
        TABLE,
        HALVES,
        "only a rise counts",
        "a deviation within the rounding of the column's size counts as one",
    ],
    scores: |pack| {
        let table = Wide::build(pack);
        Some(of_columns(&table, rcaeval::nsigma(&table)))
    },
};

pub const BARO: Variant = Variant {
    name: "baro@rcaeval",
    summary: "baro as RCAEval has it, with the onset given",
    input: &[Input::Metrics, Input::Traces],
    shapes: WIDE,
    units: "values in the column's unit; score in normal interquartile ranges",
    complexity: "O(cells)",
    quirks: &[
        TABLE,
        HALVES,
        "only a rise counts",
        "an interquartile range below ten times the machine's precision counts as one",
    ],
    scores: |pack| {
        let table = Wide::build(pack);
        Some(of_columns(&table, rcaeval::baro(&table)))
    },
};

pub const TRACERCA: Variant = Variant {
    name: "tracerca@rcaeval",
    summary: "tracerca as RCAEval has it",
    input: &[Input::Traces],
    shapes: ROWS,
    units: "times and durations in microseconds; score from 0 to 1",
    complexity: "O(spans + operations²)",
    quirks: &[
        SPANS,
        "single spans are judged, not traces",
        "the deviation of an operation with one normal span is no number, and none of its spans is slow",
        "an operation without a slow span has a score that is no number, and stands in the way of the sort",
        "durations are whole microseconds",
    ],
    scores: |pack| {
        let table = Operations::build(pack);
        Some(of_operations(&table, rcaeval::tracerca(&table)))
    },
};

pub const MICRORANK: Variant = Variant {
    name: "microrank@rcaeval",
    summary: "microrank as RCAEval has it",
    input: &[Input::Traces],
    shapes: ROWS,
    units: "times and durations in microseconds; score without a unit",
    complexity: "O(spans + 25 · pairs of trace and operation)",
    quirks: &[
        SPANS,
        "the two sides are what ended before and after the onset, slow or not",
        "an operation keeps the calls of the last of its spans only",
        "the traces of an operation are counted over a whole side and set against the slow traces alone, so counts can be negative",
        "weights are single-precision numbers; operations that only its rounding tells apart count as ties",
        "the first eleven operations are answered",
        "durations are whole microseconds",
    ],
    scores: |pack| {
        let table = Operations::build(pack);
        Some(of_operations(&table, rcaeval::microrank(&table).into_iter().take(ANSWERED)))
    },
};

pub const PDIAGNOSE: Variant = Variant {
    name: "pdiagnose@rcaeval",
    summary: "pdiagnose as the script in RCAEval has it",
    input: &[Input::Metrics, Input::Logs, Input::Traces],
    shapes: "the wide table, 60 columns at most; spans as rows; log lines with time and text",
    units: "times in seconds, durations in microseconds; score in votes",
    complexity: "O(cells + log bytes + spans)",
    quirks: &[
        "takes the wide table made small, 60 columns at most",
        SPANS,
        "log lines are counted over both windows, by the lower-case words error and fail",
        "a service counts only when it has metrics, and a column with `time` in its name is none",
    ],
    scores: |pack| {
        let table = Wide::build(pack).reduced(COLUMNS);
        let ranking = rcaeval::pdiagnose(&table, &Operations::build(pack), pack);
        let services = rcaeval::services_of(&table);
        Some(ranking.into_iter().map(|(service, score)| (services[service].to_owned(), score)).collect())
    },
};

pub const PC_PAGERANK: Variant = Variant {
    name: "pc-pagerank@rcaeval",
    summary: "pc-pagerank as RCAEval has it",
    input: &[Input::Metrics, Input::Traces],
    shapes: WIDE,
    units: "p-values of independence; score as a share of PageRank",
    complexity: "O(columns² · subsets of neighbours)",
    quirks: &[
        SMALL,
        "the number of conditions is not limited",
        "an undirected edge counts both ways",
        "ten rounds of a PageRank that gives a node without arcs what it would have to share out",
    ],
    scores: |pack| {
        let table = small(pack)?;
        Some(of_columns(&table, rcaeval::pc_pagerank(&table).ok()?))
    },
};

pub const GRANGER_PAGERANK: Variant = Variant {
    name: "granger-pagerank@rcaeval",
    summary: "granger-pagerank as RCAEval has it",
    input: &[Input::Metrics, Input::Traces],
    shapes: WIDE,
    units: "lags in rows; score as a share of PageRank",
    complexity: "O(rows · columns²)",
    quirks: &[
        SMALL,
        "any of three lags makes an edge, at a mean p-value of four tests below .05, two of which are the same",
        "without an edge the columns are answered in their order",
        "ten rounds of a PageRank that gives a node without arcs what it would have to share out",
    ],
    scores: |pack| {
        let table = small(pack)?;
        Some(of_columns(&table, rcaeval::granger_pagerank(&table).ok()?))
    },
};

pub const RANDOM_WALK: Variant = Variant {
    name: "random-walk@rcaeval",
    summary: "random-walk as RCAEval has it: one fixed order for each number of columns",
    input: &[Input::Metrics, Input::Traces],
    shapes: WIDE,
    units: "p-values of independence; score as a share of the walk's steps",
    complexity: "O(columns² · subsets of neighbours)",
    quirks: &[
        SMALL,
        "the graph is learned, and then every step leads anywhere with one probability, because the weights of the steps are zeros",
        "as many steps as columns, drawn from a generator whose seed is 0: the answer depends on the number and the order of the \
         columns alone",
    ],
    scores: |pack| {
        let table = small(pack)?;
        Some(of_columns(&table, rcaeval::random_walk(&table).ok()?))
    },
};

pub const CIRCA: Variant = Variant {
    name: "circa@rcaeval",
    summary: "circa as RCAEval has it",
    input: &[Input::Metrics, Input::Traces],
    shapes: WIDE,
    units: "values in the column's unit; score in deviations of the residuals",
    complexity: "O(columns² · subsets of neighbours + columns³)",
    quirks: &[
        SMALL,
        "the graph is read the wrong way round: a column is explained by its effects",
        "columns without an edge are not answered",
        "a column that its effects explain to the last digit, or one of whose effects stands still while training, stands where rounding puts it",
        "trains on 111 s from 120 s before the onset and tests the 10 s that end 300 s after it, whatever there is; outside of the table its first or last row stands in",
    ],
    scores: |pack| {
        let table = small(pack).filter(|table| table.times.windows(2).all(|pair| pair[1] - pair[0] == 1))?;
        Some(of_columns(&table, rcaeval::circa(&table).ok()?.ranking))
    },
};
