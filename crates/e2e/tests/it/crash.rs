//! kill -9 of the daemon, at every named point and at random moments: nothing is lost, nothing is done twice, nothing is
//! left behind.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use serde_json::Value;
use testkit::process::{Daemon, Ran, Site};
use worker::killpoint::POINTS;

use crate::pack::Digests;
use crate::round::{self, FAULT};
use crate::world;

/// Installations that are tortured at the same time: a daemon waits for the disk about half of its time.
const LANES: usize = 3;
const SEED: &[&str] = &["--seed", "7"];
/// Kills at random moments, all in all.
const RANDOM_KILLS: usize = 20;
/// Kills in the life of one run, so that it gets somewhere in between.
const KILLS_OF_ONE_RUN: usize = 4;

/// What an undisturbed run leaves.
#[derive(Debug, Clone, PartialEq)]
struct Outcome {
    state: Value,
    verdict: Value,
    parquet: Digests,
    ranking: Value,
}

fn outcome(site: &Site, run: &Value) -> Outcome {
    let parquet = crate::pack::parquet(&crate::pack::folder(site, run));
    let ranking = round::ranking(site, &run["injection_name"], "baro");
    Outcome { state: run["state"].clone(), verdict: run["verdict"].clone(), parquet, ranking }
}

/// An installation, and what an undisturbed run on it led to and how long it took.
fn undisturbed() -> (Site, Outcome, Duration) {
    let (site, daemon) = round::ts(&[]);
    let start = Instant::now();
    let run = round::run(&site, FAULT, SEED, 0);
    let took = start.elapsed();
    world::until_clean(&site);
    let outcome = outcome(&site, &run);
    daemon.stop();
    assert_eq!(outcome.verdict, "anomaly", "a fault that everybody feels, so that every step is gone through");
    assert!(outcome.ranking.as_array().is_some_and(|answers| answers.len() > 10), "{}", outcome.ranking);
    (site, outcome, took)
}

/// Submits under a key. The daemon may die before it has answered, and then the same call is made again.
fn submit(site: &Site, key: &str) -> Ran {
    site.ctl(&round::submission(FAULT, &[SEED, &["--idempotency-key", key]].concat()))
}

fn resubmit(site: &Site, key: &str) -> Result<String, String> {
    let reply = submit(site, key);
    match reply.code {
        0 | 9 => Ok(round::text(&reply.json()["items"][0]["trace_id"])),
        _ => Err(format!("the submission is refused after the restart: {}", reply.err)),
    }
}

/// Lets a run that was disturbed come to its end and compares it with the undisturbed one.
fn check_end(site: &Site, run: &str, journal_before: usize, expect: &Outcome) -> Result<(), String> {
    let watch = site.ctl(&["run", "watch", run, "--timeout", "150s"]);
    let detail = round::get(site, run);
    if watch.code != 0 {
        return Err(format!("`run watch` ended with {}: {}{}", watch.code, watch.out, watch.err));
    }
    let found = outcome(site, &detail);
    if found != *expect {
        return Err(format!("another outcome than undisturbed: {found:#?}\nexpected {expect:#?}"));
    }
    world::until_clean(site);
    let doctor = site.ctl(&["doctor"]);
    if doctor.code != 0 {
        return Err(format!("doctor finds something: {}", doctor.out));
    }
    let journal = world::journal(site);
    world::assert_each_effect_once(&journal[journal_before..], 1);
    Ok(())
}

/// Runs `work` and turns its panic into an error, so that one point's failure does not hide the others.
fn caught(work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
    })
}

fn kill_at(site: &Site, point: &str, expect: &Outcome) -> Result<(), String> {
    let before = world::journal(site).len();
    let daemon = Daemon::start(site.serve_command().env("AEGIS_KILL_POINT", point), site).ready();
    let reply = submit(site, point);
    if ![0, 10].contains(&reply.code) {
        return Err(format!("the submission ended with {}: {}", reply.code, reply.err));
    }
    let death = daemon.death(Duration::from_secs(60));
    if death != -9 {
        return Err(format!("the daemon ended with {death} and not by its own SIGKILL"));
    }
    let daemon = site.serve(&[]);
    let run = resubmit(site, point)?;
    check_end(site, &run, before, expect)?;
    daemon.stop();
    Ok(())
}

#[test]
fn a_kill_at_any_named_point_loses_nothing_and_repeats_nothing() {
    let queue = Mutex::new(POINTS.iter().rev().copied().collect::<Vec<_>>());
    let failures = Mutex::new(Vec::new());
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                let (site, expect, _) = undisturbed();
                outcomes.lock().unwrap().push(expect.clone());
                loop {
                    let Some(point) = queue.lock().unwrap().pop() else { break };
                    if let Err(failure) = caught(|| kill_at(&site, point, &expect)) {
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

/// Whether a run has ended, as far as anybody can tell: the daemon may not serve yet.
fn has_ended(site: &Site, run: &str) -> bool {
    let got = site.ctl(&["run", "get", run]);
    got.code == 0 && ["Completed", "Failed", "Cancelled"].contains(&got.json()["state"].as_str().unwrap())
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
    let (site, expect, took) = undisturbed();
    let (mut kills, mut runs) = (0, 0);
    while kills < RANDOM_KILLS {
        runs += 1;
        assert!(runs <= RANDOM_KILLS, "the runs end before they are killed: {kills} kills in {runs} runs");
        let before = world::journal(&site).len();
        let mut daemon = site.serve(&[]);
        let run = resubmit(&site, &format!("random-{runs}")).unwrap();
        for _ in 0..KILLS_OF_ONE_RUN.min(RANDOM_KILLS - kills) {
            let moment = took.mul_f64(random.random_range(0.0..0.8));
            std::thread::sleep(moment);
            if has_ended(&site, &run) {
                break;
            }
            daemon.kill();
            kills += 1;
            println!("run {runs}: killed after {moment:?}");
            // Some are killed again while they still start.
            daemon = Daemon::start(&mut site.serve_command(), &site);
        }
        let daemon = daemon.ready();
        check_end(&site, &run, before, &expect).unwrap_or_else(|failure| panic!("seed {seed}, run {runs}: {failure}"));
        daemon.stop();
    }
    println!("{kills} kills in {runs} runs");
}
