//! One segment: a sorted, compressed parquet file with rows of one signal.

mod pages;

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int32Type;
use model::{DataTime, Result};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::arrow_writer::compute_leaves;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnPath;
use serde::{Deserialize, Serialize};

use crate::column::{Column, Form, corrupt, times};
use crate::convert::{K8S_NAMESPACE, SERVICE_NAMESPACE};
use crate::disk::{failed, failed_within, unreadable};
use crate::table::{self, Table};
use crate::{Query, Signal, attributes};

use pages::Pages;

/// Rows of a row group: what is read at least, and what is skipped by time at least.
pub(crate) const GROUP_ROWS: usize = 65_536;

/// How many rows of a namespace a segment has, and when the first and the last one are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extent {
    pub rows: u64,
    pub first: DataTime,
    pub last: DataTime,
}

/// What the manifest says of one segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Segment {
    pub signal: Signal,
    pub file: String,
    pub rows: u64,
    pub bytes: u64,
    /// By each namespace that a read may ask for; a row counts under every namespace that its resource names.
    pub namespaces: BTreeMap<String, Extent>,
}

impl Segment {
    pub fn may_have(&self, query: &Query) -> bool {
        let within = |extent: &Extent| extent.first < query.to && extent.last >= query.from;
        self.signal == query.signal && self.namespaces.get(&query.namespace).is_some_and(within)
    }
}

/// Sorts the table and writes it to a new file in `folder`; on disk when this returns.
pub(crate) fn write(folder: &Path, file: String, signal: Signal, table: &mut dyn Table) -> Result<Segment> {
    let path = folder.join(&file);
    let order = table::sorted(table);
    let sink = File::create(&path).map_err(failed(&path))?;
    let durable = sink.try_clone().map_err(failed(&path))?;
    write_groups(sink, signal, table, &order).map_err(failed_within(&path))?;
    durable.sync_all().map_err(failed(&path))?;
    let bytes = durable.metadata().map_err(failed(&path))?.len();
    Ok(Segment { signal, file, rows: order.len() as u64, bytes, namespaces: extents(table) })
}

fn write_groups(sink: File, signal: Signal, table: &dyn Table, order: &[u32]) -> parquet::errors::Result<()> {
    let level = ZstdLevel::try_new(1)?;
    let schema = table::schema(signal, table, Form::Segment);
    let writer = ArrowWriter::try_new(sink, schema.clone(), Some(properties(table, level)))?;
    let (mut file, factory) = writer.into_serialized_writer()?;
    let mut pages = Pages::new(level)?;
    for (number, rows) in order.chunks(GROUP_ROWS).enumerate() {
        let writers = factory.create_column_writers(number)?;
        let descriptors = file.schema_descr().columns().to_vec();
        let mut group = file.next_row_group()?;
        let columns = table.columns().into_iter().zip(schema.fields()).zip(writers.into_iter().zip(descriptors));
        for (((name, column), field), (mut writer, descriptor)) in columns {
            match column.as_text().filter(|_| !mostly_unique(name, column, table.len())) {
                Some(text) => {
                    let (bytes, close) = pages.chunk(text, rows, descriptor)?;
                    group.append_column(&bytes, close)?;
                }
                None => {
                    for leaf in compute_leaves(field, &column.take(rows, Form::Segment))? {
                        writer.write(&leaf)?;
                    }
                    writer.close()?.append_to_row_group(&mut group)?;
                }
            }
        }
        group.close()?;
    }
    file.close()?;
    Ok(())
}

/// Where most values differ, a dictionary of them is only work.
fn mostly_unique(name: &str, column: &dyn Column, rows: usize) -> bool {
    match column.as_text() {
        Some(text) => text.pool().len() * 2 > rows,
        None => ["SpanId", "ParentSpanId", "Duration"].contains(&name),
    }
}

