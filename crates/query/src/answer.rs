//! A query from its text to its last row.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use futures::StreamExt;
use futures::future::{Either, select};
use model::{ErrorKind, Problem, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::complaint::{Complaint, timed_out, too_many_rows};
use crate::table::{PackFolder, Packs};
use crate::{row, session, statement};

/// Address space of a thread's stack. Only what is used of it takes memory.
pub const STACK: usize = 256 << 20;

/// What one query may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Memory of sorts, groups and joins, in bytes. What does not fit goes to disk where the operation can.
    pub memory: usize,
    /// Disk for what does not fit, in bytes.
    pub spill: u64,
    /// Time of planning and computing; waiting for a slow reader does not count.
    pub time: Duration,
    /// Rows of the answer.
    pub rows: u64,
}

/// A column of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    pub name: String,
    /// `text`, `int64`, `timestamp`, ...
    #[serde(rename = "type")]
    pub kind: String,
}

/// What is known after the last row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct End {
    pub rows: u64,
    /// Time of planning and computing.
    pub seconds: f64,
}

/// A query that has begun: planned, and its first rows computed.
pub struct Answer {
    messages: Receiver<Result<Message>>,
    columns: Vec<Column>,
    /// The first message after the columns, until it is asked for.
    first: Option<Message>,
    used: Duration,
    limits: Limits,
    rows: u64,
    /// Dropped with the answer; what still computes takes that as its end.
    _wanted: oneshot::Sender<()>,
}

impl Answer {
    /// Plans `sql` over packs in the folder `root` and computes the first rows; blocks until then. `scratch` is a folder for
    /// what does not fit into memory.
    ///
    /// # Errors
    /// `query.syntax`, `query.not_read_only`, `query.outside_packs`, `query.table_unknown`, `query.column_unknown`,
    /// `query.function_unknown`, `query.invalid`, `query.failed`, `query.memory_exhausted`, `query.disk_exhausted`,
    /// `query.timed_out`, and about a pack `datapack.file_missing`, `datapack.column_type`, `datapack.column_missing`,
    /// `datapack.file_corrupt`.
    pub fn begin(sql: &str, root: &Path, packs: Vec<PackFolder>, limits: Limits, scratch: &Path) -> Result<Self> {
        let packs = Arc::new(Packs { root: root.to_owned(), folders: packs });
        // One batch waits for its reader while the next one is computed.
        let (sender, messages) = sync_channel(1);
        let (wanted, unwanted) = oneshot::channel();
        let work = Work { sql: sql.to_owned(), packs, limits, scratch: scratch.to_owned(), sender, unwanted };
        std::thread::Builder::new()
            .name("query-driver".into())
            .stack_size(STACK)
            .spawn(move || work.run())
            .map_err(no_threads)?;
        let (columns, used) = (Vec::new(), Duration::ZERO);
        let mut answer = Self { messages, columns, first: None, used, limits, rows: 0, _wanted: wanted };
        if let Message::Columns(columns) = answer.receive()? {
            answer.columns = columns;
        }
        answer.first = Some(answer.receive()?);
        Ok(answer)
    }

    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Writes the answer as lines of JSON: `{"columns": […]}`, one array for each row, and `{"end": …}`. What goes wrong
    /// in the middle is the last line instead: `{"error": …}`.
    ///
    /// # Errors
    /// `query.not_sent` when the sink does not take it.
    pub fn write(mut self, sink: &mut dyn Write) -> Result<()> {
        let result = self.write_rows(sink);
        let last = match result {
            Ok(end) => json!({ "end": end }),
            Err(Broken::Query(problem)) => json!({ "error": problem }),
            Err(Broken::Sink(error)) => return Err(not_sent(&error)),
        };
        writeln!(sink, "{last}").map_err(|error| not_sent(&error))
    }

    fn write_rows(&mut self, sink: &mut dyn Write) -> Result<End, Broken> {
        writeln!(sink, "{}", json!({ "columns": self.columns })).map_err(Broken::Sink)?;
        while let Some(batch) = self.next().map_err(Broken::Query)? {
            let text = row::lines(&batch).map_err(|error| Broken::Query(unprintable(&error)))?;
            sink.write_all(&text).map_err(Broken::Sink)?;
        }
        Ok(End { rows: self.rows, seconds: self.used.as_secs_f64() })
    }

