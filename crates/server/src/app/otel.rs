//! Judging the stored telemetry of a system by its contract.

use std::collections::{BTreeMap, BTreeSet};

use api::otel::{NamespaceReport, OtelFinding, OtelQuery, OtelReport, OtelService, RenderQuery, Rendered, SignalCount};
use model::{DataTime, ErrorKind, Problem, Result, RunId, SystemCode};
use system::collector::Export;
use system::{Carrier, Registration, Requirement, Scope, SystemData};
use telemetry::{ClickHouse, Group, Present, Query, Signal, SignalStore, Stream, Trait};

use super::App;

/// The services that a finding names at most.
const EXAMPLES: usize = 10;
/// How old the records may be that say how telemetry is now, in microseconds.
const RECENT_US: i64 = 1_800_000_000;

/// The kinds of records that the store keeps, under the names that datapacks and systems give them.
const SIGNALS: [(system::Signal, Signal); 5] = [
    (system::Signal::Traces, Signal::Traces),
    (system::Signal::Logs, Signal::Logs),
    (system::Signal::Metrics, Signal::Gauge),
    (system::Signal::MetricsSum, Signal::Sum),
    (system::Signal::MetricsHistogram, Signal::Histogram),
];

impl App {
    /// What the telemetry of a system lacks.
    ///
    /// # Errors
    /// `system.unknown`, `run.unknown`, `run.other_system`, `run.other_namespace`, `namespace.unknown`, and those of the signal
    /// store.
    pub async fn otel_check(&self, system: &str, query: OtelQuery) -> Result<OtelReport> {
        let data = self.catalog().get(&SystemCode::parse(system)?)?;
        let wanted = self.otel_scope(data.code(), query).await?;
        let registered = self.store().systems().await?.into_iter().find(|system| system.code == *data.code());
        let slots = match &registered {
            Some(stored) => Some(self.slot_count(stored).await?),
            None => None,
        };
        // What a simulated run wrote is never anywhere else than here.
        let records = if wanted.run.is_some() { Records::Here(self.signals().clone()) } else { self.records() };
        // Reading columns of millions of records is no work for the threads that answer requests.
        tokio::task::spawn_blocking(move || {
            let present = records.present()?;
            wanted.require_known_namespace(&present, &data.registration, slots)?;
            check(&records, &present, &data, &wanted)
        })
        .await
        .map_err(|error| Problem::internal("otel.check_failed", error.to_string()))?
    }

    /// The collector of a system.
    ///
    /// # Errors
    /// `system.unknown`; `otel.destination_wrong`.
    pub fn otel_render(&self, system: &str, query: &RenderQuery) -> Result<Rendered> {
        let data = self.catalog().get(&SystemCode::parse(system)?)?;
        let export = match (&query.otlp, &query.clickhouse) {
            (Some(address), None) => Export::Otlp(http(address, "query: otlp")?),
            (None, Some(address)) => Export::ClickHouse(http(address, "query: clickhouse")?),
            _ => {
                let message = "a collector sends to one place";
                return Err(Problem::new(ErrorKind::Invalid, "otel.destination_wrong", message)
                    .place("query")
                    .expected("either `otlp` or `clickhouse`"));
            }
        };
        let configuration = system::collector::configuration(&data, &export);
        Ok(Rendered { manifests: system::collector::manifests(&data, &export), configuration })
    }

    /// What the records lack that came from the network within the last half hour. A namespace without any is counted and not
    /// judged.
    ///
    /// # Errors
    /// `system.unknown`, and those of the signal store.
    pub(super) async fn otel_from_network(&self, code: &SystemCode) -> Result<OtelReport> {
        let data = self.catalog().get(code)?;
        let records = self.records();
        let from = DataTime((model::WallTime::now().0 - RECENT_US).saturating_mul(1000));
        tokio::task::spawn_blocking(move || {
            let mut present = records.present()?;
            present.retain(|found| found.stream.run.is_none());
            let wanted = Wanted { run: None, namespace: None, from: Some(from) };
            if streams(&present, &data.registration, &wanted).is_empty() {
                let system = data.code().to_string();
                let source = records.place();
                return Ok(OtelReport { system, source, ok: true, namespaces: Vec::new(), findings: Vec::new() });
            }
            check(&records, &present, &data, &wanted)
        })
        .await
        .map_err(|error| Problem::internal("otel.check_failed", error.to_string()))?
    }

