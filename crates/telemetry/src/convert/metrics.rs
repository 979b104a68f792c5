//! Gauge, sum and histogram points to rows.
//!
//! OTLP lets a double be NaN or infinite; no reader of a datapack could count with it, so such a point is refused and counted. Prometheus'
//! marks of staleness come with the flag "no recorded value" and are refused as that.

use crate::attribute::Attributes;
use crate::attributes;
use crate::convert::{Done, Origin, Pass, Route, TimeBounds};
use crate::otlp::ExportMetricsServiceRequest;
use crate::otlp::metrics::metric::Data;
use crate::otlp::metrics::{self, AggregationTemporality, DataPointFlags, ResourceMetrics};
use crate::refusal::Refusal;
use crate::table::{Histograms, Points, Tables};
use crate::wire::{self, Field, Fields, Malformed};

/// What is said of a metric apart from its points.
#[derive(Default, Clone, Copy)]
struct Head<'a> {
    name: &'a str,
    description: &'a str,
    unit: &'a str,
}

/// The kinds of metrics that are stored, with their number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gauge,
    Sum,
    Histogram,
    /// Exponential histograms and summaries.
    Other,
}

/// A gauge or sum point, its attributes apart.
#[derive(Default)]
struct Number {
    time: u64,
    flags: u32,
    value: Option<f64>,
}

/// A histogram point, its attributes apart.
#[derive(Default)]
struct Histogram<'a> {
    time: u64,
    flags: u32,
    count: u64,
    sum: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    buckets: std::borrow::Cow<'a, [u64]>,
    bounds: std::borrow::Cow<'a, [f64]>,
}

/// Takes a request from inside this process.
pub(crate) fn metrics(mut pass: Pass<'_>, request: &ExportMetricsServiceRequest, route: &mut impl Route) -> Done {
    for group in &request.resource_metrics {
        message_group(&mut pass, group, route);
    }
    pass.finish()
}

fn message_group(pass: &mut Pass<'_>, group: &ResourceMetrics, route: &mut impl Route) {
    let metrics = group.scope_metrics.iter().flat_map(|scope| &scope.metrics);
    let mut list = Attributes::default();
    let origin = match Origin::message(pass, &mut list, group.resource.as_ref()) {
        Ok(origin) => origin,
        Err(refusal) => {
            pass.refuse(refusal, metrics.map(points_of).sum());
            return pass.leave(Err(refusal));
        }
    };
    let mut sink = Sink { tables: route.tables(origin.namespace), origin: &origin, json: String::new() };
    for metric in metrics {
        sink.message(pass, metric, &mut list);
    }
    pass.leave(Ok(origin.namespace));
}

