//! What the trace methods share: operations and the split of spans at the fault's start.

use std::collections::HashMap;

use crate::frame::{Pack, Span};

/// An operation is a service and a span name.
pub type Operation = (u32, u32);

pub const fn operation(span: &Span) -> Operation {
    (span.service, span.name)
}

/// Milliseconds.
pub fn milliseconds(span: &Span) -> f64 {
    span.duration as f64 / 1e6
}

/// All spans, those first that ended before the fault's start. A span that was under way then is on the other side.
pub fn split(pack: &Pack) -> (Vec<&Span>, Vec<&Span>) {
    let onset = pack.windows.abnormal_start.0;
    let ended_before =
        |span: &&Span| i64::try_from(span.duration).is_ok_and(|duration| span.time.saturating_add(duration) < onset);
    pack.normal.spans.iter().chain(&pack.abnormal.spans).partition(ended_before)
}

/// The durations of each operation, in milliseconds.
pub fn durations<'a>(spans: impl IntoIterator<Item = &'a Span>) -> HashMap<Operation, Vec<f64>> {
    let mut lists: HashMap<Operation, Vec<f64>> = HashMap::new();
    for span in spans {
        lists.entry(operation(span)).or_default().push(milliseconds(span));
    }
    lists
}
