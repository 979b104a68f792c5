//! Blame along the calls of traces: own time, own failures, answers that never came.

use std::collections::{BTreeMap, HashMap, HashSet};

use foldhash::fast::FixedState;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    let (normal, abnormal) = (Calls::new(&pack.normal.spans), Calls::new(&pack.abnormal.spans));
    let callees = normal.callees();
    let known: HashSet<u32, FixedState> = candidates.iter().copied().collect();
    let before = Window::new(&normal, &callees, &known);
    let after = Window::new(&abnormal, &callees, &known);
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

/// The spans of a window and who called whom.
struct Calls<'a> {
    spans: &'a [Span],
    /// By span: the span that called it, if it is there.
    parents: Vec<Option<u32>>,
    /// The spans below each span, one after the other; in the order of the spans.
    children: Vec<u32>,
    /// By span: where its children begin. One more at the end.
    starts: Vec<u32>,
}

impl<'a> Calls<'a> {
    fn new(spans: &'a [Span]) -> Self {
        let mut index: HashMap<(u128, u64), u32, FixedState> = HashMap::default();
        index.reserve(spans.len());
        index.extend((0..).zip(spans).map(|(at, span)| ((span.trace, span.id), at)));
        let parents: Vec<Option<u32>> =
            spans.iter().map(|span| index.get(&(span.trace, span.parent)).copied()).collect();
        let mut starts = vec![0; spans.len() + 1];
        for parent in parents.iter().flatten() {
            starts[*parent as usize + 1] += 1;
        }
        for at in 0..spans.len() {
            starts[at + 1] += starts[at];
        }
        let mut free = starts.clone();
        let mut children = vec![0; starts[spans.len()] as usize];
        for (at, parent) in (0..).zip(&parents) {
            if let Some(parent) = parent {
                let place = &mut free[*parent as usize];
                children[*place as usize] = at;
                *place += 1;
            }
        }
        Self { spans, parents, children, starts }
    }

    fn parent(&self, at: usize) -> Option<&'a Span> {
        self.parents[at].map(|parent| &self.spans[parent as usize])
    }

    fn below(&self, at: usize) -> impl Iterator<Item = &'a Span> + Clone + '_ {
        let (from, to) = (self.starts[at] as usize, self.starts[at + 1] as usize);
        self.children[from..to].iter().map(|child| &self.spans[*child as usize])
    }

    /// Whom each call reaches: the service of the span below it, by caller and name, as most calls have it.
    fn callees(&self) -> Callees {
        let mut seen: HashMap<(u32, u32), (f64, Reached), FixedState> = HashMap::default();
        for (at, call) in self.spans.iter().enumerate().filter(|(_, span)| is_call(span)) {
            let (count, reached) = seen.entry((call.service, call.name)).or_default();
            *count += 1.0;
            for span in self.below(at).filter(|span| span.service != call.service) {
                *reached.entry(span.service).or_default() += 1.0;
            }
        }
        let most = |reached: Reached| reached.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        let usually = seen.into_iter().filter_map(|(call, (count, reached))| {
            most(reached).filter(|(_, times)| 2.0 * times >= count).map(|(service, _)| (call, service))
        });
        usually.collect()
    }
}

/// How often each service is reached.
type Reached = HashMap<u32, f64>;

/// By caller and name of a call: the service that it reaches.
type Callees = HashMap<(u32, u32), u32, FixedState>;

fn is_call(span: &Span) -> bool {
    matches!(span.kind, SpanKind::Client | SpanKind::Producer)
}

fn failed(span: &Span) -> bool {
    span.status == SpanStatus::Error || span.http_status >= 500
}

impl Window {
    fn new(calls: &Calls<'_>, callees: &Callees, candidates: &HashSet<u32, FixedState>) -> Self {
        let mut places: HashMap<Place, Sample, FixedState> = HashMap::default();
        let mut entered = Marks::new();
        for (at, span) in calls.spans.iter().enumerate() {
            let below = calls.below(at);
            let fails = failed(span) && !below.clone().any(failed);
            let answered = below.clone().find(|child| child.service != span.service);
            let called = answered.map(|child| child.service);
            let called = called.or_else(|| callees.get(&(span.service, span.name)).copied());
            let (place, seconds, fails) = match called.filter(|_| is_call(span)) {
                // An answer that never came is a failure of the call, however the caller takes it.
                Some(called) => {
                    let inside = answered.map_or(0, |child| child.duration);
                    let lost = span.duration.saturating_sub(inside) as f64 / 1e9;
                    (Place::Call(span.service, called, span.name), lost, fails || answered.is_none())
                }
                None => (Place::Own(span.service, span.name), own_seconds(span, below), fails),
            };
            places.entry(place).or_default().add(span.duration as f64 / 1e9, seconds, fails);
            let made_inside = calls.parent(at).is_some_and(|parent| candidates.contains(&parent.service));
            if !made_inside && candidates.contains(&span.service) && !is_call(span) {
                *entered.entry(span.service).or_default() += 1.0;
            }
        }
        Self { places: places.into_iter().collect(), entered }
    }
}

/// Time of a span in which none of its children was under way.
fn own_seconds<'a>(span: &Span, children: impl Iterator<Item = &'a Span>) -> f64 {
    let end = |span: &Span| span.time.saturating_add_unsigned(span.duration);
    let mut covered = 0;
    let mut reached = span.time;
    let mut parts: Vec<(i64, i64)> = children.map(|child| (child.time, end(child))).collect();
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
