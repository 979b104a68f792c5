//! The address of an etcd: `etcd://[USER:PASSWORD@]HOST:PORT[,HOST:PORT...][/PREFIX][?ca=FILE[&cert=FILE&key=FILE]]`.
//!
//! With `ca` it is spoken to over TLS, and has to have a certificate that those in the file sign; `cert` and `key` are our own,
//! for an etcd that asks for one.

use std::path::PathBuf;

use model::{ErrorKind, Problem, Result};

/// Where the public system keeps its settings.
const DEFAULT_PREFIX: &str = "/rcabench/config";
/// etcd's own port.
const DEFAULT_PORT: &str = "2379";

/// A parsed address. It has no debug form: it may hold a password.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// `host:port`, at least one.
    pub hosts: Vec<String>,
    /// Begins with `/` and ends without one.
    pub prefix: String,
    pub login: Option<Login>,
    pub tls: Option<Tls>,
}

/// Files in PEM form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tls {
    /// Who signs the server's certificate.
    pub ca: PathBuf,
    /// Our own certificate, and its key.
    pub own: Option<(PathBuf, PathBuf)>,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    pub user: String,
    pub password: String,
}

impl Address {
    /// # Errors
    /// `settings.address_malformed`; the address is not repeated, for it may hold a password.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let malformed = |what: &str| {
            Problem::new(ErrorKind::Invalid, "settings.address_malformed", "the address of etcd cannot be read")
                .found(what.to_owned())
                .expected("`etcd://[USER:PASSWORD@]HOST:PORT[,HOST:PORT...][/PREFIX][?ca=FILE[&cert=FILE&key=FILE]]`")
        };
        let rest = text.strip_prefix("etcd://").ok_or_else(|| malformed("another scheme"))?;
        // A password may hold any of `@/`; the hosts come after the last `@`.
        let (login, rest) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((login, rest)) => {
                let (user, password) = login.split_once(':').ok_or_else(|| malformed("a user without a password"))?;
                (Some(Login { user: user.to_owned(), password: password.to_owned() }), rest)
            }
        };
        let (rest, tls) = match rest.split_once('?') {
            None => (rest, None),
            Some((rest, query)) => {
                (rest, Some(tls(query).ok_or_else(|| malformed("other parameters than `ca`, `cert`, `key`"))?))
            }
        };
        let (hosts, prefix) = rest.split_once('/').map_or((rest, None), |(hosts, prefix)| (hosts, Some(prefix)));
        let hosts: Vec<String> = hosts.split(',').map(with_port).collect();
        if hosts.iter().any(|host| !is_host(host)) {
            return Err(malformed("no host and port"));
        }
        let prefix = prefix.map(|prefix| prefix.trim_matches('/')).filter(|prefix| !prefix.is_empty());
        let prefix = prefix.map_or_else(|| DEFAULT_PREFIX.to_owned(), |prefix| format!("/{prefix}"));
        Ok(Self { hosts, prefix, login, tls })
    }

    /// As it may be shown.
    pub(super) fn shown(&self) -> String {
        let login = self.login.as_ref().map(|login| format!("{}:***@", login.user)).unwrap_or_default();
        format!("etcd://{login}{}{}", self.hosts.join(","), self.prefix)
    }
}

/// `None` for anything but `ca`, alone or with both of `cert` and `key`.
fn tls(query: &str) -> Option<Tls> {
    let (mut ca, mut cert, mut key) = (None, None, None);
    for pair in query.split('&') {
        let (name, file) = pair.split_once('=').filter(|(_, file)| !file.is_empty())?;
        let place = match name {
            "ca" => &mut ca,
            "cert" => &mut cert,
            "key" => &mut key,
            _ => return None,
        };
        if place.replace(PathBuf::from(file)).is_some() {
            return None;
        }
    }
    let own = match (cert, key) {
        (None, None) => None,
        (Some(cert), Some(key)) => Some((cert, key)),
        _ => return None,
    };
    Some(Tls { ca: ca?, own })
}

fn with_port(host: &str) -> String {
    let bare = host.is_empty() || host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
    if bare { host.to_owned() } else { format!("{host}:{DEFAULT_PORT}") }
}

fn is_host(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(name, port)| {
        !name.is_empty() && !name.contains(char::is_whitespace) && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_hosts_prefix_and_login_and_shows_no_password() {
        let check = |text: &str, shown: &str| assert_eq!(Address::parse(text).ok().unwrap().shown(), shown);
        check("etcd://127.0.0.1:2379", "etcd://127.0.0.1:2379/rcabench/config");
        check("etcd://a,b:1/", "etcd://a:2379,b:1/rcabench/config");
        check("etcd://me:p@/ss@[::1]:2379/aegis/prod/", "etcd://me:***@[::1]:2379/aegis/prod");
        check("etcd://[::1]/x", "etcd://[::1]:2379/x");
        check("etcd://me:p?a@a/x?ca=/etc/ca.pem", "etcd://me:***@a:2379/x");
        let tls = |text: &str| Address::parse(text).ok().unwrap().tls.unwrap();
        assert_eq!(tls("etcd://a?ca=/ca").own, None);
        assert_eq!(tls("etcd://a/x?key=/k&ca=/ca&cert=/c").own, Some(("/c".into(), "/k".into())));
        for query in ["", "ca=", "tls=true", "ca=/a&ca=/b", "ca=/a&cert=/b", "cert=/a&key=/b"] {
            assert!(Address::parse(&format!("etcd://a?{query}")).is_err(), "{query}");
        }
        for wrong in ["http://a:1", "etcd://", "etcd://a:x", "etcd://a:0", "etcd://me@a:1", "etcd://a b:1"] {
            let problem = Address::parse(wrong).err().unwrap();
            assert_eq!(problem.code, "settings.address_malformed", "{wrong}");
        }
    }
}
