//! Steps of runs.

use api::task::{LogLine, Task, TaskDetail, TaskQuery};
use api::{Envelope, ErrorData, Page};
use axum::extract::State;

use crate::app::App;
use crate::extract::{Params, Segment, task_id};
use crate::reply::{Answer, Reply};

/// List tasks, newest first
#[utoipa::path(get, path = "/tasks", tag = "tasks", params(TaskQuery), responses((status = 200, body = Envelope<Page<Task>>)))]
pub async fn list(State(app): State<App>, Params(query): Params<TaskQuery>) -> Answer<Page<Task>> {
    Ok(Reply::ok(app.tasks(&query).await?))
}

/// Show one task with its log
#[utoipa::path(get, path = "/tasks/{id}", tag = "tasks", params(("id" = String, Path)), responses((status = 200, body = Envelope<TaskDetail>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn show(State(app): State<App>, Segment(id): Segment) -> Answer<TaskDetail> {
    Ok(Reply::ok(app.task(task_id(&id)?).await?))
}

/// The log of one task
#[utoipa::path(get, path = "/tasks/{id}/logs", tag = "tasks", params(("id" = String, Path)), responses((status = 200, body = Envelope<Vec<LogLine>>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn logs(State(app): State<App>, Segment(id): Segment) -> Answer<Vec<LogLine>> {
    Ok(Reply::ok(app.task_logs(task_id(&id)?).await?))
}
