//! Bringing the schema up to date: forward only, each step once, safe when several processes start at the same time.
//!
//! On SQLite each step is one immediate transaction. MariaDB's DDL commits at once, so there a lock that belongs to one
//! connection of its own is held over all steps; the server drops it when that connection ends.

use std::collections::HashSet;
use std::time::Duration;

use model::{ErrorKind, Problem, Result, WallTime};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement};

use crate::connect::{Backend, Store};
use crate::failure::{Failure, Work, is_made_already, is_missing_table};
use crate::migration::{self, Step};

/// How long a process waits for another one that migrates the same database.
const LOCK_WAIT: Duration = Duration::from_secs(120);
/// The project that runs belong to when nobody names one.
pub const DEFAULT_PROJECT: &str = "default";

const LEDGER: &str = "CREATE TABLE IF NOT EXISTS schema_steps (
    name VARCHAR(128) NOT NULL PRIMARY KEY,
    applied_at BIGINT NOT NULL
){tail}";

impl Store {
    /// Applies the schema's missing steps and returns their names; an empty list when there was nothing to do.
    ///
    /// # Errors
    /// `store.schema_newer` when the database was migrated by a newer version; `store.migration_waits` when another
    /// process holds the migration's lock for too long.
    pub async fn migrate(&self) -> Result<Vec<&'static str>> {
        let applied = match self.backend() {
            Backend::Sqlite => self.migrate_sqlite().await?,
            Backend::MySql => self.migrate_mysql().await?,
        };
        self.ensure_project(DEFAULT_PROJECT, "Runs that name no project").await?;
        self.installation().await?;
        Ok(applied)
    }

    /// The steps that the database still lacks; all of them when it is empty.
    ///
    /// # Errors
    /// `store.schema_newer` as for [`Store::migrate`].
    pub async fn pending_migrations(&self) -> Result<Vec<&'static str>> {
        let done = applied(self.reader()).await?;
        Ok(migration::steps().map(|step| step.name).filter(|name| !done.contains(*name)).collect())
    }

    async fn migrate_sqlite(&self) -> Result<Vec<&'static str>> {
        let ledger = &render(LEDGER, DbBackend::Sqlite);
        self.write(|tx, _| {
            Box::pin(async move {
                refuse_foreign(tx).await?;
                Ok(tx.execute_unprepared(ledger).await?)
            })
        })
        .await?;
        let mut now_applied = Vec::new();
        if self.pending_migrations().await?.is_empty() {
            return Ok(now_applied);
        }
        for step in migration::steps() {
            let sql = &render(step.sqlite.unwrap_or(step.sql), DbBackend::Sqlite);
            let fresh = self
                .write(|tx, _| {
                    Box::pin(async move {
                        if is_recorded(tx, step).await? {
                            return Ok(false);
                        }
                        tx.execute_unprepared(sql).await?;
                        record(tx, step).await?;
                        Ok(true)
                    })
                })
                .await?;
            if fresh {
                now_applied.push(step.name);
            }
        }
        Ok(now_applied)
    }

    async fn migrate_mysql(&self) -> Result<Vec<&'static str>> {
        let lone = self.lone_connection().await?;
        let outcome = migrate_locked(&lone).await;
        // Closing the only connection gives the lock back, whatever happened.
        lone.close().await.map_err(Failure::from)?;
        Ok(outcome?)
    }
}

async fn migrate_locked(lone: &DatabaseConnection) -> Work<Vec<&'static str>> {
    take_lock(lone).await?;
    refuse_foreign(lone).await?;
    lone.execute_unprepared(&render(LEDGER, DbBackend::MySql)).await?;
    let done = applied(lone).await?;
    let mut now_applied = Vec::new();
    for step in migration::steps().filter(|step| !done.contains(step.name)) {
        match lone.execute_unprepared(&render(step.sql, DbBackend::MySql)).await {
            Ok(_) => {}
            // The step ran before, and the process ended before it could be recorded.
            Err(error) if is_made_already(&error) => {}
            Err(error) => return Err(error.into()),
        }
        record(lone, step).await?;
        now_applied.push(step.name);
    }
    Ok(now_applied)
}

/// The lock's name holds the database's name, since the server's locks are shared by all its databases.
async fn take_lock(lone: &DatabaseConnection) -> Work<()> {
    let sql = format!("SELECT GET_LOCK(CONCAT('aegis.migrate.', MD5(DATABASE())), {}) AS taken", LOCK_WAIT.as_secs());
    let row = lone.query_one_raw(Statement::from_string(DbBackend::MySql, sql)).await?;
    let taken = row.map(|row| row.try_get::<Option<i64>>("", "taken")).transpose()?.flatten();
    if taken == Some(1) {
        return Ok(());
    }
    Err(Problem::new(
        ErrorKind::Unavailable,
        "store.migration_waits",
        "another process migrates the same database and does not end",
    )
    .expected(format!("its end within {} s", LOCK_WAIT.as_secs()))
    .fix("end that process, then start again")
    .into())
}

