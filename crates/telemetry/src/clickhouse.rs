//! Counting the records that a collector wrote into ClickHouse, over its HTTP interface.
//!
//! The tables are those that the collector's exporter makes (`otel_traces`, `otel_logs`, `otel_metrics_gauge`, ...). Every value of a
//! query is a bound parameter (`param_x`); only names that stand in this file are part of a statement. Nothing is ever written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use model::{DataTime, ErrorKind, Problem, Result, WallTime};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};

use crate::{Group, Present, Query, Signal, Stream, Trait};

/// Longest time that a question may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// ClickHouse's codes for a table and a database that is not there: nothing was written yet.
const ABSENT: [&str; 2] = ["60", "81"];

/// A database of a ClickHouse server.
#[derive(Clone)]
pub struct ClickHouse {
    agent: ureq::Agent,
    base: String,
    database: String,
    login: Option<Login>,
}

/// It has no debug form: it holds a password.
#[derive(Clone)]
struct Login {
    user: String,
    password: String,
}

const FORM: &str = "`clickhouse://[USER:PASSWORD@]HOST:PORT/DATABASE[?tls=true|?ca=FILE]`, the port being that of HTTP";

/// What a statement is asked with.
#[derive(Default)]
struct Question {
    sql: String,
    parameters: Vec<(String, String)>,
}

fn malformed(what: &str) -> Problem {
    let message = "the address of the telemetry's database cannot be read";
    Problem::new(ErrorKind::Invalid, "telemetry.address_malformed", message).found(what.to_owned()).expected(FORM)
}

