//! Counting the records of a signal by what they carry, from a few columns and without building rows.
//!
//! Records that have the same resource and service and the same answers to the caller's questions are one [`Group`]. There are as
//! many groups as pods, not as records, so that whoever judges them does so at no cost.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::path::Path;

use arrow::array::{Array, AsArray, DictionaryArray, RecordBatch, StringArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::Int32Type;
use foldhash::fast::RandomState;
use model::{DataTime, Result, WallTime};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::column::{corrupt, times};
use crate::disk::{failed, failed_within};
use crate::segment::{Filter, GROUP_ROWS};
use crate::store::{Inner, settled};
use crate::{Query, Signal, SignalStore, Stream, attributes};

const SECOND: i64 = 1_000_000_000;

/// A question to one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trait {
    /// Whether one of these keys is among the record's own attributes with a value that is not empty. Asked only of the services that
    /// the caller names, since attributes are of every record's own; false of the others.
    Attribute(&'static [&'static str]),
    /// Whether the span has this kind, for example `Server`. Never true of other signals.
    Kind(&'static str),
    /// Whether the record names a trace. Never true of metrics.
    TraceId,
}

/// Records that do not differ in what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub service: String,
    /// Canonical JSON text: one object of strings.
    pub resource: String,
    /// The answer to each question, in the order in which they were asked.
    pub traits: Vec<bool>,
    pub records: u64,
    pub first: DataTime,
    pub last: DataTime,
    /// Records by whole second since 1970.
    pub seconds: BTreeMap<i64, u64>,
}

impl Group {
    /// The value of a key of the resource; `None` also when it is empty.
    pub fn resource_value(&self, key: &str) -> Option<String> {
        attributes::value_in(&self.resource, &[key]).into_iter().find(|value| !value.is_empty())
    }

    /// Records at or after an instant. Those of the instant's own second are all counted when the group begins at or after it.
    pub fn since(&self, instant: DataTime) -> u64 {
        if self.first >= instant {
            return self.records;
        }
        self.seconds.range(instant.0.div_euclid(SECOND)..).map(|(_, records)| records).sum()
    }
}

/// A namespace whose records can be asked for, and when the last of them arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present {
    pub stream: Stream,
    pub arrived: WallTime,
}

impl SignalStore {
    /// Every namespace that a resource names, also beside the one that its stream is kept under, in order.
    pub fn present(&self) -> Result<Vec<Present>> {
        self.flush_received(None)?;
        settled(|| {
            let runs: BTreeSet<_> = self.streams()?.into_iter().map(|stream| stream.run).collect();
            let mut found: BTreeMap<Stream, WallTime> = BTreeMap::new();
            for run in runs {
                let _held = self.inner.hold(run)?;
                for chunk in self.inner.chunks_of(run)? {
                    let manifest = self.inner.manifest(&chunk)?;
                    for namespace in manifest.segments.iter().flat_map(|segment| segment.namespaces.keys()) {
                        let stream = Stream { namespace: namespace.clone(), run };
                        let arrived = found.entry(stream).or_insert(manifest.arrived);
                        *arrived = manifest.arrived.max(*arrived);
                    }
                }
            }
            Ok(found.into_iter().map(|(stream, arrived)| Present { stream, arrived }).collect())
        })
    }

    /// The groups of the records that a query asks for, by service and resource. `attributes_of` names the services whose records are
    /// asked for their own attributes.
    pub fn census(&self, query: &Query, traits: &[Trait], attributes_of: &BTreeSet<String>) -> Result<Vec<Group>> {
        self.flush_received(query.run)?;
        settled(|| Census::of(&self.inner, query, traits, attributes_of))
    }
}

struct Census<'a> {
    traits: &'a [Trait],
    attributes_of: &'a BTreeSet<String>,
    filter: Filter<'a>,
    signal: Signal,
    groups: HashMap<(u32, u32, u64), Group, RandomState>,
    resources: Names,
    services: Names,
    /// Of each of the services, whether its records are asked for their own attributes.
    asked: Vec<bool>,
}

