//! Finding and reading the files of one environment of a seed, and what git says about them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use api::seed::Commit;
use model::{ErrorKind, Problem, Result, counted};
use seed::DATA_FILE;

/// A seed as it is sent: the name and the texts of one environment.
pub struct Source {
    pub env: String,
    pub folder: PathBuf,
    pub files: BTreeMap<String, String>,
}

impl Source {
    /// # Errors
    /// `seed.not_found`, `seed.environment_unknown`, `seed.unreadable`, and those of [`seed::texts`].
    pub fn read(path: &Path, env: Option<&str>) -> Result<Self> {
        let folder = environment_folder(path, env)?;
        let unreadable = |place: &Path, found: String| {
            Problem::new(ErrorKind::Missing, "seed.unreadable", "the seed cannot be read")
                .place(place.display().to_string())
                .found(found)
        };
        let files = seed::texts(&folder)?;
        let env = match env {
            Some(env) => env.to_owned(),
            None => {
                let whole = folder.canonicalize().map_err(|error| unreadable(&folder, error.to_string()))?;
                let name = whole.file_name().and_then(|name| name.to_str().map(str::to_owned));
                name.ok_or_else(|| {
                    unreadable(&folder, "a folder without a name".to_owned())
                        .fix("say which environment it is with `--env`")
                })?
            }
        };
        Ok(Self { env, folder, files })
    }

    /// The commit that the folder is checked out at; `None` outside of a repository or where there is no git. What git
    /// cannot say to be clean counts as changed.
    pub fn commit(&self) -> Option<Commit> {
        let git = |arguments: &[&str]| {
            let output = Command::new("git").arg("-C").arg(&self.folder).args(arguments).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let id = git(&["rev-parse", "HEAD"])?;
        let dirty = git(&["status", "--porcelain", "--", "."]).is_none_or(|changes| !changes.is_empty());
        Some(Commit { id, dirty })
    }
}

/// The folder that holds `data.yaml`: the one named, that of the file named, or one below.
///
/// # Errors
/// `seed.not_found`, `seed.environment_unknown`.
pub fn environment_folder(path: &Path, env: Option<&str>) -> Result<PathBuf> {
    // Whatever has the name counts: that it is no file is told when it is read.
    let has_data = |folder: &Path| folder.join(DATA_FILE).exists();
    if path.is_file() && path.file_name().is_some_and(|name| name == DATA_FILE) {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        return Ok(parent.map_or_else(|| PathBuf::from("."), Path::to_path_buf));
    }
    let not_found = |found: String| {
        Problem::new(ErrorKind::Missing, "seed.not_found", "there is no seed to read here")
            .place(path.display().to_string())
            .found(found)
            .expected("a folder with `data.yaml`, or a folder of such folders")
    };
    let entries = fs::read_dir(path).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let entries = entries.map_err(|error| not_found(error.to_string()))?;
    let below: Vec<String> = entries
        .iter()
        .filter(|entry| has_data(&entry.path()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    match env {
        Some(env) if below.iter().any(|name| name == env) => return Ok(path.join(env)),
        // The folder of the environment itself was named.
        Some(env) if has_data(path) && path.canonicalize().is_ok_and(|path| path.ends_with(env)) => {
            return Ok(path.to_path_buf());
        }
        Some(env) if !below.is_empty() => {
            return Err(Problem::unknown(
                "seed.environment_unknown",
                "environment of the seed",
                env,
                below.iter().map(String::as_str),
            )
            .place(path.display().to_string()));
        }
        None if has_data(path) => return Ok(path.to_path_buf()),
        None if below.len() == 1 => return Ok(path.join(&below[0])),
        _ => {}
    }
    Err(match below.is_empty() {
        true => not_found(counted(entries.len(), "other entry")),
        false => not_found(below.join(", ")).fix("choose one with `--env`"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_found_by_root_by_folder_and_by_file() {
        let root = tempfile::tempdir().unwrap();
        for env in ["prod", "staging"] {
            fs::create_dir(root.path().join(env)).unwrap();
            fs::write(root.path().join(env).join("data.yaml"), "a: 1").unwrap();
        }
        fs::write(root.path().join("prod/ts.yaml"), "b: 2").unwrap();
        fs::write(root.path().join("prod/README.md"), "no").unwrap();
        let prod = root.path().join("prod");
        for (path, env) in
            [(root.path(), Some("prod")), (&prod, None), (&prod, Some("prod")), (&prod.join("data.yaml"), None)]
        {
            let source = Source::read(path, env).unwrap();
            let names: Vec<&str> = source.files.keys().map(String::as_str).collect();
            assert_eq!((source.env.as_str(), names), ("prod", vec!["data.yaml", "ts.yaml"]));
        }
        let code = |path: &Path, env| Source::read(path, env).err().unwrap().code.into_owned();
        assert_eq!(code(root.path(), None), "seed.not_found");
        assert_eq!(code(root.path(), Some("prd")), "seed.environment_unknown");
        assert_eq!(code(&root.path().join("nowhere"), None), "seed.not_found");
    }
}