fn properties(table: &dyn Table, level: ZstdLevel) -> WriterProperties {
    let time = table.columns()[0].0;
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_created_by("aegis telemetry 1".to_owned())
        .set_statistics_enabled(EnabledStatistics::None)
        .set_column_statistics_enabled(ColumnPath::from(time), EnabledStatistics::Chunk)
        .set_column_dictionary_enabled(ColumnPath::from(time), false)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(Some(GROUP_ROWS));
    for (name, column) in table.columns() {
        if mostly_unique(name, column, table.len()) {
            builder = builder.set_column_dictionary_enabled(ColumnPath::from(name), false);
        }
    }
    builder.build()
}

/// When the rows of each namespace are.
pub(crate) fn extents(table: &dyn Table) -> BTreeMap<String, Extent> {
    let resources = table.resources();
    let mut by_resource: Vec<Option<Extent>> = vec![None; resources.pool().len()];
    for (&id, &time) in resources.ids().iter().zip(&table.times().0) {
        let time = DataTime(time);
        let extent = by_resource[id as usize].get_or_insert(Extent { rows: 0, first: time, last: time });
        extent.rows += 1;
        extent.first = extent.first.min(time);
        extent.last = extent.last.max(time);
    }
    let mut by_namespace: BTreeMap<String, Extent> = BTreeMap::new();
    for (json, extent) in resources.pool().zip(by_resource) {
        let Some(extent) = extent else { continue };
        for namespace in namespaces(json) {
            let sum = by_namespace.entry(namespace).or_insert(Extent { rows: 0, ..extent });
            sum.rows += extent.rows;
            sum.first = sum.first.min(extent.first);
            sum.last = sum.last.max(extent.last);
        }
    }
    by_namespace
}

/// The namespaces under which a resource's records are found, each once; the empty one when it names none.
fn namespaces(resource: &str) -> Vec<String> {
    let mut names = attributes::value_in(resource, &[K8S_NAMESPACE, SERVICE_NAMESPACE]);
    names.retain(|name| !name.is_empty());
    names.dedup();
    if names.is_empty() {
        names.push(String::new());
    }
    names
}

/// Decides which rows a query wants. Remembers its verdict on each distinct resource.
pub(crate) struct Filter<'a> {
    query: &'a Query,
    resources: HashMap<String, bool>,
}

impl<'a> Filter<'a> {
    pub fn new(query: &'a Query) -> Self {
        Self { query, resources: HashMap::new() }
    }

    /// The rows of a segment's batch that the query wants.
    pub fn rows(&mut self, batch: &RecordBatch) -> Result<Vec<u32>> {
        let (from, to) = (self.query.from.0, self.query.to.0);
        let times = times(batch.column(0))?;
        let query = self.query;
        let known = &mut self.resources;
        let mut resources = Marks::of(batch, "ResourceAttributes", |json| {
            *known.entry(json.to_owned()).or_insert_with(|| namespaces(json).contains(&query.namespace))
        })?;
        // Events of Kubernetes arrive as logs and name what was done to a pod: they would give the answer away.
        let mut events = match query.signal {
            Signal::Logs => {
                Some(Marks::of(batch, "LogAttributes", |json| attributes::has_pair(json, "event.domain", "k8s"))?)
            }
            _ => None,
        };
        let mut rows = Vec::new();
        for (row, &time) in times.values().iter().enumerate() {
            let inside = from <= time && time < to;
            if inside && resources.get(row)? && !events.as_mut().map_or(Ok(false), |events| events.get(row))? {
                rows.push(row as u32);
            }
        }
        Ok(rows)
    }
}

/// A yes or no for each row that depends only on the row's text in one column; asked once for each distinct text that is met.
struct Marks<'a, F> {
    keys: &'a arrow::array::Int32Array,
    values: &'a arrow::array::StringArray,
    known: Vec<OnceCell<bool>>,
    ask: F,
}

impl<'a, F: FnMut(&str) -> bool> Marks<'a, F> {
    fn of(batch: &'a RecordBatch, column: &str, ask: F) -> Result<Self> {
        let array = batch.column_by_name(column).ok_or_else(|| corrupt(format!("no column `{column}`")))?;
        let array = array.as_dictionary_opt::<Int32Type>().ok_or_else(|| corrupt("text that is not a dictionary"))?;
        let values = array.values().as_string_opt::<i32>().ok_or_else(|| corrupt("a dictionary of other than text"))?;
        Ok(Self { keys: array.keys(), values, known: vec![OnceCell::new(); values.len()], ask })
    }

