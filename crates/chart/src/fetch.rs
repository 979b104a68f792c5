//! Fetching one chart at its exact version from where it is published, through the mirror rules.

use std::path::Path;

use model::{ErrorKind, Problem, Result};

use crate::archive::{Archive, is_exact};
use crate::helm::{Helm, Home, PULLED, REGISTRIES, Said};
use crate::index;
use crate::login::{Login, registry_file, trust};
use crate::mirror::Mirrors;
use crate::tags;

/// A fetched archive, checked: it is the chart and the version that were asked for.
#[derive(Debug)]
pub struct Fetched {
    pub bytes: Vec<u8>,
    pub archive: Archive,
    /// The address that was asked, with the mirror rule applied.
    pub from: String,
}

/// Where charts are published.
enum Source {
    /// A classic repository: an index over HTTP.
    Classic { repository: String },
    /// A registry, which has no index: the chart is addressed directly.
    Registry { reference: String, plain_http: bool },
}

/// # Errors
/// `chart.version_not_exact`, `chart.repository_missing`, `chart.repository_unknown`, `chart.name_malformed` for what is asked;
/// `chart.repository_unreachable`, `chart.repository_silent`, `chart.no_index`, `chart.not_in_repository`, `chart.version_not_found`,
/// `chart.not_fetched` for what was found there; those of [`Archive::read`] and [`Archive::require`].
pub async fn fetch(helm: &Helm, mirrors: &Mirrors, repository: &str, chart: &str, version: &str) -> Result<Fetched> {
    let source = exact(mirrors, repository, chart, version)?;
    let home = Home::new()?;
    let (from, digest) = match &source {
        Source::Classic { repository } => {
            let entry = published(helm, &home, repository, chart, version).await?;
            classic(helm, &home, mirrors, repository, chart, entry).await?
        }
        Source::Registry { reference, plain_http } => {
            registry(helm, &home, reference, *plain_http, version).await?;
            (reference.clone(), None)
        }
    };
    let bytes = only_file(&home.path(PULLED))?;
    let archive = Archive::read(&bytes)?;
    archive.require(chart, version)?;
    if let Some(expected) = digest.filter(|expected| *expected != archive.digest) {
        return Err(Problem::new(
            ErrorKind::Failed,
            "chart.digest_differs",
            "the archive is not the one that the index names",
        )
        .place(from)
        .found(format!("sha256:{}", archive.digest))
        .expected(format!("sha256:{expected}")));
    }
    Ok(Fetched { bytes, archive, from })
}

/// Asks whether a chart is published at exactly this version; its archive is not kept.
///
/// # Errors
/// As [`fetch`]: `chart.not_in_repository` and `chart.version_not_found` when it is not.
pub async fn look_up(helm: &Helm, mirrors: &Mirrors, repository: &str, chart: &str, version: &str) -> Result<()> {
    let source = exact(mirrors, repository, chart, version)?;
    let home = Home::new()?;
    match &source {
        Source::Classic { repository } => published(helm, &home, repository, chart, version).await.map(drop),
        Source::Registry { reference, plain_http } => registry(helm, &home, reference, *plain_http, version).await,
    }
}

/// Where a chart is published that is asked for at one version.
fn exact(mirrors: &Mirrors, repository: &str, chart: &str, version: &str) -> Result<Source> {
    let source = source(mirrors, repository, chart)?;
    if is_exact(version) {
        return Ok(source);
    }
    Err(Problem::new(ErrorKind::Invalid, "chart.version_not_exact", "a chart is fetched at an exact version only")
        .found(format!("`{version}`"))
        .expected("MAJOR.MINOR.PATCH, without a range"))
}

fn source(mirrors: &Mirrors, repository: &str, chart: &str) -> Result<Source> {
    let invalid = |code: &'static str, message: &str, found: &str| {
        Problem::new(ErrorKind::Invalid, code, message).found(format!("`{found}`"))
    };
    if repository.is_empty() {
        return Err(invalid("chart.repository_missing", "nobody says where the chart is published", repository)
            .place(format!("chart {chart}"))
            .expected("a repository, `https://…` or `oci://…`")
            .fix("name it in the seed (`repo_url`), or hand the archive over with `aegisctl pedestal chart push`"));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    if chart.is_empty() || !chart.bytes().all(plain) || chart.starts_with(['-', '/', '.']) || chart.contains("..") {
        return Err(invalid("chart.name_malformed", "this is no name of a chart", chart)
            .expected("letters, digits, `-`, `_`, `.` and `/`"));
    }
    let (address, plain_http) = mirrors.chart(repository);
    if address.bytes().any(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control()) {
        return Err(invalid("chart.repository_unknown", "this is no address of a chart repository", repository));
    }
    if address.starts_with("oci://") {
        let reference = format!("{}/{chart}", address.trim_end_matches('/'));
        return Ok(Source::Registry { reference, plain_http });
    }
    if address.starts_with("https://") || address.starts_with("http://") {
        return Ok(Source::Classic { repository: address });
    }
    Err(invalid("chart.repository_unknown", "this is no address of a chart repository", repository)
        .expected("`https://…`, `http://…` or `oci://…`"))
}

