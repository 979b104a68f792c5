//! Opening a database, and the two ways to use it: reading, and writing in one transaction.
//!
//! SQLite has one writing connection (WAL, `BEGIN IMMEDIATE`) and a few reading ones. MariaDB and MySQL have one pool
//! with READ COMMITTED, and a transaction that lost against another one is repeated as a whole.

use std::marker::PhantomData;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{ErrorKind, Problem, Result};
use sea_orm::sqlx::Executor;
use sea_orm::sqlx::mysql::MySqlConnectOptions;
use sea_orm::sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};
use sea_orm::{
    ConnectOptions, Database, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, SqliteTransactionMode,
    TransactionOptions, TransactionTrait,
};
use tokio::sync::watch;

use crate::failure::{Failure, Work, is_contention, may_end_transaction};
use crate::patience::Patient;
use crate::publish::Publishing;

/// How long a statement waits for another process's transaction.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a transaction that lost against another one is repeated.
const CONTENTION_RETRIES: u32 = 30;
/// How long a server may take to answer, also when it is only just starting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
const READERS: u32 = 4;
const MYSQL_CONNECTIONS: u32 = 16;

/// The SQL state of one installation. Cheap to clone; all clones share the connections.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    /// Never shown: it may hold a password.
    url: String,
    backend: DbBackend,
    read: Patient,
    write: Patient,
    /// Claims of one process come one after the other: they would only contend for the same oldest task.
    claims: tokio::sync::Mutex<()>,
    changes: watch::Sender<u64>,
    publishing: Publishing,
}

/// Which database a store speaks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Sqlite,
    MySql,
}

