//! The daemon's configuration: defaults, then a TOML file, then flags. An unknown key is an error with the nearest name.

mod expand;
mod shown;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::{ErrorKind, Problem, Result, nearest};
use serde::Deserialize;

use self::expand::{expand, hidden};

/// Everything that a deployment may set. It has no debug form: the store's address may hold a password.
#[derive(Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The data folder: store, telemetry, datapacks and the simulated cluster.
    pub data: PathBuf,
    /// Where the HTTP API listens. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where OTLP over gRPC is received; absent = not received.
    pub otlp_grpc: Option<SocketAddr>,
    /// Where OTLP over HTTP is received; absent = not received.
    pub otlp_http: Option<SocketAddr>,
    /// How far behind the clock a received timestamp may be, hours.
    pub otlp_past_hours: u64,
    /// How far ahead of the clock a received timestamp may be, minutes.
    pub otlp_future_minutes: u64,
    /// How long telemetry is kept after its arrival, hours.
    pub telemetry_hours: u64,
    /// How much telemetry is kept; what arrived first goes first.
    pub telemetry_gib: u64,
    /// Where a collector writes telemetry: `clickhouse://[USER:PASSWORD@]HOST:PORT/otel[?tls=true|?ca=FILE]`; absent = it sends to
    /// this server.
    pub telemetry: Option<String>,
    /// `sqlite:PATH` or `mysql://…`; absent = SQLite inside the data folder.
    pub store: Option<String>,
    /// Where live settings are published: `sql` = kept in the store alone, or
    /// `etcd://[USER:PASSWORD@]HOST:PORT[/PREFIX][?ca=FILE[&cert=FILE&key=FILE]]`.
    pub settings: String,
    /// Folder of chart archives, or `s3://BUCKET[/PREFIX]`; absent = `charts` inside the data folder.
    pub charts: Option<String>,
    /// The program `helm`; absent = the first on `PATH`.
    pub helm: Option<PathBuf>,
    /// Seconds that fetching or rendering a chart may take.
    pub chart_seconds: u64,
    /// Where charts and images are really fetched from.
    pub mirror: Vec<chart::Mirror>,
    /// Repositories and registries of charts that want a login, or whose certificate is their own.
    pub repository: Vec<chart::Login>,
    /// A folder with a seed that is looked at all the time; absent = none is.
    pub seed: Option<WatchedSeed>,
    /// What is known of the machines that systems run on.
    pub nodes: Nodes,
    /// How long a database server or an etcd may take to answer, seconds.
    pub answer_seconds: u64,
    /// How many tasks this process runs at once.
    pub workers: usize,
    /// A folder of systems that adds to and overrides the built-in ones.
    pub systems: Option<PathBuf>,
    /// Seconds that a detector or an algorithm may take.
    pub algorithm_seconds: u64,
    /// Memory that a detector or an algorithm may take.
    pub algorithm_memory_mib: u64,
}

/// The machines that systems run on.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Nodes {
    /// `linux/amd64` and the like; empty = nobody said, and charts are not checked for it.
    pub platforms: Vec<String>,
}

/// A seed that others keep up to date.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchedSeed {
    /// Folder of one environment: `data.yaml` is in it.
    pub folder: PathBuf,
    /// `plan` tells what it would change, `apply` does what needs nobody's consent.
    #[serde(default)]
    pub auto: api::seed::Auto,
}

/// How an object store is named.
const BUCKET: &str = "s3://";
/// Live settings are kept in the store alone.
pub const IN_STORE: &str = "sql";
/// More tasks at once than any machine runs well.
const MOST_WORKERS: u64 = 1024;
/// A day.
const MOST_SECONDS: u64 = 86_400;
/// 16 TiB.
const MOST_MEMORY_MIB: u64 = 16 * 1024 * 1024;
/// A hundred years.
const MOST_HOURS: u64 = 100 * 365 * 24;
/// A year.
const MOST_MINUTES: u64 = 365 * 24 * 60;
/// An answer that took longer is of no use to anybody who waits for it.
const MOST_ANSWER_SECONDS: u64 = 600;
/// 1 PiB.
const MOST_GIB: u64 = 1024 * 1024;

