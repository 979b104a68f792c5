//! Reading from a database server that may not answer: every statement has an end.
//!
//! A server that stands still keeps its connections open, so nothing but a clock of our own ends the wait.

use std::time::Duration;

use async_trait::async_trait;
use sea_orm::{
    ConnAcquireErr, ConnectionTrait, DatabaseConnection, DbBackend, DbErr, ExecResult, QueryResult, Statement,
};

/// How often longer than one statement a whole transaction may take.
const STATEMENTS: u32 = 6;

/// A connection whose statements end in time.
pub(crate) struct Patient {
    pub connection: DatabaseConnection,
    /// Absent for a database file: waiting for another process's lock is bounded there by the file's own time-out.
    pub limit: Option<Duration>,
}

impl Patient {
    pub(crate) async fn statement<T>(&self, answer: impl Future<Output = Result<T, DbErr>>) -> Result<T, DbErr> {
        within(self.limit, answer).await
    }

    pub(crate) async fn transaction<T, E: From<DbErr>>(
        &self,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        within(self.limit.map(|limit| limit * STATEMENTS), answer).await
    }
}

async fn within<T, E: From<DbErr>>(
    limit: Option<Duration>,
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let Some(limit) = limit else { return answer.await };
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(DbErr::ConnectionAcquire(ConnAcquireErr::Timeout).into()),
    }
}

#[async_trait]
impl ConnectionTrait for Patient {
    fn get_database_backend(&self) -> DbBackend {
        self.connection.get_database_backend()
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.statement(self.connection.execute_raw(statement)).await
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        self.statement(self.connection.execute_unprepared(sql)).await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.statement(self.connection.query_one_raw(statement)).await
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.statement(self.connection.query_all_raw(statement)).await
    }
}
