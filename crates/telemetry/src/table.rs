//! The tables of the five signals: their columns under the names and types of a datapack, and their one total order.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Float64Type, Int32Type, Schema, SchemaRef, TimeUnit, UInt8Type, UInt64Type};
use model::Result;

use crate::Signal;
use crate::column::{Column, Form, Hex, Lists, Numbers, Optional, Text, Times, corrupt};

/// A table whose rows are spans, log records or data points.
pub(crate) trait Table: Send + Sync {
    /// Names and columns; the time is the first one.
    fn columns(&self) -> Vec<(&'static str, &dyn Column)>;
    fn columns_mut(&mut self) -> Vec<&mut dyn Column>;
    /// The columns that decide between rows of equal time. They are all the others, so only equal rows compare equal.
    fn ties(&self) -> Vec<&dyn Column>;
    fn times(&self) -> &Times;
    fn resources(&self) -> &Text;

    fn len(&self) -> usize {
        self.times().0.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn bytes(&self) -> usize {
        self.columns().iter().map(|(_, column)| column.bytes()).sum()
    }
}

macro_rules! table {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty = $label:literal,)* } ties { $($tie:ident)* }) => {
        $(#[$doc])*
        #[derive(Default)]
        pub(crate) struct $name { $(pub $field: $kind,)* }

        impl Table for $name {
            fn columns(&self) -> Vec<(&'static str, &dyn Column)> {
                vec![$(($label, &self.$field as &dyn Column),)*]
            }
            fn columns_mut(&mut self) -> Vec<&mut dyn Column> {
                vec![$(&mut self.$field as &mut dyn Column,)*]
            }
            fn ties(&self) -> Vec<&dyn Column> {
                vec![$(&self.$tie as &dyn Column,)*]
            }
            fn times(&self) -> &Times {
                &self.time
            }
            fn resources(&self) -> &Text {
                &self.resource
            }
        }
    };
}

table! {
    Spans {
        time: Times = "Timestamp",
        trace: Hex<16> = "TraceId",
        span: Hex<8> = "SpanId",
        parent: Hex<8> = "ParentSpanId",
        state: Text = "TraceState",
        name: Text = "SpanName",
        kind: Text = "SpanKind",
        service: Text = "ServiceName",
        resource: Text = "ResourceAttributes",
        attributes: Text = "SpanAttributes",
        duration: Numbers<UInt64Type> = "Duration",
        status: Text = "StatusCode",
        message: Text = "StatusMessage",
    } ties { trace span parent service name kind duration status message state resource attributes }
}

table! {
    Logs {
        time: Times = "Timestamp",
        trace: Hex<16> = "TraceId",
        span: Hex<8> = "SpanId",
        severity: Text = "SeverityText",
        severity_number: Numbers<UInt8Type> = "SeverityNumber",
        service: Text = "ServiceName",
        body: Text = "Body",
        resource: Text = "ResourceAttributes",
        attributes: Text = "LogAttributes",
    } ties { trace span service severity_number severity body resource attributes }
}

table! {
    /// Gauge and sum points.
    Points {
        time: Times = "TimeUnix",
        metric: Text = "MetricName",
        description: Text = "MetricDescription",
        value: Numbers<Float64Type> = "Value",
        service: Text = "ServiceName",
        unit: Text = "MetricUnit",
        resource: Text = "ResourceAttributes",
        attributes: Text = "Attributes",
    } ties { metric service resource attributes value unit description }
}

table! {
    Histograms {
        time: Times = "TimeUnix",
        metric: Text = "MetricName",
        service: Text = "ServiceName",
        unit: Text = "MetricUnit",
        resource: Text = "ResourceAttributes",
        attributes: Text = "Attributes",
        count: Numbers<UInt64Type> = "Count",
        sum: Optional = "Sum",
        buckets: Lists<UInt64Type> = "BucketCounts",
        bounds: Lists<Float64Type> = "ExplicitBounds",
        min: Optional = "Min",
        max: Optional = "Max",
        temporality: Numbers<Int32Type> = "AggregationTemporality",
    } ties { metric service resource attributes count sum buckets bounds min max temporality unit }
}