impl Default for Config {
    fn default() -> Self {
        Self {
            data: default_data(),
            listen: SocketAddr::from(([127, 0, 0, 1], 8082)),
            otlp_grpc: None,
            otlp_http: None,
            otlp_past_hours: 7 * 24,
            otlp_future_minutes: 60,
            telemetry_hours: 30 * 24,
            telemetry_gib: 50,
            telemetry: None,
            store: None,
            settings: IN_STORE.to_owned(),
            charts: None,
            helm: None,
            chart_seconds: 120,
            mirror: Vec::new(),
            repository: Vec::new(),
            seed: None,
            nodes: Nodes::default(),
            answer_seconds: 10,
            workers: std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(1, 8)),
            systems: None,
            algorithm_seconds: 300,
            algorithm_memory_mib: 2048,
        }
    }
}

/// `$XDG_STATE_HOME/aegis/data`, else `~/.local/state/aegis/data`.
fn default_data() -> PathBuf {
    state_home().join("aegis/data")
}

/// Where this user's programs keep state that outlives them.
pub fn state_home() -> PathBuf {
    let non_empty = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    non_empty("XDG_STATE_HOME")
        .or_else(|| non_empty("HOME").map(|home| home.join(".local/state")))
        .unwrap_or_else(|| PathBuf::from("/var/lib"))
}

const KEYS: &[&str] = &[
    "data",
    "listen",
    "otlp_grpc",
    "otlp_http",
    "otlp_past_hours",
    "otlp_future_minutes",
    "telemetry_hours",
    "telemetry_gib",
    "telemetry",
    "store",
    "settings",
    "charts",
    "helm",
    "chart_seconds",
    "mirror",
    "repository",
    "seed",
    "nodes",
    "answer_seconds",
    "workers",
    "systems",
    "algorithm_seconds",
    "algorithm_memory_mib",
];

impl Config {
    /// Reads a file; every key is optional.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Problem::new(ErrorKind::Missing, "config.unreadable", "the configuration file cannot be read")
                .place(path.display().to_string())
                .found(error.to_string())
        })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Parses the text of a file; `name` stands in errors.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let mut table = check_keys(text, name)?;
        nothing_in_clear(&table, name)?;
        let filled = expand(&mut table, text, name)?;
        // Without placeholders it is the text that is read, so that an error has its line.
        let read = if filled.is_empty() { toml::from_str(text) } else { table.try_into() };
        let config: Self = read.map_err(|error| {
            Problem::new(ErrorKind::Invalid, "config.wrong_value", "a value of the configuration is wrong")
                .place(place(name, text, error.span()))
                .found(hidden(error.message(), &filled))
        })?;
        config.check(name).map_err(|problem| Problem {
            found: problem.found.as_deref().map(|found| hidden(found, &filled)),
            ..problem
        })?;
        Ok(config)
    }

    /// Refuses numbers with which nothing could ever run, wherever they come from; `name` stands in the error.
    ///
    /// # Errors
    /// `config.wrong_value`.
    pub fn check(&self, name: &str) -> Result<()> {
        let workers = u64::try_from(self.workers).unwrap_or(u64::MAX);
        let numbers = [
            ("workers", workers, MOST_WORKERS),
            ("algorithm_seconds", self.algorithm_seconds, MOST_SECONDS),
            ("algorithm_memory_mib", self.algorithm_memory_mib, MOST_MEMORY_MIB),
            ("otlp_past_hours", self.otlp_past_hours, MOST_HOURS),
            ("otlp_future_minutes", self.otlp_future_minutes, MOST_MINUTES),
            ("telemetry_hours", self.telemetry_hours, MOST_HOURS),
            ("telemetry_gib", self.telemetry_gib, MOST_GIB),
            ("chart_seconds", self.chart_seconds, MOST_SECONDS),
            ("answer_seconds", self.answer_seconds, MOST_ANSWER_SECONDS),
        ];
        self.check_settings(name)?;
        self.check_charts(name)?;
        let Some((key, value, most)) = numbers.into_iter().find(|(_, value, most)| !(1..=*most).contains(value)) else {
            return Ok(());
        };
        Err(Problem::new(ErrorKind::Invalid, "config.wrong_value", "a value of the configuration is wrong")
            .place(name.to_owned())
            .found(format!("{key} = {value}"))
            .expected(format!("1 to {most}")))
    }
}

