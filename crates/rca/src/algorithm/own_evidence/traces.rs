//! Blame along the calls of traces: own time, own failures, answers that never came.

use std::collections::{BTreeMap, HashMap};

use super::Marks;
use crate::frame::{Pack, Span, SpanKind, SpanStatus};

/// Of what is lost between a call and its answer, the share that counts for the one who was called.
const CALLED: f64 = 0.6;
/// The mark of an entrance without any evidence.
const UNSEEN: f64 = 0.1;
/// Standard errors that a mean or a rate must move by to count.
const ERRORS: f64 = 3.0;

pub struct Evidence {
    /// Time that a service itself takes longer, as a share of all such time.
    pub time: Marks,
    /// Requests that failed first here.
    pub failures: Marks,
    /// Requests that an entrance no longer answers.
    pub silence: Marks,
}

/// Something that is measured once per span: an operation's own time, or what is lost on the way of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Own(u32, u32),
    /// Caller, called one, and the name of the call.
    Call(u32, u32, u32),
}

#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    count: f64,
    /// Of the spans as a whole, whoever spent it.
    whole: f64,
    seconds: f64,
    squares: f64,
    failures: f64,
}

impl Sample {
    fn add(&mut self, whole: f64, seconds: f64, failed: bool) {
        self.count += 1.0;
        self.whole += whole;
        self.seconds += seconds;
        self.squares += seconds * seconds;
        self.failures += f64::from(u8::from(failed));
    }

    fn mean(&self) -> f64 {
        self.seconds / self.count
    }

    fn variance(&self) -> f64 {
        (self.squares / self.count - self.mean() * self.mean()).max(0.0)
    }
}

/// One window's traces as places and what was measured there.
struct Window {
    places: BTreeMap<Place, Sample>,
    /// Requests that nobody who is a candidate made: by the service that answers them.
    entered: Marks,
}

pub fn evidence(pack: &Pack, candidates: &[u32]) -> Evidence {
    let callees = callees(&pack.normal.spans);
    let before = Window::new(&pack.normal.spans, &callees, candidates);
    let after = Window::new(&pack.abnormal.spans, &callees, candidates);
    let (mut time, mut failures) = (Blame::default(), Blame::default());
    for (place, now) in &after.places {
        let Some(usual) = before.places.get(place).filter(|usual| usual.count >= 2.0) else {
            // A way that was not taken before: only its failures say something.
            failures.add(*place, now.failures, (now.failures / (now.count + 5.0)).min(0.5));
            continue;
        };
        // A few requests do not show how much they waver.
        let variance = usual.variance().max(usual.mean() * usual.mean() / usual.count);
        let error = (variance / usual.count + variance / now.count).sqrt();
        let longer = now.mean() - usual.mean() - ERRORS * error;
        time.add(*place, now.count * longer, longer / (longer + usual.whole / usual.count));
        let rate = usual.failures / usual.count;
        let error = ((rate * (1.0 - rate)).max(0.25 / usual.count) / now.count).sqrt();
        let more = now.failures / now.count - rate - ERRORS * error;
        failures.add(*place, now.count * more, more / (more + 0.1));
    }
    Evidence {
        time: time.marks(candidates),
        failures: failures.marks(candidates),
        silence: silence(&before, &after, pack),
    }
}

/// What speaks against services: an amount that is shared out among them, and how strong it is at its strongest place.
#[derive(Default)]
struct Blame {
    amounts: Marks,
    strengths: Marks,
}

impl Blame {
    /// Nothing when the amount is not positive; `strength` is from 0 to 1.
    fn add(&mut self, place: Place, amount: f64, strength: f64) {
        if amount <= 0.0 {
            return;
        }
        let mut one = |service: u32, share: f64| {
            *self.amounts.entry(service).or_default() += share * amount;
            let known = self.strengths.entry(service).or_default();
            *known = known.max(strength);
        };
        match place {
            Place::Own(service, _) => one(service, 1.0),
            Place::Call(caller, called, _) => {
                one(called, CALLED);
                one(caller, 1.0 - CALLED);
            }
        }
    }

    /// Each service's share of the whole, times its strength.
    fn marks(&self, candidates: &[u32]) -> Marks {
        let of = |service: &u32| self.amounts.get(service).copied().unwrap_or(0.0);
        let total: f64 = candidates.iter().map(of).sum();
        if total <= 0.0 {
            return Marks::new();
        }
        candidates
            .iter()
            .map(|service| (*service, of(service) / total * self.strengths.get(service).copied().unwrap_or(0.0)))
            .collect()
    }
}

