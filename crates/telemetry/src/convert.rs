//! From OTLP records to rows: the one path of validation, whether they came over the network or from the simulator.
//!
//! A record is either taken whole or refused with a counted reason; a request is never refused for one of its records. From the network
//! come bytes, which are read where they lie; the simulator hands over messages. Both become the same borrowed record.

mod logs;
mod metrics;
mod traces;

use std::collections::BTreeMap;

use model::DataTime;

use crate::attribute::{Attribute, Attributes};
use crate::attributes;
use crate::limits::{Cardinality, Limits, Place};
use crate::otlp::Resource;
use crate::refusal::{Refusal, Tally};
use crate::table::Tables;
use crate::wire::{self, Malformed};
use crate::{Accepted, Export};

pub(crate) use logs::logs;
pub(crate) use metrics::metrics;
pub(crate) use traces::traces;

/// The resource attribute that Kubernetes' collectors set.
pub(crate) const K8S_NAMESPACE: &str = "k8s.namespace.name";
/// The resource attribute that an application may set itself.
pub(crate) const SERVICE_NAMESPACE: &str = "service.namespace";

/// The longest namespace that is kept apart (that of a DNS name).
const NAMESPACE_LIMIT: usize = 253;

/// Under this name stand counts of records whose own namespace is no name, or one too many.
const OTHERS: &str = "(others)";

/// What a record's timestamp must be within; half-open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeBounds {
    pub earliest: DataTime,
    pub latest: DataTime,
}

impl Default for TimeBounds {
    /// The years 2000 to 2099.
    fn default() -> Self {
        Self { earliest: DataTime::from_seconds(946_684_800), latest: DataTime::from_seconds(4_102_444_800) }
    }
}

impl TimeBounds {
    fn check(&self, nanos: u64) -> Result<i64, Refusal> {
        let time = i64::try_from(nanos).map_err(|_| Refusal::Time)?;
        if self.contains(DataTime(time)) { Ok(time) } else { Err(Refusal::Time) }
    }

    pub(crate) fn contains(&self, time: DataTime) -> bool {
        self.earliest <= time && time < self.latest
    }
}

/// Where the rows of a resource go.
pub(crate) trait Route {
    /// `namespace` is the resource's `k8s.namespace.name`, else its `service.namespace`, else empty.
    fn tables(&mut self, namespace: &str) -> &mut Tables;
}

/// A simulated step keeps everything in the tables of its own stream.
impl Route for Tables {
    fn tables(&mut self, _: &str) -> &mut Tables {
        self
    }
}

/// Records of one request that were refused, one bit each, in the order in which they came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Refused(pub Vec<u8>);

impl Refused {
    fn set(&mut self, record: usize) {
        if self.0.len() <= record / 8 {
            self.0.resize(record / 8 + 1, 0);
        }
        self.0[record / 8] |= 1 << (record % 8);
    }

    fn has(&self, record: usize) -> bool {
        self.0.get(record / 8).is_some_and(|byte| byte & 1 << (record % 8) != 0)
    }
}

/// What became of the records of one namespace.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Count {
    pub accepted: u64,
    pub refused: Tally,
}

/// One request on its way through validation.
pub(crate) struct Pass<'p> {
    export: Export,
    times: TimeBounds,
    limits: &'p Limits,
    /// Only for records from the network, when they arrive.
    cardinality: Option<&'p mut Cardinality>,
    /// What was refused when the request arrived, for one that is read from its journal.
    earlier: Option<&'p Refused>,
    place: Option<Place>,
    records: usize,
    current: Count,
    counts: BTreeMap<String, Count>,
    refused: Refused,
}

/// What became of the records of one request.
pub(crate) struct Done {
    pub accepted: Accepted,
    pub counts: BTreeMap<String, Count>,
    pub refused: Refused,
}

impl<'p> Pass<'p> {
    pub fn new(export: Export, times: TimeBounds, limits: &'p Limits) -> Self {
        Self {
            export,
            times,
            limits,
            cardinality: None,
            earlier: None,
            place: None,
            records: 0,
            current: Count::default(),
            counts: BTreeMap::new(),
            refused: Refused::default(),
        }
    }

    /// Limits distinct names as well.
    pub fn counting(mut self, cardinality: &'p mut Cardinality) -> Self {
        self.cardinality = Some(cardinality);
        self
    }

