//! The scored board.

use api::board::{Board, BoardQuery};
use api::{Envelope, ErrorData};
use axum::extract::State;

use crate::app::App;
use crate::extract::Params;
use crate::reply::{Answer, Reply};

/// Scores of every algorithm over the datapacks of this installation
#[utoipa::path(get, path = "/board", tag = "algorithms", params(BoardQuery), responses((status = 200, body = Envelope<Board>), (status = 400, body = Envelope<ErrorData>)))]
pub async fn board(State(app): State<App>, Params(query): Params<BoardQuery>) -> Answer<Board> {
    Ok(Reply::ok(app.board(&query).await?))
}
