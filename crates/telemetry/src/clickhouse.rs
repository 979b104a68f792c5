//! Counting the records that a collector wrote into ClickHouse, over its HTTP interface.
//!
//! The tables are those that the collector's exporter makes (`otel_traces`, `otel_logs`, `otel_metrics_gauge`, ...). Every value of a
//! query is a bound parameter (`param_x`); only names that stand in this file are part of a statement. Nothing is ever written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use model::{DataTime, ErrorKind, Problem, Result, WallTime};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{Group, Present, Query, Signal, Stream, Trait};

/// Longest time that a question may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// ClickHouse's codes for a table and a database that is not there: nothing was written yet.
const ABSENT: [&str; 2] = ["60", "81"];

/// A database of a ClickHouse server.
#[derive(Debug, Clone)]
pub struct ClickHouse {
    agent: ureq::Agent,
    base: String,
    database: String,
}

/// What a statement is asked with.
#[derive(Default)]
struct Question {
    sql: String,
    parameters: Vec<(String, String)>,
}

impl Question {
    /// Binds a value, and returns how the statement names it.
    fn bind(&mut self, value: impl ToString, kind: &str) -> String {
        let name = format!("p{}", self.parameters.len());
        self.parameters.push((format!("param_{name}"), value.to_string()));
        format!("{{{name}:{kind}}}")
    }
}

