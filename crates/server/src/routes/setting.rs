//! Runtime settings.

use api::setting::{
    AdoptRequest, Change, ChangeQuery, Changes, DiscardRequest, Restored, RollbackRequest, SetRequest, Setting,
    SettingQuery, Status, Tree,
};
use api::{Envelope, ErrorData, Page};
use axum::extract::State;

use crate::app::App;
use crate::extract::{Body, Params, Segment};
use crate::reply::{Answer, Reply};

/// List the declared keys with their live values
#[utoipa::path(get, path = "/settings", tag = "settings", params(SettingQuery), responses((status = 200, body = Envelope<Page<Setting>>)))]
pub async fn list(State(app): State<App>, Params(query): Params<SettingQuery>) -> Answer<Page<Setting>> {
    Ok(Reply::ok(app.settings(&query).await?))
}

/// Show how settings stand: what every process applies, and what was found where live values are published
#[utoipa::path(get, path = "/settings/status", tag = "settings", responses((status = 200, body = Envelope<Status>)))]
pub async fn status(State(app): State<App>) -> Answer<Status> {
    Ok(Reply::ok(app.settings_status().await?))
}

/// Changes of live values after a revision; waits for one when asked to
#[utoipa::path(get, path = "/settings/changes", tag = "settings", params(ChangeQuery), responses((status = 200, body = Envelope<Changes>)))]
pub async fn changes(State(app): State<App>, Params(query): Params<ChangeQuery>) -> Answer<Changes> {
    Ok(Reply::ok(app.setting_changes(&query).await?))
}

/// Show both sides of every key before adopting a tree of somebody else
#[utoipa::path(get, path = "/settings/tree", tag = "settings", responses((status = 200, body = Envelope<Tree>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn tree(State(app): State<App>) -> Answer<Tree> {
    Ok(Reply::ok(app.settings_tree().await?))
}

/// Adopt a tree that this installation did not write, as it was looked at
#[utoipa::path(post, path = "/settings/adopt", tag = "settings", request_body = AdoptRequest, responses((status = 200, body = Envelope<Status>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn adopt(State(app): State<App>, Body(request): Body<AdoptRequest>) -> Answer<Status> {
    Ok(Reply::ok(app.adopt_settings(&request).await?))
}

/// Put back every key that went missing
#[utoipa::path(post, path = "/settings/restore", tag = "settings", responses((status = 200, body = Envelope<Restored>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn restore(State(app): State<App>) -> Answer<Restored> {
    Ok(Reply::ok(app.restore_settings().await?))
}

/// Delete what stands where nothing reads it
#[utoipa::path(post, path = "/settings/discard", tag = "settings", request_body = DiscardRequest, responses((status = 200, body = Envelope<Restored>), (status = 404, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn discard(State(app): State<App>, Body(request): Body<DiscardRequest>) -> Answer<Restored> {
    Ok(Reply::ok(app.discard_settings(&request).await?))
}

/// Show one key
#[utoipa::path(get, path = "/settings/{key}", tag = "settings", params(("key" = String, Path)), responses((status = 200, body = Envelope<Setting>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn show(State(app): State<App>, Segment(key): Segment) -> Answer<Setting> {
    Ok(Reply::ok(app.setting(&key).await?))
}

/// Set a key
#[utoipa::path(put, path = "/settings/{key}", tag = "settings", params(("key" = String, Path)), request_body = SetRequest, responses((status = 200, body = Envelope<Setting>), (status = 400, body = Envelope<ErrorData>), (status = 404, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn set(State(app): State<App>, Segment(key): Segment, Body(request): Body<SetRequest>) -> Answer<Setting> {
    Ok(Reply::ok(app.set_setting(&key, &request).await?))
}

/// The changes of a key, newest first
#[utoipa::path(get, path = "/settings/{key}/history", tag = "settings", params(("key" = String, Path)), responses((status = 200, body = Envelope<Vec<Change>>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn history(State(app): State<App>, Segment(key): Segment) -> Answer<Vec<Change>> {
    Ok(Reply::ok(app.setting_history(&key).await?))
}

/// Set a key to what it was after an earlier change
#[utoipa::path(post, path = "/settings/{key}/rollback", tag = "settings", params(("key" = String, Path)), request_body = RollbackRequest, responses((status = 200, body = Envelope<Setting>), (status = 404, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn roll_back(
    State(app): State<App>,
    Segment(key): Segment,
    Body(request): Body<RollbackRequest>,
) -> Answer<Setting> {
    Ok(Reply::ok(app.roll_back_setting(&key, &request).await?))
}