    /// Refuses again what was refused when the request arrived.
    pub fn again(mut self, earlier: &'p Refused) -> Self {
        self.earlier = Some(earlier);
        self
    }

    pub fn finish(self) -> Done {
        let mut tally = Tally::default();
        self.counts.values().for_each(|count| tally.merge(&count.refused));
        let accepted = self.counts.values().map(|count| count.accepted).sum();
        Done { accepted: Accepted::new(accepted, &tally), counts: self.counts, refused: self.refused }
    }

    /// Lets the records of a resource in, or says why none of them can be.
    fn enter(&mut self, origin: &Origin<'_>, attributes: &[Attribute<'_>]) -> Result<(), Refusal> {
        let Some(cardinality) = self.cardinality.as_deref_mut() else { return Ok(()) };
        let place = cardinality.namespace(origin.namespace)?;
        cardinality.service(place, origin.service)?;
        cardinality.keys(place, self.export, attributes)?;
        self.place = Some(place);
        Ok(())
    }

    /// Ends a resource: what was counted since the last one belongs to this namespace.
    fn leave(&mut self, namespace: Result<&str, Refusal>) {
        let count = std::mem::take(&mut self.current);
        let namespace = namespace.unwrap_or(OTHERS);
        let sum = match self.counts.get_mut(namespace) {
            Some(sum) => sum,
            None => self.counts.entry(namespace.to_owned()).or_default(),
        };
        sum.accepted += count.accepted;
        sum.refused.merge(&count.refused);
    }

    /// Counts the outcome of one record.
    #[inline]
    fn record(&mut self, outcome: Result<(), Refusal>) {
        match outcome {
            Ok(()) => {
                self.current.accepted += 1;
                self.records += 1;
            }
            Err(refusal) => self.refuse(refusal, 1),
        }
    }

    fn refuse(&mut self, refusal: Refusal, records: u64) {
        self.current.refused.add(refusal, records);
        for _ in 0..records {
            self.refused.set(self.records);
            self.records += 1;
        }
    }

    /// Whether the next record was refused when it arrived.
    fn refused_earlier(&self) -> bool {
        self.earlier.is_some_and(|earlier| earlier.has(self.records))
    }

    #[inline]
    fn keys(&mut self, attributes: &[Attribute<'_>]) -> Result<(), Refusal> {
        match (self.cardinality.as_deref_mut(), self.place) {
            (Some(cardinality), Some(place)) => cardinality.keys(place, self.export, attributes),
            _ => Ok(()),
        }
    }

    fn series(&mut self, metric: &str, resource: &str, attributes: &str) -> Result<(), Refusal> {
        match (self.cardinality.as_deref_mut(), self.place) {
            (Some(cardinality), Some(place)) => cardinality.series(place, &(metric, resource, attributes)),
            _ => Ok(()),
        }
    }

    #[inline]
    fn text<'a>(&self, text: &'a str) -> Result<&'a str, Refusal> {
        if text.len() <= self.limits.text_bytes { Ok(text) } else { Err(Refusal::TextLength) }
    }
}

/// What is the same for all records of a resource, made once.
struct Origin<'a> {
    json: String,
    service: &'a str,
    namespace: &'a str,
    /// The deployment or stateful set, for metrics.
    workload: &'a str,
}

impl<'a> Origin<'a> {
    fn of(list: &mut Attributes<'a>) -> Result<Self, Refusal> {
        let first = |keys: [&str; 2]| {
            keys.into_iter().find_map(|key| list.text(key).filter(|text| !text.is_empty())).unwrap_or("")
        };
        let namespace = first([K8S_NAMESPACE, SERVICE_NAMESPACE]);
        if namespace.len() > NAMESPACE_LIMIT {
            return Err(Refusal::Namespace);
        }
        let workload = first(["k8s.deployment.name", "k8s.statefulset.name"]);
        let service = list.text("service.name").unwrap_or("");
        let mut json = String::with_capacity(512);
        attributes::write_object(list, &mut json);
        Ok(Self { json, service, namespace, workload })
    }

    /// The resource of a message in memory, let in.
    fn message(
        pass: &mut Pass<'_>,
        list: &mut Attributes<'a>,
        resource: Option<&'a Resource>,
    ) -> Result<Self, Refusal> {
        list.set(resource.map_or(&[][..], |resource| &resource.attributes), pass.limits)?;
        Self::enter(pass, list)
    }