/// The number of points of a metric; a metric without data counts as one refused record, so that it is not lost unseen.
fn points_of(metric: &metrics::Metric) -> u64 {
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

/// Takes the metrics of a resource as they came over the wire.
pub(crate) fn group(pass: &mut Pass<'_>, group: &[u8], route: &mut impl Route) -> Result<(), Malformed> {
    let mut list = Attributes::default();
    let origin = match Origin::wire(pass, &mut list, group) {
        Ok(origin) => origin,
        Err(refusal) => {
            wire::records(group, |metric| refuse_points(pass, metric, refusal))?;
            pass.leave(Err(refusal));
            return Ok(());
        }
    };
    let mut sink = Sink { tables: route.tables(origin.namespace), origin: &origin, json: String::new() };
    wire::records(group, |metric| sink.wire(pass, metric, &mut list))?;
    pass.leave(Ok(origin.namespace));
    Ok(())
}

/// The data of a metric as it came over the wire.
fn data(metric: &[u8]) -> Result<Option<(Kind, &[u8])>, Malformed> {
    let mut fields = Fields::of(metric);
    let mut data = None;
    while let Some((number, field)) = fields.next()? {
        let kind = match number {
            5 => Kind::Gauge,
            7 => Kind::Sum,
            9 => Kind::Histogram,
            10 | 11 => Kind::Other,
            _ => continue,
        };
        if let Field::Bytes(bytes) = field {
            data = Some((kind, bytes));
        }
    }
    Ok(data)
}

/// Refuses each point of a metric; a metric without data, or with what cannot be read, counts as one.
fn refuse_points(pass: &mut Pass<'_>, metric: &[u8], refusal: Refusal) {
    let counted = match data(metric) {
        Ok(Some((_, data))) => wire::each(data, 1, |_| {
            pass.refuse(refusal, 1);
            Ok(())
        }),
        Ok(None) => Err(refusal),
        Err(malformed) => Err(malformed.into()),
    };
    if let Err(refusal) = counted {
        pass.refuse(refusal, 1);
    }
}

/// The rows of one resource.
struct Sink<'t, 'a> {
    tables: &'t mut Tables,
    origin: &'t Origin<'a>,
    json: String,
}

/// The texts of a metric, as numbers in the columns of its table.
struct Ids {
    metric: u32,
    description: u32,
    unit: u32,
    resource: u32,
    temporality: i32,
}

impl Sink<'_, '_> {
    fn message<'m>(&mut self, pass: &mut Pass<'_>, metric: &'m metrics::Metric, list: &mut Attributes<'m>) {
        let head = Head { name: &metric.name, description: &metric.description, unit: &metric.unit };
        let (kind, temporality) = match &metric.data {
            Some(Data::Gauge(_)) => (Kind::Gauge, 0),
            Some(Data::Sum(sum)) => (Kind::Sum, sum.aggregation_temporality),
            Some(Data::Histogram(histogram)) => (Kind::Histogram, histogram.aggregation_temporality),
            Some(Data::ExponentialHistogram(_) | Data::Summary(_)) => (Kind::Other, 0),
            None => return pass.refuse(Refusal::NoValue, 1),
        };
        let ids = match self.begin(pass, &head, kind, temporality) {
            Ok(ids) => ids,
            Err(refusal) => return pass.refuse(refusal, points_of(metric)),
        };
        match &metric.data {
            Some(Data::Gauge(metrics::Gauge { data_points }) | Data::Sum(metrics::Sum { data_points, .. })) => {
                for point in data_points {
                    let outcome = list.set(&point.attributes, pass.limits);
                    let outcome = outcome.and_then(|()| self.number(pass, kind, &head, &ids, &Number::of(point), list));
                    pass.record(outcome);
                }
            }
            Some(Data::Histogram(histogram)) => {
                for point in &histogram.data_points {
                    let outcome = list.set(&point.attributes, pass.limits);
                    let outcome = outcome.and_then(|()| self.histogram(pass, &head, &ids, &Histogram::of(point), list));
                    pass.record(outcome);
                }
            }
            _ => {}
        }
    }

    fn wire<'a>(&mut self, pass: &mut Pass<'_>, metric: &'a [u8], list: &mut Attributes<'a>) {
        match self.begin_wire(pass, metric) {
            Ok((head, ids, kind, data)) => {
                let taken = wire::each(data, 1, |point| {
                    let outcome = self.point(pass, kind, &head, &ids, point, list);
                    pass.record(outcome);
                    Ok::<_, Malformed>(())
                });
                if let Err(malformed) = taken {
                    pass.refuse(malformed.into(), 1);
                }
            }
            Err(refusal) => refuse_points(pass, metric, refusal),
        }
    }

    fn begin_wire<'a>(
        &mut self,
        pass: &Pass<'_>,
        metric: &'a [u8],
    ) -> Result<(Head<'a>, Ids, Kind, &'a [u8]), Refusal> {
        let mut head = Head::default();
        let mut fields = Fields::of(metric);
        while let Some(field) = fields.next()? {
            match field {
                (1, Field::Bytes(text)) => head.name = wire::text(text)?,
                (2, Field::Bytes(text)) => head.description = wire::text(text)?,
                (3, Field::Bytes(text)) => head.unit = wire::text(text)?,
                _ => {}
            }
        }
        let (kind, data) = data(metric)?.ok_or(Refusal::NoValue)?;
        let mut temporality = 0;
        let mut fields = Fields::of(data);
        while let Some(field) = fields.next()? {
            if let (2, Field::Varint(number)) = field {
                temporality = number as i32;
            }
        }
        let ids = self.begin(pass, &head, kind, temporality)?;
        Ok((head, ids, kind, data))
    }

    fn point<'a>(
        &mut self,
        pass: &mut Pass<'_>,
        kind: Kind,
        head: &Head<'_>,
        ids: &Ids,
        point: &'a [u8],
        list: &mut Attributes<'a>,
    ) -> Result<(), Refusal> {
        if pass.refused_earlier() {
            return Err(Refusal::Malformed);
        }
        match kind {
            Kind::Histogram => {
                let point = Histogram::read(pass, point, list)?;
                self.histogram(pass, head, ids, &point, list)
            }
            _ => {
                let point = Number::read(pass, point, list)?;
                self.number(pass, kind, head, ids, &point, list)
            }
        }
    }

    /// Checks what holds for all points of a metric.
    fn begin(&mut self, pass: &Pass<'_>, head: &Head<'_>, kind: Kind, temporality: i32) -> Result<Ids, Refusal> {
        if head.name.is_empty() {
            return Err(Refusal::Unnamed);
        }
        for text in [head.name, head.description, head.unit] {
            pass.text(text)?;
        }
        if matches!(kind, Kind::Sum | Kind::Histogram) && temporality != AggregationTemporality::Cumulative as i32 {
            return Err(Refusal::Temporality);
        }
        Ok(match kind {
            Kind::Gauge => Ids::points(head, self.origin, &mut self.tables.gauge),
            Kind::Sum => Ids::points(head, self.origin, &mut self.tables.sum),
            Kind::Histogram => {
                let rows = &mut self.tables.histogram;
                Ids {
                    metric: rows.metric.intern(head.name),
                    description: 0,
                    unit: rows.unit.intern(head.unit),
                    resource: rows.resource.intern(&self.origin.json),
                    temporality,
                }
            }
            Kind::Other => return Err(Refusal::Kind),
        })
    }

    fn number(
        &mut self,
        pass: &mut Pass<'_>,
        kind: Kind,
        head: &Head<'_>,
        ids: &Ids,
        point: &Number,
        list: &mut Attributes<'_>,
    ) -> Result<(), Refusal> {
        let time = begin(&pass.times, point.time, point.flags)?;
        let value = finite(point.value.ok_or(Refusal::NoValue)?)?;
        let service = service(list, self.origin);
        self.attributes(pass, head, list)?;

        let rows = if kind == Kind::Gauge { &mut self.tables.gauge } else { &mut self.tables.sum };
        rows.time.push(time);
        rows.metric.push_id(ids.metric);
        rows.description.push_id(ids.description);
        rows.value.push(value);
        rows.service.push(service);
        rows.unit.push_id(ids.unit);
        rows.resource.push_id(ids.resource);
        rows.attributes.push(&self.json);
        Ok(())
    }

    fn histogram(
        &mut self,
        pass: &mut Pass<'_>,
        head: &Head<'_>,
        ids: &Ids,
        point: &Histogram<'_>,
        list: &mut Attributes<'_>,
    ) -> Result<(), Refusal> {
        let time = begin(&pass.times, point.time, point.flags)?;
        point.check()?;
        for number in [point.sum, point.min, point.max].into_iter().flatten() {
            finite(number)?;
        }
        let service = service(list, self.origin);
        self.attributes(pass, head, list)?;

        let rows: &mut Histograms = &mut self.tables.histogram;
        rows.time.push(time);
        rows.metric.push_id(ids.metric);
        rows.service.push(service);
        rows.unit.push_id(ids.unit);
        rows.resource.push_id(ids.resource);
        rows.attributes.push(&self.json);
        rows.count.push(point.count);
        rows.sum.push(point.sum);
        rows.buckets.push(&point.buckets);
        rows.bounds.push(&point.bounds);
        rows.min.push(point.min);
        rows.max.push(point.max);
        rows.temporality.push(ids.temporality);
        Ok(())
    }

    /// Checks the attributes of a point and writes them into `self.json`.
    fn attributes(&mut self, pass: &mut Pass<'_>, head: &Head<'_>, list: &mut Attributes<'_>) -> Result<(), Refusal> {
        pass.keys(list.list())?;
        self.json.clear();
        attributes::write_object(list, &mut self.json);
        pass.series(head.name, &self.origin.json, &self.json)
    }
}