    /// Where records from the network are.
    fn records(&self) -> Records {
        match self.clickhouse() {
            Some(clickhouse) => Records::ClickHouse(clickhouse.clone()),
            None => Records::Here(self.signals().clone()),
        }
    }

    /// The run and the namespace that a query names, when they belong to the system and to each other.
    async fn otel_scope(&self, code: &SystemCode, query: OtelQuery) -> Result<Wanted> {
        let Some(text) = query.run else { return Ok(Wanted { run: None, namespace: query.namespace, from: None }) };
        let run = self.store().run(self.find_run(&text).await?).await?;
        let elsewhere = |code: &'static str, found: String, expected: &str| {
            Problem::new(ErrorKind::NotFound, code, "the run was somewhere else")
                .place("query: run")
                .found(found)
                .expected(expected)
        };
        if run.system != *code {
            return Err(elsewhere(
                "run.other_system",
                format!("a run on `{}`", run.system),
                &format!("a run on `{code}`"),
            )
            .fix(format!("`aegisctl otel check {} --run {}`", run.system, run.id)));
        }
        if let (Some(asked), Some(had)) = (&query.namespace, &run.namespace)
            && asked != had
        {
            return Err(elsewhere("run.other_namespace", format!("a run in `{had}`"), &format!("a run in `{asked}`"))
                .fix("leave out `--namespace`: the run has only one"));
        }
        Ok(Wanted { run: Some(run.id), namespace: query.namespace.or(run.namespace), from: None })
    }
}

fn http(address: &str, place: &str) -> Result<String> {
    let host = ["http://", "https://"].iter().find_map(|scheme| address.strip_prefix(scheme));
    if host.is_some_and(|host| !host.is_empty() && !address.contains(char::is_whitespace)) {
        return Ok(address.trim_end_matches('/').to_owned());
    }
    Err(Problem::new(ErrorKind::Invalid, "otel.destination_wrong", "a collector sends over HTTP")
        .place(place.to_owned())
        .found(format!("`{address}`"))
        .expected("`http://HOST:PORT` or `https://HOST:PORT`"))
}

/// Where records are read.
enum Records {
    Here(SignalStore),
    ClickHouse(ClickHouse),
}

impl Records {
    fn place(&self) -> String {
        match self {
            Self::Here(_) => "the embedded store".to_owned(),
            Self::ClickHouse(clickhouse) => clickhouse.place(),
        }
    }

    fn present(&self) -> Result<Vec<Present>> {
        match self {
            Self::Here(store) => store.present(),
            Self::ClickHouse(clickhouse) => clickhouse.present(),
        }
    }

    fn census(&self, query: &Query, traits: &[Trait], attributes_of: &BTreeSet<String>) -> Result<Vec<Group>> {
        match self {
            Self::Here(store) => store.census(query, traits, attributes_of),
            Self::ClickHouse(clickhouse) => clickhouse.census(query, traits, attributes_of),
        }
    }
}

/// Which records are looked at.
struct Wanted {
    run: Option<RunId>,
    namespace: Option<String>,
    /// Only those from then on; a namespace that has none of them is not judged.
    from: Option<DataTime>,
}

impl Wanted {
    /// A namespace that is neither one of the system's slots nor one that records came from is a slip, not a finding about a
    /// collector. `slots` is there when the system is registered.
    fn require_known_namespace(&self, present: &[Present], system: &Registration, slots: Option<u32>) -> Result<()> {
        let Some(namespace) = self.namespace.as_deref().filter(|_| self.run.is_none()) else { return Ok(()) };
        let is_slot = system.slot_number(namespace).is_some_and(|number| slots.is_none_or(|slots| number < slots));
        if is_slot || present.iter().any(|found| found.stream.namespace == namespace) {
            return Ok(());
        }
        let slots = (0..slots.unwrap_or(1)).map(|number| format!("{}{number}", system.code));
        let sent = present.iter().map(|found| found.stream.namespace.clone()).filter(|name| !name.is_empty());
        let known: BTreeSet<String> = slots.chain(sent).collect();
        Err(Problem::unknown("namespace.unknown", "namespace", namespace, known.iter().map(String::as_str))
            .place("query: namespace"))
    }
}

