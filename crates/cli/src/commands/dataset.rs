//! `dataset`: named, versioned, immutable sets of datapacks.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use api::dataset::{Dataset, DatasetReport, DatasetRequest, DownloadQuery, Manifest, Member};
use clap::{Args, Subcommand};
use client::Failure;
use model::{ErrorKind, Problem, counted};

use super::Done;
use crate::args::{Paging, finite};
use crate::error::Exit;
use crate::output::{Column, Format};
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a version of a data set; it never changes
    Create(Box<Create>),
    /// List data sets with their versions
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        paging: Paging,
    },
    /// Show the manifest of a version
    Show {
        /// NAME (its newest version), NAME:VERSION or a version's number
        name: String,
    },
    /// Compare every datapack of a version with its manifest
    Verify {
        /// NAME (its newest version), NAME:VERSION or a version's number
        name: String,
    },
    /// Download a version as a zip archive
    Download {
        /// NAME (its newest version), NAME:VERSION or a version's number
        name: String,
        /// Only one part of it
        #[arg(long, value_parser = ["open", "held_out"])]
        part: Option<String>,
        /// File to write; `NAME-VERSION.zip` by default
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub struct Create {
    /// NAME:VERSION
    name: String,
    /// SPDX identifier of the license under which the data may be used
    #[arg(long, value_name = "SPDX")]
    license: String,
    /// What is in it
    #[arg(long, default_value = "")]
    description: String,
    /// Datapack by name or number; all of them by default
    #[arg(long = "pack", value_name = "NAME")]
    packs: Vec<String>,
    /// Only datapacks of one system
    #[arg(long, value_name = "CODE")]
    system: Option<String>,
    /// Only the runs of one submission
    #[arg(long, value_name = "ID")]
    group_id: Option<String>,
    /// Share of the groups of equal system and point that are held out
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = finite)]
    held_out: f64,
    /// Which groups are held out follows from this alone
    #[arg(long, value_name = "N", default_value_t = 0)]
    split_seed: u64,
}

const COLUMNS: &[Column<Dataset>] = &[
    ("ID", |d| d.id.to_string()),
    ("NAME", |d| d.name.clone()),
    ("VERSIONS", |d| d.versions.iter().map(|version| version.name.as_str()).collect::<Vec<_>>().join(", ")),
    ("PACKS", |d| d.versions.last().map_or(0, |version| version.packs).to_string()),
    ("HELD-OUT", |d| d.versions.last().map_or(0, |version| version.held_out).to_string()),
    ("LICENSE", |d| d.versions.last().map(|version| version.license.clone()).unwrap_or_default()),
    ("CREATED", |d| d.created_at.clone()),
];

const MEMBERS: &[Column<Member>] = &[
    ("DATAPACK", |m| m.name.clone()),
    ("SYSTEM", |m| m.system.clone()),
    ("FAULT", |m| m.fault_type.clone()),
    ("PART", |m| m.part.clone()),
    ("SHA-256", |m| m.sha256.clone()),
];

pub fn run(command: Command, session: &Session) -> Done {
    let client = session.client()?;
    match command {
        Command::Create(create) => {
            let made = client.create_dataset(&request(*create)?)?;
            session.out.items(&[made], COLUMNS)?;
        }
        Command::List { paging } => session.out.pages(&paging, COLUMNS, |page| client.datasets(page))?,
        Command::Show { name } => show(session, &client.manifest(&name)?)?,
        Command::Verify { name } => return verify(session, &client.verify_dataset(&name)?),
        Command::Download { name, part, to } => download(session, &name, part, to)?,
    }
    Ok(Exit::Success)
}

fn request(create: Create) -> Result<DatasetRequest, Failure> {
    let Some((name, version)) = create.name.split_once(':') else {
        let problem = Problem::new(ErrorKind::Invalid, "dataset.version_missing", "a data set is made in a version");
        return Err(Failure::from(problem.found(create.name.clone()).expected("NAME:VERSION")));
    };
    Ok(DatasetRequest {
        name: name.to_owned(),
        version: version.to_owned(),
        description: create.description,
        license: create.license,
        packs: create.packs,
        system: create.system,
        group_id: create.group_id,
        held_out: create.held_out,
        split_seed: create.split_seed,
    })
}

fn show(session: &Session, manifest: &Manifest) -> Result<(), Failure> {
    session.out.record(manifest, || {
        let held_out = manifest.members.iter().filter(|member| member.part == "held_out").count();
        vec![
            ("Data set", format!("{}:{}", manifest.name, manifest.version)),
            ("Description", manifest.description.clone()),
            ("License", manifest.license.clone()),
            ("Origin", manifest.origin.clone()),
            ("Datapacks", format!("{}, {held_out} held out", manifest.members.len())),
            ("Split", format!("by {}, seed {}", manifest.split.by, manifest.split.seed)),
        ]
    })?;
    if session.out.format == Format::Table {
        session.out.write("\n")?;
        session.out.table(&manifest.members, MEMBERS)?;
    }
    Ok(())
}

fn verify(session: &Session, report: &DatasetReport) -> Done {
    session.out.record(report, || {
        let mut rows = vec![
            ("Data set", format!("{}:{}", report.name, report.version)),
            ("Datapacks", report.packs.to_string()),
            ("Intact", if report.ok { "yes" } else { "no" }.to_owned()),
        ];
        rows.extend(report.findings.iter().map(|(pack, finding)| ("Finding", format!("{pack}: {finding}"))));
        rows
    })?;
    Ok(if report.ok { Exit::Success } else { Exit::WorkflowFailed })
}

fn download(session: &Session, name: &str, part: Option<String>, to: Option<PathBuf>) -> Result<(), Failure> {
    let client = session.client()?;
    let manifest = client.manifest(name)?;
    let to = to.unwrap_or_else(|| PathBuf::from(format!("{}-{}.zip", manifest.name, manifest.version)));
    let unwritable = |error: io::Error| {
        let problem = Problem::new(ErrorKind::Unavailable, "download.unwritable", "the archive cannot be written");
        Failure::from(problem.place(to.display().to_string()).found(error.to_string()))
    };
    let wanted = |member: &&Member| part.as_ref().is_none_or(|part| member.part == *part);
    let packs = manifest.members.iter().filter(wanted).count();
    let mut answer = client.dataset_archive(name, &DownloadQuery { part: part.clone() })?;
    // A download that breaks off leaves nothing that looks whole.
    let unfinished = to.with_extension("zip.part");
    let mut file = File::create(&unfinished).map_err(unwritable)?;
    let copied = io::copy(&mut answer.body_mut().as_reader(), &mut file).and_then(|_| file.sync_all());
    if let Err(error) = copied {
        drop(std::fs::remove_file(&unfinished));
        return Err(unwritable(error));
    }
    std::fs::rename(&unfinished, &to).map_err(unwritable)?;
    session.out.say(format!("{}, manifest in it", counted(packs, "datapack")));
    session.out.write(&format!("{}\n", to.display()))
}