/// What helm calls the repository that it asks, and where it keeps that one's index.
const NAME: &str = "one";
const INDEX: &str = "index/one-index.yaml";

/// What the index of a classic repository has of exactly this version.
async fn published(helm: &Helm, home: &Home, repository: &str, chart: &str, version: &str) -> Result<index::Entry> {
    let login = helm.logins.of(repository);
    let trusted = trust(login)?;
    let mut arguments = vec!["repo", "add", NAME, repository];
    arguments.extend(trusted.iter().map(String::as_str));
    let credentials = login.and_then(Login::credentials);
    if let Some((user, _)) = credentials {
        arguments.extend(["--username", user, "--password-stdin"]);
    }
    let password = credentials.map(|(_, password)| password.reveal());
    let added = helm.tell(home, &arguments, password).await.map_err(|problem| silent(repository, problem))?;
    if !added.ok {
        return Err(refused(repository, &added));
    }
    let text = std::fs::read_to_string(home.path(INDEX)).map_err(|error| {
        Problem::internal("chart.index_lost", "helm keeps the index elsewhere than it should").cause(error)
    })?;
    let entry = index::find(&text, repository, chart, version)?;
    if entry.urls.is_empty() {
        return Err(Problem::new(
            ErrorKind::Failed,
            "chart.index_malformed",
            "the index names no archive of this version",
        )
        .place(format!("{repository}: {chart} {version}"))
        .expected("one address in `urls`"));
    }
    Ok(entry)
}

/// Returns where the archive was, and the digest that the index has of it.
async fn classic(
    helm: &Helm,
    home: &Home,
    mirrors: &Mirrors,
    repository: &str,
    chart: &str,
    entry: index::Entry,
) -> Result<(String, Option<String>)> {
    let url = entry.urls.first().map_or("", String::as_str);
    let absolute = url.contains("://");
    // An index may name archives on another host; a mirror holds those as well.
    let url = if absolute { mirrors.chart(url).0 } else { format!("{}/{url}", repository.trim_end_matches('/')) };
    if helm.logins.of(repository).is_some() {
        // Helm sends a repository's login, and trusts its certificates, for an address that the repository's index has, and
        // only to the repository's own host.
        home.write(INDEX, &index::of_one(chart, &entry.version, &url))?;
    }
    pull(helm, home, &[&url]).await?;
    Ok((url, entry.digest.map(|digest| digest.trim_start_matches("sha256:").to_owned())))
}

async fn registry(helm: &Helm, home: &Home, reference: &str, plain_http: bool, version: &str) -> Result<()> {
    let login = helm.logins.of(reference);
    if let Some((user, password)) = login.and_then(Login::credentials) {
        home.write(REGISTRIES, &registry_file(reference, user, password))?;
    }
    let trusted = trust(login)?;
    let mut arguments = vec![reference, "--version", version];
    arguments.extend(trusted.iter().map(String::as_str));
    if plain_http {
        arguments.push("--plain-http");
    }
    let Err(problem) = pull(helm, home, &arguments).await else { return Ok(()) };
    if problem.code != "chart.version_not_found" {
        return Err(problem);
    }
    let (asked, of, limit) = (reference.to_owned(), login.cloned(), helm.limit);
    let tags = tokio::task::spawn_blocking(move || tags::published(&asked, plain_http, of.as_ref(), limit));
    let published = tags.await.map_err(|error| Problem::internal("chart.tags_lost", error.to_string()))?;
    let (registry, chart) = reference.rsplit_once('/').unwrap_or((reference, ""));
    let not_found = |published: &[&str]| index::not_found(registry, chart, version, published);
    // What there is besides is a help; that the version is not there stands without it.
    Err(match published {
        Ok(published) => not_found(&published.iter().map(String::as_str).collect::<Vec<_>>()),
        Err(problem) => {
            not_found(&[]).expected(format!("a published version, and which there are is not known: {problem}"))
        }
    })
}

