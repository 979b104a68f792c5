//! Databases for tests: a fresh one of each kind that the product supports.

use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::mariadb::{Client, Server};
use crate::not_run;
use crate::watched::Paused;

/// A fresh, empty database.
#[derive(Debug)]
pub struct Database {
    /// `SQLite` or `MariaDB`.
    pub kind: &'static str,
    /// As `store::Store::connect` takes it.
    pub url: String,
    /// Holds the file of a SQLite database; a server's databases go with the server.
    _folder: Option<TempDir>,
    /// A server that only this value uses.
    alone: Option<Server>,
}

impl Database {
    /// A file in a folder of its own, which is removed with this value.
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let url = format!("sqlite:{}", folder.path().join("aegis.db").display());
        Self { kind: "SQLite", url, _folder: Some(folder), alone: None }
    }

    /// A database of this process's MariaDB server, or `None` after listing `test` as not run.
    ///
    /// # Panics
    /// In CI, or with `AEGIS_REQUIRE_MARIADB` set, when MariaDB is not installed.
    pub fn mariadb(test: &str) -> Option<Self> {
        match Server::get() {
            Ok(server) => Some(Self { kind: "MariaDB", url: server.database(), _folder: None, alone: None }),
            Err(reason) => absent(test, reason),
        }
    }

    /// A MariaDB server of its own, which the test may stop for a while.
    ///
    /// # Panics
    /// As [`Database::mariadb`].
    pub fn mariadb_alone(test: &str) -> Option<Self> {
        match Server::own() {
            Ok(server) => Some(Self { kind: "MariaDB", url: server.database(), _folder: None, alone: Some(server) }),
            Err(reason) => absent(test, reason),
        }
    }

    /// A MariaDB server of its own that takes `user` over TLS alone; the address is without the TLS parameters.
    ///
    /// # Panics
    /// As [`Database::mariadb`].
    pub fn guarded(test: &str, tls: &Certificates, user: &str, password: &str) -> Option<Self> {
        match Server::guarded(tls, user, password) {
            Ok((server, port)) => {
                let address = server.database();
                let (name, _) = parts_of(&address);
                let url = format!("mysql://{user}:{password}@127.0.0.1:{port}/{name}");
                Some(Self { kind: "MariaDB", url, _folder: None, alone: Some(server) })
            }
            Err(reason) => absent(test, reason),
        }
    }

    /// Runs SQL in it, as somebody does who does not go through the product: MariaDB only.
    ///
    /// # Panics
    /// When it fails, and for SQLite.
    #[track_caller]
    pub fn execute(&self, sql: &str) {
        let (name, socket) = self.parts();
        crate::mariadb::run(socket.as_ref(), &format!("USE {name}; {sql}"))
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    fn parts(&self) -> (&str, &str) {
        parts_of(&self.url)
    }

    /// Whoever writes into this table waits until the guard goes; readers do not: MariaDB only.
    ///
    /// # Panics
    /// When the client does not start, and for SQLite.
    pub fn read_only(&self, table: &str) -> Client {
        let (name, socket) = self.parts();
        crate::mariadb::hold(socket.as_ref(), &format!("USE {name}; LOCK TABLES {table} READ"))
    }

    /// Lets the server stand still until the guard goes, as one that cannot be reached.
    ///
    /// # Panics
    /// For a database whose server others use.
    pub fn pause(&self) -> Paused {
        self.alone.as_ref().expect("a server of its own").pause()
    }
}

/// The name of a database, and the socket of its server.
fn parts_of(url: &str) -> (&str, &str) {
    let address = url.strip_prefix("mysql://root@localhost/").expect("a database of MariaDB");
    address.split_once("?socket=").expect("the tests' servers have a socket")
}

fn absent(test: &str, reason: &'static str) -> Option<Database> {
    let required = std::env::var_os("AEGIS_REQUIRE_MARIADB").is_some_and(|value| !value.is_empty());
    assert!(!required, "{test}: {reason}");
    not_run(&format!("{test} on MariaDB"), reason);
    None
}

/// A fresh database of every kind that can be had here, for a suite that must hold on all of them.
pub fn databases(test: &str) -> Vec<Database> {
    std::iter::once(Database::sqlite()).chain(Database::mariadb(test)).collect()
}