impl Store {
    /// Opens a database. Nothing is created in it: [`Store::migrate`] does that.
    ///
    /// `sqlite:PATH` or `sqlite://PATH` (the file is made when absent), `sqlite::memory:`, or `mysql://USER:PASSWORD@HOST:PORT/DATABASE`
    /// (also `mariadb://`).
    ///
    /// # Errors
    /// `store.address_unknown` for another scheme, `store.address_malformed`; `store.unreachable`, `store.refused`,
    /// `store.unreadable`.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::connect_within(url, CONNECT_TIMEOUT).await
    }

    /// [`Store::connect`] to a server that has this long to answer a statement; a whole transaction has six times as long.
    ///
    /// # Errors
    /// As [`Store::connect`]. Later calls end with `store.unreachable` when the server does not answer in time.
    pub async fn connect_within(url: &str, limit: Duration) -> Result<Self> {
        if let Some(path) = sqlite_path(url) {
            return Self::connect_sqlite(url, path).await;
        }
        let rest = url.strip_prefix("mariadb://").or_else(|| url.strip_prefix("mysql://"));
        let Some(rest) = rest else {
            let scheme = url.split(':').next().unwrap_or_default();
            return Err(Problem::new(
                ErrorKind::Invalid,
                "store.address_unknown",
                "the database's address has an unknown form",
            )
            .found(format!("`{scheme}:...`"))
            .expected("`sqlite:PATH` or `mysql://USER:PASSWORD@HOST:PORT/DATABASE`"));
        };
        let url = format!("mysql://{rest}");
        if url.parse::<MySqlConnectOptions>().is_err() {
            // The library's own message would repeat the address, and with it the password.
            let problem =
                Problem::new(ErrorKind::Invalid, "store.address_malformed", "the database's address cannot be read");
            return Err(problem.expected("`mysql://USER:PASSWORD@HOST:PORT/DATABASE`, percent-encoded where needed"));
        }
        let pool = open(mysql_options(&url, MYSQL_CONNECTIONS, limit)).await?;
        Ok(Self::new(&url, DbBackend::MySql, pool.clone(), pool, Some(limit)))
    }

    async fn connect_sqlite(url: &str, path: &str) -> Result<Self> {
        if path == ":memory:" {
            // A database in memory lives in its connection, so there can be only this one.
            let only = open(sqlite_options(None, 1, false)).await?;
            return Ok(Self::new(url, DbBackend::Sqlite, only.clone(), only, None));
        }
        let place = |problem: Problem| problem.place(path.to_owned());
        let file = Path::new(path);
        // The writer comes first: it makes the file and turns the journal to WAL.
        let write = open_writer(file).await.map_err(place)?;
        let read = open(sqlite_options(Some(file), READERS, true)).await.map_err(place)?;
        Ok(Self::new(url, DbBackend::Sqlite, read, write, None))
    }

    fn new(
        url: &str,
        backend: DbBackend,
        read: DatabaseConnection,
        write: DatabaseConnection,
        limit: Option<Duration>,
    ) -> Self {
        let (read, write) = (Patient { connection: read, limit }, Patient { connection: write, limit });
        let (changes, _) = watch::channel(0);
        let claims = tokio::sync::Mutex::new(());
        let publishing = Publishing::default();
        Self { inner: Arc::new(Inner { url: url.to_owned(), backend, read, write, claims, changes, publishing }) }
    }

    pub(crate) fn publishing(&self) -> &Publishing {
        &self.inner.publishing
    }

    pub fn backend(&self) -> Backend {
        match self.inner.backend {
            DbBackend::Sqlite => Backend::Sqlite,
            _ => Backend::MySql,
        }
    }

    /// Closes every connection. Later calls fail.
    pub async fn close(&self) -> Result<()> {
        self.inner.read.connection.close_by_ref().await.map_err(Failure::from)?;
        Ok(self.inner.write.connection.close_by_ref().await.map_err(Failure::from)?)
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<()> {
        let read = &self.inner.read;
        Ok(read.statement(read.connection.ping()).await.map_err(Failure::from)?)
    }

    /// Changes whenever this process committed something. Other processes are not seen: poll for those.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    pub(crate) fn reader(&self) -> &Patient {
        &self.inner.read
    }

    pub(crate) fn claims(&self) -> &tokio::sync::Mutex<()> {
        &self.inner.claims
    }

    /// A pool of one connection, for what belongs to a connection rather than to a transaction.
    pub(crate) async fn lone_connection(&self) -> Result<DatabaseConnection> {
        open(mysql_options(&self.inner.url, 1, self.inner.read.limit.unwrap_or(CONNECT_TIMEOUT))).await
    }

    /// Runs `body` in one transaction: all of it is stored, or nothing.
    ///
    /// `body` may run several times and must have no effect beside the transaction. It is a function that boxes its future
    /// because the future of an async closure is not known to be `Send`, so that nobody could spawn what writes.
    pub(crate) async fn write<'env, T: Send>(&self, body: impl Body<'env, T>) -> Result<T> {
        let mut tries = 0;
        loop {
            match self.attempt(&body).await {
                Err(Failure::Database(error)) if is_contention(&error) && tries < CONTENTION_RETRIES => {
                    tokio::time::sleep(backoff(tries)).await;
                    tries += 1;
                }
                Ok(value) => {
                    self.inner.changes.send_modify(|count| *count = count.wrapping_add(1));
                    return Ok(value);
                }
                Err(failure) => {
                    if matches!(&failure, Failure::Database(error) if may_end_transaction(error)) {
                        self.renew_writer().await;
                    }
                    return Err(failure.into());
                }
            }
        }
    }

    /// Closes the writing connection of a database file; the next transaction opens a new one, with nothing left open in it.
    async fn renew_writer(&self) {
        // A database in memory would be gone with its connection.
        if self.inner.backend != DbBackend::Sqlite || self.inner.url == "sqlite::memory:" {
            return;
        }
        let closed = match self.inner.write.connection.get_sqlite_connection_pool().acquire().await {
            Ok(connection) => connection.close().await,
            Err(error) => Err(error),
        };
        if let Err(error) = closed {
            tracing::warn!(%error, "the database's writing connection cannot be renewed");
        }
    }

    async fn attempt<'env, T: Send>(&self, body: &impl Body<'env, T>) -> Work<T> {
        let immediate = TransactionOptions {
            sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
            ..Default::default()
        };
        let write = &self.inner.write;
        let transaction = write.statement(write.connection.begin_with_options(immediate)).await?;
        match write.transaction(body(&transaction, PhantomData)).await {
            Ok(value) => {
                write.statement(transaction.commit()).await?;
                Ok(value)
            }
            Err(failure) => {
                // The failure says more than what the rollback could; a connection that is gone rolls back by itself.
                if let Err(error) = write.statement(transaction.rollback()).await {
                    tracing::debug!(%error, "a rollback was not acknowledged");
                }
                Err(failure)
            }
        }
    }
}

fn sqlite_path(url: &str) -> Option<&str> {
    url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:"))
}

/// The file of a database that is one.
pub fn sqlite_file(url: &str) -> Option<&Path> {
    sqlite_path(url).filter(|path| *path != ":memory:").map(Path::new)
}

