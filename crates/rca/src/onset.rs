//! The moment at which a fault began: found in the telemetry, and told to an algorithm otherwise than it was.

use model::DataTime;

use crate::frame::{HistogramPoint, Log, Pack, Point, Span, SpanStatus};

const SECOND: i64 = 1_000_000_000;
/// Seconds on either side of a change that a level is estimated from, at least.
const MARGIN: usize = 10;

/// The second at which the requests from outside changed most, without being told where the windows meet. `None` when
/// there are too few requests to tell.
///
/// Per second: the share of failed root spans and the mean logarithm of the duration of the others. The change point
/// maximises the sum of both squared two-sample statistics (the likelihood ratio of one change of mean in Gaussian
/// noise; Hinkley 1970), which needs no threshold.
pub fn change_point(pack: &Pack) -> Option<DataTime> {
    let start = pack.windows.normal_start.0;
    let seconds = usize::try_from((pack.windows.abnormal_end.0 - start) / SECOND).ok()?;
    if seconds < 2 * MARGIN {
        return None;
    }
    let (mut errors, mut durations) = (vec![(0.0, 0.0); seconds], vec![(0.0, 0.0); seconds]);
    for span in pack.normal.spans.iter().chain(&pack.abnormal.spans).filter(|span| span.parent == 0) {
        let Some(second) = usize::try_from((span.time - start) / SECOND).ok().filter(|at| *at < seconds) else {
            continue;
        };
        let failed = span.status == SpanStatus::Error || span.http_status >= 500;
        add(&mut errors[second], f64::from(u8::from(failed)));
        if !failed {
            add(&mut durations[second], (span.duration.max(1) as f64).ln());
        }
    }
    let (errors, durations) = (levels(&errors)?, levels(&durations).unwrap_or_else(|| vec![0.0; seconds]));
    let at = (MARGIN..=seconds - MARGIN).max_by(|a, b| {
        let gain = |at: usize| gain(&errors, at) + gain(&durations, at);
        gain(*a).total_cmp(&gain(*b)).then(b.cmp(a))
    })?;
    Some(DataTime(start + i64::try_from(at).ok()? * SECOND))
}

fn add(cell: &mut (f64, f64), value: f64) {
    cell.0 += value;
    cell.1 += 1.0;
}

/// The mean of each second, that of the one before where there was no request.
fn levels(cells: &[(f64, f64)]) -> Option<Vec<f64>> {
    let mut last = cells.iter().find(|cell| cell.1 > 0.0).map(|cell| cell.0 / cell.1)?;
    let level = |cell: &(f64, f64)| {
        if cell.1 > 0.0 {
            last = cell.0 / cell.1;
        }
        last
    };
    Some(cells.iter().map(level).collect())
}

/// How much of the variance a change of mean at `at` explains, against what is left.
fn gain(values: &[f64], at: usize) -> f64 {
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (before, after) = values.split_at(at);
    let (a, b) = (mean(before), mean(after));
    let left: f64 = before.iter().map(|value| (value - a).powi(2)).sum::<f64>()
        + after.iter().map(|value| (value - b).powi(2)).sum::<f64>();
    let (n, m) = (before.len() as f64, after.len() as f64);
    let explained = (a - b).powi(2) * n * m / (n + m);
    // The square of a hundredth is a floor below which a difference is none.
    explained / (left / (n + m) + 1e-4)
}

/// The pack as it is when the fault is said to begin at `onset`: the same records, cut elsewhere.
pub fn told(pack: &Pack, onset: DataTime) -> Pack {
    let mut pack = pack.clone();
    pack.windows.abnormal_start = onset;
    let (normal, abnormal) = (&mut pack.normal, &mut pack.abnormal);
    recut(&mut normal.spans, &mut abnormal.spans, |span: &Span| span.time, onset.0);
    recut(&mut normal.logs, &mut abnormal.logs, |log: &Log| log.time, onset.0);
    recut(&mut normal.gauges, &mut abnormal.gauges, |point: &Point| point.time, onset.0);
    recut(&mut normal.sums, &mut abnormal.sums, |point: &Point| point.time, onset.0);
    recut(&mut normal.histograms, &mut abnormal.histograms, |point: &HistogramPoint| point.time, onset.0);
    pack
}

/// Both lists are in ascending time, the second after the first.
fn recut<T>(before: &mut Vec<T>, after: &mut Vec<T>, time: impl Fn(&T) -> i64, at: i64) {
    before.append(after);
    *after = before.split_off(before.partition_point(|row| time(row) < at));
}

#[cfg(test)]
mod tests {
    use model::Windows;

    use super::*;
    use crate::frame::{Names, Signals, SpanKind};

    fn pack(seconds: i64, change: i64) -> Pack {
        let windows = Windows {
            normal_start: DataTime(0),
            abnormal_start: DataTime(seconds / 2 * SECOND),
            abnormal_end: DataTime(seconds * SECOND),
        };
        let span = |number: i64| Span {
            time: number * SECOND / 4,
            // A steady noise of a tenth, and three times as much from the change on.
            duration: (10_000_000 + (number * 7 % 10) as u64 * 100_000) * if number / 4 >= change { 3 } else { 1 },
            trace: number as u128,
            id: number as u64 + 1,
            parent: 0,
            service: 0,
            name: 0,
            kind: SpanKind::Server,
            status: SpanStatus::Unset,
            http_status: 200,
        };
        let spans: Vec<Span> = (0..seconds * 4).map(span).collect();
        let signals = Signals { spans, ..Signals::default() };
        let pack = Pack {
            windows,
            names: Names::default(),
            normal: Signals::default(),
            abnormal: signals,
            candidates: vec![],
        };
        told(&pack, windows.abnormal_start)
    }

    #[test]
    fn a_change_is_found_where_it_is_and_not_where_the_windows_meet() {
        for change in [40, 60, 75] {
            assert_eq!(change_point(&pack(120, change)), Some(DataTime(change * SECOND)));
        }
        assert_eq!(change_point(&pack(10, 5)), None, "too short");
    }

    #[test]
    fn an_onset_that_is_told_moves_records_and_loses_none() {
        let pack = pack(120, 60);
        assert_eq!((pack.normal.spans.len(), pack.abnormal.spans.len()), (240, 240));
        let early = told(&pack, DataTime(45 * SECOND));
        assert_eq!((early.normal.spans.len(), early.abnormal.spans.len()), (180, 300));
        assert_eq!(told(&early, DataTime(60 * SECOND)).normal.spans, pack.normal.spans);
    }
}
