//! `cargo xtask test`: sets up what the tests need, runs all of them, and says what could not be run.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::{provision, tools};

#[derive(clap::Args)]
pub struct Args {
    /// Passed on to the test runner, for example `-p store` or a test's name.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub fn run(args: &Args) -> Result<()> {
    // A missing database is not fatal here: the tests that need it list themselves as not run, which fails in CI.
    let servers = tools::ensure_debian("mariadbd", "mariadb-server")?
        & tools::ensure_debian("etcd", "etcd-server")?
        & tools::ensure_debian("etcdctl", "etcd-client")?;
    let provisioned = provision::in_background();
    let nextest = tools::ensure_nextest()?;
    // One build for programs, unit tests and integration tests: the same features, so no dependency is built twice.
    tools::run(tools::cargo().args(["build", "--workspace", "--all-targets"]))?;
    let binaries = tools::target_dir()?.join("debug");
    let not_run = tools::target_dir()?.join("not-run");
    if not_run.exists() {
        fs::remove_dir_all(&not_run).context("cannot clear the list of tests that were not run")?;
    }
    fs::create_dir_all(&not_run)?;

    tools::run(tools::cargo().args(["test", "--quiet", "--workspace", "--doc"]))?;
    let provisioned = provisioned.into_iter().filter_map(|tool| tool.join().expect("a tool that fails says so"));
    let provisioned: Vec<_> = provisioned.collect();
    let runner = || {
        let mut runner = std::process::Command::new(&nextest);
        tools::own_environment(&mut runner);
        runner
            .current_dir(tools::root())
            .args(["nextest", "run", "--workspace", "--no-fail-fast"])
            .env("AEGIS_BIN_DIR", &binaries)
            .env("AEGIS_NOT_RUN_DIR", &not_run)
            .envs(provisioned.iter().map(|(variable, path)| (variable, path)));
        runner
    };
    // The suite of the server once more on MariaDB and etcd: the same tests. `store` and `settings` run on both by themselves.
    let mut again = runner();
    again.args(["-E", "package(server) & kind(test)"]).env("AEGIS_TEST_SERVERS", "1");
    let again = (servers && args.rest.is_empty()).then(|| again.status()).transpose();
    let again = again.context("cannot start cargo-nextest")?;
    // The list comes first, so that the runner's summary is the last thing printed when all is well.
    let status = runner().args(&args.rest).status().context("cannot start cargo-nextest")?;
    let reasons = reasons(&not_run)?;
    for reason in &reasons {
        println!("not run: {reason}");
    }
    if again.is_some_and(|status| !status.success()) {
        bail!("the server's tests failed on MariaDB and etcd");
    }
    if !status.success() {
        bail!("the tests failed");
    }
    if tools::in_ci() && !reasons.is_empty() {
        bail!("{} tests could not be run; in CI that is a failure", reasons.len());
    }
    Ok(())
}

/// What the tests wrote down when they could not run.
fn reasons(folder: &Path) -> Result<Vec<String>> {
    let mut reasons = Vec::new();
    for entry in fs::read_dir(folder)? {
        reasons.push(fs::read_to_string(entry?.path())?.trim().to_owned());
    }
    reasons.sort();
    Ok(reasons)
}