fn check(records: &Records, present: &[Present], system: &SystemData, query: &Wanted) -> Result<OtelReport> {
    let registration = &system.registration;
    let contract = registration.telemetry_contract();
    let services = Services::of(system);
    let mut report = OtelReport {
        system: system.code().to_string(),
        source: records.place(),
        ok: true,
        namespaces: Vec::new(),
        findings: Vec::new(),
    };
    for stream in streams(present, registration, query) {
        let mut counted = Counted::read(records, &stream, &contract, &services, query.from)?;
        if stream.namespace.is_empty() {
            counted.keep(&services);
            if counted.groups.values().all(Vec::is_empty) {
                continue;
            }
        }
        if query.from.is_none() || counted.groups.values().any(|groups| !groups.is_empty()) {
            report.findings.extend(counted.findings(&contract, registration, &services));
        }
        report.namespaces.push(counted.report());
    }
    if report.namespaces.is_empty() {
        report.findings = nothing_at_all(registration, query);
    }
    report.ok = report.findings.is_empty();
    Ok(report)
}

/// The streams that a query asks for.
fn streams(present: &[Present], registration: &Registration, query: &Wanted) -> Vec<Stream> {
    let named = |stream: &Stream| match &query.namespace {
        Some(namespace) => stream.namespace == *namespace,
        None => stream.namespace.is_empty() || registration.slot_number(&stream.namespace).is_some(),
    };
    let mut latest: BTreeMap<(&str, bool), &Present> = BTreeMap::new();
    for found in present.iter().filter(|found| named(&found.stream)) {
        if query.run.is_some() && found.stream.run != query.run {
            continue;
        }
        let kept = latest.entry((&found.stream.namespace, found.stream.run.is_some())).or_insert(found);
        if found.arrived > kept.arrived {
            *kept = found;
        }
    }
    latest.into_values().map(|found| found.stream.clone()).collect()
}

/// The questions that a contract asks of a signal's records, one bit for each.
fn questions(contract: &[Requirement], signal: system::Signal) -> Vec<Trait> {
    let mut asked = vec![Trait::Kind("Server")];
    for carrier in contract.iter().filter(|row| row.signal == signal).flat_map(|row| row.any_of) {
        match carrier {
            Carrier::Attribute(keys) => asked.push(Trait::Attribute(keys)),
            Carrier::TraceId => asked.push(Trait::TraceId),
            Carrier::Resource(_) => {}
        }
    }
    asked
}

/// The records of one stream, in groups of equals.
struct Counted {
    stream: Stream,
    questions: BTreeMap<system::Signal, Vec<Trait>>,
    groups: BTreeMap<system::Signal, Vec<Group>>,
}

impl Counted {
    fn read(
        records: &Records,
        stream: &Stream,
        contract: &[Requirement],
        names: &Services,
        from: Option<DataTime>,
    ) -> Result<Self> {
        let mut counted = Self { stream: stream.clone(), questions: BTreeMap::new(), groups: BTreeMap::new() };
        for (name, signal) in SIGNALS {
            let asked = questions(contract, name);
            let query = Query {
                signal,
                namespace: stream.namespace.clone(),
                run: stream.run,
                from: from.unwrap_or(DataTime(i64::MIN)),
                to: DataTime(i64::MAX),
            };
            counted.groups.insert(name, records.census(&query, &asked, &names.entrances)?);
            counted.questions.insert(name, asked);
        }
        Ok(counted)
    }

    /// Of records that name no namespace, those of services that the system has; all of them when its services are not known.
    fn keep(&mut self, services: &Services) {
        let Some(known) = &services.known else { return };
        for groups in self.groups.values_mut() {
            groups.retain(|group| known.contains(&group.service));
        }
    }

