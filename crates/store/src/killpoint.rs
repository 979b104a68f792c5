//! Named points at which a test makes the process kill itself, to prove that nothing is lost or done twice.
//!
//! Without the variable `AEGIS_KILL_POINT` nothing happens. With it the process sends itself SIGKILL at the point of that
//! name, as a power cut would; `:2` behind the name means the second time that the point is reached.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The point at which to die, and how often it may still be reached before.
struct Chosen {
    point: String,
    left: AtomicU32,
}

/// Kills the process when `AEGIS_KILL_POINT` names this point.
pub fn reach(point: &str) {
    static CHOSEN: OnceLock<Option<Chosen>> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| std::env::var("AEGIS_KILL_POINT").ok().as_deref().and_then(choose));
    if let Some(chosen) = chosen.as_ref().filter(|chosen| chosen.point == point)
        && chosen.left.fetch_sub(1, Ordering::Relaxed) == 1
    {
        let own = nix::unistd::Pid::this();
        nix::sys::signal::kill(own, nix::sys::signal::Signal::SIGKILL).expect("a process may kill itself");
    }
}

fn choose(text: &str) -> Option<Chosen> {
    let (point, times) = text.split_once(':').unwrap_or((text, "1"));
    let left = AtomicU32::new(times.parse().unwrap_or_else(|error| panic!("AEGIS_KILL_POINT={text}: {error}")));
    (!point.is_empty()).then(|| Chosen { point: point.to_owned(), left })
}

/// The points of a change of settings, in the order in which it reaches them; a registration is one. Those of the record and
/// the effect exist only where values are published beside the store.
pub const SETTINGS_POINTS: &[&str] = &[
    "settings.before-record",
    "settings.after-record",
    "settings.after-effect",
    "settings.before-commit",
    "settings.after-commit",
];
