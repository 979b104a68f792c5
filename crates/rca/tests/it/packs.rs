//! Makes packs by hand.

use std::time::Duration;

use model::{DataTime, Windows};
use rca::frame::{HistogramPoint, Log, Names, Pack, Point, Signals, Span, SpanKind, SpanStatus};

pub const START: i64 = 1_700_000_000;
const NANO: f64 = 1e9;

/// A pack under construction. Times are seconds since the start of the normal window.
#[derive(Debug)]
pub struct Maker {
    pub pack: Pack,
    next: u64,
}

/// A span in words.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub service: &'a str,
    pub name: &'a str,
    pub seconds: f64,
    pub http: u16,
    pub status: SpanStatus,
}

pub fn call<'a>(service: &'a str, name: &'a str, seconds: f64) -> Call<'a> {
    Call { service, name, seconds, http: 200, status: SpanStatus::Unset }
}

impl Maker {
    /// Two windows of the given seconds and these candidates.
    pub fn new(normal: u64, abnormal: u64, candidates: &[&str]) -> Self {
        let windows =
            Windows::new(DataTime::from_seconds(START), Duration::from_secs(normal), Duration::from_secs(abnormal))
                .unwrap();
        let pack = Pack {
            windows,
            names: Names::default(),
            normal: Signals::default(),
            abnormal: Signals::default(),
            candidates: candidates.iter().map(|name| (*name).to_owned()).collect(),
        };
        Self { pack, next: 1 }
    }

    fn place(&mut self, at: f64) -> (i64, &mut Signals) {
        let time = START * 1_000_000_000 + (at * NANO) as i64;
        let signals =
            if time < self.pack.windows.abnormal_start.0 { &mut self.pack.normal } else { &mut self.pack.abnormal };
        (time, signals)
    }

    /// A trace of one caller and the calls that it makes, one after the other.
    pub fn trace(&mut self, at: f64, root: Call<'_>, children: &[Call<'_>]) {
        let trace = u128::from(self.next);
        let parent = self.span(at, trace, 0, root);
        for child in children {
            self.span(at, trace, parent, *child);
        }
    }

    fn span(&mut self, at: f64, trace: u128, parent: u64, call: Call<'_>) -> u64 {
        let id = self.next;
        self.next += 1;
        let service = self.pack.names.intern(call.service);
        let name = self.pack.names.intern(call.name);
        let (time, signals) = self.place(at);
        signals.spans.push(Span {
            time,
            duration: (call.seconds * NANO) as u64,
            trace,
            id,
            parent,
            service,
            name,
            kind: SpanKind::Server,
            status: call.status,
            http_status: call.http,
        });
        id
    }

    /// `count` traces, evenly over `[from, to)`.
    pub fn traces(&mut self, from: f64, to: f64, count: usize, root: Call<'_>, children: &[Call<'_>]) {
        for index in 0..count {
            self.trace(from + (to - from) * index as f64 / count as f64, root, children);
        }
    }

    pub fn gauge(&mut self, at: f64, service: &str, metric: &str, value: f64) {
        let service = self.pack.names.intern(service);
        let metric = self.pack.names.intern(metric);
        let (time, signals) = self.place(at);
        signals.gauges.push(Point { time, service, metric, series: metric, value });
    }

    /// A point of a counter.
    pub fn sum(&mut self, at: f64, service: &str, metric: &str, value: f64) {
        let series = self.pack.names.intern(&format!("{service} {metric}"));
        let service = self.pack.names.intern(service);
        let metric = self.pack.names.intern(metric);
        let (time, signals) = self.place(at);
        signals.sums.push(Point { time, service, metric, series, value });
    }

    pub fn log(&mut self, at: f64, service: &str, severity: u8, body: &str) {
        let service = self.pack.names.intern(service);
        let body = self.pack.names.intern(body);
        let (time, signals) = self.place(at);
        signals.logs.push(Log { time, service, severity, body });
    }

    /// Cumulative histogram points.
    pub fn histogram(&mut self, at: f64, service: &str, metric: &str, count: f64, sum: f64) {
        let series = self.pack.names.intern(&format!("{service} {metric}"));
        let service = self.pack.names.intern(service);
        let metric = self.pack.names.intern(metric);
        let (time, signals) = self.place(at);
        signals.histograms.push(HistogramPoint {
            time,
            service,
            metric,
            series,
            count,
            sum,
            min: 0.0,
            max: 0.0,
            cumulative: true,
        });
    }
}