async fn pull(helm: &Helm, home: &Home, what: &[&str]) -> Result<()> {
    let folder = home.path(PULLED);
    let folder = folder.to_string_lossy();
    let said = helm.run(home, &[&["pull"], what, &["--destination", &folder]].concat()).await;
    let said = said.map_err(|problem| silent(what[0], problem))?;
    if said.ok { Ok(()) } else { Err(refused(what[0], &said)) }
}

/// A program that did not come to an end waited for somebody.
fn silent(address: &str, problem: Problem) -> Problem {
    if problem.code != "helm.no_answer" {
        return problem;
    }
    let silent =
        Problem::new(ErrorKind::Timeout, "chart.repository_silent", "the chart repository does not answer in time");
    let silent = silent.place(address.to_owned()).fix("check the address, or name a mirror that answers");
    match problem.expected.clone() {
        Some(expected) => silent.expected(expected),
        None => silent,
    }
}

/// What some words of the program mean.
struct Meaning {
    words: &'static [&'static str],
    kind: ErrorKind,
    code: &'static str,
    message: &'static str,
}

/// The first row that has a word of what was said holds.
const MEANINGS: &[Meaning] = &[
    Meaning {
        words: &["server gave HTTP response to HTTPS client", "does not look like a TLS handshake"],
        kind: ErrorKind::Failed,
        code: "chart.registry_without_tls",
        message: "the registry does not speak TLS",
    },
    Meaning {
        words: &["x509", "tls:"],
        kind: ErrorKind::Denied,
        code: "chart.repository_untrusted",
        message: "the repository's certificate is not trusted",
    },
    Meaning {
        words: &[
            "connection refused",
            "connection reset",
            "no such host",
            "server misbehaving",
            "network is unreachable",
            "i/o timeout",
            "deadline exceeded",
            "EOF",
        ],
        kind: ErrorKind::Unavailable,
        code: "chart.repository_unreachable",
        message: "the chart repository cannot be reached",
    },
    Meaning {
        // A bare number could be that of a port.
        words: &[": 401", "code 401", ": 403", "code 403", "unauthorized", "access denied", "credential not found"],
        kind: ErrorKind::Denied,
        code: "chart.repository_denied",
        message: "the chart repository refuses us",
    },
    Meaning {
        words: &["is not a valid chart repository"],
        kind: ErrorKind::Failed,
        code: "chart.no_index",
        message: "there is no chart repository at this address",
    },
    Meaning {
        words: &["Unable to locate any tags", "not found", ": 404", "code 404"],
        kind: ErrorKind::NotFound,
        code: "chart.version_not_found",
        message: "this version of the chart is not published",
    },
];

fn refused(place: &str, said: &Said) -> Problem {
    let is_said = |meaning: &&Meaning| meaning.words.iter().any(|word| said.words.contains(word));
    let problem = match MEANINGS.iter().find(is_said) {
        Some(meaning) => Problem::new(meaning.kind, meaning.code, meaning.message),
        None => Problem::new(ErrorKind::Failed, "chart.not_fetched", "helm could not fetch the chart"),
    };
    let problem = problem.place(place.to_owned()).found(said.words.clone());
    match problem.code.as_ref() {
        "chart.no_index" => problem
            .expected("an `index.yaml` below this address")
            .fix("a registry is written `oci://…`; it has no index"),
        "chart.registry_without_tls" => problem.fix("name the registry in a mirror rule with `plain_http = true`"),
        "chart.repository_denied" => problem.fix(
            "name a user and a password that it takes: `[[repository]]` with `address`, `user` and `password` in the configuration",
        ),
        "chart.repository_untrusted" => problem.fix(
            "name the certificates that sign its own: `[[repository]]` with `address` and `ca` in the configuration",
        ),
        "chart.repository_unreachable" => problem.fix(
            "check the address, or name a mirror that can be reached: `[[mirror]]` with `from` and `to` in the configuration",
        ),
        _ => problem,
    }
}

fn only_file(folder: &Path) -> Result<Vec<u8>> {
    let files: Vec<_> = std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| entry.ok()).collect();
    let archive = files.iter().find(|file| file.path().extension().is_some_and(|end| end == "tgz"));
    let archive =
        archive.ok_or_else(|| Problem::internal("chart.pulled_nothing", "helm says that it pulled a chart"))?;
    std::fs::read(archive.path())
        .map_err(|error| Problem::internal("chart.pulled_unreadable", "what helm pulled cannot be read").cause(error))
}