/// Refuses a database that somebody else uses: it has tables, and not the one that says which steps were applied.
async fn refuse_foreign(db: &impl ConnectionTrait) -> Work<()> {
    let backend = db.get_database_backend();
    let sql = match backend {
        DbBackend::Sqlite => "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'",
        _ => "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = DATABASE()",
    };
    let rows = db.query_all_raw(Statement::from_string(backend, sql)).await?;
    let mut names = rows.iter().map(|row| row.try_get("", "name")).collect::<Result<Vec<String>, DbErr>>()?;
    if names.is_empty() || names.iter().any(|name| name == "schema_steps") {
        return Ok(());
    }
    names.sort_unstable();
    let message = "the database holds tables that Aegis did not make, so nothing is written into it";
    Err(Problem::new(ErrorKind::Conflict, "store.foreign_database", message)
        .found(format!("{} tables, such as {}", names.len(), names[..names.len().min(3)].join(", ")))
        .expected("an empty database, or one of an earlier version of Aegis")
        .fix("make an empty one and name it in `store`")
        .into())
}

/// Names of the steps that were applied; none when the ledger is not there.
async fn applied(db: &impl ConnectionTrait) -> Work<HashSet<String>> {
    let statement = Statement::from_string(db.get_database_backend(), "SELECT name FROM schema_steps");
    let rows = match db.query_all_raw(statement).await {
        Err(error) if is_missing_table(&error) => return Ok(HashSet::new()),
        other => other?,
    };
    let names = rows.iter().map(|row| row.try_get("", "name")).collect::<Result<HashSet<String>, DbErr>>()?;
    let known: HashSet<&str> = migration::steps().map(|step| step.name).collect();
    let mut unknown: Vec<&str> = names.iter().map(String::as_str).filter(|name| !known.contains(name)).collect();
    unknown.sort_unstable();
    match unknown.first() {
        None => Ok(names),
        Some(name) => Err(Problem::new(
            ErrorKind::Conflict,
            "store.schema_newer",
            "the database was migrated by a newer version of Aegis",
        )
        .found(format!("{} unknown steps, the first is `{name}`", unknown.len()))
        .expected(format!("only the {} steps that this version knows", migration::steps().len()))
        .fix("use the newer version")
        .into()),
    }
}

async fn is_recorded(db: &impl ConnectionTrait, step: &Step) -> Work<bool> {
    let sql = "SELECT name FROM schema_steps WHERE name = ?";
    let statement = Statement::from_sql_and_values(db.get_database_backend(), sql, [step.name.into()]);
    Ok(db.query_one_raw(statement).await?.is_some())
}

async fn record(db: &impl ConnectionTrait, step: &Step) -> Work<()> {
    let sql = "INSERT INTO schema_steps (name, applied_at) VALUES (?, ?)";
    let values = [step.name.into(), WallTime::now().0.into()];
    db.execute_raw(Statement::from_sql_and_values(db.get_database_backend(), sql, values)).await?;
    Ok(())
}

/// Fills in what the back ends spell differently.
fn render(sql: &str, backend: DbBackend) -> String {
    match backend {
        DbBackend::Sqlite => sql
            .replace("{serial}", "INTEGER PRIMARY KEY AUTOINCREMENT")
            .replace("{big_serial}", "INTEGER PRIMARY KEY AUTOINCREMENT")
            .replace("{tail}", "")
            .replace("CREATE INDEX ", "CREATE INDEX IF NOT EXISTS "),
        _ => sql
            .replace("{serial}", "INTEGER NOT NULL AUTO_INCREMENT PRIMARY KEY")
            .replace("{big_serial}", "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY")
            .replace("{tail}", " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"),
    }
}

#[cfg(test)]
mod tests {
    use sea_orm::{ConnectOptions, ConnectionTrait, Database, DbBackend};

    use super::render;
    use crate::migration;

    #[tokio::test]
    async fn two_processes_may_take_the_steps_in_turn() {
        for first in 0..2 {
            let folder = tempfile::tempdir().unwrap();
            let mut options = ConnectOptions::new(format!("sqlite:{}?mode=rwc", folder.path().join("db").display()));
            // Each connection remembers the schema as it saw it last.
            options.max_connections(1);
            let processes =
                [Database::connect(options.clone()).await.unwrap(), Database::connect(options).await.unwrap()];
            for (step, turn) in migration::steps().zip(first..) {
                let sql = render(step.sqlite.unwrap_or(step.sql), DbBackend::Sqlite);
                let done = processes[turn % 2].execute_unprepared(&sql).await;
                done.unwrap_or_else(|error| panic!("{}: {error}", step.name));
            }
        }
    }
}
