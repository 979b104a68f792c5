//! Gauge, sum and histogram points to rows.

use crate::Accepted;
use crate::attributes;
use crate::convert::{Count, Origin, Route, TimeBounds};
use crate::otlp::ExportMetricsServiceRequest;
use crate::otlp::common::KeyValue;
use crate::otlp::metrics::metric::Data;
use crate::otlp::metrics::number_data_point::Value;
use crate::otlp::metrics::{DataPointFlags, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics};
use crate::refusal::{Refusal, Tally};
use crate::table::{Histograms, Points, Tables};

pub(crate) fn metrics(
    request: &ExportMetricsServiceRequest,
    bounds: &TimeBounds,
    route: &mut impl Route,
) -> (Accepted, Tally) {
    let mut count = Count::default();
    let mut scratch = String::new();
    for group in &request.resource_metrics {
        let metrics = || all(group);
        match Origin::of(group.resource.as_ref()) {
            Ok(origin) => {
                let tables = route.tables(origin.namespace);
                metrics().for_each(|metric| push(metric, &origin, bounds, tables, &mut count, &mut scratch));
            }
            Err(refusal) => count.tally.add(refusal, metrics().map(points_of).sum()),
        }
    }
    count.finish()
}

fn all(group: &ResourceMetrics) -> impl Iterator<Item = &Metric> {
    group.scope_metrics.iter().flat_map(|scope| &scope.metrics)
}

/// The number of points of a metric; a metric without data counts as one refused record, so that it is not lost unseen.
fn points_of(metric: &Metric) -> u64 {
    let points = match &metric.data {
        Some(Data::Gauge(gauge)) => gauge.data_points.len(),
        Some(Data::Sum(sum)) => sum.data_points.len(),
        Some(Data::Histogram(histogram)) => histogram.data_points.len(),
        Some(Data::ExponentialHistogram(histogram)) => histogram.data_points.len(),
        Some(Data::Summary(summary)) => summary.data_points.len(),
        None => 1,
    };
    points as u64
}

fn push(
    metric: &Metric,
    origin: &Origin<'_>,
    bounds: &TimeBounds,
    tables: &mut Tables,
    count: &mut Count,
    scratch: &mut String,
) {
    if metric.name.is_empty() {
        return count.tally.add(Refusal::Unnamed, points_of(metric));
    }
    let numbers = |points: &[NumberDataPoint], rows: &mut Points, count: &mut Count, scratch: &mut String| {
        let ids = NumberIds::of(metric, origin, rows);
        points.iter().for_each(|point| count.record(number(point, origin, &ids, bounds, rows, scratch)));
    };
    match &metric.data {
        Some(Data::Gauge(gauge)) => numbers(&gauge.data_points, &mut tables.gauge, count, scratch),
        Some(Data::Sum(sum)) => numbers(&sum.data_points, &mut tables.sum, count, scratch),
        Some(Data::Histogram(data)) => {
            let rows = &mut tables.histogram;
            let ids = HistogramIds {
                metric: rows.metric.intern(&metric.name),
                unit: rows.unit.intern(&metric.unit),
                resource: rows.resource.intern(&origin.json),
                temporality: data.aggregation_temporality,
            };
            for point in &data.data_points {
                count.record(histogram(point, origin, &ids, bounds, rows, scratch));
            }
        }
        Some(Data::ExponentialHistogram(_) | Data::Summary(_)) => count.tally.add(Refusal::Kind, points_of(metric)),
        None => count.tally.add(Refusal::NoValue, points_of(metric)),
    }
}

/// What is the same for all points of a gauge or sum.
struct NumberIds {
    metric: u32,
    description: u32,
    unit: u32,
    resource: u32,
}

impl NumberIds {
    fn of(metric: &Metric, origin: &Origin<'_>, rows: &mut Points) -> Self {
        Self {
            metric: rows.metric.intern(&metric.name),
            description: rows.description.intern(&metric.description),
            unit: rows.unit.intern(&metric.unit),
            resource: rows.resource.intern(&origin.json),
        }
    }
}