impl<'a> Census<'a> {
    fn of(
        store: &Inner,
        query: &'a Query,
        traits: &'a [Trait],
        attributes_of: &'a BTreeSet<String>,
    ) -> Result<Vec<Group>> {
        let mut census = Self {
            traits,
            attributes_of,
            filter: Filter::new(query),
            signal: query.signal,
            groups: HashMap::default(),
            resources: Names::default(),
            services: Names::default(),
            asked: Vec::new(),
        };
        let _held = store.hold(query.run)?;
        for chunk in store.chunks_of(query.run)? {
            for segment in store.manifest(&chunk)?.segments.iter().filter(|segment| segment.may_have(query)) {
                census.segment(&chunk.join(&segment.file))?;
            }
        }
        let mut groups: Vec<Group> = census.groups.into_values().collect();
        groups.sort_by(|a, b| (&a.service, &a.resource, &a.traits).cmp(&(&b.service, &b.resource, &b.traits)));
        Ok(groups)
    }

    fn segment(&mut self, path: &Path) -> Result<()> {
        let file = File::open(path).map_err(failed(path))?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(failed_within(path))?;
        let columns = ProjectionMask::columns(builder.parquet_schema(), self.columns());
        let reader =
            builder.with_projection(columns).with_batch_size(GROUP_ROWS).build().map_err(failed_within(path))?;
        for batch in reader {
            self.batch(&batch.map_err(failed_within(path))?)?;
        }
        Ok(())
    }

    /// The columns that are read: the filter's, and those that the questions are about.
    fn columns(&self) -> Vec<&'static str> {
        let time = if matches!(self.signal, Signal::Traces | Signal::Logs) { "Timestamp" } else { "TimeUnix" };
        let mut columns = vec![time, "ResourceAttributes", "ServiceName"];
        if self.signal == Signal::Logs {
            columns.push("LogAttributes");
        }
        columns.extend(self.traits.iter().filter_map(|wanted| self.column(*wanted)));
        columns
    }

    /// The column that answers a question, if the signal has one.
    fn column(&self, wanted: Trait) -> Option<&'static str> {
        match (wanted, self.signal) {
            (Trait::Attribute(_), Signal::Traces) => Some("SpanAttributes"),
            (Trait::Attribute(_), Signal::Logs) => Some("LogAttributes"),
            (Trait::Attribute(_), _) => Some("Attributes"),
            (Trait::Kind(_), Signal::Traces) => Some("SpanKind"),
            (Trait::TraceId, Signal::Traces | Signal::Logs) => Some("TraceId"),
            (Trait::Kind(_) | Trait::TraceId, _) => None,
        }
    }

    fn batch(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = self.filter.rows(batch)?;
        let times = times(batch.column(0))?.values();
        let resources = Words::of(batch, "ResourceAttributes")?;
        let services = Words::of(batch, "ServiceName")?;
        let answers: Vec<Answer<'_>> =
            self.traits.iter().map(|&wanted| Answer::of(batch, wanted, self.column(wanted))).collect::<Result<_>>()?;
        let mut resource_ids: Vec<OnceCell<u32>> = vec![OnceCell::new(); resources.values.len()];
        let mut service_ids: Vec<OnceCell<u32>> = vec![OnceCell::new(); services.values.len()];
        let known = |names: &mut Names, ids: &mut [OnceCell<u32>], words: &Words<'_>, row| {
            let key = words.key(row);
            *ids[key].get_or_init(|| names.id(words.values.value(key)))
        };
        for row in rows {
            let row = row as usize;
            let resource = known(&mut self.resources, &mut resource_ids, &resources, row);
            let service = known(&mut self.services, &mut service_ids, &services, row);
            if self.asked.len() < self.services.list.len() {
                self.asked.push(self.attributes_of.contains(&self.services.list[service as usize]));
            }
            let attributes = self.asked[service as usize];
            let bits = answers.iter().enumerate().map(|(at, answer)| u64::from(answer.get(row, attributes)) << at);
            let mask = bits.fold(0, |mask, bit| mask | bit);
            let time = DataTime(times[row]);
            let group = self.groups.entry((resource, service, mask)).or_insert_with(|| Group {
                service: self.services.list[service as usize].clone(),
                resource: self.resources.list[resource as usize].clone(),
                traits: (0..answers.len()).map(|at| mask >> at & 1 == 1).collect(),
                records: 0,
                first: time,
                last: time,
                seconds: BTreeMap::new(),
            });
            group.records += 1;
            group.first = group.first.min(time);
            group.last = group.last.max(time);
            *group.seconds.entry(time.0.div_euclid(SECOND)).or_default() += 1;
        }
        Ok(())
    }
}

