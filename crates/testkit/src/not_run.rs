//! Saying that a test could not run here, and why: listed by `cargo xtask test`, a failure in CI, never a silent pass.

use std::path::{Path, PathBuf};

/// Records that `test` could not run because of `reason`. The caller returns right after.
///
/// # Panics
/// In CI, where everything must run.
pub fn not_run(test: &str, reason: &str) {
    let line = format!("{test}: {reason}");
    assert!(!in_ci(), "could not be run, which is a failure in CI: {line}");
    eprintln!("not run: {line}");
    if let Some(folder) = std::env::var_os("AEGIS_NOT_RUN_DIR") {
        let file = PathBuf::from(folder).join(test.replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
        std::fs::write(&file, line).expect("the runner's folder for tests that were not run can be written");
    }
}

fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false")
}

/// A file of the shared folder (real seeds and facts), or `None` after listing `test` as not run.
pub fn shared(test: &str, path: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("AEGIS_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let file = folder.join(path);
    if file.exists() {
        return Some(file);
    }
    not_run(test, &format!("`{path}` is not in the shared folder (set AEGIS_SHARED)"));
    None
}