impl Config {
    fn check_settings(&self, name: &str) -> Result<()> {
        if self.settings == IN_STORE || self.settings.starts_with("etcd://") {
            return Ok(());
        }
        // Only the scheme is repeated: the rest may hold a password.
        let scheme = self.settings.split(':').next().unwrap_or_default();
        Err(Problem::new(ErrorKind::Invalid, "config.wrong_value", "a value of the configuration is wrong")
            .place(name.to_owned())
            .found(format!("settings = `{scheme}...`"))
            .expected("`sql`, or `etcd://[USER:PASSWORD@]HOST:PORT[,HOST:PORT...][/PREFIX][?ca=FILE]`"))
    }

    fn check_charts(&self, name: &str) -> Result<()> {
        let wrong = |found: String, expected: &str| {
            Problem::new(ErrorKind::Invalid, "config.wrong_value", "a value of the configuration is wrong")
                .place(name.to_owned())
                .found(found)
                .expected(expected.to_owned())
        };
        let other = |charts: &&String| charts.contains("://") && !charts.starts_with(BUCKET);
        if let Some(charts) = self.charts.as_ref().filter(other) {
            return Err(wrong(format!("charts = `{charts}`"), "a folder, or `s3://BUCKET[/PREFIX]`"));
        }
        for rule in &self.mirror {
            if !rule.is_meant() {
                let found = format!("mirror: `{}` -> `{}`", rule.from, rule.to);
                let expected =
                    "two repositories (`https://`, `http://` or `oci://` both, of one kind), or two prefixes of images";
                return Err(wrong(found, expected));
            }
        }
        for login in &self.repository {
            if let Some(expected) = login.mistake() {
                return Err(wrong(format!("repository: {}", login.shown()), expected));
            }
        }
        let is_platform = |text: &&String| text.split('/').filter(|part| !part.is_empty()).count() >= 2;
        match self.nodes.platforms.iter().find(|text| !is_platform(text)) {
            Some(text) => Err(wrong(format!("nodes.platforms: `{text}`"), "OS/ARCHITECTURE, as in `linux/amd64`")),
            None => Ok(()),
        }
    }

    /// How charts are kept, fetched and rendered.
    pub fn chart_options(&self, place: chart::Place) -> server::ChartOptions {
        server::ChartOptions {
            place,
            helm: self.helm.clone(),
            limit: Duration::from_secs(self.chart_seconds),
            mirrors: chart::Mirrors::new(self.mirror.clone()),
            logins: chart::Logins::new(self.repository.clone()),
            platforms: self.nodes.platforms.clone(),
        }
    }

    /// The store's address.
    pub fn store_url(&self) -> String {
        self.store.clone().unwrap_or_else(|| format!("sqlite:{}", self.data.join("aegis.db").display()))
    }

    /// Where chart archives are kept.
    ///
    /// # Errors
    /// `chart.bucket_malformed`, `chart.bucket_without_login`.
    pub fn charts_place(&self) -> Result<chart::Place> {
        match &self.charts {
            Some(address) if address.starts_with(BUCKET) => {
                let access = chart::BucketAccess::from_env();
                Ok(chart::Place::Bucket(Box::new(chart::Bucket::open(address, &access, self.answer())?)))
            }
            Some(folder) => Ok(chart::Place::Folder(folder.into())),
            None => Ok(chart::Place::Folder(self.data.join("charts"))),
        }
    }

    /// How long an outside part may take to answer.
    pub fn answer(&self) -> Duration {
        Duration::from_secs(self.answer_seconds)
    }

