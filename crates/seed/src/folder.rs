//! Reading the files of one environment.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::record::Read;
use crate::{DATA_FILE, Document, Finding, Findings, Overlay, Seed, Spot, digest, yaml};

impl Seed {
    /// Reads a folder that holds `data.yaml` and the overlays of one environment. Findings name files below `folder`.
    ///
    /// # Errors
    /// Every structural fault: unreadable or malformed files, unknown, duplicate or missing keys, wrong types. Codes
    /// `seed.*`, `yaml.*` and `overlay.*`.
    pub fn load(folder: &Path) -> Result<Self, Findings> {
        let files = read(folder)?;
        Self::assemble(&files, |name| folder.join(name).display().to_string())
    }

    /// The same from files that are already in memory, by name.
    ///
    /// # Errors
    /// As [`Seed::load`].
    pub fn parse<T: AsRef<[u8]>>(files: &BTreeMap<String, T>) -> Result<Self, Findings> {
        Self::assemble(files, str::to_owned)
    }

    fn assemble<T: AsRef<[u8]>>(files: &BTreeMap<String, T>, label: impl Fn(&str) -> String) -> Result<Self, Findings> {
        let Some(data) = files.get(DATA_FILE) else {
            return Err(no_data_file(&label(DATA_FILE), files.keys().map(String::as_str)).into());
        };
        let mut report = Findings::default();
        let document = yaml::load(&label(DATA_FILE), data.as_ref(), &mut report)
            .and_then(|root| Document::read(&root, &mut report));
        let mut overlays = BTreeMap::new();
        for (name, content) in files.iter().filter(|(name, _)| *name != DATA_FILE && name.ends_with(".yaml")) {
            match Overlay::read(&label(name), content.as_ref()) {
                Ok(overlay) => {
                    overlays.insert(name.clone(), overlay);
                }
                Err(findings) => report.extend(findings),
            }
        }
        match document {
            Some(document) if !report.has_errors() => {
                let used = overlays.keys().map(String::as_str).chain([DATA_FILE]);
                let digest = digest::of_files(used.map(|name| (name, files[name].as_ref())));
                Ok(Self { document, overlays, digest })
            }
            _ => Err(report.sorted()),
        }
    }
}

fn no_data_file<'a>(file: &str, others: impl Iterator<Item = &'a str>) -> Finding {
    let others: Vec<&str> = others.collect();
    let finding = Finding::error("seed.file_missing", &Spot::whole(file), "the seed has no `data.yaml`");
    if others.is_empty() { finding } else { finding.found(others.join(", ")) }
}

/// The YAML files of the folder. Anything else in it is not ours.
fn read(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, Finding> {
    let place = Spot::whole(&folder.display().to_string());
    let entries = fs::read_dir(folder).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Finding::error("seed.folder_missing", &place, "the seed's folder is not there"),
        ErrorKind::NotADirectory => Finding::error("seed.not_a_folder", &place, "the seed is not a folder")
            .found("a file")
            .expected("a folder that holds `data.yaml`"),
        _ => unreadable(&place, &error),
    })?;
    let mut files = BTreeMap::new();
    let mut environments = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| unreadable(&place, &error))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.ends_with(".yaml") {
            let content = content(&entry.path())?;
            files.insert(name, content);
        } else if entry.path().join(DATA_FILE).is_file() {
            environments.push(name);
        }
    }
    if !files.contains_key(DATA_FILE) && !environments.is_empty() {
        environments.sort();
        let data = folder.join(DATA_FILE).display().to_string();
        return Err(no_data_file(&data, environments.iter().map(String::as_str))
            .fix("choose one of these environments with `--env`"));
    }
    Ok(files)
}

/// The texts of the YAML files of a folder, by name: what is sent to a server, or planned by one.
///
/// # Errors
/// `seed.folder_missing`, `seed.not_a_folder`, `seed.not_a_file`, `seed.file_too_large`, `seed.unreadable`, `yaml.not_utf8`.
pub fn texts(folder: &Path) -> Result<BTreeMap<String, String>, Finding> {
    let text = |(name, content): (String, Vec<u8>)| {
        let text = String::from_utf8(content).map_err(|error| {
            let file = folder.join(&name).display().to_string();
            yaml::text(&file.into(), error.as_bytes()).expect_err("these bytes are no UTF-8")
        })?;
        Ok((name, text))
    };
    read(folder)?.into_iter().map(text).collect()
}

fn content(path: &Path) -> Result<Vec<u8>, Finding> {
    let place = Spot::whole(&path.display().to_string());
    // Mounted volumes consist of symbolic links; `metadata` follows them.
    let about = fs::metadata(path).map_err(|error| unreadable(&place, &error))?;
    if !about.is_file() {
        return Err(Finding::error("seed.not_a_file", &place, "a file of the seed is not a file")
            .found(if about.is_dir() { "a folder" } else { "a device, pipe or socket" })
            .expected("a YAML file"));
    }
    if about.len() > yaml::LARGEST as u64 {
        return Err(yaml::too_large(&place, about.len()));
    }
    fs::read(path).map_err(|error| unreadable(&place, &error))
}

fn unreadable(place: &Spot, error: &std::io::Error) -> Finding {
    Finding::error("seed.unreadable", place, "the seed cannot be read").found(error.to_string())
}