/// How much of its requests an entrance lost; less than three in ten may be the load. Whoever calls an entrance leaves no
/// spans, so what goes wrong on the way to it is seen by nobody: that speaks a little against each.
fn silence(before: &Window, after: &Window, pack: &Pack) -> Marks {
    let longer = pack.windows.abnormal_length().as_secs_f64() / pack.windows.normal_length().as_secs_f64();
    let lost = |service: &u32, usual: f64| {
        let now = after.entered.get(service).copied().unwrap_or(0.0);
        1.0 - now / (usual * longer)
    };
    let entrances = before.entered.iter().filter(|(_, usual)| **usual >= 20.0);
    let mark = |lost: f64| if lost > 0.3 { lost } else { UNSEEN };
    entrances.map(|(service, usual)| (*service, mark(lost(service, *usual)))).collect()
}

/// Whom each call reaches: the service of the span below it, by caller and name, as most calls have it.
fn callees(spans: &[Span]) -> HashMap<(u32, u32), u32> {
    let index: HashMap<(u128, u64), usize> =
        spans.iter().enumerate().map(|(at, span)| ((span.trace, span.id), at)).collect();
    let mut seen: HashMap<(u32, u32), (f64, HashMap<u32, f64>)> = HashMap::new();
    for span in spans.iter().filter(|span| is_call(span)) {
        seen.entry((span.service, span.name)).or_default().0 += 1.0;
    }
    for span in spans {
        let Some(parent) = index.get(&(span.trace, span.parent)).map(|at| &spans[*at]) else { continue };
        if is_call(parent) && parent.service != span.service {
            let (_, reached) = seen.entry((parent.service, parent.name)).or_default();
            *reached.entry(span.service).or_default() += 1.0;
        }
    }
    let most = |reached: HashMap<u32, f64>| reached.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
    let usually = seen.into_iter().filter_map(|(call, (count, reached))| {
        most(reached).filter(|(_, times)| 2.0 * times >= count).map(|(service, _)| (call, service))
    });
    usually.collect()
}

fn is_call(span: &Span) -> bool {
    matches!(span.kind, SpanKind::Client | SpanKind::Producer)
}

fn failed(span: &Span) -> bool {
    span.status == SpanStatus::Error || span.http_status >= 500
}

impl Window {
    fn new(spans: &[Span], callees: &HashMap<(u32, u32), u32>, candidates: &[u32]) -> Self {
        let index: HashMap<(u128, u64), usize> =
            spans.iter().enumerate().map(|(at, span)| ((span.trace, span.id), at)).collect();
        let parent = |span: &Span| index.get(&(span.trace, span.parent)).copied();
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); spans.len()];
        for (at, span) in spans.iter().enumerate() {
            if let Some(parent) = parent(span) {
                children[parent].push(at);
            }
        }
        let mut window = Self { places: BTreeMap::new(), entered: Marks::new() };
        for (at, span) in spans.iter().enumerate() {
            let below = &children[at];
            let fails = failed(span) && !below.iter().any(|child| failed(&spans[*child]));
            let answered = below.iter().find(|child| spans[**child].service != span.service);
            let called = answered.map(|child| spans[*child].service);
            let called = called.or_else(|| callees.get(&(span.service, span.name)).copied());
            let (place, seconds, fails) = match called.filter(|_| is_call(span)) {
                // An answer that never came is a failure of the call, however the caller takes it.
                Some(called) => {
                    let inside = answered.map_or(0, |child| spans[*child].duration);
                    let lost = span.duration.saturating_sub(inside) as f64 / 1e9;
                    (Place::Call(span.service, called, span.name), lost, fails || answered.is_none())
                }
                None => (Place::Own(span.service, span.name), own_seconds(span, below, spans), fails),
            };
            window.places.entry(place).or_default().add(span.duration as f64 / 1e9, seconds, fails);
            let made_inside = parent(span).is_some_and(|parent| candidates.contains(&spans[parent].service));
            if !made_inside && candidates.contains(&span.service) && !is_call(span) {
                *window.entered.entry(span.service).or_default() += 1.0;
            }
        }
        window
    }
}

/// Time of a span in which none of its children was under way.
fn own_seconds(span: &Span, children: &[usize], spans: &[Span]) -> f64 {
    let end = |span: &Span| span.time.saturating_add_unsigned(span.duration);
    let mut covered = 0;
    let mut reached = span.time;
    let mut parts: Vec<(i64, i64)> = children.iter().map(|child| (spans[*child].time, end(&spans[*child]))).collect();
    parts.sort_unstable();
    for (from, to) in parts {
        let (from, to) = (from.max(reached), to.min(end(span)));
        if to > from {
            covered += to - from;
            reached = to;
        }
    }
    (span.duration as i64 - covered).max(0) as f64 / 1e9
}
