//! How repositories and registries are logged in to, and whom to trust there.
//!
//! `helm` is given a password through its standard input or a file of its own folder, never as an argument: arguments can be
//! seen by everybody on the machine.

use std::fmt;
use std::path::PathBuf;

use base64::Engine;
use model::{ErrorKind, Problem, Result};
use serde::Deserialize;

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// One repository of the configuration that wants a login, or whose certificate is its own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// What its addresses begin with, after the mirror rules: `https://…`, `http://…` or `oci://…`.
    pub address: String,
    #[serde(default)]
    pub user: Option<String>,
    /// A password, or a token where the registry takes one in its place.
    #[serde(default)]
    pub password: Option<Secret>,
    /// A file with the certificates (PEM) that sign the repository's.
    #[serde(default)]
    pub ca: Option<PathBuf>,
}

impl Login {
    /// User and password, where both are given.
    pub(crate) fn credentials(&self) -> Option<(&str, &Secret)> {
        self.user.as_deref().zip(self.password.as_ref())
    }

    /// As it may be shown.
    pub fn shown(&self) -> String {
        let user = self.user.as_ref().map(|user| format!("user {user}, password ***"));
        let ca = self.ca.as_ref().map(|file| format!("trusts {}", file.display()));
        let said: Vec<String> = user.into_iter().chain(ca).collect();
        format!("{} ({})", self.address, said.join(", "))
    }

    /// What is wrong with it, in words; `None` when nothing is.
    pub fn mistake(&self) -> Option<&'static str> {
        let is_known = ["https://", "http://", "oci://"].iter().any(|scheme| self.address.starts_with(scheme));
        let is_empty = |text: &str| text.is_empty() || text.contains(['\r', '\n']);
        match (&self.user, &self.password, &self.ca) {
            _ if !is_known => Some("an address that begins with `https://`, `http://` or `oci://`"),
            (Some(_), None, _) | (None, Some(_), _) => Some("a user and a password, or neither"),
            (None, None, None) => Some("a user and a password, or `ca`"),
            (Some(user), Some(password), _) if is_empty(user) || is_empty(password.reveal()) => {
                Some("a user and a password of one line each, not empty")
            }
            _ => None,
        }
    }
}

/// All logins; the longest address wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Logins {
    logins: Vec<Login>,
}

impl Logins {
    pub fn new(mut logins: Vec<Login>) -> Self {
        logins.sort_by_key(|login| std::cmp::Reverse(login.address.len()));
        Self { logins }
    }

    /// The login of a repository or of something in it.
    pub(crate) fn of(&self, address: &str) -> Option<&Login> {
        // Another port is another server.
        let is_of = |rest: &str| !rest.starts_with(':');
        self.logins.iter().find(|login| crate::mirror::rest(address, &login.address).is_some_and(is_of))
    }
}

/// What of `helm`'s arguments names the certificates that are trusted.
///
/// # Errors
/// `chart.ca_unreadable`: helm would say so as well, but in other words by each version.
pub(crate) fn trust(login: Option<&Login>) -> Result<Vec<String>> {
    let Some(file) = login.and_then(|login| login.ca.as_ref()) else { return Ok(Vec::new()) };
    if let Err(error) = std::fs::read(file) {
        return Err(Problem::new(
            ErrorKind::Missing,
            "chart.ca_unreadable",
            "the certificates of a chart repository cannot be read",
        )
        .place(file.display().to_string())
        .found(error.to_string())
        .expected("a PEM file"));
    }
    Ok(vec!["--ca-file".to_owned(), file.to_string_lossy().into_owned()])
}

/// What `helm` reads logins to registries from: the form of Docker's configuration file.
pub(crate) fn registry_file(reference: &str, user: &str, password: &Secret) -> Vec<u8> {
    let rest = reference.strip_prefix("oci://").unwrap_or(reference);
    let host = rest.split_once('/').map_or(rest, |(host, _)| host);
    let both = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{}", password.reveal()));
    serde_json::json!({"auths": {host: {"auth": both}}}).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(address: &str) -> Login {
        Login {
            address: address.into(),
            user: Some("me".into()),
            password: Some(Secret::new("pa55w0rd")),
            ca: Some("/etc/ca.pem".into()),
        }
    }

    #[test]
    fn a_login_is_that_of_the_longest_address_and_shows_no_password() {
        let logins = Logins::new(vec![login("https://charts.example"), login("https://charts.example/private")]);
        let of = |address: &str| logins.of(address).map(|login| login.address.as_str());
        assert_eq!(of("https://charts.example/private/x"), Some("https://charts.example/private"));
        assert_eq!(of("https://charts.example/privates"), Some("https://charts.example"));
        for other in [
            "https://charts.example.org",
            "https://charts.example:8443",
            "http://charts.example",
            "oci://charts.example/private",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
        let shown = format!("{logins:?}{}", login("oci://a").shown());
        assert!(!shown.contains("pa55w0rd") && shown.contains("user me, password ***"), "{shown}");
    }

    #[test]
    fn a_login_that_cannot_be_meant_is_told() {
        let wrong = |change: fn(&mut Login)| {
            let mut one = login("oci://a");
            change(&mut one);
            one.mistake().is_some()
        };
        assert!(!wrong(|_| {}));
        assert!(!wrong(|one| (one.user, one.password) = (None, None)));
        assert!(wrong(|one| one.address = "a".into()));
        assert!(wrong(|one| one.user = None));
        assert!(wrong(|one| one.password = None));
        assert!(wrong(|one| one.password = Some(Secret::new(""))));
        assert!(wrong(|one| (one.user, one.password, one.ca) = (None, None, None)));
    }
}