impl ClickHouse {
    /// `clickhouse://HOST:PORT/DATABASE`. Nothing is sent yet.
    ///
    /// # Errors
    /// `telemetry.address_malformed`.
    pub fn open(address: &str) -> Result<Self> {
        let parts = address.strip_prefix("clickhouse://").and_then(|rest| rest.split_once('/'));
        let right = parts.filter(|(host, database)| {
            let is_name = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            host.contains(':') && !host.contains(char::is_whitespace) && !database.is_empty() && is_name(database)
        });
        let Some((host, database)) = right else {
            let message = "the address of the telemetry's database cannot be read";
            return Err(Problem::new(ErrorKind::Invalid, "telemetry.address_malformed", message)
                .found(format!("`{address}`"))
                .expected("`clickhouse://HOST:PORT/DATABASE`, the port being that of HTTP"));
        };
        let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false);
        let agent = ureq::Agent::new_with_config(config.build());
        Ok(Self { agent, base: format!("http://{host}/"), database: database.to_owned() })
    }

    /// Its address.
    pub fn place(&self) -> String {
        format!("clickhouse://{}{}", self.base.trim_start_matches("http://"), self.database)
    }

    /// The rows of an answer; none when what is asked for is not there yet.
    fn ask<T: DeserializeOwned>(&self, question: &Question) -> Result<Vec<T>> {
        let mut request = self.agent.post(&self.base).query("database", &self.database);
        request = request.query("default_format", "JSONEachRow");
        for (name, value) in &question.parameters {
            request = request.query(name, value);
        }
        let unreachable = |error: ureq::Error| {
            Problem::new(ErrorKind::Unavailable, "telemetry.unreachable", "ClickHouse does not answer")
                .place(self.place())
                .found(error.to_string())
        };
        let mut answer = request.send(&question.sql).map_err(unreachable)?;
        let code = answer.headers().get("x-clickhouse-exception-code").and_then(|code| code.to_str().ok());
        if code.is_some_and(|code| ABSENT.contains(&code)) {
            return Ok(Vec::new());
        }
        let status = answer.status();
        let text = answer.body_mut().with_config().limit(256 << 20).read_to_string().map_err(unreachable)?;
        if !status.is_success() {
            return Err(Problem::new(ErrorKind::Unavailable, "telemetry.refused", "ClickHouse refuses the question")
                .place(self.place())
                .found(text.lines().next().unwrap_or_default().chars().take(300).collect::<String>()));
        }
        let read = |line: &str| {
            serde_json::from_str(line).map_err(|error| {
                Problem::internal("telemetry.answer_malformed", "an answer of ClickHouse cannot be read")
                    .place(self.place())
                    .cause(error)
            })
        };
        text.lines().filter(|line| !line.is_empty()).map(read).collect()
    }

    /// Every namespace that records name, with the time of the last of them.
    ///
    /// # Errors
    /// `telemetry.unreachable`, `telemetry.refused`; so for every question.
    pub fn present(&self) -> Result<Vec<Present>> {
        #[derive(Deserialize)]
        struct Row {
            namespace: String,
            last: Number,
        }
        let mut found: BTreeMap<String, i64> = BTreeMap::new();
        for signal in Signal::ALL {
            let time = time(signal);
            let sql = format!(
                "SELECT ResourceAttributes['k8s.namespace.name'] AS namespace, \
                 toUnixTimestamp64Micro(max(toDateTime64({time}, 6))) AS last FROM {} GROUP BY namespace",
                table(signal)
            );
            for row in self.ask::<Row>(&Question { sql, ..Question::default() })? {
                let last = found.entry(row.namespace).or_insert(i64::MIN);
                *last = row.last.0.max(*last);
            }
        }
        let one = |(namespace, last)| Present { stream: Stream { namespace, run: None }, arrived: WallTime(last) };
        Ok(found.into_iter().map(one).collect())
    }

    /// As [`crate::SignalStore::census`].
    ///
    /// # Errors
    /// As [`ClickHouse::present`].
    pub fn census(&self, query: &Query, traits: &[Trait], attributes_of: &BTreeSet<String>) -> Result<Vec<Group>> {
        #[derive(Deserialize)]
        struct Row {
            service: String,
            resource: String,
            traits: Vec<u8>,
            records: Number,
            first: Number,
            last: Number,
            seconds: (Vec<Number>, Vec<Number>),
        }
        let group = |row: Row| {
            let (seconds, counts) = row.seconds;
            Group {
                service: row.service,
                resource: row.resource,
                traits: row.traits.into_iter().map(|bit| bit == 1).collect(),
                records: row.records.0.unsigned_abs(),
                first: DataTime(row.first.0),
                last: DataTime(row.last.0),
                seconds: seconds.into_iter().map(|n| n.0).zip(counts.into_iter().map(|n| n.0.unsigned_abs())).collect(),
            }
        };
        let rows: Vec<Row> = self.ask(&census(query, traits, attributes_of))?;
        let mut groups: Vec<Group> = rows.into_iter().map(group).collect();
        groups.sort_by(|a, b| (&a.service, &a.resource, &a.traits).cmp(&(&b.service, &b.resource, &b.traits)));
        Ok(groups)
    }

    /// Other databases that have tables of a collector, with the number of their records.
    ///
    /// # Errors
    /// As [`ClickHouse::present`].
    pub fn elsewhere(&self) -> Result<BTreeMap<String, u64>> {
        #[derive(Deserialize)]
        struct Row {
            database: String,
            records: Number,
        }
        let mut question = Question::default();
        let own = question.bind(&self.database, "String");
        question.sql = format!(
            "SELECT database, sum(ifNull(total_rows, 0)) AS records FROM system.tables \
             WHERE name LIKE 'otel\\_%' AND database != {own} GROUP BY database HAVING records > 0"
        );
        let rows: Vec<Row> = self.ask(&question)?;
        Ok(rows.into_iter().map(|row| (row.database, row.records.0.unsigned_abs())).collect())
    }
}

/// A number, which ClickHouse may put into quotes when it has more than 32 bits.
struct Number(i64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
        number.map(Self).ok_or_else(|| serde::de::Error::custom(format!("no number: {value}")))
    }
}

fn table(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "otel_traces",
        Signal::Logs => "otel_logs",
        Signal::Gauge => "otel_metrics_gauge",
        Signal::Sum => "otel_metrics_sum",
        Signal::Histogram => "otel_metrics_histogram",
    }
}

fn time(signal: Signal) -> &'static str {
    if matches!(signal, Signal::Traces | Signal::Logs) { "Timestamp" } else { "TimeUnix" }
}

