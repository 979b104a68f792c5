//! The config file with contexts, `~/.aegisctl/config.yaml`. The public format, read as it is and checked.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::{ErrorKind, Problem, Result, nearest};
use serde_json::{Map, Value, json};

const TOP: [&str; 3] = ["current-context", "contexts", "preferences"];
const PREFERENCES: [&str; 2] = ["output", "request-timeout"];
const CONTEXT: [&str; 15] = [
    "server",
    "token",
    "auth-type",
    "key-id",
    "username",
    "password",
    "default-project",
    "token-expiry",
    "ca-cert",
    "insecure-skip-tls-verify",
    "kube-context",
    "kubeconfig",
    "refresh-token",
    "oidc-issuer",
    "client-id",
];

/// The file's contents; empty when there is no file.
#[derive(Debug)]
pub struct Config {
    pub path: PathBuf,
    root: Map<String, Value>,
}

impl Config {
    /// Reads the file and checks every key.
    ///
    /// # Errors
    /// `config.no_home`, `config.unreadable`, `config.malformed`, `config.key_unknown`, `config.value_wrong`.
    pub fn read() -> Result<Self> {
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute()).ok_or_else(|| {
            Problem::new(ErrorKind::Missing, "config.no_home", "it is not known where the config file is")
                .place("environment variable HOME")
                .found(std::env::var("HOME").map_or_else(|_| "not set".to_owned(), |text| format!("`{text}`")))
                .expected("the absolute path of the home folder, with `.aegisctl/config.yaml` in it or not")
                .fix("set HOME")
        })?;
        Self::read_from(home.join(".aegisctl/config.yaml"))
    }

    fn read_from(path: PathBuf) -> Result<Self> {
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self { path, root: Map::new() }),
            Err(error) => {
                return Err(Problem::new(ErrorKind::Missing, "config.unreadable", "the config file cannot be read")
                    .place(path.display().to_string())
                    .found(error.to_string()));
            }
        };
        let root = parse(&path, &text)?;
        check_keys(&path, "", &root, &TOP)?;
        for (name, part) in children(&path, &root, "contexts")? {
            check_keys(&path, &format!("contexts.{name}."), part, &CONTEXT)?;
        }
        if let Some(preferences) = object(&path, "preferences", root.get("preferences"))? {
            check_keys(&path, "preferences.", preferences, &PREFERENCES)?;
        }
        Ok(Self { path, root })
    }

    pub fn current(&self) -> Option<&str> {
        self.root.get("current-context").and_then(Value::as_str).filter(|name| !name.is_empty())
    }

    /// A text of a context; an empty one counts as absent.
    pub fn context(&self, name: &str, key: &str) -> Option<String> {
        scalar(self.root.get("contexts")?.get(name)?.get(key)?)
    }

    pub fn context_names(&self) -> impl Iterator<Item = &str> + Clone {
        self.root.get("contexts").and_then(Value::as_object).into_iter().flat_map(|all| all.keys().map(String::as_str))
    }

    pub fn preference(&self, key: &str) -> Option<String> {
        scalar(self.root.get("preferences")?.get(key)?)
    }

    /// Sets keys of a context, makes it the current one, and writes the file: mode 0600, all of it or nothing.
    ///
    /// # Errors
    /// `config.not_written`.
    pub fn store_context(&mut self, name: &str, keys: &[(&str, &str)]) -> Result<()> {
        let contexts = self.root.entry("contexts").or_insert_with(|| json!({}));
        if contexts.is_null() {
            *contexts = json!({});
        }
        for (key, value) in keys {
            contexts[name][*key] = json!(value);
        }
        self.root.insert("current-context".into(), json!(name));
        let text = serde_saphyr::to_string(&self.root).map_err(|error| {
            Problem::internal("config.not_written", "the config file cannot be written").cause(error)
        })?;
        write_private(&self.path, &text).map_err(|error| {
            Problem::new(ErrorKind::Missing, "config.not_written", "the config file cannot be written")
                .place(self.path.display().to_string())
                .found(error.to_string())
        })
    }
}