    /// The resource of a group as it came over the wire, let in.
    fn wire(pass: &mut Pass<'_>, list: &mut Attributes<'a>, group: &'a [u8]) -> Result<Self, Refusal> {
        list.clear();
        wire::each(group, 1, |resource| wire::each(resource, 1, |pair| list.read(pair, pass.limits)))?;
        Self::enter(pass, list)
    }

    fn enter(pass: &mut Pass<'_>, list: &mut Attributes<'a>) -> Result<Self, Refusal> {
        pass.place = None;
        let origin = Self::of(list)?;
        pass.enter(&origin, list.list())?;
        Ok(origin)
    }
}

/// Where the spans or the log records of one resource become rows.
trait Records<'t>: Sized {
    /// A record of a message in memory.
    type Message;

    fn new(tables: &'t mut Tables, origin: &Origin<'_>) -> Self;

    fn message<'m>(
        &mut self,
        pass: &mut Pass<'_>,
        record: &'m Self::Message,
        list: &mut Attributes<'m>,
    ) -> Result<(), Refusal>;

    fn wire<'w>(&mut self, pass: &mut Pass<'_>, record: &'w [u8], list: &mut Attributes<'w>) -> Result<(), Refusal>;
}

/// Takes the records of a resource in memory.
fn message_group<'t, 'm, R: Records<'t, Message: 'm>>(
    pass: &mut Pass<'_>,
    resource: Option<&'m Resource>,
    records: impl Iterator<Item = &'m R::Message>,
    route: &'t mut impl Route,
) {
    let mut list = Attributes::default();
    let origin = match Origin::message(pass, &mut list, resource) {
        Ok(origin) => origin,
        Err(refusal) => {
            pass.refuse(refusal, records.count() as u64);
            return pass.leave(Err(refusal));
        }
    };
    let mut rows = R::new(route.tables(origin.namespace), &origin);
    for record in records {
        let outcome = rows.message(pass, record, &mut list);
        pass.record(outcome);
    }
    pass.leave(Ok(origin.namespace));
}

/// Takes the records of a resource as they came over the wire.
fn wire_group<'t, R: Records<'t>>(
    pass: &mut Pass<'_>,
    group: &[u8],
    route: &'t mut impl Route,
) -> Result<(), Malformed> {
    let mut list = Attributes::default();
    let origin = match Origin::wire(pass, &mut list, group) {
        Ok(origin) => origin,
        Err(refusal) => {
            wire::records(group, |_| pass.refuse(refusal, 1))?;
            pass.leave(Err(refusal));
            return Ok(());
        }
    };
    let mut rows = R::new(route.tables(origin.namespace), &origin);
    wire::records(group, |record| {
        let refused = pass.refused_earlier();
        let outcome = if refused { Err(Refusal::Malformed) } else { rows.wire(pass, record, &mut list) };
        pass.record(outcome);
    })?;
    pass.leave(Ok(origin.namespace));
    Ok(())
}

/// Takes a whole request as it came over the wire. Its frames are checked first, so that nothing is taken of one that is cut off.
///
/// # Errors
/// When the request is malformed.
pub(crate) fn wire(mut pass: Pass<'_>, body: &[u8], route: &mut impl Route) -> Result<Done, Malformed> {
    wire::check(body)?;
    wire::each(body, 1, |group| match pass.export {
        Export::Traces => traces::group(&mut pass, group, route),
        Export::Metrics => metrics::group(&mut pass, group, route),
        Export::Logs => logs::group(&mut pass, group, route),
    })?;
    Ok(pass.finish())
}

/// An id of exactly `N` bytes that is not all zero.
fn id<const N: usize>(bytes: &[u8], refusal: Refusal) -> Result<[u8; N], Refusal> {
    let id: [u8; N] = bytes.try_into().map_err(|_| refusal)?;
    if id == [0; N] { Err(refusal) } else { Ok(id) }
}

/// An id that may be absent, which is no bytes or all zero.
fn optional_id<const N: usize>(bytes: &[u8], refusal: Refusal) -> Result<[u8; N], Refusal> {
    if bytes.is_empty() { Ok([0; N]) } else { bytes.try_into().map_err(|_| refusal) }
}