    /// Where live settings are published, if they are. To be called inside a runtime.
    ///
    /// # Errors
    /// `settings.address_malformed`.
    pub fn source(&self) -> Result<Option<Arc<dyn settings::Source>>> {
        if self.settings == IN_STORE {
            return Ok(None);
        }
        Ok(Some(Arc::new(settings::Etcd::open(&self.settings, self.answer())?)))
    }
}

/// A repository's password is never written into the file itself.
fn nothing_in_clear(table: &toml::Table, name: &str) -> Result<()> {
    let repositories = table.get("repository").and_then(toml::Value::as_array).into_iter().flatten();
    let passwords = repositories.filter_map(|one| one.get("password")?.as_str());
    if passwords.into_iter().all(|password| password.starts_with("${")) {
        return Ok(());
    }
    Err(Problem::new(
        ErrorKind::Invalid,
        "config.password_in_clear",
        "the password of a repository stands in the configuration file",
    )
    .place(name.to_owned())
    .expected("`${NAME}`, a variable of the environment, or `${file:PATH}`, a file that only this user can read"))
}

fn check_keys(text: &str, name: &str) -> Result<toml::Table> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        Problem::new(ErrorKind::Invalid, "config.not_toml", "the configuration file is not TOML")
            .place(place(name, text, error.span()))
            .found(error.message().to_owned())
    })?;
    let Some(unknown) = table.keys().find(|key| !KEYS.contains(&key.as_str())) else { return Ok(table) };
    let line = text.lines().position(|line| line.trim_start().trim_start_matches('[').starts_with(unknown.as_str()));
    let problem = Problem::new(ErrorKind::Invalid, "config.unknown_key", "unknown key in the configuration file")
        .place(format!("{name}:{}", line.map_or(1, |index| index + 1)))
        .found(format!("`{unknown}`"))
        .expected(KEYS.join(", "));
    Err(match nearest(unknown, KEYS.iter().copied()) {
        Some(near) => problem.fix(format!("did you mean `{near}`?")),
        None => problem,
    })
}

