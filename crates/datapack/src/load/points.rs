//! Gauge, sum and histogram points as frames.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use arrow::array::{Array, Float64Array};
use arrow::datatypes::{Float64Type, Int32Type, TimestampNanosecondType, UInt64Type};
use foldhash::fast::FixedState;
use model::Result;
use rca::frame::{HistogramPoint, Names, Point};
use serde_json::{Map, Value};

use super::column::{Batch, Projection, read};
use super::{Part, Rows};
use crate::schema::Signal;

/// OTLP's number for points that run since the process started.
const CUMULATIVE: i32 = 2;

/// What a point belongs to: its workload, and what has none to its record's own service name. The public adapter asks for
/// the container first, which is called alike in every pod of some systems and is no candidate in others.
const SERVICE_KEYS: [&str; 2] = ["k8s.deployment.name", "k8s.statefulset.name"];

/// Names of a file, and the series that its points belong to.
#[derive(Default)]
struct Series {
    names: Names,
    /// Resources and attributes; they are named only as parts of a series.
    texts: Names,
    ids: HashMap<(u32, u32, u32), u32, FixedState>,
    /// The service that a resource names, by the resource's place in `texts`.
    services: HashMap<u32, Option<u32>, FixedState>,
}

/// The identifying columns of a batch.
struct Identity {
    metric: Vec<u32>,
    /// The record's own service name.
    service: Vec<u32>,
    resource: Vec<u32>,
    series: Vec<u32>,
}

impl Series {
    fn identify(&mut self, batch: &Batch<'_>) -> Result<Identity> {
        let metric = batch.mapped("MetricName", |text| Ok(self.names.intern(text)))?;
        let service = batch.mapped("ServiceName", |text| Ok(self.names.intern(text)))?;
        let resource = batch.mapped("ResourceAttributes", |text| Ok(self.texts.intern(text)))?;
        let attributes = batch.mapped("Attributes", |text| Ok(self.texts.intern(text)))?;
        let keys = metric.iter().zip(&resource).zip(&attributes);
        let series =
            keys.map(|((&metric, &resource), &attributes)| self.series(metric, resource, attributes)).collect();
        Ok(Identity { metric, service, resource, series })
    }

    fn series(&mut self, metric: u32, resource: u32, attributes: u32) -> u32 {
        *self.ids.entry((metric, resource, attributes)).or_insert_with(|| {
            let text = [self.names.get(metric), self.texts.get(resource), self.texts.get(attributes)].concat();
            self.names.intern(&text)
        })
    }

    fn service_of(&mut self, resource: u32) -> Option<u32> {
        let (names, texts) = (&mut self.names, &self.texts);
        *self.services.entry(resource).or_insert_with(|| {
            let map: Map<String, Value> = serde_json::from_str(texts.get(resource)).ok()?;
            let named = |key: &&str| map.get(*key).and_then(Value::as_str).filter(|name| !name.is_empty());
            SERVICE_KEYS.iter().find_map(named).map(|name| names.intern(name))
        })
    }
}

pub(super) fn points(path: &Path, signal: Signal) -> Result<Part> {
    let projection = Projection {
        table: signal.table(),
        plain: &["TimeUnix", "Value"],
        dictionaries: &["MetricName", "ServiceName", "ResourceAttributes", "Attributes"],
    };
    let (mut series, mut services, mut points) = (Series::default(), BTreeSet::new(), Vec::new());
    read(path, projection, |batch| {
        let identity = series.identify(batch)?;
        let (times, values) =
            (batch.numbers::<TimestampNanosecondType>("TimeUnix"), batch.numbers::<Float64Type>("Value"));
        services.extend(&identity.service);
        points.extend((0..batch.rows()).map(|row| Point {
            time: times.value(row),
            service: series.service_of(identity.resource[row]).unwrap_or(identity.service[row]),
            metric: identity.metric[row],
            series: identity.series[row],
            value: values.value(row),
        }));
        Ok(())
    })?;
    let rows = if signal == Signal::Metrics { Rows::Gauges(points) } else { Rows::Sums(points) };
    Ok(Part { names: series.names, services, rows })
}

pub(super) fn histograms(path: &Path) -> Result<Part> {
    let projection = Projection {
        table: Signal::MetricsHistogram.table(),
        plain: &["TimeUnix", "Count", "Sum", "Min", "Max", "AggregationTemporality"],
        dictionaries: &["MetricName", "ServiceName", "ResourceAttributes", "Attributes"],
    };
    let (mut series, mut services, mut points) = (Series::default(), BTreeSet::new(), Vec::new());
    read(path, projection, |batch| {
        let identity = series.identify(batch)?;
        let (times, counts) =
            (batch.numbers::<TimestampNanosecondType>("TimeUnix"), batch.numbers::<UInt64Type>("Count"));
        let temporality = batch.numbers::<Int32Type>("AggregationTemporality");
        let [sums, mins, maxs] = ["Sum", "Min", "Max"].map(|name| batch.numbers::<Float64Type>(name));
        let number = |array: &Float64Array, row: usize| if array.is_valid(row) { array.value(row) } else { f64::NAN };
        services.extend(&identity.service);
        points.extend((0..batch.rows()).map(|row| HistogramPoint {
            time: times.value(row),
            service: identity.service[row],
            metric: identity.metric[row],
            series: identity.series[row],
            count: counts.value(row) as f64,
            sum: number(sums, row),
            min: number(mins, row),
            max: number(maxs, row),
            cumulative: temporality.value(row) == CUMULATIVE,
        }));
        Ok(())
    })?;
    Ok(Part { names: series.names, services, rows: Rows::Histograms(points) })
}
