//! kill -9 of the daemon, at every named point and at random moments: nothing is lost, nothing is done twice, nothing is
//! left behind.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use serde_json::Value;
use testkit::process::{Daemon, Ran, Site, until};
use worker::killpoint::POINTS;

use crate::pack::Digests;
use crate::round::{self, FAULT};
use crate::world;

/// Installations that are tortured at the same time: a daemon waits for the disk about half of its time.
const LANES: usize = 3;
const SHORT: &[&str] = &["--seed", "7"];
/// More time in which to be killed.
const LONG: &[&str] = &["--seed", "7", "--abnormal", "240s"];
/// Kills at random moments, all in all.
const RANDOM_KILLS: usize = 20;
/// Kills in the life of one run, so that it gets somewhere in between.
const KILLS_OF_ONE_RUN: usize = 4;
const DEADLINE: Duration = Duration::from_secs(60);

/// What a run leaves.
#[derive(Debug, Clone, PartialEq)]
struct Outcome {
    state: Value,
    verdict: Value,
    parquet: Digests,
    ranking: Value,
}

impl Outcome {
    fn of(site: &Site, run: &Value) -> Self {
        let parquet = crate::pack::parquet(&crate::pack::folder(site, run));
        let ranking = round::ranking(site, &run["injection_name"], "baro");
        Self { state: run["state"].clone(), verdict: run["verdict"].clone(), parquet, ranking }
    }
}

/// An installation, the run that is repeated on it, what that leads to undisturbed, and how long it takes.
pub struct Stand {
    pub site: Site,
    what: &'static [&'static str],
    more: &'static [&'static str],
    faults: usize,
    expect: Outcome,
    took: Duration,
}

impl Stand {
    pub fn new(more: &'static [&'static str]) -> Self {
        Self::of(FAULT, more, 1)
    }

    pub fn of(what: &'static [&'static str], more: &'static [&'static str], faults: usize) -> Self {
        let (site, daemon) = round::ts(&[]);
        let start = Instant::now();
        let run = round::run(&site, what, more, 0);
        let took = start.elapsed();
        world::until_clean(&site);
        let expect = Outcome::of(&site, &run);
        daemon.stop();
        assert_eq!(expect.verdict, "anomaly", "a fault that everybody feels, so that every step is gone through");
        assert!(expect.ranking.as_array().is_some_and(|answers| answers.len() > 10), "{}", expect.ranking);
        Self { site, what, more, faults, expect, took }
    }

    /// Submits under a key. The daemon may die before it has answered, and then the same call is made again.
    fn submit(&self, key: &str) -> Ran {
        self.site.ctl(&round::submission(self.what, &[self.more, &["--idempotency-key", key]].concat()))
    }

    /// The run of that key, submitted now or before.
    pub fn run_of(&self, key: &str) -> Result<String, String> {
        let reply = self.submit(key);
        match reply.code {
            0 | 9 => Ok(round::text(&reply.json()["items"][0]["trace_id"])),
            _ => Err(format!("the submission is refused: {}", reply.err)),
        }
    }

    /// Whether a run has ended, as far as anybody can tell: the daemon may not serve yet.
    fn has_ended(&self, run: &str) -> bool {
        let got = self.site.ctl(&["run", "get", run]);
        got.code == 0 && ["Completed", "Failed", "Cancelled"].contains(&got.json()["state"].as_str().unwrap())
    }

    /// Lets a run that was disturbed come to its end and compares it with the undisturbed one.
    pub fn check_end(&self, run: &str, journal_before: usize) -> Result<(), String> {
        let watch = self.site.ctl(&["run", "watch", run, "--timeout", "150s"]);
        if watch.code != 0 {
            return Err(format!("`run watch` ended with {}: {}{}", watch.code, watch.out, watch.err));
        }
        let found = Outcome::of(&self.site, &round::get(&self.site, run));
        if found != self.expect {
            return Err(format!("another outcome than undisturbed: {found:#?}\nexpected {:#?}", self.expect));
        }
        world::until_clean(&self.site);
        let doctor = self.site.ctl(&["doctor"]);
        if doctor.code != 0 {
            return Err(format!("doctor finds something: {}", doctor.out));
        }
        world::assert_each_effect_once(&world::journal(&self.site)[journal_before..], self.faults);
        Ok(())
    }

    pub fn kill_at(&self, point: &str) -> Result<(), String> {
        let before = world::journal(&self.site).len();
        let mut command = self.site.serve_command();
        let daemon = Daemon::start(command.env("AEGIS_KILL_POINT", point), &self.site).ready();
        let reply = self.submit(point);
        if ![0, 10].contains(&reply.code) {
            return Err(format!("the submission ended with {}: {}", reply.code, reply.err));
        }
        let death = daemon.death(DEADLINE);
        if death != -9 {
            return Err(format!("the daemon ended with {death} and not by its own SIGKILL"));
        }
        let daemon = self.site.serve(&[]);
        let run = self.run_of(point)?;
        self.check_end(&run, before)?;
        daemon.stop();
        Ok(())
    }
}