impl Ids {
    fn points(head: &Head<'_>, origin: &Origin<'_>, rows: &mut Points) -> Self {
        Self {
            metric: rows.metric.intern(head.name),
            description: rows.description.intern(head.description),
            unit: rows.unit.intern(head.unit),
            resource: rows.resource.intern(&origin.json),
            temporality: 0,
        }
    }
}

impl Number {
    fn of(point: &metrics::NumberDataPoint) -> Self {
        use metrics::number_data_point::Value;
        let value = point.value.map(|value| match value {
            Value::AsDouble(value) => value,
            Value::AsInt(value) => value as f64,
        });
        Self { time: point.time_unix_nano, flags: point.flags, value }
    }

    fn read<'a>(pass: &Pass<'_>, point: &'a [u8], list: &mut Attributes<'a>) -> Result<Self, Refusal> {
        list.clear();
        let mut number = Self::default();
        let mut fields = Fields::of(point);
        while let Some(field) = fields.next()? {
            match field {
                (3, Field::Fixed64(time)) => number.time = time,
                (4, Field::Fixed64(bits)) => number.value = Some(f64::from_bits(bits)),
                (6, Field::Fixed64(bits)) => number.value = Some(bits as i64 as f64),
                (7, Field::Bytes(pair)) => list.read(pair, pass.limits)?,
                (8, Field::Varint(flags)) => number.flags = flags as u32,
                _ => {}
            }
        }
        Ok(number)
    }
}

