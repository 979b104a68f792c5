//! One chart as its archive has it: name, version, own values. An archive that is anything else than it should be is
//! refused here, before it is kept or used.

use model::{Problem, Result};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::unpack::{self, Budget, File, refused};

/// Largest archive that is taken, in bytes as they are sent.
pub const LARGEST_ARCHIVE: usize = 32 << 20;

/// How deep charts may hold charts.
const DEEPEST: usize = 8;

/// What an archive says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Archive {
    pub name: String,
    /// Semantic version, as it is written there.
    pub version: String,
    pub app_version: Option<String>,
    /// SHA-256 of the archive's bytes, in hexadecimal.
    pub digest: String,
    /// Bytes of the archive.
    pub size: u64,
    /// The chart's own values with those of its subcharts below their names, typed as Helm types them.
    pub values: Value,
}

impl Archive {
    /// # Errors
    /// `chart.archive_too_large`; those of unpacking; `chart.no_chart_yaml`, `chart.chart_yaml_malformed`,
    /// `chart.version_malformed`, `chart.values_malformed`.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        if bytes.len() > LARGEST_ARCHIVE {
            return Err(refused("chart.archive_too_large", "the chart's archive is too large")
                .found(format!("{} bytes", bytes.len()))
                .expected(format!("at most {LARGEST_ARCHIVE} bytes")));
        }
        let mut budget = Budget::of_a_chart();
        let files = unpack::files(bytes, &mut budget)?;
        let about = about(&files)?;
        let values = own_values(&files, 0, &mut budget)?;
        Ok(Self {
            name: about.name,
            version: about.version,
            app_version: about.app_version,
            digest: digest(bytes),
            size: bytes.len() as u64,
            values,
        })
    }

    /// Refuses an archive of another chart or version than is meant.
    ///
    /// # Errors
    /// `chart.another_name`, `chart.another_version`.
    pub fn require(&self, name: &str, version: &str) -> Result<()> {
        // In a registry a chart may be addressed by a path.
        let name = name.rsplit('/').next().unwrap_or(name);
        let checks = [
            ("chart.another_name", "the archive holds another chart", self.name.as_str(), name),
            ("chart.another_version", "the archive holds another version of the chart", &self.version, version),
        ];
        for (code, message, found, expected) in checks {
            if found != expected {
                return Err(refused(code, message)
                    .place(format!("{name} {version}"))
                    .found(format!("`{found}`"))
                    .expected(format!("`{expected}`")));
            }
        }
        Ok(())
    }
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

struct About {
    name: String,
    version: String,
    app_version: Option<String>,
}

fn about(files: &[File]) -> Result<About> {
    let place = "Chart.yaml";
    let file = files.iter().find(|file| file.path == place).ok_or_else(|| {
        refused("chart.no_chart_yaml", "the archive holds no chart: there is no Chart.yaml")
            .expected("NAME/Chart.yaml")
            .fix("package the chart with `helm package`")
    })?;
    let malformed = |found: String| {
        refused("chart.chart_yaml_malformed", "Chart.yaml does not say which chart this is").place(place).found(found)
    };
    let text = std::str::from_utf8(&file.bytes).map_err(|error| malformed(error.to_string()))?;
    let parsed: Value = serde_saphyr::from_str(text).map_err(|error| malformed(error.to_string()))?;
    let word = |key: &str| match &parsed[key] {
        Value::String(text) if !text.is_empty() => Ok(text.clone()),
        // `version: 1.0` is a number, and Helm makes `1` of it.
        other => Err(malformed(format!("{key}: {other}")).expected("a text; quote it where it looks like a number")),
    };
    let (name, version) = (word("name")?, word("version")?);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !name.bytes().all(plain) || name.starts_with(['-', '.']) {
        return Err(malformed(format!("name: {name:?}")).expected("letters, digits, `-`, `_` and `.`"));
    }
    if !is_exact(&version) {
        return Err(refused("chart.version_malformed", "the chart's version is no semantic version")
            .place(place)
            .found(format!("`{version}`"))
            .expected("MAJOR.MINOR.PATCH"));
    }
    let app_version = match &parsed["appVersion"] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    Ok(About { name, version, app_version })
}

/// Whether a text is one version, and no range of them.
pub(crate) fn is_exact(version: &str) -> bool {
    semver::Version::parse(version.strip_prefix('v').unwrap_or(version)).is_ok()
}

