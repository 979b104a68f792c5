//! Clocks that disagree: a span cannot begin before the span that calls it.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use foldhash::fast::FixedState;
use model::{Result, Window};
use serde::{Deserialize, Serialize};

use crate::load::{Rows, records};
use crate::schema::Signal;

/// How early a span may begin before it counts: synchronised clocks differ by as much.
const TOLERANCE_NS: i64 = 1_000_000;

/// One service that begins too early, over both windows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skew {
    pub service: String,
    /// Spans of the service that a span of another service calls.
    pub calls: u64,
    /// How many of them begin more than 1 ms before their caller.
    pub early: u64,
    /// The longest such time, in nanoseconds.
    pub worst_ns: u64,
}

/// The services that are early, worst first.
pub(crate) fn measure(open: &Path) -> Result<Vec<Skew>> {
    let mut services: BTreeMap<String, Skew> = BTreeMap::new();
    for window in Window::BOTH {
        let part = records::spans(&open.join(Signal::Traces.file(window)))?;
        let Rows::Spans(spans) = &part.rows else { continue };
        let mut starts: HashMap<(u128, u64), (i64, u32), FixedState> = HashMap::default();
        starts.extend(spans.iter().map(|span| ((span.trace, span.id), (span.time, span.service))));
        for span in spans.iter().filter(|span| span.parent != 0) {
            let Some(&(caller_start, caller)) = starts.get(&(span.trace, span.parent)) else { continue };
            if caller == span.service {
                continue;
            }
            let name = part.names.get(span.service);
            if !services.contains_key(name) {
                let skew = Skew { service: name.to_owned(), calls: 0, early: 0, worst_ns: 0 };
                services.insert(name.to_owned(), skew);
            }
            let skew = services.get_mut(name).expect("it was put there");
            skew.calls += 1;
            let ahead = caller_start - span.time;
            if ahead > TOLERANCE_NS {
                skew.early += 1;
                skew.worst_ns = skew.worst_ns.max(ahead.unsigned_abs());
            }
        }
    }
    let mut early: Vec<Skew> = services.into_values().filter(|skew| skew.early > 0).collect();
    early.sort_by(|a, b| b.worst_ns.cmp(&a.worst_ns).then_with(|| a.service.cmp(&b.service)));
    Ok(early)
}