fn number(
    point: &NumberDataPoint,
    origin: &Origin<'_>,
    ids: &NumberIds,
    bounds: &TimeBounds,
    rows: &mut Points,
    scratch: &mut String,
) -> Result<(), Refusal> {
    let time = bounds.check(point.time_unix_nano)?;
    recorded(point.flags)?;
    let value = match point.value {
        Some(Value::AsDouble(value)) => finite(value)?,
        Some(Value::AsInt(value)) => value as f64,
        None => return Err(Refusal::NoValue),
    };
    scratch.clear();
    attributes::write_object(&point.attributes, scratch);

    rows.time.push(time);
    rows.metric.push_id(ids.metric);
    rows.description.push_id(ids.description);
    rows.value.push(value);
    rows.service.push(service(&point.attributes, origin));
    rows.unit.push_id(ids.unit);
    rows.resource.push_id(ids.resource);
    rows.attributes.push(scratch);
    Ok(())
}

/// What is the same for all points of a histogram.
struct HistogramIds {
    metric: u32,
    unit: u32,
    resource: u32,
    temporality: i32,
}

fn histogram(
    point: &HistogramDataPoint,
    origin: &Origin<'_>,
    ids: &HistogramIds,
    bounds: &TimeBounds,
    rows: &mut Histograms,
    scratch: &mut String,
) -> Result<(), Refusal> {
    let time = bounds.check(point.time_unix_nano)?;
    recorded(point.flags)?;
    check_buckets(point)?;
    for number in [point.sum, point.min, point.max].into_iter().flatten() {
        finite(number)?;
    }
    scratch.clear();
    attributes::write_object(&point.attributes, scratch);

    rows.time.push(time);
    rows.metric.push_id(ids.metric);
    rows.service.push(service(&point.attributes, origin));
    rows.unit.push_id(ids.unit);
    rows.resource.push_id(ids.resource);
    rows.attributes.push(scratch);
    rows.count.push(point.count);
    rows.sum.push(point.sum);
    rows.buckets.push(&point.bucket_counts);
    rows.bounds.push(&point.explicit_bounds);
    rows.min.push(point.min);
    rows.max.push(point.max);
    rows.temporality.push(ids.temporality);
    Ok(())
}

/// OTLP: the buckets are one more than the bounds and add up to the count, or both lists are empty; the bounds ascend.
fn check_buckets(point: &HistogramDataPoint) -> Result<(), Refusal> {
    let (buckets, bounds) = (&point.bucket_counts, &point.explicit_bounds);
    if buckets.is_empty() && bounds.is_empty() {
        return Ok(());
    }
    let total = buckets.iter().try_fold(0_u64, |sum, &count| sum.checked_add(count));
    if buckets.len() != bounds.len() + 1 || total != Some(point.count) {
        return Err(Refusal::Buckets);
    }
    let ascending = bounds.iter().all(|bound| bound.is_finite()) && bounds.windows(2).all(|pair| pair[0] < pair[1]);
    if ascending { Ok(()) } else { Err(Refusal::Bounds) }
}

fn recorded(flags: u32) -> Result<(), Refusal> {
    if flags & DataPointFlags::NoRecordedValueMask as u32 == 0 { Ok(()) } else { Err(Refusal::NoValue) }
}

fn finite(value: f64) -> Result<f64, Refusal> {
    if value.is_finite() { Ok(value) } else { Err(Refusal::NotFinite) }
}

/// The service that a point is about: a mesh's own labels first, then the workload, then the sender's name.
fn service<'a>(point: &'a [KeyValue], origin: &'a Origin<'_>) -> &'a str {
    let label = |key| attributes::find(point, key).unwrap_or("");
    let candidates = [label("source_workload"), label("destination_workload"), origin.workload, origin.service];
    candidates.into_iter().find(|name| !name.is_empty()).unwrap_or("")
}