    fn get(&mut self, row: usize) -> Result<bool> {
        if self.keys.is_null(row) {
            return Err(corrupt("text without a value"));
        }
        let key = self.keys.value(row) as usize;
        Ok(*self.known[key].get_or_init(|| (self.ask)(self.values.value(key))))
    }
}

/// Appends the rows of a segment that the filter's query wants. Row groups outside its time are not read.
pub(crate) fn read(path: &Path, filter: &mut Filter<'_>, table: &mut dyn Table) -> Result<()> {
    let file = File::open(path).map_err(failed(path))?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(unreadable(path))?;
    let (from, to) = (filter.query.from.0, filter.query.to.0);
    let wanted = |group: &RowGroupMetaData| match group.column(0).statistics() {
        Some(Statistics::Int64(time)) => {
            time.min_opt().is_none_or(|&first| first < to) && time.max_opt().is_none_or(|&last| last >= from)
        }
        _ => true,
    };
    let groups = builder.metadata().row_groups().iter().enumerate().filter(|(_, group)| wanted(group));
    let groups = groups.map(|(at, _)| at).collect();
    let reader = builder.with_row_groups(groups).with_batch_size(GROUP_ROWS).build().map_err(unreadable(path))?;
    for batch in reader {
        let batch = batch.map_err(unreadable(path))?;
        let rows = filter.rows(&batch)?;
        table::append(table, &batch, &rows)?;
    }
    Ok(())
}

/// Appends all rows of a segment.
pub(crate) fn read_all(path: &Path, table: &mut dyn Table) -> Result<()> {
    let file = File::open(path).map_err(failed(path))?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(failed_within(path))?;
    for batch in builder.with_batch_size(GROUP_ROWS).build().map_err(failed_within(path))? {
        let batch = batch.map_err(failed_within(path))?;
        let rows: Vec<u32> = (0..batch.num_rows() as u32).collect();
        table::append(table, &batch, &rows)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of every length, numbers of every width, and more rows than one group has.
    #[test]
    fn texts_are_read_back_as_they_were_written() {
        let mut rows = crate::table::Points::default();
        let (mut written, mut state) = (Vec::new(), 1_u64);
        while written.len() < GROUP_ROWS + 5_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (distinct, run) = (1 << (written.len() / 8_000), 1 + (state >> 40) % 40);
            let text = format!("text {}", (state >> 20) % distinct);
            written.extend((0..run).map(|_| text.clone()));
        }
        for (at, text) in (0..).zip(&written) {
            rows.time.push(at);
            rows.metric.push(text);
            for column in [&mut rows.description, &mut rows.service, &mut rows.unit, &mut rows.resource] {
                column.push("");
            }
            rows.attributes.push(&at.to_string());
            rows.value.push(at as f64);
        }
        let folder = tempfile::tempdir().unwrap();
        let segment = write(folder.path(), "one.parquet".into(), Signal::Gauge, &mut rows).unwrap();
        assert_eq!(segment.rows, written.len() as u64);
        let mut again = crate::table::Points::default();
        read_all(&folder.path().join("one.parquet"), &mut again).unwrap();
        let text = |column: &crate::column::Text, row: usize| column.text(column.ids()[row]).to_owned();
        let metrics: Vec<String> = (0..written.len()).map(|row| text(&again.metric, row)).collect();
        assert!(metrics == written);
        assert_eq!(text(&again.attributes, 70_000), "70000");
    }

    #[test]
    fn a_resource_is_found_under_both_of_its_namespaces() {
        assert_eq!(namespaces(r#"{"k8s.namespace.name":"ts0","service.namespace":"shop"}"#), ["ts0", "shop"]);
        assert_eq!(namespaces(r#"{"k8s.namespace.name":"ts0","service.namespace":"ts0"}"#), ["ts0"]);
        assert_eq!(namespaces(r#"{"service.name":"x"}"#), [""]);
    }
}