    fn report(&self) -> NamespaceReport {
        let count = |(signal, groups): (&system::Signal, &Vec<Group>)| SignalCount {
            signal: signal.as_str().to_owned(),
            records: groups.iter().map(|group| group.records).sum(),
            first: groups.iter().map(|group| group.first).min().map(|time| time.to_string()),
            last: groups.iter().map(|group| group.last).max().map(|time| time.to_string()),
        };
        NamespaceReport {
            namespace: self.stream.namespace.clone(),
            run: self.stream.run,
            signals: self.groups.iter().map(count).collect(),
        }
    }

    fn findings(&self, contract: &[Requirement], registration: &Registration, names: &Services) -> Vec<OtelFinding> {
        let absent = |(signal, groups): (&system::Signal, &Vec<Group>)| {
            let required = registration.profile.required_signals.contains(signal);
            // Records without a namespace say nothing about what else should have come.
            (required && groups.is_empty() && !self.stream.namespace.is_empty()).then(|| self.absent(*signal))
        };
        let mut findings: Vec<OtelFinding> = self.groups.iter().filter_map(absent).collect();
        findings.extend(contract.iter().filter_map(|row| self.finding(row, names)));
        findings
    }

    fn absent(&self, signal: system::Signal) -> OtelFinding {
        let (why, fix) = match signal {
            system::Signal::Logs => (
                "the pack's logs are empty, and it is refused",
                "give the collector a log receiver and a logs pipeline, or let the SDKs send logs",
            ),
            system::Signal::Traces | system::Signal::TraceIdTs => (
                "the pack has no spans, so the detector has nothing to look at",
                "look whether the applications send to a Service whose selector matches the collector",
            ),
            system::Signal::MetricsHistogram => (
                "the pack's histograms are empty, and it is refused",
                "the stack may emit none: add a metrics path that makes them, or take the signal out of the profile",
            ),
            system::Signal::Metrics | system::Signal::MetricsSum => (
                "the pack's metrics are empty, and it is refused",
                "give the collector the kubelet and cluster receivers and a metrics pipeline",
            ),
        };
        // What a simulated run lacks, no collector can give.
        let fix = match self.stream.run {
            Some(run) => format!(
                "the run has sent none yet, or they are older than what is kept: `aegisctl run why {run}`; if it has ended, run it again"
            ),
            None => fix.into(),
        };
        OtelFinding {
            code: "otel.signal_missing".into(),
            namespace: self.stream.namespace.clone(),
            run: self.stream.run,
            signal: signal.as_str().to_owned(),
            missing: "any record".into(),
            records: 0,
            without: 0,
            share: 1.0,
            since: None,
            services: Vec::new(),
            why: why.into(),
            fix,
        }
    }

    fn finding(&self, row: &Requirement, names: &Services) -> Option<OtelFinding> {
        let asked = &self.questions[&row.signal];
        let mut services: BTreeMap<&str, Tally<'_>> = BTreeMap::new();
        for group in self.groups[&row.signal].iter().filter(|group| concerned(group, row, asked, names)) {
            services
                .entry(&group.service)
                .or_default()
                .add(group, row.any_of.iter().any(|one| carries(group, *one, asked)));
        }
        if row.scope == Scope::SomeOfEachTracedLogger {
            services.retain(|service, tally| self.logs_name_traces(service, names) && tally.with.is_empty());
        }
        let records: u64 = services.values().map(Tally::records).sum();
        let without: u64 = services.values().map(Tally::without).sum();
        let since = services.values().filter_map(Tally::since).min()?;
        let mut services: Vec<OtelService> =
            services.into_iter().filter_map(|(service, tally)| tally.report(service)).collect();
        services.sort_by(|a, b| b.without.cmp(&a.without).then_with(|| a.service.cmp(&b.service)));
        services.truncate(EXAMPLES);
        Some(OtelFinding {
            code: "otel.attribute_missing".into(),
            namespace: self.stream.namespace.clone(),
            run: self.stream.run,
            signal: row.signal.as_str().to_owned(),
            missing: row.name(),
            records,
            without,
            share: without as f64 / records as f64,
            since: Some(since.to_string()),
            services,
            why: row.why.to_owned(),
            fix: row.fix.to_owned(),
        })
    }
}

