//! Streams of bytes that are made by a thread while they are sent.

use std::io::{self, Write};
use std::pin::Pin;

use axum::body::Bytes;
use futures::{Stream, StreamExt, stream};
use model::{Problem, Result};
use tokio::sync::mpsc;

/// Bytes that are handed over at once.
const PIECE: usize = 64 * 1024;
/// Pieces that may wait for a slow reader.
const AHEAD: usize = 4;

/// A body on its way. An error in the middle of it cuts the connection, so that it cannot look like the end.
pub struct Download {
    pub content_type: &'static str,
    pub file_name: String,
    /// When it is known before.
    pub length: Option<u64>,
    pub body: Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>,
}

impl Download {
    /// Runs `make` on a thread of its own; what it writes is the body.
    pub fn new(
        content_type: &'static str,
        file_name: String,
        length: Option<u64>,
        make: impl FnOnce(&mut dyn Write) -> Result<()> + Send + 'static,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(AHEAD);
        tokio::task::spawn_blocking(move || {
            let mut sink = io::BufWriter::with_capacity(PIECE, Sink(sender.clone()));
            let made = make(&mut sink).and_then(|()| sink.flush().map_err(|error| broken(&error)));
            if let Err(problem) = made {
                tracing::warn!("a download is cut: {}", problem.chain());
                // Without a reader there is nobody to tell.
                drop(sender.blocking_send(Err(io::Error::other(problem.to_string()))));
            }
        });
        let body = stream::unfold(receiver, |mut receiver| async {
            let piece = receiver.recv().await?;
            Some((piece, receiver))
        });
        Self { content_type, file_name, length, body: Box::pin(body) }
    }

    /// Keeps something for as long as the body is read.
    pub fn keeping(mut self, kept: impl Send + 'static) -> Self {
        self.body = Box::pin(self.body.map(move |piece| {
            let _: &_ = &kept;
            piece
        }));
        self
    }
}

pub fn broken(error: &io::Error) -> Problem {
    Problem::new(model::ErrorKind::Unavailable, "download.broken", "the download cannot go on").found(error.to_string())
}

struct Sink(mpsc::Sender<io::Result<Bytes>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = Bytes::copy_from_slice(bytes);
        self.0
            .blocking_send(Ok(piece))
            .map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the reader went away"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
