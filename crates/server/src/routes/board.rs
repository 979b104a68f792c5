//! The scored board.

use api::board::{Board, BoardQuery, ExportQuery};
use api::{Envelope, ErrorData};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::extract::Params;
use crate::reply::{Answer, Refusal, Reply};

/// Scores of every algorithm over the datapacks of this installation
#[utoipa::path(get, path = "/board", tag = "algorithms", params(BoardQuery), responses((status = 200, body = Envelope<Board>), (status = 400, body = Envelope<ErrorData>)))]
pub async fn board(State(app): State<App>, Params(query): Params<BoardQuery>) -> Answer<Board> {
    Ok(Reply::ok(app.board(&query).await?))
}

/// The board as Markdown, CSV or a picture
#[utoipa::path(get, path = "/board/export", tag = "algorithms", params(ExportQuery), responses((status = 200, content_type = "text/plain"), (status = 400, body = Envelope<ErrorData>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn export(State(app): State<App>, Params(query): Params<ExportQuery>) -> Result<Response, Refusal> {
    let board = app.board_document(&query).await?;
    let disposition = format!("inline; filename=\"{}\"", board.file_name);
    let headers = [(header::CONTENT_TYPE, board.content_type.to_owned()), (header::CONTENT_DISPOSITION, disposition)];
    Ok((headers, board.content).into_response())
}
