//! What is measured of one file while its rows pass by.

use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;

use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use arrow::datatypes::UInt64Type;
use foldhash::fast::FixedState;
use model::{DataTime, ErrorKind, Problem, Result};
use serde_json::{Map, Value};

use crate::id;
use crate::load::records;
use crate::schema::{Kind, Signal};

/// The attributes of a resource whose share is reported.
pub(crate) const ATTRIBUTES: [&str; 5] =
    ["service.name", "service.namespace", "k8s.namespace.name", "k8s.pod.name", "k8s.deployment.name"];

/// Other names that count as well: workloads are deployments or stateful sets, older collectors say `pod.name`.
const ALIASES: [(&str, &str); 2] = [("k8s.pod.name", "pod.name"), ("k8s.deployment.name", "k8s.statefulset.name")];

#[derive(Debug)]
pub(crate) struct Meter {
    signal: Signal,
    file: String,
    from: i64,
    to: i64,
    pub rows: u64,
    pub duplicates: u64,
    pub first: Option<i64>,
    pub last: Option<i64>,
    gap: u64,
    pub with_attribute: [u64; ATTRIBUTES.len()],
    /// Which attributes each distinct resource has.
    resources: HashMap<u64, u8, FixedState>,
    pub services: BTreeSet<String>,
    pub root_spans: u64,
    pub longest_root_span_ns: u64,
    /// Start of the first and of the last span of each trace.
    pub traces: HashMap<u128, (i64, i64), FixedState>,
}

impl Meter {
    pub fn new(signal: Signal, file: String, (from, to): (DataTime, DataTime)) -> Self {
        Self {
            signal,
            file,
            from: from.0,
            to: to.0,
            rows: 0,
            duplicates: 0,
            first: None,
            last: None,
            gap: 0,
            with_attribute: [0; ATTRIBUTES.len()],
            resources: HashMap::default(),
            services: BTreeSet::new(),
            root_spans: 0,
            longest_root_span_ns: 0,
            traces: HashMap::default(),
        }
    }

    /// Takes the next rows, which are in order.
    ///
    /// # Errors
    /// `datapack.row_outside_window`, `datapack.id_malformed`, `datapack.value_unknown`, `datapack.attributes_malformed`.
    pub fn observe(&mut self, batch: &RecordBatch, times: &[i64], duplicates: u64) -> Result<()> {
        self.check_window(times)?;
        self.rows += times.len() as u64;
        self.duplicates += duplicates;
        for &time in times {
            self.gap = self.gap.max(time.abs_diff(self.last.unwrap_or(self.from)));
            self.last = Some(time);
        }
        self.first = self.first.or(times.first().copied());
        let table = self.signal.table();
        for (column, array) in table.columns.iter().zip(batch.columns()) {
            match column.kind {
                Kind::Id => self.check_ids(column.name, array.as_string())?,
                Kind::Json => self.check_json(column.name, array.as_string())?,
                _ => {}
            }
        }
        let text = |name: &str| batch.column(table.index(name).expect("a column of the table")).as_string::<i32>();
        self.observe_resources(text("ResourceAttributes"))?;
        self.observe_services(text("ServiceName"));
        if self.signal == Signal::Traces {
            let at = table.index("Duration").expect("a column of the table");
            let durations = batch.column(at).as_primitive::<UInt64Type>().values();
            self.check_values("SpanKind", text("SpanKind"), &|text| records::kind(text).is_some())?;
            self.check_values("StatusCode", text("StatusCode"), &|text| records::status(text).is_some())?;
            self.observe_spans(times, text("TraceId"), text("ParentSpanId"), durations);
        }
        Ok(())
    }

    /// Longest time without a record, window edges included, in nanoseconds.
    pub fn longest_gap(&self) -> u64 {
        self.gap.max(self.to.abs_diff(self.last.unwrap_or(self.from)))
    }

    fn check_window(&self, times: &[i64]) -> Result<()> {
        let outside = times.iter().find(|&&time| time < self.from || time >= self.to);
        let Some(&outside) = outside else { return Ok(()) };
        Err(Problem::new(ErrorKind::Failed, "datapack.row_outside_window", "a record does not belong to its window")
            .place(self.file.clone())
            .found(DataTime(outside).to_string())
            .expected(format!("from {} to before {}", DataTime(self.from), DataTime(self.to)))
            .fix("read the half-open window, in UTC"))
    }

