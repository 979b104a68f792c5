//! The detector on one datapack, in a child process.

use model::{Problem, Result};
use rca::detector::{Conclusion, EndpointRow, Figures};
use serde_json::Value;
use store::DetectorRow;

use crate::child::{Child, Order, STARTS};

/// What the detector `name` says, or why it says nothing; and the seconds that it took. A child that is killed from outside is
/// started again, a bounded number of times.
///
/// # Errors
/// Only what is our own fault or the machine's.
pub async fn judge(
    child: &Child<'_>,
    order: &Order,
    name: &str,
) -> Result<(std::result::Result<Conclusion, Problem>, f64)> {
    let mut starts = 1;
    loop {
        let ended = child.run(order).await?;
        let answer = match ended.death {
            None => serde_json::from_slice(&ended.bytes)
                .map_err(|error| Problem::internal("detector.answer_unreadable", error.to_string())),
            Some(death) if death.is_chance() && starts < STARTS => {
                tracing::warn!(place = %child.folder.display(), "a child was killed ({death:?}) and is started again");
                starts += 1;
                continue;
            }
            Some(death) => Err(death.problem(name, child.limits)),
        };
        return Ok((answer, ended.seconds));
    }
}

/// Names and units of the public contract: seconds, rates from 0 to 1.
pub fn row(row: &EndpointRow) -> DetectorRow {
    let window = |prefix: &str, figures: &Figures| {
        let figures = figures.measured();
        [
            (format!("{prefix}_avg_duration"), figures.map(|figures| figures.avg)),
            (format!("{prefix}_succ_rate"), figures.and_then(|figures| figures.succ_rate)),
            (format!("{prefix}_p90"), figures.map(|figures| figures.p90)),
            (format!("{prefix}_p95"), figures.map(|figures| figures.p95)),
            (format!("{prefix}_p99"), figures.map(|figures| figures.p99)),
        ]
    };
    DetectorRow {
        span_name: row.span_name.clone(),
        issues: Value::Object(row.issues.clone()),
        figures: window("abnormal", &row.abnormal).into_iter().chain(window("normal", &row.normal)).collect(),
    }
}