impl Counted {
    /// Whether the logs of a service should name traces: as the system's data says, else when it sends spans.
    fn logs_name_traces(&self, service: &str, names: &Services) -> bool {
        match &names.traced_loggers {
            Some(loggers) => loggers.contains(service),
            None => self.groups[&system::Signal::Traces].iter().any(|group| group.service == service),
        }
    }
}

/// The services of a system, under the names that their telemetry gives them. `None`: there is no data about them.
struct Services {
    known: Option<BTreeSet<String>>,
    traced_loggers: Option<BTreeSet<String>>,
    /// Where users' requests come in, and whose spans are the service level indicator.
    entrances: BTreeSet<String>,
}

impl Services {
    fn of(system: &SystemData) -> Self {
        let entrance = &system.registration.entrance;
        let entrances = [&entrance.service, &entrance.sli_service];
        let Some(topology) = &system.topology else {
            let entrances = entrances.into_iter().cloned().collect();
            return Self { known: None, traced_loggers: None, entrances };
        };
        let names = |wanted: &dyn Fn(&system::Service) -> bool| {
            let services = topology.services.iter().filter(|service| wanted(service));
            services.map(|service| service.reported_name().to_owned()).collect()
        };
        let logs = |service: &system::Service| topology.telemetry.of(&service.name).logs;
        Self {
            known: Some(names(&|_| true)),
            traced_loggers: Some(names(&|service| logs(service) == system::Logs::WithTraceIds)),
            entrances: names(&|service| entrances.contains(&&service.name)),
        }
    }
}

/// Whether a requirement is about these records.
fn concerned(group: &Group, row: &Requirement, asked: &[Trait], names: &Services) -> bool {
    match row.scope {
        Scope::Each | Scope::SomeOfEachTracedLogger => true,
        Scope::EachAtEntrance => names.entrances.contains(&group.service) && has(group, Trait::Kind("Server"), asked),
    }
}

fn carries(group: &Group, carrier: Carrier, asked: &[Trait]) -> bool {
    match carrier {
        Carrier::Resource(key) => group.resource_value(key).is_some(),
        Carrier::Attribute(keys) => has(group, Trait::Attribute(keys), asked),
        Carrier::TraceId => has(group, Trait::TraceId, asked),
    }
}

fn has(group: &Group, wanted: Trait, asked: &[Trait]) -> bool {
    asked.iter().position(|&one| one == wanted).is_some_and(|at| group.traits[at])
}

/// A service's records with and without something.
#[derive(Default)]
struct Tally<'a> {
    with: Vec<&'a Group>,
    without: Vec<&'a Group>,
}

impl<'a> Tally<'a> {
    fn add(&mut self, group: &'a Group, carries: bool) {
        if carries { self.with.push(group) } else { self.without.push(group) }
    }

    fn without(&self) -> u64 {
        self.without.iter().map(|group| group.records).sum()
    }

    fn records(&self) -> u64 {
        self.without() + self.with.iter().map(|group| group.records).sum::<u64>()
    }

    fn since(&self) -> Option<DataTime> {
        self.without.iter().map(|group| group.first).min()
    }

    fn report(&self, service: &str) -> Option<OtelService> {
        let since = self.since()?;
        let without = self.without();
        let later: u64 = self.with.iter().map(|group| group.since(since)).sum();
        Some(OtelService {
            service: service.to_owned(),
            records: self.records(),
            without,
            share_since: without as f64 / (without + later) as f64,
            since: since.to_string(),
        })
    }
}

/// The findings of a system of which nothing has arrived.
fn nothing_at_all(registration: &Registration, query: &Wanted) -> Vec<OtelFinding> {
    let namespace = query.namespace.clone().unwrap_or_else(|| format!("{}0", registration.code));
    let nothing =
        Counted { stream: Stream { namespace, run: query.run }, questions: BTreeMap::new(), groups: BTreeMap::new() };
    let required = SIGNALS.iter().filter(|(signal, _)| registration.profile.required_signals.contains(signal));
    required.map(|(signal, _)| nothing.absent(*signal)).collect()
}