fn parse(path: &Path, text: &str) -> Result<Map<String, Value>> {
    let malformed = |found: String| {
        Problem::new(ErrorKind::Invalid, "config.malformed", "the config file is not a YAML mapping")
            .place(path.display().to_string())
            .found(found)
    };
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_saphyr::from_str::<Value>(text) {
        Ok(Value::Object(root)) => Ok(root),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(malformed("a list or a single value".into())),
        Err(error) => Err(malformed(error.to_string())),
    }
}

fn check_keys(path: &Path, prefix: &str, part: &Map<String, Value>, known: &[&str]) -> Result<()> {
    let Some(key) = part.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
    let problem =
        Problem::new(ErrorKind::Invalid, "config.key_unknown", "the config file has a key that means nothing")
            .place(format!("{}: {prefix}{key}", path.display()))
            .found(format!("`{key}`"))
            .expected(known.join(", "));
    Err(match nearest(key, known.iter().copied()) {
        Some(name) => problem.fix(format!("did you mean `{name}`?")),
        None => problem.fix("remove the key"),
    })
}

fn object<'a>(path: &Path, place: &str, value: Option<&'a Value>) -> Result<Option<&'a Map<String, Value>>> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(part)) => Ok(Some(part)),
        Some(other) => Err(Problem::new(ErrorKind::Invalid, "config.value_wrong", "a mapping is expected here")
            .place(format!("{}: {place}", path.display()))
            .found(other.to_string())),
    }
}

fn children<'a>(
    path: &Path,
    root: &'a Map<String, Value>,
    key: &str,
) -> Result<Vec<(&'a str, &'a Map<String, Value>)>> {
    let Some(parts) = object(path, key, root.get(key))? else { return Ok(Vec::new()) };
    let mut out = Vec::new();
    for (name, value) in parts {
        if let Some(part) = object(path, &format!("{key}.{name}"), Some(value))? {
            out.push((name.as_str(), part));
        }
    }
    Ok(out)
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    if !folder.exists() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let part = path.with_extension(format!("yaml.{}", std::process::id()));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&part, path)).inspect_err(
        |_| {
            // The half-written file is of no use; the error that is told is the first one.
            let _ = fs::remove_file(&part);
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        fs::write(&path, text).unwrap();
        Config::read_from(path)
    }

    #[test]
    fn the_public_form_is_read_and_a_misspelt_key_is_told_with_its_neighbour() {
        let text = "current-context: a\ncontexts:\n  a: {server: 'http://h:1', token: t, insecure-skip-tls-verify: true}\n  b:\npreferences: {request-timeout: 5}\n";
        let config = read(text).unwrap();
        assert_eq!(config.current(), Some("a"));
        assert_eq!(config.context("a", "insecure-skip-tls-verify").as_deref(), Some("true"));
        assert_eq!(config.preference("request-timeout").as_deref(), Some("5"));
        let problem = read("contexts: {a: {sever: x}}").unwrap_err();
        assert_eq!(
            (problem.code.as_ref(), problem.fix.as_deref()),
            ("config.key_unknown", Some("did you mean `server`?"))
        );
        assert!(problem.place.unwrap().ends_with("config.yaml: contexts.a.sever"));
        assert_eq!(read("- a").unwrap_err().code, "config.malformed");
        assert_eq!(read("a: [").unwrap_err().code, "config.malformed");
        assert_eq!(read("contexts: {a: 3}").unwrap_err().code, "config.value_wrong");
        assert_eq!(read("").unwrap().current(), None);
    }

    #[test]
    fn a_stored_context_is_private_and_leaves_the_others_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/config.yaml");
        let mut config = Config::read_from(path.clone()).unwrap();
        config.store_context("a", &[("server", "http://h:1"), ("token", "0123")]).unwrap();
        config.store_context("b", &[("server", "http://h:2")]).unwrap();
        let again = Config::read_from(path.clone()).unwrap();
        assert_eq!(again.current(), Some("b"));
        assert_eq!(again.context("a", "token").as_deref(), Some("0123"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
