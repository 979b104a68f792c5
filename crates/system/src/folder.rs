//! Reading the files of one system's folder: bounded, text only, and with a finding for everything that is odd about them.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use model::{ErrorKind, Problem, nearest};

/// What a system's folder holds. The first is needed, the next three come together or not at all, the last two may be left out.
pub(crate) const FILES: [&str; 6] =
    ["system.yaml", "topology.yaml", "points.yaml", "journeys.yaml", "telemetry.yaml", "simulation.yaml"];

/// Largest file, in bytes. The largest of our own is a fortieth of it.
const LARGEST: u64 = 8 * 1024 * 1024;

/// The text of one system's files.
#[derive(Debug, Default)]
pub(crate) struct Texts<T> {
    pub system: Option<T>,
    pub topology: Option<T>,
    pub points: Option<T>,
    pub journeys: Option<T>,
    pub telemetry: Option<T>,
    pub behaviour: Option<T>,
}

/// Whether a folder is a system's own: it has one of the files.
pub(crate) fn is_system(folder: &Path) -> bool {
    FILES.iter().any(|file| fs::symlink_metadata(folder.join(file)).is_ok())
}

/// The folders of systems in a folder, by name: every folder in it, and every link that leads nowhere. Hidden ones belong to
/// other programs.
///
/// # Errors
/// `system.folder_unreadable`; `system.none_here`.
pub(crate) fn systems_in(folder: &Path) -> Result<Vec<PathBuf>, Problem> {
    let unreadable = |error: io::Error| {
        Problem::new(ErrorKind::Missing, "system.folder_unreadable", "the folder of systems cannot be read")
            .place(folder.display().to_string())
            .found(error.to_string())
            .expected("a folder with one folder for each system")
            .cause(error)
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if !is_hidden && fs::metadata(&path).map_or(true, |meta| meta.is_dir()) {
            found.push(path);
        }
    }
    found.sort();
    if found.is_empty() {
        return Err(Problem::new(ErrorKind::Missing, "system.none_here", "there is no system here")
            .place(folder.display().to_string())
            .expected("a folder with one folder for each system, and `system.yaml` in each"));
    }
    Ok(found)
}

/// Reads what is there. The findings name the file and, where it is known, the line.
pub(crate) fn read(folder: &Path) -> (Texts<String>, Vec<Problem>) {
    let mut findings = Vec::new();
    let [system, topology, points, journeys, telemetry, behaviour] = FILES.map(|file| {
        file_text(&folder.join(file)).unwrap_or_else(|problem| {
            findings.push(problem.place(file.to_owned()));
            // It is there; that it cannot be read is told already.
            Some(String::new())
        })
    });
    let missing = |file: &str| {
        Problem::new(ErrorKind::Missing, "system.file_missing", "a system's folder lacks a file")
            .place(file.to_owned())
            .expected("system.yaml, and either all or none of topology.yaml, points.yaml, journeys.yaml")
    };
    if system.is_none() {
        findings.push(missing(FILES[0]));
    }
    let parts = [&topology, &points, &journeys];
    if parts.iter().any(|part| part.is_some()) || telemetry.is_some() || behaviour.is_some() {
        let lacking = FILES[1..4].iter().zip(parts).filter(|(_, part)| part.is_none());
        findings.extend(lacking.map(|(file, _)| missing(file)));
    }
    let readable = |text: Option<String>| text.filter(|text| !text.is_empty());
    let texts = Texts {
        system: readable(system),
        topology: readable(topology),
        points: readable(points),
        journeys: readable(journeys),
        telemetry: readable(telemetry),
        behaviour: readable(behaviour),
    };
    (texts, findings)
}

/// Names that look like one of the files and are none: what is in them would be ignored.
pub(crate) fn strangers(folder: &Path) -> Vec<Problem> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let is_yaml = |name: &&String| name.ends_with(".yaml") || name.ends_with(".yml");
    let strange = names.iter().filter(is_yaml).filter(|name| !FILES.contains(&name.as_str()));
    let finding = |name: &String| {
        let problem =
            Problem::new(ErrorKind::Invalid, "system.file_unknown", "the file is none of a system's; it is ignored")
                .place(name.clone())
                .expected(FILES.join(", "));
        match nearest(name, FILES) {
            Some(near) => problem.fix(format!("did you mean `{near}`?")),
            None => problem,
        }
    };
    strange.map(finding).collect()
}

/// `None` when there is no such file.
fn file_text(path: &Path) -> Result<Option<String>, Problem> {
    let unreadable = |error: io::Error| {
        Problem::new(ErrorKind::Unavailable, "system.file_unreadable", "a system's file cannot be read")
            .found(error.to_string())
            .cause(error)
    };
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(error)),
    };
    if !meta.is_file() {
        let problem = Problem::new(ErrorKind::Invalid, "system.file_unreadable", "a system's file is no regular file");
        return Err(problem.found(if meta.is_dir() { "a folder" } else { "a device, pipe or socket" }));
    }
    let mut bytes = Vec::new();
    fs::File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes)).map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST {
        return Err(Problem::new(ErrorKind::Invalid, "system.file_too_large", "a system's file is too large")
            .found(format!("{} bytes", meta.len()))
            .expected(format!("at most {LARGEST} bytes")));
    }
    let text = text(bytes)?;
    if text.trim().is_empty() {
        return Err(Problem::new(ErrorKind::Invalid, "system.file_empty", "a system's file is empty"));
    }
    Ok(Some(text))
}

/// UTF-8 without a byte-order mark at its start; lines may end either way.
fn text(bytes: Vec<u8>) -> Result<String, Problem> {
    let not_text = |found: String| {
        Problem::new(ErrorKind::Invalid, "system.file_not_text", "a system's file is not text")
            .found(found)
            .expected("YAML in UTF-8")
    };
    let text = String::from_utf8(bytes)
        .map_err(|error| not_text(format!("an invalid byte at position {}", error.utf8_error().valid_up_to())))?;
    if let Some(at) = text.find('\0') {
        return Err(not_text(format!("a zero byte at position {at}")));
    }
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}
