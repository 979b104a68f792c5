//! Guessing takes time: after a few failures in a row a name has to wait.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use model::{ErrorKind, Problem, Result};

/// Failures that are free.
const FREE: u32 = 5;
/// How long a name waits after the last free failure, and until its failures are forgotten.
const PAUSE: Duration = Duration::from_secs(60);
/// Names that are remembered at once. Beyond that the oldest are forgotten, so that made-up names cannot fill the memory.
const MOST_NAMES: usize = 10_000;

/// Failed logins by name, of this process.
#[derive(Default)]
pub struct Attempts {
    failed: Mutex<HashMap<String, Failed>>,
}

struct Failed {
    count: u32,
    last: Instant,
}

impl Attempts {
    /// # Errors
    /// `login.too_many_failures`.
    pub fn check(&self, name: &str) -> Result<()> {
        let failed = self.failed.lock().expect("nothing panics under this lock");
        match failed.get(name) {
            Some(seen) if seen.count >= FREE && seen.last.elapsed() < PAUSE => {
                Err(Problem::new(ErrorKind::Busy, "login.too_many_failures", "too many failed logins under this name")
                    .found(format!("{} failures", seen.count))
                    .fix(format!("wait {} s", PAUSE.saturating_sub(seen.last.elapsed()).as_secs() + 1)))
            }
            _ => Ok(()),
        }
    }

    pub fn failed(&self, name: &str) {
        let mut failed = self.failed.lock().expect("nothing panics under this lock");
        if failed.len() >= MOST_NAMES {
            failed.retain(|_, seen| seen.last.elapsed() < PAUSE);
        }
        if failed.len() >= MOST_NAMES
            && let Some(oldest) =
                failed.iter().max_by_key(|(_, seen)| seen.last.elapsed()).map(|(name, _)| name.clone())
        {
            failed.remove(&oldest);
        }
        let seen = failed.entry(name.to_owned()).or_insert(Failed { count: 0, last: Instant::now() });
        seen.count = if seen.last.elapsed() < PAUSE { seen.count + 1 } else { 1 };
        seen.last = Instant::now();
    }

    pub fn succeeded(&self, name: &str) {
        self.failed.lock().expect("nothing panics under this lock").remove(name);
    }
}