/// The values of a chart's own files, with those of the charts below `charts/` under what they are called there.
fn own_values(files: &[File], depth: usize, budget: &mut Budget) -> Result<Value> {
    if depth > DEEPEST {
        return Err(refused("chart.too_deep", "charts hold charts deeper than any chart does")
            .expected(format!("at most {DEEPEST} levels")));
    }
    let mut values = match files.iter().find(|file| file.path == "values.yaml") {
        Some(file) => parse_values(&file.bytes)?,
        None => Map::new(),
    };
    for (name, below) in subcharts(files, budget)? {
        let Value::Object(defaults) = own_values(&below, depth + 1, budget)? else { continue };
        // What is no mapping here is what Helm refuses; the render check says so.
        if let Value::Object(own) = values.entry(name).or_insert_with(|| Value::Object(Map::new())) {
            add_defaults(own, defaults);
        }
    }
    Ok(Value::Object(values))
}

/// The parent's values win; what it leaves out is the subchart's.
fn add_defaults(own: &mut Map<String, Value>, defaults: Map<String, Value>) {
    for (key, default) in defaults {
        match (own.get_mut(&key), default) {
            (Some(Value::Object(own)), Value::Object(default)) => add_defaults(own, default),
            (Some(_), _) => {}
            (None, default) => {
                own.insert(key, default);
            }
        }
    }
}

/// The charts below `charts/`: folders, and archives as `helm package` puts them there.
fn subcharts(files: &[File], budget: &mut Budget) -> Result<Vec<(String, Vec<File>)>> {
    let mut found: Vec<(String, Vec<File>)> = Vec::new();
    for file in files {
        let Some(below) = file.path.strip_prefix("charts/") else { continue };
        match below.split_once('/') {
            None if below.ends_with(".tgz") => {
                let files = unpack::files(&file.bytes, budget).map_err(|problem| inner(problem, &file.path))?;
                found.push((about(&files).map_err(|problem| inner(problem, &file.path))?.name, files));
            }
            None => {}
            Some((folder, path)) => {
                let file = File { path: path.to_owned(), bytes: file.bytes.clone() };
                match found.iter_mut().find(|(name, _)| name == folder) {
                    Some((_, files)) => files.push(file),
                    None => found.push((folder.to_owned(), vec![file])),
                }
            }
        }
    }
    let aliases = aliases(files)?;
    for (name, _) in &mut found {
        if let Some((_, alias)) = aliases.iter().find(|(chart, _)| chart == name) {
            name.clone_from(alias);
        }
    }
    Ok(found)
}

/// Charts that their parent calls otherwise.
fn aliases(files: &[File]) -> Result<Vec<(String, String)>> {
    let place = "Chart.yaml";
    // A folder below `charts/` without one is no chart, and Helm says so when it renders.
    let Some(file) = files.iter().find(|file| file.path == place) else { return Ok(Vec::new()) };
    let malformed = |found: String| {
        refused("chart.chart_yaml_malformed", "Chart.yaml does not say what its charts are called")
            .place(place)
            .found(found)
    };
    let text = std::str::from_utf8(&file.bytes).map_err(|error| malformed(error.to_string()))?;
    let parsed: Value = serde_saphyr::from_str(text).map_err(|error| malformed(error.to_string()))?;
    let pair = |one: &Value| Some((one["name"].as_str()?.to_owned(), one["alias"].as_str()?.to_owned()));
    Ok(parsed["dependencies"].as_array().into_iter().flatten().filter_map(pair).collect())
}

fn inner(mut problem: Problem, place: &str) -> Problem {
    let below = problem.place.take().map_or_else(String::new, |below| format!(": {below}"));
    problem.place(format!("{place}{below}"))
}

fn parse_values(bytes: &[u8]) -> Result<Map<String, Value>> {
    let malformed = |found: String| {
        refused("chart.values_malformed", "the chart's own values cannot be read").place("values.yaml").found(found)
    };
    let text = std::str::from_utf8(bytes).map_err(|error| malformed(error.to_string()))?;
    let is_empty = text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    if is_empty {
        return Ok(Map::new());
    }
    let file = seed::Overlay::read("values.yaml", bytes).and_then(|file| file.values());
    match file.map_err(|findings| malformed(Problem::from(findings).to_string()))? {
        Value::Object(values) => Ok(values),
        other => Err(malformed(other.to_string())),
    }
}
