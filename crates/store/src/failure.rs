//! What can go wrong inside a transaction, and how a database's error becomes a `Problem`.

use std::ops::Deref;

use model::{ErrorKind, IllegalTransition, Problem};
use sea_orm::sqlx::Error as SqlxError;
use sea_orm::{DbErr, RuntimeErr, SqlErr, SqlxMySqlError};

/// The result of work inside a transaction. Kept apart from `Problem` so that a retry can still see the database's error.
pub(crate) type Work<T> = Result<T, Failure>;

#[derive(Debug)]
pub(crate) enum Failure {
    Database(DbErr),
    Problem(Problem),
}

impl From<DbErr> for Failure {
    fn from(error: DbErr) -> Self {
        Self::Database(error)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<IllegalTransition> for Failure {
    fn from(error: IllegalTransition) -> Self {
        let problem = Problem::new(ErrorKind::Conflict, "state.illegal_change", "the change of state is not legal");
        Self::Problem(problem.found(format!("{} {}", error.machine, error.from)).expected(error.to_string()))
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Problem(problem) => problem,
            Failure::Database(error) => problem(error),
        }
    }
}

/// The error number of MySQL or MariaDB, or SQLite's extended result code.
enum Number {
    MySql(u16),
    Sqlite(i32),
}

fn driver_error(error: &DbErr) -> Option<&SqlxError> {
    match error {
        DbErr::Conn(RuntimeErr::SqlxError(inner))
        | DbErr::Exec(RuntimeErr::SqlxError(inner))
        | DbErr::Query(RuntimeErr::SqlxError(inner)) => Some(inner.deref()),
        _ => None,
    }
}

fn number(error: &DbErr) -> Option<Number> {
    let SqlxError::Database(inner) = driver_error(error)? else { return None };
    if let Some(mysql) = inner.try_downcast_ref::<SqlxMySqlError>() {
        return Some(Number::MySql(mysql.number()));
    }
    inner.code().and_then(|code| code.parse().ok()).map(Number::Sqlite)
}

/// Whether the whole transaction lost against another one and may simply be repeated: a deadlock (1213) or a lock that
/// was not granted in time (1205).
pub(crate) fn is_contention(error: &DbErr) -> bool {
    matches!(number(error), Some(Number::MySql(1213 | 1205)))
}

/// Whether SQLite may have ended the transaction by itself (out of memory, read or write failed, disk full), which the
/// driver does not notice: it then counts a transaction that is not there.
pub(crate) fn may_end_transaction(error: &DbErr) -> bool {
    matches!(number(error), Some(Number::Sqlite(code)) if matches!(code & 0xff, 7 | 10 | 13))
}

/// Whether a unique key refused the row.
pub(crate) fn is_duplicate(error: &DbErr) -> bool {
    matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_)))
}

/// Whether the index (1061) or the column (1060) that a migration step wants to make is there already.
pub(crate) fn is_made_already(error: &DbErr) -> bool {
    matches!(number(error), Some(Number::MySql(1060 | 1061)))
}

/// Whether a table is not there.
pub(crate) fn is_missing_table(error: &DbErr) -> bool {
    match number(error) {
        Some(Number::MySql(code)) => code == 1146,
        Some(Number::Sqlite(_)) => error.to_string().contains("no such table"),
        None => false,
    }
}

fn problem(error: DbErr) -> Problem {
    let unavailable = |code, message: &str, fix: &str| Problem::new(ErrorKind::Unavailable, code, message).fix(fix);
    let problem = match number(&error) {
        Some(Number::MySql(1213 | 1205)) => unavailable(
            "store.contended",
            "the database did not let the transaction through in time",
            "repeat the call; if it goes on, look for a long transaction in the database",
        ),
        Some(Number::Sqlite(code)) if matches!(code & 0xff, 5 | 6) => unavailable(
            "store.busy",
            "another process holds the database for too long",
            "repeat the call; if it goes on, look for a process that keeps the file locked",
        ),
        Some(Number::Sqlite(code)) if code & 0xff == 13 => unavailable(
            "store.disk_full",
            "the disk of the database is full",
            "make room on the disk that holds the data folder",
        ),
        Some(Number::MySql(1114 | 1021)) => {
            unavailable("store.disk_full", "the disk of the database is full", "make room on the database's disk")
        }
        Some(Number::Sqlite(code)) if code & 0xff == 8 => unavailable(
            "store.read_only",
            "the database cannot be written",
            "make the data folder writable for the user that runs Aegis",
        ),
        Some(Number::Sqlite(code)) if matches!(code & 0xff, 10 | 14) => unavailable(
            "store.unreadable",
            "the database file cannot be opened or written",
            "check the data folder: it must exist, be writable and have room",
        ),
        Some(Number::Sqlite(code)) if matches!(code & 0xff, 11 | 26) => {
            Problem::new(ErrorKind::Unavailable, "store.damaged", "the file is no database, or it is damaged")
                .fix("restore it from a backup, or move it away to start with an empty one")
        }
        Some(Number::MySql(1044 | 1045 | 1049 | 1142 | 1698)) => unavailable(
            "store.refused",
            "the database refuses the connection",
            "check user, password, database name and rights in the database's address",
        ),
        Some(Number::MySql(1406)) => Problem::new(
            ErrorKind::Invalid,
            "store.text_too_long",
            "a text is longer than what can be stored of its kind",
        )
        .fix("shorten it"),
        _ if is_missing_table(&error) => Problem::new(
            ErrorKind::Unavailable,
            "store.not_migrated",
            "the database has no tables of Aegis, or not all of them",
        )
        .fix("run `aegis migrate`"),
        _ if is_connection(&error) => unavailable(
            "store.unreachable",
            "the database does not answer",
            "check that the database runs and that its address is right",
        ),
        _ => Problem::internal("store.failed", "the database refused a statement"),
    };
    problem.cause(error)
}

fn is_connection(error: &DbErr) -> bool {
    matches!(error, DbErr::Conn(_) | DbErr::ConnectionAcquire(_))
        || matches!(
            driver_error(error),
            Some(SqlxError::Io(_) | SqlxError::PoolTimedOut | SqlxError::PoolClosed | SqlxError::WorkerCrashed)
        )
}

/// A value in the database that this version cannot read.
pub(crate) fn corrupt(what: &str, found: impl std::fmt::Display) -> Failure {
    Problem::internal("store.corrupt", format!("a stored {what} cannot be read")).found(found.to_string()).into()
}

/// The row changed between reading and writing it although it was locked, or it is gone.
pub(crate) fn lost(what: &str) -> Failure {
    let problem = Problem::new(ErrorKind::Conflict, "state.changed_meanwhile", format!("the {what} changed meanwhile"));
    problem.fix("read it again and repeat the call").into()
}
