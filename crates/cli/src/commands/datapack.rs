//! `datapack`: the labelled telemetry of runs, and getting it out.

mod export;
mod query;
mod report;
mod sums;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Component, Path, PathBuf};

use api::injection::{FileCheck, FileNode, Injection, InjectionQuery};
use clap::{Args, Subcommand};
use client::{Client, Failure};
use indicatif::{ProgressBar, ProgressStyle};
use model::{ErrorKind, Problem};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::Done;
use crate::args::Paging;
use crate::error::Exit;
use crate::output::{Column, Format, or_dash};
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List datapacks, newest first
    #[command(visible_alias = "ls")]
    List {
        /// Only datapacks in this state, as `build_success`
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
        /// Only datapacks of one system
        #[arg(long, value_name = "CODE")]
        system: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show one datapack with its ground truth
    Get {
        /// Name or number
        name: String,
    },
    /// List the files of a datapack
    Files {
        /// Name or number
        name: String,
    },
    /// Download a datapack in the public layout, and check it against its checksums
    Download {
        /// Name or number
        name: String,
        #[command(flatten)]
        to: Destination,
        /// Replace the file if it is there
        #[arg(long, requires = "output_file")]
        force: bool,
    },
    /// Compare a datapack with its checksums
    Verify {
        /// Name or number
        name: String,
    },
    /// Say what is right and wrong with a datapack
    Diagnose {
        /// Name or number
        name: String,
    },
    /// Ask datapacks in SQL
    Query(query::Arguments),
    /// Say in what two datapacks differ
    Diff {
        /// Name or number
        left: String,
        /// Name or number
        right: String,
    },
    /// Write datapacks in the layout of another program
    Export(export::Arguments),
    /// Attach the flat layout that the public algorithms read
    Convert {
        /// Name or number
        name: String,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Destination {
    /// Zip archive to write
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,
    /// Folder to write into; the datapack becomes a folder of its own name there
    #[arg(long, value_name = "FOLDER")]
    output_dir: Option<PathBuf>,
}

const COLUMNS: &[Column<Injection>] = &[
    ("ID", |pack| pack.id.to_string()),
    ("NAME", |pack| pack.name.clone()),
    ("SYSTEM", |pack| pack.category.clone()),
    ("FAULT", |pack| pack.fault_type.clone()),
    ("STATE", |pack| pack.state.to_string()),
    ("VERDICT", |pack| or_dash(pack.verdict.as_ref())),
    ("EXPOSED", |pack| or_dash(pack.exposed.as_ref())),
    ("VISIBLE", |pack| or_dash(pack.visible.as_ref())),
    ("RUN", |pack| pack.trace_id.to_string()),
];

const CHECKS: &[Column<FileCheck>] = &[
    ("FILE", |check| check.path.clone()),
    ("STATE", |check| check.state.clone()),
    ("DETAIL", |check| or_dash(check.detail.as_ref())),
];

pub fn run(command: Command, session: &Session) -> Done {
    let client = session.client()?;
    match command {
        Command::List { state, system, paging } => {
            session.out.pages(&paging, COLUMNS, |page| {
                client.injections(&InjectionQuery {
                    page: page.page,
                    size: page.size,
                    state: state.clone(),
                    category: system.clone(),
                })
            })?;
        }
        Command::Get { name } => get(session, &client, &name)?,
        Command::Files { name } => {
            let mut files = Vec::new();
            flatten(client.files(&name)?.files, &mut files);
            session.out.items(&files, &[("PATH", |file| file.path.clone()), ("SIZE", |file| file.size.clone())])?;
        }
        Command::Download { name, to, force } => match (to.output_file, to.output_dir) {
            (Some(file), _) => download_archive(session, &client, &name, &file, force)?,
            (None, folder) => download_files(session, &client, &name, &folder.unwrap_or_default())?,
        },
        Command::Diagnose { name } => return report::diagnose(session, &client, &name),
        Command::Query(arguments) => query::run(arguments, session, &client)?,
        Command::Diff { left, right } => return report::diff(session, &client, &left, &right),
        Command::Export(arguments) => export::run(arguments, session, &client)?,
        Command::Convert { name } => return report::convert(session, &client, &name),
        Command::Verify { name } => {
            let report = client.verify(&name)?;
            if session.out.format == Format::Table {
                session.out.table(&report.files, CHECKS)?;
            } else {
                session.out.document(&report)?;
            }
            session.out.say(format!(
                "{}: {}",
                report.name,
                if report.ok { "as it was built" } else { "NOT as it was built" }
            ));
            return Ok(if report.ok { Exit::Success } else { Exit::WorkflowFailed });
        }
    }
    Ok(Exit::Success)
}

fn get(session: &Session, client: &Client, name: &str) -> Result<(), Failure> {
    let detail = client.injection(name)?;
    let pack = &detail.injection;
    session.out.record(&detail, || {
        let public: Vec<String> = detail.ground_truth.iter().flat_map(|truth| truth.service.clone()).collect();
        let witnesses = detail.witness.iter().filter_map(|witness| witness["reason"].as_str());
        vec![
            ("Datapack", format!("{} ({})", pack.name, pack.id)),
            ("System", pack.category.clone()),
            ("Namespace", or_dash(pack.namespace.as_ref())),
            ("Fault", pack.fault_type.clone()),
            ("Root", joined(&detail.roots, ", ")),
            ("Public truth", joined(&public, ", ")),
            ("State", pack.state.to_string()),
            ("Verdict", or_dash(pack.verdict.as_ref())),
            ("Exposed", or_dash(pack.exposed.as_ref())),
            ("Visible", or_dash(pack.visible.as_ref())),
            ("Witness", joined(&witnesses.collect::<Vec<_>>(), "\n")),
            ("Fault start", or_dash(pack.start_time.as_ref())),
            ("Fault end", or_dash(pack.end_time.as_ref())),
            ("Run", pack.trace_id.to_string()),
        ]
    })
}

fn joined(parts: &[impl AsRef<str>], between: &str) -> String {
    let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
    if parts.is_empty() { "-".to_owned() } else { parts.join(between) }
}

fn flatten(nodes: Vec<FileNode>, into: &mut Vec<FileNode>) {
    for mut node in nodes {
        match node.children.take() {
            Some(children) => flatten(children, into),
            None => into.push(node),
        }
    }
}

fn download_archive(session: &Session, client: &Client, name: &str, path: &Path, force: bool) -> Result<(), Failure> {
    if path.exists() && !force {
        return Err(Problem::new(ErrorKind::Conflict, "download.exists", "the target is there already")
            .place(path.display().to_string())
            .fix("replace it with `--force`, or choose another `--output-file`")
            .into());
    }
    let part = part_of(path);
    let result: Result<(u64, String), Failure> = (|| {
        let body = client.archive(name)?.into_body();
        let bar = progress(session, body.content_length());
        let done = save(body, &part, &bar)?;
        sums::check_archive(name, &part)?;
        fs::rename(&part, path).map_err(|error| not_written(path, &error))?;
        bar.finish_and_clear();
        Ok(done)
    })();
    // What was half written is of no use; the error that is told is the first one.
    let (size, sha256) = result.inspect_err(|_| drop(fs::remove_file(&part)))?;
    let answer = json!({"path": path, "size": size, "sha256": sha256});
    session.out.record(&answer, || {
        vec![("Path", path.display().to_string()), ("Bytes", size.to_string()), ("SHA-256", sha256.clone())]
    })
}

fn download_files(session: &Session, client: &Client, name: &str, folder: &Path) -> Result<(), Failure> {
    let pack = client.injection(name)?.injection.name;
    if !is_inside(&pack) {
        return Err(unsafe_path(&pack));
    }
    let target = folder.join(&pack);
    if target.exists() {
        return Err(Problem::new(ErrorKind::Conflict, "download.exists", "the target is there already")
            .place(target.display().to_string())
            .fix("remove it, or choose another `--output-dir`")
            .into());
    }
    let part = part_of(&target);
    let result = download_tree(session, client, &pack, &part)
        .and_then(|sum| fs::rename(&part, &target).map(|()| sum).map_err(|error| not_written(&target, &error)));
    let (files, bytes) = result.inspect_err(|_| drop(fs::remove_dir_all(&part)))?;
    let answer = json!({"path": target, "files": files, "size": bytes});
    session.out.record(&answer, || {
        vec![("Path", target.display().to_string()), ("Files", files.to_string()), ("Bytes", bytes.to_string())]
    })
}

fn download_tree(session: &Session, client: &Client, pack: &str, part: &Path) -> Result<(usize, u64), Failure> {
    let mut files = Vec::new();
    flatten(client.files(pack)?.files, &mut files);
    let bar = progress(session, Some(files.iter().map(|file| file.bytes).sum()));
    let (mut bytes, mut digests) = (0, BTreeMap::new());
    for file in &files {
        if !is_inside(&file.path) {
            return Err(unsafe_path(&file.path));
        }
        let path = part.join(&file.path);
        let parent = path.parent().unwrap_or(part);
        fs::create_dir_all(parent).map_err(|error| not_written(parent, &error))?;
        let (size, sha256) = save(client.file(pack, &file.path)?.into_body(), &path, &bar)?;
        bytes += size;
        digests.insert(file.path.clone(), sha256);
    }
    let listed = digests.contains_key(sums::FILE).then(|| fs::read_to_string(part.join(sums::FILE)));
    let listed = listed.transpose().map_err(|error| not_written(&part.join(sums::FILE), &error))?;
    sums::check(pack, &digests, listed.as_deref())?;
    bar.finish_and_clear();
    Ok((files.len(), bytes))
}

/// Writes a body to a file; its length and SHA-256. A body that is shorter than announced is an error.
fn save(body: client::Body, path: &Path, bar: &ProgressBar) -> Result<(u64, String), Failure> {
    let announced = body.content_length();
    let mut reader = body.into_with_config().limit(u64::MAX).reader();
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(|error| not_written(parent, &error))?;
    }
    let mut file = File::create(path).map_err(|error| not_written(path, &error))?;
    let (mut hash, mut size, mut buffer) = (Sha256::new(), 0_u64, vec![0; 64 * 1024]);
    loop {
        let read = reader.read(&mut buffer).map_err(|error| cut_short(error.to_string()))?;
        if read == 0 {
            break;
        }
        file.write_all(&buffer[..read]).map_err(|error| not_written(path, &error))?;
        hash.update(&buffer[..read]);
        size += read as u64;
        bar.inc(read as u64);
    }
    if announced.is_some_and(|announced| announced != size) {
        return Err(cut_short(format!("{size} bytes")));
    }
    Ok((size, hex::encode(hash.finalize())))
}

fn progress(session: &Session, bytes: Option<u64>) -> ProgressBar {
    if !session.out.progress {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {bytes_per_sec}")
        .expect("the template is a constant that was tried");
    bytes.map_or_else(ProgressBar::new_spinner, |bytes| ProgressBar::new(bytes).with_style(style))
}

fn part_of(path: &Path) -> PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    path.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

/// A path from the server must not leave the folder that the user named.
fn is_inside(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

fn unsafe_path(path: &str) -> Failure {
    Problem::new(ErrorKind::Internal, "download.path_unsafe", "the server named a file outside the datapack")
        .found(format!("`{path}`"))
        .into()
}

fn cut_short(found: String) -> Failure {
    Problem::new(ErrorKind::Unavailable, "download.cut_short", "the download ended too early").found(found).into()
}

fn not_written(path: &Path, error: &std::io::Error) -> Failure {
    Problem::new(ErrorKind::Missing, "download.not_written", "the download cannot be written")
        .place(path.display().to_string())
        .found(error.to_string())
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leaves_the_folder_is_refused() {
        for good in ["a", "a/b.parquet", "converted/x"] {
            assert!(is_inside(good), "{good}");
        }
        for bad in ["", "/etc/passwd", "../a", "a/../../b", "./a"] {
            assert!(!is_inside(bad), "{bad}");
        }
    }
}
