//! The store and the data folder.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;

use api::doctor::Repair;
use model::{Problem, Result};

use super::settings::quoted;
use super::{Facts, Look, Odd, Seen, again};

pub(super) const LOOKS: &[(&str, Look)] = &[
    ("store.reachable", reachable),
    ("store.migrated", migrated),
    ("store.seeded", seeded),
    ("data.writable", writable),
    ("token.private", token_private),
];

fn reachable(facts: &Facts<'_>) -> Result<Seen> {
    facts.stored()?;
    Ok(Seen::Good("it answers".into()))
}

fn migrated(facts: &Facts<'_>) -> Result<Seen> {
    let mut odd = Odd::default();
    for step in facts.pending_migrations.as_ref().map_err(again)? {
        odd.add(format!("missing migration: {step}"), Repair::Safe, RESTORE);
    }
    odd.seen("every migration is applied")
}

/// Puts back what every installation starts with.
pub(super) const RESTORE: &str = "aegisctl settings restore --yes";

fn seeded(facts: &Facts<'_>) -> Result<Seen> {
    let mut odd = Odd::default();
    if !facts.stored()?.live.projects.iter().any(|(name, _)| name == ::store::DEFAULT_PROJECT) {
        odd.add(format!("the project `{}` is missing", ::store::DEFAULT_PROJECT), Repair::Safe, RESTORE);
    }
    odd.seen("what every installation starts with is there")
}

fn writable(facts: &Facts<'_>) -> Result<Seen> {
    let folder = facts.app.data().display();
    Ok(match facts.app.probe_data() {
        Ok(()) => Seen::Good(format!("{folder} can be written")),
        Err(error) => {
            let fix = made_writable(error.kind(), &quoted(&folder.to_string()));
            Seen::Bad { observed: format!("{folder}: {error}"), fix, repair: Repair::Person }
        }
    })
}

/// Where there is no space, what takes it is shown: what of that may go nobody else can say.
fn made_writable(error: ErrorKind, folder: &str) -> String {
    match error {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => format!("du -x -d 2 {folder} | sort -n | tail -n 20"),
        ErrorKind::ReadOnlyFilesystem => format!("mount -o remount,rw \"$(findmnt -fno TARGET -T {folder})\""),
        _ => format!("chmod -R u+rwX {folder}"),
    }
}

fn token_private(facts: &Facts<'_>) -> Result<Seen> {
    let file = facts.app.admin_token_file();
    let metadata = fs::metadata(file).map_err(|error| {
        Problem::internal("token.file_unreadable", error.to_string()).place(file.display().to_string())
    })?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(Seen::Good(format!("mode {mode:04o}")));
    }
    let fix = format!("chmod 600 {}", file.display());
    Ok(Seen::Bad { observed: format!("mode {mode:04o}"), fix, repair: Repair::Person })
}
