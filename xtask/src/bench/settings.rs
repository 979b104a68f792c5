//! How long a registration and the checks take on MariaDB and etcd, and how long a change in etcd takes to every process.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use testkit::{ChartFiles, Database, Etcd};

use super::process::{Scratch, Server};
use super::{Better, Figure};
use crate::{provision, tools};

const KEY: &str = "injection.system.ts.count";
const ROUNDS: usize = 11;
/// Longest time that a change may take before the measurement gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Daemons on one MariaDB and one etcd.
struct Stand {
    binaries: PathBuf,
    etcd: Etcd,
    servers: Vec<Server>,
    scratch: Scratch,
    _database: Database,
}

impl Stand {
    fn start(name: &str, daemons: usize) -> Result<Self> {
        let servers = tools::ensure_debian("mariadbd", "mariadb-server")?
            && tools::ensure_debian("etcd", "etcd-server")?
            && tools::ensure_debian("etcdctl", "etcd-client")?;
        ensure!(servers, "MariaDB and etcd are needed");
        let binaries = tools::build_binaries()?;
        let database = Database::mariadb(name).context("MariaDB does not start")?;
        let etcd = Etcd::shared(name).context("etcd does not start")?;
        let scratch = Scratch::new(name)?;
        let config = scratch.path().join("aegis.toml");
        fs::write(&config, format!("helm = {:?}\n", provision::helm4()?))?;
        let config = config.to_string_lossy();
        let arguments = ["--config", &config, "--store", &database.url, "--settings", &etcd.url];
        let start = |number| {
            let data = scratch.path().join(format!("data{number}"));
            Server::start(&binaries, &data, &arguments, None)
        };
        let servers = (0..daemons).map(start).collect::<Result<_>>()?;
        Ok(Self { binaries, etcd, servers, scratch, _database: database })
    }

    fn ctl(&self, arguments: &[&str]) -> Result<Value> {
        let mut command = self.servers[0].ctl(&self.binaries, arguments)?;
        let output = command.args(["-o", "json"]).output()?;
        if !output.status.success() {
            bail!("aegisctl {arguments:?} failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

impl Stand {
    /// Hands over a chart of some size under the name and version that a system wants.
    fn keep_chart(&self, code: &str, helm: &Path) -> Result<()> {
        const OBJECTS: usize = 40;
        let charts = self.ctl(&["pedestal", "chart", "list", code])?;
        let word = |key: &str| charts[0][key].as_str().with_context(|| format!("a chart of {code} without {key}"));
        let name = word("name")?.rsplit('/').next().unwrap_or_default();
        let mut chart = ChartFiles::new(name, word("version")?);
        for number in 0..OBJECTS {
            let text = format!(
                "kind: ConfigMap\nmetadata: {{name: c{number}}}\ndata: {{all: {{{{ .Values | toJson | quote }}}}}}\n"
            );
            chart = chart.with(&format!("templates/c{number}.yaml"), &text);
        }
        let file = self.scratch.path().join(format!("{code}.tgz"));
        fs::write(&file, chart.package(helm))?;
        self.ctl(&["pedestal", "chart", "push", "--name", code, "--tgz", &file.to_string_lossy()])?;
        Ok(())
    }
}

/// Milliseconds of `aegisctl system register`, from its start to its end.
pub fn register() -> Result<Vec<Figure>> {
    let stand = Stand::start("register", 1)?;
    let mut samples = Vec::new();
    for _ in 0..=ROUNDS {
        let start = Instant::now();
        stand.ctl(&["system", "register", "--name", "ts"])?;
        samples.push(start.elapsed().as_secs_f64() * 1000.0);
        stand.ctl(&["system", "unregister", "--name", "ts", "--yes"])?;
    }
    // The first one reads the programs from the disk.
    samples.remove(0);
    let command = "aegisctl system register --name ts, on MariaDB and etcd";
    Ok(vec![figure("register", 300.0, samples, command)])
}

/// Milliseconds from a change in etcd until two daemons say that they apply it.
pub fn measure() -> Result<Vec<Figure>> {
    let stand = Stand::start("settings", 2)?;
    stand.ctl(&["system", "register", "--name", "ts"])?;
    let mut samples = Vec::new();
    for round in 0..ROUNDS {
        let before = applied(&stand.ctl(&["settings", "status"])?)?;
        ensure!(before.len() == 2, "{} of 2 daemons follow the settings", before.len());
        let newest = before.into_iter().max().context("a daemon that follows")?;
        let start = Instant::now();
        stand.etcd.put(&format!("global/{KEY}"), &(5 + round).to_string());
        while !applied(&stand.ctl(&["settings", "status"])?)?.iter().all(|revision| *revision > newest) {
            ensure!(start.elapsed() < PATIENCE, "a change in etcd is not applied within {PATIENCE:?}");
        }
        samples.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    let command = "etcdctl put, then `aegisctl settings status` until two daemons apply it";
    Ok(vec![figure("settings", 1000.0, samples, command)])
}

/// Milliseconds of `aegisctl doctor` with every built-in system registered and everything in order.
pub fn doctor() -> Result<Vec<Figure>> {
    let stand = Stand::start("doctor", 1)?;
    let seed = super::seed::public_seed()?;
    let helm = provision::helm4()?;
    for code in ["ts", "otel-demo", "ob", "sockshop", "hs", "sn", "media", "teastore"] {
        stand.ctl(&["system", "register", "--from-seed", &seed.to_string_lossy(), "--name", code])?;
        stand.keep_chart(code, &helm)?;
    }
    let mut samples = Vec::new();
    for _ in 0..=ROUNDS {
        let start = Instant::now();
        let report = stand.ctl(&["doctor"])?;
        samples.push(start.elapsed().as_secs_f64() * 1000.0);
        let checks = report["checks"].as_array().context("a report without checks")?;
        let odd: Vec<&Value> =
            checks.iter().filter(|check| check["state"] == "failed" || check["state"] == "warning").collect();
        ensure!(odd.is_empty(), "not everything is in order: {odd:?}");
    }
    samples.remove(0);
    let command = "aegisctl doctor, 8 systems with their charts kept, on MariaDB and etcd";
    Ok(vec![figure("doctor", 2000.0, samples, command)])
}

/// The revision that each process applies.
fn applied(status: &Value) -> Result<Vec<i64>> {
    let processes = status["processes"].as_array().context("the status names no processes")?;
    processes.iter().map(|process| process["revision"].as_i64().context("a process without a revision")).collect()
}

fn figure(name: &str, bar: f64, samples: Vec<f64>, command: &str) -> Figure {
    Figure {
        name: name.to_owned(),
        unit: "ms",
        peer: "bar",
        peer_figure: bar,
        samples,
        better: Better::Smaller,
        command: command.to_owned(),
        beside: BTreeMap::new(),
    }
}
