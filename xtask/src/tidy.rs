//! `cargo xtask tidy`: the structure that a compiler does not check.
//!
//! Dependencies go down only; each outside world belongs to one crate; every source file says what it is for.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::tools;

/// Which of our crates each crate may use. An edge that is not here is an error.
const EDGES: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("system", &["model"]),
    ("fault", &["model", "system"]),
    ("seed", &["model"]),
    ("score", &["model"]),
    ("rca", &["model"]),
    ("api", &["model", "seed"]),
    ("chart", &["model", "seed"]),
    ("cluster", &["model"]),
    ("settings", &["model"]),
    ("telemetry", &["model"]),
    ("datapack", &["model", "rca"]),
    ("query", &["model", "datapack"]),
    ("store", &["model", "settings"]),
    ("client", &["model", "api"]),
    ("sim", &["model", "cluster", "fault", "system", "telemetry"]),
    (
        "server",
        &[
            "api",
            "chart",
            "cluster",
            "datapack",
            "fault",
            "model",
            "query",
            "rca",
            "score",
            "seed",
            "settings",
            "store",
            "system",
            "telemetry",
        ],
    ),
    (
        "worker",
        &["api", "cluster", "datapack", "fault", "model", "rca", "score", "settings", "store", "system", "telemetry"],
    ),
    (
        "daemon",
        &[
            "api",
            "chart",
            "client",
            "cluster",
            "datapack",
            "fault",
            "model",
            "query",
            "rca",
            "score",
            "seed",
            "server",
            "settings",
            "sim",
            "store",
            "system",
            "telemetry",
            "worker",
        ],
    ),
    ("cli", &["api", "client", "model", "seed", "system"]),
    ("xtask", &["testkit"]),
];

/// Crates that only tests use.
const TEST_ONLY: &[&str] = &["testkit", "e2e", "sample"];

/// Outside worlds and the only crates that may link them.
const OWNERS: &[(&str, &[&str])] = &[
    ("sea-orm", &["store"]),
    ("sqlx", &["store"]),
    ("arrow", &["telemetry", "datapack", "query"]),
    ("parquet", &["telemetry", "datapack"]),
    ("datafusion", &["query"]),
    ("opentelemetry-proto", &["telemetry"]),
    ("tonic", &["telemetry", "settings"]),
    ("axum", &["server", "telemetry"]),
    ("ureq", &["chart", "client", "telemetry"]),
    ("rusty-s3", &["chart"]),
    ("saphyr-parser", &["seed", "system"]),
];

pub fn run() -> Result<()> {
    let mut findings = Vec::new();
    check_edges(&mut findings)?;
    check_heads(&tools::root(), &mut findings)?;
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} findings", findings.len());
    }
    println!("tidy: crate edges and file heads are in order");
    Ok(())
}

fn check_edges(findings: &mut Vec<String>) -> Result<()> {
    let output = tools::cargo().args(["metadata", "--no-deps", "--format-version", "1"]).output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata is not JSON")?;
    let edges: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let ours: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    for package in packages {
        let name = package["name"].as_str().context("a package without a name")?;
        let allowed = edges.get(name);
        if allowed.is_none() && !TEST_ONLY.contains(&name) {
            findings.push(format!("crate {name} is not in the table of edges (xtask/src/tidy.rs)"));
        }
        let dependencies = package["dependencies"].as_array().context("a package without dependencies")?;
        for dependency in dependencies.iter().filter(|dependency| dependency["kind"].is_null()) {
            let target = dependency["name"].as_str().context("a dependency without a name")?;
            if TEST_ONLY.contains(&name) {
                continue;
            }
            if ours.contains(&target) && !allowed.is_some_and(|list| list.contains(&target)) {
                findings.push(format!("crate {name} may not use {target}: dependencies go down only"));
            }
            let owned = OWNERS.iter().find(|(world, owners)| *world == target && !owners.contains(&name));
            if let Some((_, owners)) = owned {
                findings.push(format!("crate {name} links {target}, which belongs to {}", owners.join(", ")));
            }
        }
    }
    Ok(())
}

fn check_heads(folder: &Path, findings: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !matches!(name, "target" | ".git" | "node_modules") {
                check_heads(&path, findings)?;
            }
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path)?;
            if !text.starts_with("//!") {
                findings.push(format!("{}: has no `//!` head that says what it is for", path.display()));
            }
        }
    }
    Ok(())
}