/// The certificates of a PEM file.
fn trusted(file: &Path) -> Result<RootCerts> {
    let unusable = |found: String| {
        let message = "the certificates for ClickHouse cannot be used";
        Problem::new(ErrorKind::Missing, "telemetry.certificate_unusable", message)
            .place(file.display().to_string())
            .found(found)
            .expected("a PEM file with certificates that this user can read")
    };
    let pem = std::fs::read(file).map_err(|error| unusable(error.to_string()))?;
    let items = ureq::tls::parse_pem(&pem).collect::<std::result::Result<Vec<_>, _>>();
    let items = items.map_err(|error| unusable(error.to_string()))?;
    let certificates = items.into_iter().filter_map(|item| match item {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<Certificate<'static>> = certificates.collect();
    match certificates.as_slice() {
        [] => Err(unusable("no certificate".to_owned())),
        some => Ok(RootCerts::new_with_certs(some)),
    }
}

impl std::fmt::Debug for ClickHouse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ClickHouse").field(&self.place()).finish()
    }
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
    /// `clickhouse://[USER:PASSWORD@]HOST:PORT/DATABASE`. With `?tls=true` it has to have a certificate that a public
    /// authority signs, with `?ca=FILE` one that those in a PEM file sign. Nothing is sent yet.
    ///
    /// # Errors
    /// `telemetry.address_malformed`; the address is not repeated, for it may hold a password.
    /// `telemetry.certificate_unusable`.
    pub fn open(address: &str) -> Result<Self> {
        let rest = address.strip_prefix("clickhouse://").ok_or_else(|| malformed("another scheme"))?;
        // A password may hold any of `@/?`; the host comes after the last `@`.
        let (login, rest) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((login, rest)) => {
                let (user, password) = login.split_once(':').ok_or_else(|| malformed("a user without a password"))?;
                (Some(Login { user: user.to_owned(), password: password.to_owned() }), rest)
            }
        };
        let (rest, roots) = match rest.split_once('?') {
            None => (rest, None),
            Some((rest, "tls=true")) => (rest, Some(RootCerts::WebPki)),
            Some((rest, query)) => {
                let file = query.strip_prefix("ca=").filter(|file| !file.is_empty() && !file.contains('&'));
                (
                    rest,
                    Some(trusted(Path::new(
                        file.ok_or_else(|| malformed("other parameters than `tls=true` or `ca`"))?,
                    ))?),
                )
            }
        };
        let parts = rest.split_once('/');
        let right = parts.filter(|(host, database)| {
            let is_name = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            host.contains(':') && !host.contains(char::is_whitespace) && !database.is_empty() && is_name(database)
        });
        let (host, database) = right.ok_or_else(|| malformed("no host, port and database"))?;
        let mut config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false);
        let scheme = if roots.is_some() { "https" } else { "http" };
        if let Some(roots) = roots {
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        let agent = ureq::Agent::new_with_config(config.build());
        Ok(Self { agent, base: format!("{scheme}://{host}/"), database: database.to_owned(), login })
    }

    /// Its address, without a login.
    pub fn place(&self) -> String {
        let (_, host) = self.base.split_once("://").expect("the base was made with a scheme");
        format!("clickhouse://{host}{}", self.database)
    }

    /// The rows of an answer; none when what is asked for is not there yet.
    fn ask<T: DeserializeOwned>(&self, question: &Question) -> Result<Vec<T>> {
        let mut request = self.agent.post(&self.base).query("database", &self.database);
        request = request.query("default_format", "JSONEachRow");
        for (name, value) in &question.parameters {
            request = request.query(name, value);
        }
        if let Some(Login { user, password }) = &self.login {
            // In headers and not in the address, which servers on the way write down.
            request = request.header("X-ClickHouse-User", user).header("X-ClickHouse-Key", password);
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
    use std::io::{Read, Write as _};

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
        for wrong in [
            "clickhouse://me:pa55@ch:x y/otel",
            "clickhouse://me:pa55@ch:1/otel?tls=false&pa55=1",
            "x://me:pa55@ch:1/o",
        ] {
            let problem = ClickHouse::open(wrong).unwrap_err();
            assert!(
                problem.code == "telemetry.address_malformed" && !format!("{problem:?}").contains("pa55"),
                "{problem:?}"
            );
        }
        let right = ClickHouse::open("clickhouse://me:p/?@a55@ch:8443/otel?tls=true").unwrap();
        assert_eq!((right.base.as_str(), right.place().as_str()), ("https://ch:8443/", "clickhouse://ch:8443/otel"));
        assert_eq!(format!("{right:?}"), "ClickHouse(\"clickhouse://ch:8443/otel\")");
        let missing = ClickHouse::open("clickhouse://ch:8443/otel?ca=/no/such.pem").unwrap_err();
        assert_eq!(missing.code, "telemetry.certificate_unusable");
    }

    /// What ClickHouse's HTTP interface takes a login from, and how it says that it is wrong:
    /// <https://clickhouse.com/docs/interfaces/http>.
    #[test]
    fn a_login_is_sent_in_headers_and_told_nowhere() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut text = Vec::new();
            while !text.ends_with(b"GROUP BY namespace") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                text.push(byte[0]);
            }
            let answer = "HTTP/1.1 403 Forbidden\r\nX-ClickHouse-Exception-Code: 516\r\nConnection: close\r\nContent-Length: 46\r\n\r\n";
            let words = "Code: 516. DB::Exception: Authentication faile";
            stream.write_all(format!("{answer}{words}").as_bytes()).unwrap();
            String::from_utf8(text).unwrap()
        });
        let problem = ClickHouse::open(&format!("clickhouse://me:pa55@{address}/otel")).unwrap().present().unwrap_err();
        let asked = server.join().unwrap().to_lowercase();
        assert!(
            asked.contains("\r\nx-clickhouse-user: me\r\n") && asked.contains("\r\nx-clickhouse-key: pa55\r\n"),
            "{asked}"
        );
        assert!(!asked.lines().next().unwrap().contains("pa55"), "{asked}");
        let told = format!("{problem:?}");
        assert!(problem.code == "telemetry.refused" && told.contains("516") && !told.contains("pa55"), "{told}");
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
