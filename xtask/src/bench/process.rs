//! What the measurements share: scratch folders, pinning to a core, memory of a process, a server of our own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::tools;

/// How often memory is read and an end is looked for.
const TICK: Duration = Duration::from_millis(20);

/// A folder of one measurement, removed at its end.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Result<Self> {
        let folder = tools::target_dir()?.join("bench").join(format!("{name}-{}", std::process::id()));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            eprintln!("{} stays behind: {error}", self.0.display());
        }
    }
}

/// A command that runs on one core only.
pub fn pinned(core: usize, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.arg("-c").arg(core.to_string()).arg(program);
    command
}

/// A child process that does not outlive its measurement.
pub struct Running(Child);

impl Running {
    /// Starts it; what it writes goes to `log`.
    pub fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let file = fs::File::create(log).with_context(|| log.display().to_string())?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        Ok(Self(command.spawn().with_context(|| format!("cannot start {command:?}"))?))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.0.try_wait()?.is_some())
    }

    /// Waits for its end; gives the peak of `measure`, which is asked every 20 ms.
    ///
    /// # Errors
    /// When it fails.
    pub fn peak(&mut self, measure: impl Fn(u32) -> f64) -> Result<f64> {
        let mut peak: f64 = 0.0;
        loop {
            if let Some(status) = self.0.try_wait()? {
                if !status.success() {
                    bail!("the program ended with {status}");
                }
                return Ok(peak);
            }
            peak = peak.max(measure(self.id()));
            std::thread::sleep(TICK);
        }
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(mut self) -> Result<()> {
        tools::run(Command::new("kill").arg(self.id().to_string()))?;
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.has_ended()? {
            if Instant::now() > deadline {
                bail!("a program did not end within 60 s of being asked to");
            }
            std::thread::sleep(TICK);
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            // It may end at this very moment.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Resident memory of a process and its children, MiB; zero for one that has just ended.
pub fn resident_mib(pid: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks.flat_map(|task| {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
    });
    status_mib(pid, "VmRSS:") + children.map(resident_mib).sum::<f64>()
}

/// The largest resident memory that a process ever had, MiB; zero for one that has just ended.
pub fn peak_mib(pid: u32) -> f64 {
    status_mib(pid, "VmHWM:")
}

/// Processor time that a process has had so far, seconds. The kernel counts it in hundredths (`USER_HZ`).
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The program's name, which may hold spaces, ends with the last parenthesis; user and system time are the 14th and 15th field.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok());
    let (user, system) = ticks(11).zip(ticks(12)).context("the kernel tells no processor time")?;
    Ok((user + system) / 100.0)
}

/// Processor time of the children that a process has waited for, seconds.
pub fn children_cpu_seconds(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // As above; those of the children are the 16th and 17th field.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok());
    let (user, system) = ticks(13).zip(ticks(14)).context("the kernel tells no processor time")?;
    Ok((user + system) / 100.0)
}

fn status_mib(pid: u32, key: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok()).map_or(0.0, |kib| kib / 1024.0)
}

/// `aegis serve`, ready.
pub struct Server {
    pub process: Running,
    pub announced: Value,
    token: String,
}

impl Server {
    /// Starts it on a data folder with more arguments, on one core when one is named.
    pub fn start(binaries: &Path, data: &Path, arguments: &[&str], core: Option<usize>) -> Result<Self> {
        let program = binaries.join("aegis");
        let mut command = core.map_or_else(|| Command::new(&program), |core| pinned(core, &program));
        command
            .current_dir(tools::root())
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(arguments);
        // The announcement for this user's other programs goes into the measurement's own folder.
        command.env("XDG_STATE_HOME", data);
        let mut process = Running::start(&mut command, &data.with_extension("log"))?;
        let file = data.join("server.json");
        let deadline = Instant::now() + Duration::from_secs(60);
        let announced: Value = loop {
            if let Some(announced) = fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok()) {
                break announced;
            }
            if process.has_ended()? || Instant::now() > deadline {
                bail!("the server does not serve: {}", fs::read_to_string(data.with_extension("log"))?);
            }
            std::thread::sleep(TICK);
        };
        let token_file = announced["token_file"].as_str().context("server.json names no token_file")?;
        let token = fs::read_to_string(token_file)?.trim().to_owned();
        Ok(Self { process, announced, token })
    }

    /// `aegisctl` that talks to it.
    pub fn ctl(&self, binaries: &Path, arguments: &[&str]) -> Result<Command> {
        let address = self.announced["address"].as_str().context("server.json names no address")?;
        let mut command = Command::new(binaries.join("aegisctl"));
        command.args(arguments).envs([("AEGIS_SERVER", address), ("AEGIS_TOKEN", self.token.as_str())]);
        Ok(command)
    }

    /// The answer of `aegisctl -o json`.
    pub fn ask(&self, binaries: &Path, arguments: &[&str]) -> Result<Value> {
        let output = self.ctl(binaries, arguments)?.args(["-o", "json"]).output()?;
        if !output.status.success() {
            bail!("aegisctl {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&output.stdout).with_context(|| format!("aegisctl {}", arguments.join(" ")))
    }
}