/// Runs `work` and turns its panic into an error, so that one point's failure does not hide the others.
fn caught(work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
    })
}

#[test]
fn a_kill_at_any_named_point_loses_nothing_and_repeats_nothing() {
    let queue = Mutex::new(POINTS.iter().rev().copied().collect::<Vec<_>>());
    let failures = Mutex::new(Vec::new());
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                let stand = Stand::new(SHORT);
                outcomes.lock().unwrap().push(stand.expect.clone());
                loop {
                    let Some(point) = queue.lock().unwrap().pop() else { break };
                    if let Err(failure) = caught(|| stand.kill_at(point)) {
                        failures.lock().unwrap().push(format!("{point}: {failure}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} points:\n{}", failures.len(), POINTS.len(), failures.join("\n"));
    let outcomes = outcomes.into_inner().unwrap();
    assert!(outcomes.windows(2).all(|pair| pair[0] == pair[1]), "installations differ: {outcomes:#?}");
}

#[test]
fn kills_at_random_moments_lose_nothing_and_repeat_nothing() {
    let chosen = std::env::var("AEGIS_TEST_SEED").ok().map(|text| text.parse().unwrap());
    let seed = chosen.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        now.as_secs() * 1000 + u64::from(now.subsec_millis())
    });
    println!("random moments of seed {seed}; repeat them with AEGIS_TEST_SEED={seed}");
    let mut random = rand::rngs::StdRng::seed_from_u64(seed);
    let mut stand = Stand::new(LONG);
    let (mut kills, mut runs) = (0, 0);
    while kills < RANDOM_KILLS {
        runs += 1;
        assert!(runs <= 2 * RANDOM_KILLS, "the runs end before they are killed: {kills} kills in {runs} runs");
        let before = world::journal(&stand.site).len();
        let mut daemon = stand.site.serve(&[]);
        let run = stand.run_of(&format!("random-{runs}")).unwrap();
        for _ in 0..KILLS_OF_ONE_RUN.min(RANDOM_KILLS - kills) {
            let moment = stand.took.mul_f64(random.random_range(0.0..0.8));
            std::thread::sleep(moment);
            if stand.has_ended(&run) {
                // This machine has less to do than when the undisturbed run was timed.
                stand.took = stand.took.mul_f64(0.8);
                break;
            }
            daemon.kill();
            kills += 1;
            println!("run {runs}: killed after {moment:?}");
            // It may be killed again while it still starts.
            daemon = Daemon::start(&mut stand.site.serve_command(), &stand.site);
        }
        let daemon = daemon.ready();
        stand.check_end(&run, before).unwrap_or_else(|failure| panic!("seed {seed}, run {runs}: {failure}"));
        daemon.stop();
    }
    println!("{kills} kills in {runs} runs");
}

#[test]
fn a_child_does_not_outlive_its_daemon() {
    let stand = Stand::new(SHORT);
    let before = world::journal(&stand.site).len();
    let daemon = stand.site.serve(&[]);
    let run = stand.run_of("stopped-child").unwrap();
    // It takes its memory limit after it has bound itself to the daemon: one that is stopped earlier can do neither.
    let is_bound = |child: &u32| {
        let limits = std::fs::read_to_string(format!("/proc/{child}/limits")).unwrap_or_default();
        limits.lines().any(|line| line.starts_with("Max address space") && !line.contains("unlimited"))
    };
    let child = until("a child runs", DEADLINE, || round::executing(daemon.pid()).into_iter().find(is_bound));
    // Stopped, so that it cannot end by itself; only SIGKILL ends a stopped process.
    round::signal(child, "-STOP");
    daemon.kill();
    // A dead process stays in the list until the system's first process has taken note.
    let state = || std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    let lives = || state().rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'));
    until("the child is gone", DEADLINE, || (!lives()).then_some(()));
    let daemon = stand.site.serve(&[]);
    stand.check_end(&run, before).unwrap();
    daemon.stop();
}

#[test]
fn a_daemon_that_is_asked_to_end_stops_at_once_and_the_next_one_goes_on() {
    let stand = Stand::new(LONG);
    for (key, moment) in [("stop-early", 0.2), ("stop-late", 0.6)] {
        let before = world::journal(&stand.site).len();
        let daemon = stand.site.serve(&[]);
        let run = stand.run_of(key).unwrap();
        std::thread::sleep(stand.took.mul_f64(moment));
        let start = Instant::now();
        // A clean end: exit code 0, and no step is waited for longer than its next stretch of a minute of data time.
        daemon.stop();
        println!("stopped after {:?}", start.elapsed());
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        let daemon = stand.site.serve(&[]);
        stand.check_end(&run, before).unwrap();
        daemon.stop();
    }
}
