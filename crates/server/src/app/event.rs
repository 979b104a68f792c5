//! The events of a run as a stream: what is stored, in order, then the end.

use std::time::Duration;

use ::api::event::{End, Event};
use model::{Result, RunId};

use super::App;

/// Events that are read at once.
const AT_ONCE: u64 = 200;
/// How soon a stream looks again when this process made no change: another process may have.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// What comes next on a stream.
pub enum Batch {
    /// Events with their numbers, at least one.
    Events(Vec<(i64, Event)>),
    End(End),
    /// The server stops; the reader connects again later.
    Closing,
}

impl App {
    /// Waits for the events after number `after`, or for the run's end.
    ///
    /// # Errors
    /// `run.unknown`, and whatever the store fails with.
    pub async fn next_events(&self, run: RunId, after: i64) -> Result<Batch> {
        let mut closing = self.closing();
        let mut changes = self.store().changes();
        loop {
            changes.borrow_and_update();
            // The state is read before the events: what a terminal run tells is then all there.
            let state = self.store().run(run).await?;
            let events = self.store().events_after(run, after, AT_ONCE).await?;
            if !events.is_empty() {
                return Ok(Batch::Events(events.into_iter().map(|event| (event.number, wire(event))).collect()));
            }
            if state.state.is_terminal() {
                return Ok(Batch::End(End {
                    state: state.state,
                    trace_id: Some(run),
                    verdict: state.verdict,
                    reason: state.reason,
                    message: state.message,
                }));
            }
            tokio::select! {
                _ = closing.wait_for(|closing| *closing) => return Ok(Batch::Closing),
                _ = changes.changed() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// # Errors
    /// `run.unknown`.
    pub async fn require_run(&self, run: RunId) -> Result<()> {
        self.store().run(run).await.map(drop)
    }
}

fn wire(event: ::store::Event) -> Event {
    Event {
        timestamp: event.at.0.div_euclid(1000),
        task_id: event.task,
        task_type: event.kind.map(model::TaskKind::code),
        event_name: event.name,
        message: event.message,
        payload: event.payload,
        // Members that the public form has and that say nothing here.
        file_name: String::new(),
        function_name: String::new(),
        line: 0,
    }
}