impl<'a> Histogram<'a> {
    fn of(point: &'a metrics::HistogramDataPoint) -> Self {
        Self {
            time: point.time_unix_nano,
            flags: point.flags,
            count: point.count,
            sum: point.sum,
            min: point.min,
            max: point.max,
            buckets: (&point.bucket_counts).into(),
            bounds: (&point.explicit_bounds).into(),
        }
    }

    fn read(pass: &Pass<'_>, point: &'a [u8], list: &mut Attributes<'a>) -> Result<Self, Refusal> {
        list.clear();
        let mut histogram = Self::default();
        let mut fields = Fields::of(point);
        while let Some((number, field)) = fields.next()? {
            match (number, field) {
                (3, Field::Fixed64(time)) => histogram.time = time,
                (4, Field::Fixed64(count)) => histogram.count = count,
                (5, Field::Fixed64(bits)) => histogram.sum = Some(f64::from_bits(bits)),
                (6, field) => wire::eights(field, histogram.buckets.to_mut(), u64::from_le_bytes)?,
                (7, field) => wire::eights(field, histogram.bounds.to_mut(), f64::from_le_bytes)?,
                (9, Field::Bytes(pair)) => list.read(pair, pass.limits)?,
                (10, Field::Varint(flags)) => histogram.flags = flags as u32,
                (11, Field::Fixed64(bits)) => histogram.min = Some(f64::from_bits(bits)),
                (12, Field::Fixed64(bits)) => histogram.max = Some(f64::from_bits(bits)),
                _ => {}
            }
        }
        Ok(histogram)
    }

    /// OTLP: the buckets are one more than the bounds and add up to the count, or both lists are empty; the bounds ascend.
    fn check(&self) -> Result<(), Refusal> {
        let (buckets, bounds) = (&self.buckets, &self.bounds);
        if buckets.is_empty() && bounds.is_empty() {
            return Ok(());
        }
        let total = buckets.iter().try_fold(0_u64, |sum, &count| sum.checked_add(count));
        if buckets.len() != bounds.len() + 1 || total != Some(self.count) {
            return Err(Refusal::Buckets);
        }
        let ascending = bounds.iter().all(|bound| bound.is_finite()) && bounds.windows(2).all(|pair| pair[0] < pair[1]);
        if ascending { Ok(()) } else { Err(Refusal::Bounds) }
    }
}

/// The time of a point that has a value.
fn begin(times: &TimeBounds, nanos: u64, flags: u32) -> Result<i64, Refusal> {
    let time = times.check(nanos)?;
    if flags & DataPointFlags::NoRecordedValueMask as u32 == 0 { Ok(time) } else { Err(Refusal::NoValue) }
}

fn finite(value: f64) -> Result<f64, Refusal> {
    if value.is_finite() { Ok(value) } else { Err(Refusal::NotFinite) }
}

/// The service that a point is about: a mesh's own labels first, then the workload, then the sender's name.
fn service<'a>(point: &Attributes<'a>, origin: &Origin<'a>) -> &'a str {
    let label = |key| point.text(key).unwrap_or("");
    let candidates = [label("source_workload"), label("destination_workload"), origin.workload, origin.service];
    candidates.into_iter().find(|name| !name.is_empty()).unwrap_or("")
}