    /// The next rows; nothing when there are no more, and then it is not asked again.
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let message = match self.first.take() {
            Some(message) => message,
            None => self.receive()?,
        };
        let Message::Rows(batch) = message else { return Ok(None) };
        self.rows += batch.num_rows() as u64;
        if self.rows > self.limits.rows {
            return Err(too_many_rows(&self.limits));
        }
        Ok(Some(batch))
    }

    /// Waits no longer than the query's time, whatever the threads do that compute.
    fn receive(&mut self) -> Result<Message> {
        let started = Instant::now();
        let message = self.messages.recv_timeout(self.limits.time.saturating_sub(self.used));
        self.used += started.elapsed();
        message.map_err(|error| match error {
            RecvTimeoutError::Timeout => timed_out(&self.limits),
            RecvTimeoutError::Disconnected => {
                Problem::internal("query.panicked", "the query ended without an answer").found("a thread that panicked")
            }
        })?
    }
}

enum Broken {
    Query(Problem),
    Sink(std::io::Error),
}

/// What the thread of a query tells.
enum Message {
    /// Comes first.
    Columns(Vec<Column>),
    Rows(RecordBatch),
    /// After it nothing comes.
    End,
}

/// A query on its thread, which has a deep stack: how deep a statement nests is its author's choice.
struct Work {
    sql: String,
    packs: Arc<Packs>,
    limits: Limits,
    scratch: PathBuf,
    sender: SyncSender<Result<Message>>,
    unwanted: oneshot::Receiver<()>,
}

impl Work {
    fn run(self) {
        let sender = self.sender.clone();
        let end = self.answer().map(|()| Message::End);
        // Who went away is not told.
        drop(sender.send(end));
    }

    fn answer(self) -> Result<()> {
        let statement = statement::read(&self.sql)?;
        let spill = tempfile::Builder::new().prefix("query-").tempdir_in(&self.scratch).map_err(|error| {
            Problem::new(ErrorKind::Missing, "query.no_scratch", "there is no folder for what does not fit into memory")
                .place(self.scratch.display().to_string())
                .found(error.to_string())
        })?;
        let context = session::context(&self.packs, &self.limits, spill.path())?;
        let complaint = Complaint { packs: self.packs, limits: self.limits };
        let runtime = runtime()?;
        let done = runtime.block_on(async {
            let all = tell(&context, statement, &complaint, &self.sender);
            match select(std::pin::pin!(all), self.unwanted).await {
                Either::Left((done, _)) => done,
                Either::Right(_) => Ok(()),
            }
        });
        // Whatever still computes is told to stop and not waited for.
        runtime.shutdown_background();
        done
    }
}

/// Sends the columns and the rows, as long as somebody takes them.
async fn tell(
    context: &SessionContext,
    statement: Statement,
    complaint: &Complaint,
    sender: &SyncSender<Result<Message>>,
) -> Result<()> {
    let mut stream = begin(context, statement).await.map_err(|error| complaint.of(error))?;
    let columns = stream.schema().fields().iter().map(|field| row::column(field)).collect();
    let mut taken = sender.send(Ok(Message::Columns(columns))).is_ok();
    while taken && let Some(batch) = stream.next().await {
        taken = sender.send(Ok(Message::Rows(batch.map_err(|error| complaint.of(error))?))).is_ok();
    }
    Ok(())
}

async fn begin(context: &SessionContext, statement: Statement) -> datafusion::error::Result<SendableRecordBatchStream> {
    let plan = context.state().statement_to_plan(statement).await?;
    statement::read_only().verify_plan(&plan)?;
    context.execute_logical_plan(plan).await?.execute_stream().await
}

/// Threads of the query's own.
fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads())
        .thread_name("query")
        .thread_stack_size(STACK)
        .enable_time()
        .build()
        .map_err(no_threads)
}

/// Threads that compute one query, at most.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn no_threads(error: std::io::Error) -> Problem {
    Problem::internal("query.no_threads", "the query cannot be started").cause(error)
}

fn unprintable(error: &arrow::error::ArrowError) -> Problem {
    Problem::new(ErrorKind::Invalid, "query.failed", "the answer cannot be written as JSON").found(error.to_string())
}

pub fn not_sent(error: &std::io::Error) -> Problem {
    Problem::new(ErrorKind::Unavailable, "query.not_sent", "the answer cannot be sent").found(error.to_string())
}
