//! The kill switch.

use api::Envelope;
use api::kill_switch::{KillSwitch, KillSwitchRequest};
use axum::Extension;
use axum::extract::State;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::Body;
use crate::reply::{Answer, Reply};

/// How the kill switch stands, and which faults are on
#[utoipa::path(get, path = "/kill-switch", tag = "faults", responses((status = 200, body = Envelope<KillSwitch>)))]
pub async fn show(State(app): State<App>) -> Answer<KillSwitch> {
    Ok(Reply::ok(app.kill_switch().await?))
}

/// Turn the kill switch: while it is on, no fault is injected and every live one is recovered
#[utoipa::path(put, path = "/kill-switch", tag = "faults", request_body = KillSwitchRequest, responses((status = 200, body = Envelope<KillSwitch>)))]
pub async fn set(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<KillSwitchRequest>,
) -> Answer<KillSwitch> {
    Ok(Reply::ok(app.set_kill_switch(&request, &caller.profile().username).await?))
}