/// Texts by the order in which they were first met.
#[derive(Default)]
struct Names {
    ids: HashMap<String, u32, RandomState>,
    list: Vec<String>,
}

impl Names {
    fn id(&mut self, name: &str) -> u32 {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = u32::try_from(self.list.len()).expect("memory is bounded long before 4 billion distinct texts");
        self.ids.insert(name.to_owned(), id);
        self.list.push(name.to_owned());
        id
    }
}

/// A column of repeated text.
struct Words<'a> {
    array: &'a DictionaryArray<Int32Type>,
    values: &'a StringArray,
}

impl<'a> Words<'a> {
    fn of(batch: &'a RecordBatch, column: &str) -> Result<Self> {
        let array = batch.column_by_name(column).ok_or_else(|| corrupt(format!("no column `{column}`")))?;
        let array = array.as_dictionary_opt::<Int32Type>().ok_or_else(|| corrupt("text that is not a dictionary"))?;
        let values = array.values().as_string_opt::<i32>().ok_or_else(|| corrupt("a dictionary of other than text"))?;
        if array.null_count() > 0 {
            return Err(corrupt("text without a value"));
        }
        Ok(Self { array, values })
    }

    fn key(&self, row: usize) -> usize {
        self.array.keys().value(row) as usize
    }
}

/// The answers to one question in a batch; asked once for each distinct text.
enum Answer<'a> {
    Never,
    Word {
        words: Words<'a>,
        wanted: Trait,
        known: Vec<OnceCell<bool>>,
    },
    /// By where each row's bytes begin.
    NotEmpty(&'a OffsetBuffer<i32>),
}

impl<'a> Answer<'a> {
    fn of(batch: &'a RecordBatch, wanted: Trait, column: Option<&str>) -> Result<Self> {
        let Some(column) = column else { return Ok(Self::Never) };
        if wanted == Trait::TraceId {
            let array = batch.column_by_name(column).ok_or_else(|| corrupt(format!("no column `{column}`")))?;
            let ids = array.as_binary_opt::<i32>().ok_or_else(|| corrupt("an id that is not bytes"))?;
            return Ok(Self::NotEmpty(ids.offsets()));
        }
        let words = Words::of(batch, column)?;
        let known = vec![OnceCell::new(); words.values.len()];
        Ok(Self::Word { words, wanted, known })
    }

    fn get(&self, row: usize, attributes: bool) -> bool {
        match self {
            Self::Never => false,
            Self::Word { wanted: Trait::Attribute(_), .. } if !attributes => false,
            Self::NotEmpty(offsets) => offsets[row] < offsets[row + 1],
            Self::Word { words, wanted, known } => {
                let key = words.key(row);
                let text = words.values.value(key);
                *known[key].get_or_init(|| match wanted {
                    Trait::Kind(kind) => text == *kind,
                    Trait::Attribute(keys) => keys.iter().any(|key| has_value(text, key)),
                    Trait::TraceId => false,
                })
            }
        }
    }
}

/// Whether canonical JSON text has the key with a value that is not empty. Quotes inside keys and values are escaped, so the key with
/// its delimiters can only be a real one.
fn has_value(json: &str, key: &str) -> bool {
    let start = format!("\"{key}\":\"");
    let is_key = |at: usize| matches!(json.as_bytes()[at - 1], b'{' | b',');
    json.match_indices(&start).any(|(at, _)| is_key(at) && json.as_bytes()[at + start.len()] != b'"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_counts_when_it_has_a_value_and_is_no_part_of_one() {
        let json = r#"{"a":"x","empty":"","quoted":"{\"b\":\"1\",\"c\":\"2\"}","z.a":"1"}"#;
        let found = ["a", "empty", "quoted", "b", "c", "z.a", "z"].map(|key| has_value(json, key));
        assert_eq!(found, [true, false, true, false, false, true, false]);
    }
}
