//! The index of a classic repository (`index.yaml`): which versions of a chart there are, and where their archives are.

use std::collections::BTreeMap;

use model::{ErrorKind, Problem, Result};
use serde::Deserialize;

/// How many published versions an error names.
const SHOWN: usize = 5;

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    entries: BTreeMap<String, Vec<Entry>>,
}

/// One published version.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Entry {
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub urls: Vec<String>,
    #[serde(default)]
    pub digest: Option<String>,
}

/// The entry of exactly this version.
///
/// # Errors
/// `chart.index_malformed`, `chart.not_in_repository`, `chart.version_not_found`.
pub(crate) fn find(text: &str, repository: &str, chart: &str, version: &str) -> Result<Entry> {
    let index: Index = serde_saphyr::from_str(text).map_err(|error| {
        Problem::new(ErrorKind::Failed, "chart.index_malformed", "the repository's index cannot be read")
            .place(repository.to_owned())
            .found(error.to_string())
    })?;
    let Some(entries) = index.entries.get(chart) else {
        let names = index.entries.keys().map(String::as_str);
        return Err(Problem::unknown("chart.not_in_repository", "chart in the repository", chart, names)
            .place(repository.to_owned()));
    };
    match entries.iter().find(|entry| entry.version == version) {
        Some(entry) => Ok(entry.clone()),
        None => {
            let published: Vec<&str> = entries.iter().map(|entry| entry.version.as_str()).collect();
            Err(not_found(repository, chart, version, &published))
        }
    }
}

/// An index that has this version and nothing else. JSON is YAML.
pub(crate) fn of_one(chart: &str, version: &str, url: &str) -> Vec<u8> {
    let entry = serde_json::json!({"apiVersion": "v2", "name": chart, "version": version, "urls": [url]});
    serde_json::json!({"apiVersion": "v1", "entries": {chart: [entry]}}).to_string().into_bytes()
}

/// `chart.version_not_found`, with the published versions next to the one that is missing.
pub(crate) fn not_found(repository: &str, chart: &str, version: &str, published: &[&str]) -> Problem {
    let problem =
        Problem::new(ErrorKind::NotFound, "chart.version_not_found", "this version of the chart is not published")
            .place(format!("{repository}: {chart}"))
            .found(format!("no `{version}`"));
    let near = nearest(version, published);
    if near.is_empty() {
        return problem.fix("publish it, or name a published version in the seed");
    }
    let fix = format!("publish {version}, or name a published version in the seed, for example {}", near[0]);
    problem.expected(format!("a published version: {}", near.join(", "))).fix(fix)
}

/// The published versions around a version, nearest first.
fn nearest(version: &str, published: &[&str]) -> Vec<String> {
    let parse = |text: &str| semver::Version::parse(text.strip_prefix('v').unwrap_or(text)).ok();
    let mut known: Vec<(Option<semver::Version>, &str)> = published.iter().map(|text| (parse(text), *text)).collect();
    known.sort();
    known.dedup();
    let wanted = parse(version);
    let place = known.partition_point(|(known, _)| *known < wanted);
    let distance = |index: usize| if index < place { place - index } else { index - place + 1 };
    let mut order: Vec<usize> = (0..known.len()).collect();
    // Of two that are equally far the higher one first.
    order.sort_by_key(|&index| (distance(index), index < place));
    order.into_iter().take(SHOWN).map(|index| known[index].1.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_published_versions_come_first() {
        let published = ["0.1.0", "1.10.0", "1.9.0", "1.2.0", "2.0.0", "1.3.0"];
        assert_eq!(nearest("1.2.5", &published)[..2], ["1.3.0", "1.2.0"]);
        assert_eq!(nearest("9.0.0", &published)[0], "2.0.0");
        assert_eq!(nearest("0.0.1", &published)[0], "0.1.0");
        assert!(nearest("1.0.0", &[]).is_empty());
    }
}
