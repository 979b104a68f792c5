//! The frames that a detector or an algorithm takes: a datapack's open part in memory, strings interned.

use std::collections::HashMap;

use model::{Window, Windows};

/// A table of distinct strings; everything else refers to them by index.
#[derive(Debug, Clone, Default)]
pub struct Names {
    list: Vec<String>,
    index: HashMap<String, u32>,
}

impl Names {
    /// The text's index; a new one when the text is new.
    pub fn intern(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.index.get(text) {
            return id;
        }
        let id = u32::try_from(self.list.len()).expect("fewer than 4 billion distinct strings");
        self.list.push(text.to_owned());
        self.index.insert(text.to_owned(), id);
        id
    }

    /// The text behind an index that this table gave out.
    pub fn get(&self, id: u32) -> &str {
        &self.list[id as usize]
    }

    pub fn find(&self, text: &str) -> Option<u32> {
        self.index.get(text).copied()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// What an algorithm may see of a datapack. Holds nothing of the sealed part.
#[derive(Debug, Clone)]
pub struct Pack {
    pub windows: Windows,
    pub names: Names,
    pub normal: Signals,
    pub abnormal: Signals,
    /// The services that may be named, by name: the inventory of the open part without load generators.
    pub candidates: Vec<String>,
}

impl Pack {
    pub const fn signals(&self, window: Window) -> &Signals {
        match window {
            Window::Normal => &self.normal,
            Window::Abnormal => &self.abnormal,
        }
    }
}

/// The records of one window, each list in ascending time.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    pub spans: Vec<Span>,
    pub logs: Vec<Log>,
    pub gauges: Vec<Point>,
    pub sums: Vec<Point>,
    pub histograms: Vec<HistogramPoint>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpanKind {
    Server,
    Client,
    Internal,
    Producer,
    Consumer,
    Unspecified,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanStatus {
    Unset,
    Ok,
    Error,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Start, nanoseconds since the Unix epoch.
    pub time: i64,
    /// Nanoseconds.
    pub duration: u64,
    pub trace: u128,
    pub id: u64,
    /// Zero for a root span.
    pub parent: u64,
    /// Index into [`Names`].
    pub service: u32,
    /// Index into [`Names`].
    pub name: u32,
    pub kind: SpanKind,
    pub status: SpanStatus,
    /// HTTP status code from either generation of the semantic conventions, zero when there is none.
    pub http_status: u16,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Log {
    pub time: i64,
    pub service: u32,
    /// OpenTelemetry severity number, 0 when unset.
    pub severity: u8,
    /// Index into [`Names`].
    pub body: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub time: i64,
    /// First of deployment, stateful set, service name.
    pub service: u32,
    pub metric: u32,
    /// A series is one (metric, resource, attributes) combination; index of its canonical text in [`Names`].
    pub series: u32,
    pub value: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HistogramPoint {
    pub time: i64,
    pub service: u32,
    pub metric: u32,
    pub series: u32,
    pub count: f64,
    pub sum: f64,
    pub min: f64,
    pub max: f64,
    /// Aggregation temporality 2: `count` and `sum` run since the process started. False for delta points.
    pub cumulative: bool,
}