/// Where a signal's own attributes are.
fn attributes(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "SpanAttributes",
        Signal::Logs => "LogAttributes",
        Signal::Gauge | Signal::Sum | Signal::Histogram => "Attributes",
    }
}

fn census(query: &Query, traits: &[Trait], attributes_of: &BTreeSet<String>) -> Question {
    let mut question = Question::default();
    let (table, time) = (table(query.signal), time(query.signal));
    let answers: Vec<String> =
        traits.iter().map(|wanted| answer(&mut question, query.signal, *wanted, attributes_of)).collect();
    let answers = if answers.is_empty() { "emptyArrayUInt8()".to_owned() } else { format!("[{}]", answers.join(", ")) };
    let namespace = question.bind(&query.namespace, "String");
    let mut sql = format!(
        "SELECT ServiceName AS service, toJSONString(mapSort(ResourceAttributes)) AS resource, {answers} AS traits, \
         count() AS records, min(nanos) AS first, max(nanos) AS last, sumMap([second], [toUInt64(1)]) AS seconds FROM \
         (SELECT *, toUnixTimestamp64Nano(toDateTime64({time}, 9)) AS nanos, intDiv(nanos, 1000000000) AS second FROM {table} \
         WHERE ResourceAttributes['k8s.namespace.name'] = {namespace}"
    );
    for (bound, sign) in [(query.from, ">="), (query.to, "<")] {
        if bound.0 > i64::MIN && bound.0 < i64::MAX {
            let bound = question.bind(bound.0, "Int64");
            write!(sql, " AND nanos {sign} {bound}").expect("a text takes every text");
        }
    }
    sql.push_str(") GROUP BY service, resource, traits");
    question.sql = sql;
    question
}

/// One bit of a record: an expression that is 0 or 1.
fn answer(question: &mut Question, signal: Signal, wanted: Trait, attributes_of: &BTreeSet<String>) -> String {
    match (wanted, signal) {
        (Trait::Attribute(keys), _) => {
            let column = attributes(signal);
            let has: Vec<String> =
                keys.iter().map(|key| format!("{column}[{}] != ''", question.bind(key, "String"))).collect();
            let services: Vec<String> = attributes_of.iter().map(|name| question.bind(name, "String")).collect();
            if services.is_empty() {
                return "toUInt8(0)".into();
            }
            format!("toUInt8(ServiceName IN ({}) AND ({}))", services.join(", "), has.join(" OR "))
        }
        (Trait::Kind(kind), Signal::Traces) => format!("toUInt8(SpanKind = {})", question.bind(kind, "String")),
        (Trait::TraceId, Signal::Traces | Signal::Logs) => "toUInt8(TraceId != '')".into(),
        (Trait::Kind(_) | Trait::TraceId, _) => "toUInt8(0)".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_host_port_and_database() {
        let right = ClickHouse::open("clickhouse://ch.example:8123/otel").unwrap();
        assert_eq!(right.place(), "clickhouse://ch.example:8123/otel");
        for wrong in
            ["http://ch:8123/otel", "clickhouse://ch/otel", "clickhouse://ch:8123", "clickhouse://ch:8123/o'tel"]
        {
            assert_eq!(ClickHouse::open(wrong).unwrap_err().code, "telemetry.address_malformed", "{wrong}");
        }
    }

    #[test]
    fn no_value_is_part_of_a_statement() {
        let name = "x' OR 1 = 1 --";
        let query = Query {
            signal: Signal::Traces,
            namespace: name.into(),
            run: None,
            from: DataTime(5),
            to: DataTime(i64::MAX),
        };
        let traits = [Trait::Kind("Server"), Trait::TraceId, Trait::Attribute(&["http.method"])];
        let question = census(&query, &traits, &BTreeSet::from([name.to_owned()]));
        assert!(!question.sql.contains("OR 1"), "{}", question.sql);
        let values: Vec<&str> = question.parameters.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["Server", "http.method", name, name, "5"]);
    }
}
