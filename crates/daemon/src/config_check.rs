//! `aegis config check`: what a configuration would use, and whether each outside part of it answers. Nothing is changed or
//! made.

use std::path::Path;

use model::{ErrorKind, Problem, Result, counted};
use settings::Source;
use settings::source::INSTALLATION;
use store::Store;

use crate::config::Config;

/// Prints what is in force and what each part said.
///
/// # Errors
/// The first part's problem, after all of them were tried.
pub fn run(config: &Config) -> Result<()> {
    println!("{}", config.shown());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Problem::internal("daemon.runtime", error.to_string()))?;
    let (store, settings) = runtime.block_on(async { (try_store(config).await, try_settings(config).await) });
    let charts = try_charts(config);
    let helm = runtime.block_on(try_helm(config));
    let mut first = None;
    let telemetry = try_telemetry(config);
    for (part, tried) in
        [("store", store), ("settings", settings), ("charts", charts), ("helm", helm), ("telemetry", telemetry)]
    {
        match tried {
            Ok(said) => println!("{part:<10} ok: {said}"),
            Err(problem) => {
                println!("{part:<10} failed: {problem}");
                first.get_or_insert(problem);
            }
        }
    }
    first.map_or(Ok(()), Err)
}

/// Only who named a program needs one: charts can be kept and installed on the simulated cluster without.
async fn try_helm(config: &Config) -> Result<String> {
    match chart::Helm::find(config.helm.as_deref(), config.answer()) {
        Ok(helm) => Ok(format!("{} {}", helm.program().display(), helm.version().await?)),
        Err(problem) if config.helm.is_none() => Ok(format!("not there, so no chart is fetched or checked: {problem}")),
        Err(problem) => Err(problem),
    }
}

async fn try_store(config: &Config) -> Result<String> {
    let url = config.store_url();
    if let Some(file) = store::sqlite_file(&url)
        && !file.exists()
    {
        try_folder(file.parent().unwrap_or(Path::new(".")))?;
        return Ok(format!("{} will be made", file.display()));
    }
    let store = Store::connect_within(&url, config.answer()).await?;
    store.ping().await?;
    let pending = store.pending_migrations().await?.len();
    store.close().await?;
    Ok(match pending {
        0 => "it answers, and its tables are those of this version".to_owned(),
        pending => format!("it answers; starting the server applies {}", counted(pending, "migration")),
    })
}

async fn try_settings(config: &Config) -> Result<String> {
    let Some(source) = config.source()? else { return Ok("kept in the store".to_owned()) };
    let source: &dyn Source = &*source;
    let tree = source.snapshot().await?;
    let keys = tree.entries.keys().filter(|path| *path != INSTALLATION).count();
    let mark = match tree.entries.get(INSTALLATION) {
        Some(mark) => format!("marked by installation {}", mark.value),
        None if keys == 0 => "nobody's yet".to_owned(),
        None => "without a mark, so it is only read until `aegisctl settings adopt`".to_owned(),
    };
    Ok(format!("it answers at revision {}; {} there, {mark}", tree.revision, counted(keys, "key")))
}

fn try_charts(config: &Config) -> Result<String> {
    match config.charts_place()? {
        chart::Place::Folder(folder) => try_folder(&folder),
        chart::Place::Bucket(bucket) => {
            let there = bucket.probe()?;
            Ok(format!("{bucket} can be listed; {} there", counted(there, "archive")))
        }
    }
}

fn try_telemetry(config: &Config) -> Result<String> {
    let Some(address) = &config.telemetry else { return Ok("a collector sends it to this server".to_owned()) };
    let namespaces = telemetry::ClickHouse::open(address)?.present()?;
    Ok(format!("it answers; {} have records there", counted(namespaces.len(), "namespace")))
}

/// Whether a folder can be written, or made in the nearest one that is there.
fn try_folder(folder: &Path) -> Result<String> {
    let mut there = folder;
    while !there.exists() {
        there = there.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    }
    let unusable = |found: String| {
        Problem::new(ErrorKind::Missing, "config.folder_unusable", "a folder of the configuration cannot be used")
            .place(folder.display().to_string())
            .found(found)
            .expected("a folder that this user can write")
    };
    if !there.is_dir() {
        return Err(unusable(format!("{} is no folder", there.display())));
    }
    nix::unistd::access(there, nix::unistd::AccessFlags::W_OK | nix::unistd::AccessFlags::X_OK)
        .map_err(|error| unusable(format!("{}: {}", there.display(), error.desc())))?;
    let what = if there == folder { "can be written" } else { "will be made" };
    Ok(format!("{} {what}", folder.display()))
}
