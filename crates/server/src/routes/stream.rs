//! The event stream of a run.

use std::convert::Infallible;
use std::time::Duration;

use api::event::{END, Event, LONGEST_LINE, UPDATE};
use api::{Envelope, ErrorData};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use futures::{Stream, stream};
use model::{ErrorKind, Problem, RunId};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::app::event::Batch;
use crate::extract::{Params, Segment};
use crate::reply::Refusal;

/// Time between two comments on a stream that has nothing to say.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Where a stream starts.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct From {
    /// Number of the newest event that the caller has; the header `Last-Event-ID` wins.
    last_id: Option<String>,
}

/// Follow a run: its events so far and as they come, then one frame `end` with its state
#[utoipa::path(get, path = "/traces/{id}/stream", tag = "runs", params(("id" = String, Path), From, ("Last-Event-ID" = Option<String>, Header)), responses((status = 200, content_type = "text/event-stream", body = Event), (status = 404, body = Envelope<ErrorData>)))]
pub async fn stream(
    State(app): State<App>,
    Segment(id): Segment,
    Params(from): Params<From>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Refusal> {
    let id = app.find_run(&id).await?;
    let header = headers.get("last-event-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let after = number(header.or(from.last_id).as_deref())?;
    app.require_run(id).await?;
    let frames = frames(app, id, after);
    Ok(Sse::new(frames).keep_alive(KeepAlive::new().interval(HEARTBEAT)))
}

/// `0`, absent, or a number; the public form `<milliseconds>-<n>` has no meaning here and starts at the beginning.
fn number(text: Option<&str>) -> model::Result<i64> {
    let text = text.unwrap_or_default();
    if text.is_empty() || text.contains('-') {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        Problem::new(ErrorKind::Invalid, "event.id_malformed", "this is not an event's number")
            .place("Last-Event-ID")
            .found(format!("`{text}`"))
            .expected("a whole number")
    })
}

fn frames(app: App, run: RunId, after: i64) -> impl Stream<Item = Result<Frame, Infallible>> {
    let batches = stream::unfold(Some((app, after)), move |state| async move {
        let (app, after) = state?;
        match app.next_events(run, after).await {
            Ok(Batch::Events(events)) => {
                let last = events.last().map_or(after, |(number, _)| *number);
                Some((events.iter().map(|(number, event)| update(*number, event)).collect(), Some((app, last))))
            }
            Ok(Batch::End(end)) => {
                let frame = Frame::default().event(END).json_data(&end).expect("a plain struct is always JSON");
                Some((vec![frame], None))
            }
            // The caller reconnects with the last number it has; a broken store must not look like an end.
            Ok(Batch::Closing) => None,
            Err(problem) => {
                tracing::error!(%run, "the event stream is cut: {}", problem.chain());
                None
            }
        }
    });
    futures::StreamExt::flat_map(batches, |frames: Vec<Frame>| stream::iter(frames.into_iter().map(Ok)))
}

fn update(number: i64, event: &Event) -> Frame {
    let json = |event: &Event| serde_json::to_string(event).expect("a plain struct is always JSON");
    let mut text = json(event);
    if text.len() > LONGEST_LINE {
        let short = Event { payload: None, ..event.clone() };
        text = json(&short);
    }
    Frame::default().id(number.to_string()).event(UPDATE).data(text)
}