    fn check_ids(&self, column: &str, ids: &StringArray) -> Result<()> {
        let digits = id::digits(column);
        // A span without ids belongs to nothing; a log record may have none, and a root span has no parent.
        let may_be_empty = self.signal != Signal::Traces || column == "ParentSpanId";
        let good = |text: &str| id::parse(text, digits).is_some_and(|number| number != 0 || may_be_empty);
        let Some(row) = (0..ids.len()).find(|&row| !good(ids.value(row))) else { return Ok(()) };
        Err(Problem::new(ErrorKind::Failed, "datapack.id_malformed", "an id is malformed")
            .place(format!("{}: {column}", self.file))
            .found(format!("`{}`", ids.value(row)))
            .expected(format!("{digits} lower-case hexadecimal digits, not all zero")))
    }

    fn check_values(&self, column: &str, texts: &StringArray, known: &dyn Fn(&str) -> bool) -> Result<()> {
        let Some(row) = (0..texts.len()).find(|&row| !known(texts.value(row))) else { return Ok(()) };
        Err(Problem::new(
            ErrorKind::Failed,
            "datapack.value_unknown",
            "a column has a value that the format does not know",
        )
        .place(format!("{}: {column}", self.file))
        .found(format!("`{}`", texts.value(row)))
        .expected(if column == "SpanKind" {
            "Server, Client, Internal, Producer, Consumer or Unspecified"
        } else {
            "Unset, Ok or Error"
        }))
    }

    fn check_json(&self, column: &str, texts: &StringArray) -> Result<()> {
        let bad = (0..texts.len()).find(|&row| {
            let text = texts.value(row);
            !(text.starts_with('{') && text.ends_with('}'))
        });
        bad.map_or(Ok(()), |row| Err(self.malformed(column, texts.value(row))))
    }

    fn malformed(&self, column: &str, text: &str) -> Problem {
        Problem::new(ErrorKind::Failed, "datapack.attributes_malformed", "attributes are not a JSON object")
            .place(format!("{}: {column}", self.file))
            .found(format!("`{}`", &text[..text.floor_char_boundary(80)]))
            .expected("a JSON object whose values are strings")
    }

    fn observe_resources(&mut self, resources: &StringArray) -> Result<()> {
        for row in 0..resources.len() {
            let text = resources.value(row);
            let key = FixedState::default().hash_one(text);
            let mask = match self.resources.get(&key) {
                Some(&mask) => mask,
                None => {
                    let mask = attributes_of(text).ok_or_else(|| self.malformed("ResourceAttributes", text))?;
                    self.resources.insert(key, mask);
                    mask
                }
            };
            for (bit, count) in self.with_attribute.iter_mut().enumerate() {
                *count += u64::from(mask >> bit & 1);
            }
        }
        Ok(())
    }

    fn observe_services(&mut self, services: &StringArray) {
        for row in 0..services.len() {
            let name = services.value(row);
            if !self.services.contains(name) {
                self.services.insert(name.to_owned());
            }
        }
    }

    fn observe_spans(&mut self, times: &[i64], traces: &StringArray, parents: &StringArray, durations: &[u64]) {
        for (row, &time) in times.iter().enumerate() {
            if parents.value(row).is_empty() {
                self.root_spans += 1;
                self.longest_root_span_ns = self.longest_root_span_ns.max(durations[row]);
            }
            let trace = id::parse(traces.value(row), 32).expect("ids are checked before");
            // Rows are in order of time, so the first span seen is the first one.
            self.traces.entry(trace).or_insert((time, time)).1 = time;
        }
    }
}

/// Which of [`ATTRIBUTES`] a resource has with a value, as bits; nothing when it is not a JSON object.
fn attributes_of(resource: &str) -> Option<u8> {
    let map: Map<String, Value> = serde_json::from_str(resource).ok()?;
    let has = |name: &str| map.get(name).and_then(Value::as_str).is_some_and(|value| !value.is_empty());
    let mask = ATTRIBUTES
        .iter()
        .enumerate()
        .filter(|(_, name)| has(name) || ALIASES.iter().any(|(known, alias)| known == *name && has(alias)));
    Some(mask.fold(0, |mask, (bit, _)| mask | 1 << bit))
}