/// One table for each signal.
#[derive(Default)]
pub(crate) struct Tables {
    pub traces: Spans,
    pub logs: Logs,
    pub gauge: Points,
    pub sum: Points,
    pub histogram: Histograms,
}

impl Tables {
    pub fn get(&self, signal: Signal) -> &dyn Table {
        match signal {
            Signal::Traces => &self.traces,
            Signal::Logs => &self.logs,
            Signal::Gauge => &self.gauge,
            Signal::Sum => &self.sum,
            Signal::Histogram => &self.histogram,
        }
    }

    pub fn get_mut(&mut self, signal: Signal) -> &mut dyn Table {
        match signal {
            Signal::Traces => &mut self.traces,
            Signal::Logs => &mut self.logs,
            Signal::Gauge => &mut self.gauge,
            Signal::Sum => &mut self.sum,
            Signal::Histogram => &mut self.histogram,
        }
    }

    /// Removes a signal's rows and keeps their memory for the next ones.
    pub fn clear(&mut self, signal: Signal) {
        self.get_mut(signal).columns_mut().into_iter().for_each(|column| column.clear());
    }

    pub fn bytes(&self) -> usize {
        Signal::ALL.iter().map(|&signal| self.get(signal).bytes()).sum()
    }
}

/// An empty table of a signal.
pub(crate) fn empty(signal: Signal) -> Box<dyn Table> {
    match signal {
        Signal::Traces => Box::new(Spans::default()),
        Signal::Logs => Box::new(Logs::default()),
        Signal::Gauge | Signal::Sum => Box::new(Points::default()),
        Signal::Histogram => Box::new(Histograms::default()),
    }
}

const SECONDS_COLUMN: &str = "TimestampTime";

impl Signal {
    /// The schema of what a read gives: plain types, times in nanoseconds UTC, nullable only where OTLP lets a number be absent.
    pub fn schema(self) -> SchemaRef {
        schema(self, &*empty(self), Form::Plain)
    }
}

pub(crate) fn schema(signal: Signal, table: &dyn Table, form: Form) -> SchemaRef {
    let columns = table.columns();
    let field = |(name, column): &(&str, &dyn Column)| Field::new(*name, column.data_type(form), column.nullable());
    let mut fields: Vec<Field> = columns.iter().map(field).collect();
    if signal == Signal::Logs && form == Form::Plain {
        let millis = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
        fields.insert(1, Field::new(SECONDS_COLUMN, millis, false));
    }
    Arc::new(Schema::new(fields))
}

/// The rows in their total order: time, then every other column, so that equal records give equal bytes in any order of arrival.
pub(crate) fn sorted(table: &mut dyn Table) -> Vec<u32> {
    table.columns_mut().into_iter().for_each(|column| column.rank());
    let ties = table.ties();
    let times = &table.times().0;
    let mut rows: Vec<(i64, u32)> = times.iter().copied().zip(0..).collect();
    // A stable sort merges runs that are in order already, which is what segments are.
    rows.sort_by(|a, b| {
        let between =
            || ties.iter().map(|column| column.compare(a.1 as usize, b.1 as usize)).find(|order| order.is_ne());
        a.0.cmp(&b.0).then_with(|| between().unwrap_or(std::cmp::Ordering::Equal))
    });
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The given rows as a batch of the signal's schema.
pub(crate) fn batch(signal: Signal, table: &dyn Table, schema: &SchemaRef, rows: &[u32], form: Form) -> RecordBatch {
    let mut arrays: Vec<ArrayRef> = table.columns().iter().map(|(_, column)| column.take(rows, form)).collect();
    if signal == Signal::Logs && form == Form::Plain {
        arrays.insert(1, table.times().whole_seconds(rows));
    }
    RecordBatch::try_new(schema.clone(), arrays).expect("the schema is made from the same columns")
}

/// Appends rows of a segment's batch.
pub(crate) fn append(table: &mut dyn Table, batch: &RecordBatch, keep: &[u32]) -> Result<()> {
    let names: Vec<&str> = table.columns().iter().map(|(name, _)| *name).collect();
    for (name, column) in names.into_iter().zip(table.columns_mut()) {
        let array = batch.column_by_name(name).ok_or_else(|| corrupt(format!("no column `{name}`")))?;
        column.append(array.as_ref(), keep)?;
    }
    Ok(())
}
