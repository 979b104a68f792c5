//! `pdiagnose`: counts of points, log lines and spans out of the ordinary, five marks each.
//!
//! In the program it is a script over one folder, not a function. Slips and shortcuts, kept: log lines are counted over
//! both windows, by the lower-case words `error` and `fail` anywhere in them; a service counts only when it has metrics; a
//! column with `time` in its name is taken for the time, so a timeline service has no metrics.

use std::collections::{HashMap, HashSet};

use model::Window;

use super::spans::Usual;
use super::{Operations, Ranking, descending};
use crate::frame::Pack;
use crate::statistics::{deviation, mean};
use crate::wide::{Column, Wide};

const MARKS: f64 = 5.0;

/// The services that can be voted for, in the order of their columns; a ranking of [`pdiagnose`] is of these.
pub fn services_of(table: &Wide) -> Vec<&str> {
    let mut services: Vec<&str> = judged(table).map(|column| column.service.as_str()).collect();
    let mut seen = HashSet::new();
    services.retain(|service| seen.insert(*service));
    services
}

fn judged(table: &Wide) -> impl Iterator<Item = &Column> {
    table.columns.iter().filter(|column| !column.name.contains("time"))
}

/// O(cells + log bytes + spans).
pub fn pdiagnose(table: &Wide, spans: &Operations, pack: &Pack) -> Ranking {
    let services = services_of(table);
    let index: HashMap<&str, usize> = services.iter().copied().zip(0..).collect();
    let mut marks = vec![0_u64; services.len()];
    let onset = table.normal_rows();
    for column in judged(table) {
        marks[index[column.service.as_str()]] += beyond(column, onset);
    }
    for log in Window::BOTH.into_iter().flat_map(|window| &pack.signals(window).logs) {
        let body = pack.names.get(log.body);
        if (body.contains("error") || body.contains("fail"))
            && let Some(service) = index.get(pack.names.get(log.service))
        {
            marks[*service] += 1;
        }
    }
    let (normal, abnormal) = spans.split();
    let usual = Usual::of(&normal, spans.names.len());
    for row in abnormal {
        let slow = usual[row.operation].is_some_and(|usual| usual.is_slow(row));
        if slow && let Some(service) = index.get(spans.names[row.operation].0.as_str()) {
            marks[*service] += 1;
        }
    }
    descending(marks.into_iter().map(|count| MARKS * count as f64).enumerate().collect())
}

/// Points of the abnormal rows at or above mean and three sample deviations of the normal ones.
fn beyond(column: &Column, onset: usize) -> u64 {
    let (normal, abnormal) = column.values.split_at(onset);
    let limit = mean(normal) + 3.0 * deviation(normal, 1);
    abnormal.iter().filter(|value| **value >= limit).count() as u64
}