fn place(name: &str, text: &str, span: Option<std::ops::Range<usize>>) -> String {
    match span {
        Some(span) => format!("{name}:{}", text[..span.start.min(text.len())].matches('\n').count() + 1),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_is_named_with_its_line() {
        let problem = Config::parse("listen = \"127.0.0.1:0\"\nwokers = 3\n", "aegis.toml").err().unwrap();
        assert_eq!(problem.code, "config.unknown_key");
        assert_eq!(problem.place.as_deref(), Some("aegis.toml:2"));
        assert_eq!(problem.fix.as_deref(), Some("did you mean `workers`?"));
    }

    #[test]
    fn a_wrong_value_is_named_with_its_line() {
        for text in ["listen = 8080", "\nworkers = \"two\"", "data = ["] {
            assert!(Config::parse(text, "aegis.toml").is_err(), "{text}");
        }
        for text in [
            "workers = 0",
            "workers = 9999999999",
            "algorithm_seconds = 0",
            "telemetry_gib = 0",
            "otlp_past_hours = 9999999",
            "algorithm_seconds = 9223372036854775807",
            "algorithm_memory_mib = 0",
            "algorithm_memory_mib = 99999999999999",
            "answer_seconds = 0",
        ] {
            let problem = Config::parse(text, "aegis.toml").err().unwrap();
            assert_eq!((problem.code.as_ref(), problem.found.as_deref()), ("config.wrong_value", Some(text)));
        }
        for text in [
            "charts = \"gs://bucket/charts\"",
            "mirror = [{ from = \"https://a\", to = \"oci://b\" }]",
            "mirror = [{ from = \"docker.io\", to = \"https://b\" }]",
            "mirror = [{ from = \"docker.io\", to = \"\" }]",
            "mirror = [{ from = \"docker.io\" }]",
            "nodes.platforms = [\"amd64\"]",
        ] {
            let problem = Config::parse(text, "aegis.toml").err().unwrap_or_else(|| panic!("{text}"));
            assert_eq!(problem.code, "config.wrong_value", "{text}");
        }
        let rules =
            "[[mirror]]\nfrom = \"docker.io\"\nto = \"m.example/hub\"\n[nodes]\nplatforms = [\"linux/arm64/v8\"]\n";
        assert!(Config::parse(rules, "aegis.toml").is_ok());
        assert_eq!(Config::parse("workers = 3", "aegis.toml").map(|config| config.workers).unwrap(), 3);
    }

    #[test]
    fn what_is_shown_names_every_key_and_no_password() {
        let text = "store = \"mysql://aegis:pa55w0rd@db:3306/aegis?password=pa55w0rd\"\n";
        let shown = Config::parse(text, "aegis.toml").map(|config| config.shown()).unwrap();
        assert!(KEYS.iter().all(|key| shown.lines().any(|line| line.starts_with(key))), "{shown}");
        assert!(shown.contains("mysql://aegis:***@db:3306/aegis") && !shown.contains("pa55w0rd"), "{shown}");
        let etcd = Config::parse("settings = \"etcd://me:pa55w0rd@etcd:2379/x\"", "aegis.toml").ok().unwrap().shown();
        assert!(etcd.contains("etcd://me:***@etcd:2379/x") && !etcd.contains("pa55w0rd"), "{etcd}");
        let click = "telemetry = \"clickhouse://me:pa55w0rd@ch:8443/otel?ca=/etc/ca.pem\"";
        let click = Config::parse(click, "aegis.toml").ok().unwrap().shown();
        assert!(click.contains("clickhouse://me:***@ch:8443/otel") && !click.contains("pa55w0rd"), "{click}");
        let wrong = Config::parse("settings = \"zookeeper://me:pa55w0rd@z\"", "aegis.toml").err().unwrap();
        assert!(wrong.code == "config.wrong_value" && !wrong.to_string().contains("pa55w0rd"), "{wrong}");
    }

    #[test]
    fn what_is_not_in_the_file_comes_from_a_variable_or_a_file_and_is_not_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "pa55w0rd\n").unwrap();
        let file = format!("${{file:{}}}", file.display());
        let parse = |text: &str| Config::parse(&text.replace("FILE", &file), "aegis.toml");
        let text = "settings = \"etcd://me:FILE@e:1/${CARGO_PKG_NAME}\"\nhelm = \"/x/$${y}\"\n\
                    [[repository]]\naddress = \"https://charts.example\"\nuser = \"me\"\npassword = \"FILE\"\n";
        let config = parse(text).ok().unwrap();
        assert_eq!(config.settings, format!("etcd://me:pa55w0rd@e:1/{}", env!("CARGO_PKG_NAME")));
        assert_eq!(config.helm, Some("/x/${y}".into()), "two of them are a plain one");
        assert_eq!(config.repository[0].password, Some(chart::Secret::new("pa55w0rd")));
        let shown = config.shown();
        assert!(
            !shown.contains("pa55w0rd") && shown.contains("https://charts.example (user me, password ***)"),
            "{shown}"
        );

        let refused = |text: &str, code: &str| {
            let problem = parse(text).err().unwrap_or_else(|| panic!("{text}"));
            assert_eq!(problem.code, code, "{problem}");
            assert!(!format!("{problem} {problem:?}").contains("pa55w0rd"), "{problem:?}");
            problem
        };
        let unset = refused("\ntelemetry = \"${NOBODY_SETS_THIS}\"", "config.variable_unset");
        assert_eq!(unset.place.as_deref(), Some("aegis.toml:2: telemetry"));
        assert!(unset.to_string().contains("`NOBODY_SETS_THIS` is not set"), "{unset}");
        refused("store = \"${file:/no/such/file}\"", "config.file_unreadable");
        refused("store = \"${unended\"", "config.placeholder_malformed");
        refused(
            "[[repository]]\naddress = \"oci://a\"\nuser = \"me\"\npassword = \"pa55w0rd\"",
            "config.password_in_clear",
        );
        refused("workers = \"FILE\"", "config.wrong_value");
        refused("nodes.platforms = [\"FILE\"]", "config.wrong_value");
        refused("[[repository]]\naddress = \"FILE\"\nuser = \"me\"\npassword = \"FILE\"", "config.wrong_value");
    }
}