/// A database's address as it may be shown: with `***` in the place of a password, and of whatever follows the path, where
/// a password may stand as well.
pub fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    // A password that was not percent-encoded may hold any of `@/?`; the host comes after the last `@`.
    let (user, rest) = match rest.rsplit_once('@') {
        Some((credentials, rest)) => match credentials.split_once(':') {
            Some((user, _)) => (format!("{user}:***@"), rest),
            None => (format!("{credentials}@"), rest),
        },
        None => (String::new(), rest),
    };
    let rest = rest.split_once('?').map_or_else(|| rest.to_owned(), |(rest, _)| format!("{rest}?***"));
    format!("{scheme}://{user}{rest}")
}

/// What happens inside a transaction. `'env` is the lifetime of what it borrows from outside; the second argument only says
/// that this outlives the transaction.
pub(crate) trait Body<'env, T>:
    for<'tx> Fn(&'tx DatabaseTransaction, PhantomData<&'tx &'env ()>) -> BoxFuture<'tx, Work<T>> + Send + Sync
{
}

impl<'env, T, F> Body<'env, T> for F where
    F: for<'tx> Fn(&'tx DatabaseTransaction, PhantomData<&'tx &'env ()>) -> BoxFuture<'tx, Work<T>> + Send + Sync
{
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The address may hold a password.
        f.debug_struct("Store").field("backend", &self.backend()).finish_non_exhaustive()
    }
}

/// Grows with each try and differs between processes, so that those who met once do not meet again.
fn backoff(tries: u32) -> Duration {
    let spread = u64::from(uuid::Uuid::new_v4().as_bytes()[0]);
    Duration::from_micros((500 << tries.min(6)) + spread * 20)
}

async fn open(options: ConnectOptions) -> Result<DatabaseConnection> {
    Database::connect(options).await.map_err(|error: DbErr| Problem::from(Failure::from(error)))
}

/// Turning the journal to WAL does not wait for another process that does the same: it is tried again here.
async fn open_writer(file: &Path) -> Result<DatabaseConnection> {
    let start = Instant::now();
    let mut tries = 0;
    loop {
        match open(sqlite_options(Some(file), 1, false)).await {
            Err(problem) if problem.code == "store.busy" && start.elapsed() < BUSY_TIMEOUT => {
                tokio::time::sleep(backoff(tries)).await;
                tries += 1;
            }
            other => return other,
        }
    }
}

fn sqlite_options(file: Option<&Path>, connections: u32, read_only: bool) -> ConnectOptions {
    let mut options = ConnectOptions::new(if file.is_some() { "sqlite:file" } else { "sqlite::memory:" });
    let file = file.map(Path::to_owned);
    options
        .max_connections(connections)
        .min_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .sqlx_logging(false)
        .map_sqlx_sqlite_opts(move |sqlite| {
            let sqlite = match &file {
                Some(file) => sqlite.filename(file).create_if_missing(true).journal_mode(SqliteJournalMode::Wal),
                None => sqlite,
            };
            let sqlite = sqlite.synchronous(SqliteSynchronous::Full).busy_timeout(BUSY_TIMEOUT).foreign_keys(true);
            if read_only { sqlite.pragma("query_only", "ON") } else { sqlite }
        });
    options
}

/// Strict on purpose, whatever the server's own configuration says: a value that does not fit is an error.
const SESSION: [&str; 2] = [
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO', \
     SESSION innodb_lock_wait_timeout = 10",
];

fn mysql_options(url: &str, connections: u32, limit: Duration) -> ConnectOptions {
    let mut options = ConnectOptions::new(url);
    options
        .max_connections(connections)
        .min_connections(1)
        .connect_timeout(limit)
        .acquire_timeout(limit)
        .test_before_acquire(false)
        .test_before_acquire_if_idle_for(Duration::from_secs(30))
        .sqlx_logging(false)
        .map_sqlx_mysql_pool_opts(|pool| {
            pool.after_connect(|connection, _| {
                Box::pin(async move {
                    for statement in SESSION {
                        connection.execute(statement).await?;
                    }
                    Ok(())
                })
            })
        });
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_password_is_shown() {
        let check = |url: &str, expect: &str| assert_eq!(redacted(url), expect);
        check("mysql://aegis:pa55@db:3306/aegis", "mysql://aegis:***@db:3306/aegis");
        check("mysql://aegis:p@/5?s@db/aegis", "mysql://aegis:***@db/aegis");
        check("mysql://aegis:p@/5s@db/aegis?password=x", "mysql://aegis:***@db/aegis?***");
        check("mysql://aegis@db/aegis", "mysql://aegis@db/aegis");
        check("mysql://db/aegis", "mysql://db/aegis");
        check("sqlite:/var/lib/aegis.db", "sqlite:/var/lib/aegis.db");
    }
}
