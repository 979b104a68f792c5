//! What went wrong with a query, in the one error form.

use std::io;
use std::sync::Arc;

use arrow::error::ArrowError;
use datafusion::common::{Diagnostic, SchemaError};
use datafusion::error::DataFusionError;
use datapack::Signal;
use model::{ErrorKind, Problem, Window, nearest};

use crate::answer::Limits;
use crate::schema::OtherColumns;
use crate::statement::not_read_only;
use crate::table::Packs;

const MIB: u64 = 1024 * 1024;

/// Turns errors of one query into problems.
pub struct Complaint {
    pub packs: Arc<Packs>,
    pub limits: Limits,
}

/// A problem on its way through the library.
#[derive(Debug)]
struct Carried(std::sync::Mutex<Option<Problem>>);

impl std::fmt::Display for Carried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a problem with a datapack")
    }
}

impl std::error::Error for Carried {}

/// Hands a problem to the library, which gives it back to [`Complaint::of`].
pub fn carry(problem: Problem) -> DataFusionError {
    DataFusionError::External(Box::new(Carried(std::sync::Mutex::new(Some(problem)))))
}

/// # Returns
/// `query.timed_out`.
pub fn timed_out(limits: &Limits) -> Problem {
    Problem::new(ErrorKind::Timeout, "query.timed_out", "the query took too long")
        .expected(format!("at most {} s", limits.time.as_secs_f64()))
        .fix("ask fewer datapacks or one window, or allow more time")
}

/// # Returns
/// `query.too_many_rows`.
pub fn too_many_rows(limits: &Limits) -> Problem {
    Problem::new(ErrorKind::Invalid, "query.too_many_rows", "the answer has more rows than it may have")
        .expected(format!("at most {} rows", limits.rows))
        .fix("group the rows, end the query with LIMIT, or allow more rows")
}

/// # Returns
/// `query.memory_exhausted`.
pub fn memory_exhausted(limits: &Limits, found: String) -> Problem {
    Problem::new(ErrorKind::Invalid, "query.memory_exhausted", "the query needs more memory than it may use")
        .found(found)
        .expected(format!("at most {} MiB", limits.memory as u64 / MIB))
        .fix("ask fewer datapacks or columns, group by fewer values, or allow more memory")
}

impl Complaint {
    pub fn of(&self, error: DataFusionError) -> Problem {
        let mut place = None;
        let mut error = &error;
        loop {
            error = match error {
                DataFusionError::Context(_, inner) => inner,
                DataFusionError::Diagnostic(diagnostic, inner) => {
                    place = place.or_else(|| place_of(diagnostic));
                    inner
                }
                DataFusionError::Shared(inner) => inner,
                DataFusionError::Collection(errors) if !errors.is_empty() => &errors[0],
                DataFusionError::ArrowError(inner, _) => match &**inner {
                    ArrowError::ExternalError(deeper) => match deeper.downcast_ref() {
                        Some(deeper) => deeper,
                        None => break,
                    },
                    _ => break,
                },
                _ => break,
            };
        }
        let mut problem = self.one(error);
        if let Some(place) = place {
            problem.place = problem.place.or(Some(place));
        }
        problem
    }

    fn one(&self, error: &DataFusionError) -> Problem {
        let text = error.to_string();
        let invalid = |code, message: &str| Problem::new(ErrorKind::Invalid, code, message);
        match error {
            DataFusionError::External(inner) => {
                if let Some(carried) = inner.downcast_ref::<Carried>()
                    && let Some(problem) = carried.0.lock().ok().and_then(|mut problem| problem.take())
                {
                    return problem;
                }
                if inner.downcast_ref::<OtherColumns>().is_some() {
                    return self.unreadable(&text);
                }
                // A footer that makes no sense may end the library's task instead.
                self.broken_file().unwrap_or_else(|| Problem::internal("query.failed", "the query failed").found(text))
            }
            DataFusionError::SQL(..) => syntax(error),
            DataFusionError::SchemaError(error, _) => schema(error),
            DataFusionError::ResourcesExhausted(message) => {
                let said = message.split(" with top memory consumers").next().unwrap_or_default();
                memory_exhausted(&self.limits, first_line(said))
            }
            error if is_out_of_disk(error) => self.disk_exhausted(error),
            DataFusionError::ParquetError(_) | DataFusionError::ObjectStore(_) | DataFusionError::IoError(_) => {
                self.unreadable(&text)
            }
            DataFusionError::Plan(message) if message.contains(" not supported: ") => not_read_only(message),
            DataFusionError::Plan(message) if message.starts_with("Invalid function") => {
                invalid("query.function_unknown", "the query names a function that there is not")
                    .found(first_line(message))
            }
            DataFusionError::Plan(message) => {
                invalid("query.invalid", "the query makes no sense").found(first_line(message))
            }
            DataFusionError::NotImplemented(message) => {
                invalid("query.unsupported", "the query uses something that is not supported")
                    .found(first_line(message))
            }
            DataFusionError::Execution(_) | DataFusionError::ArrowError(..) => {
                invalid("query.failed", "the query cannot be computed").found(first_line(&text))
            }
            _ => Problem::internal("query.failed", "the query failed").found(first_line(&text)),
        }
    }

    fn disk_exhausted(&self, error: &DataFusionError) -> Problem {
        let problem =
            Problem::new(ErrorKind::Invalid, "query.disk_exhausted", "the query needs more disk than it may use")
                .expected(format!("at most {} MiB", self.limits.spill / MIB))
                .fix("ask fewer datapacks or columns, group by fewer values, or allow more memory");
        match disk_is_full(error) {
            true => problem.found("a disk that is full"),
            false => problem,
        }
    }

    fn unreadable(&self, text: &str) -> Problem {
        self.broken_file().unwrap_or_else(|| {
            Problem::new(ErrorKind::Failed, "datapack.file_corrupt", "a file of the datapacks cannot be read")
                .found(first_line(text))
                .fix("find the datapack with `aegisctl datapack verify`, then build it again")
        })
    }

    /// Which of the files cannot be used; the library does not say it.
    fn broken_file(&self) -> Option<Problem> {
        let files = self.packs.folders.iter().flat_map(|pack| Window::BOTH.map(|window| (pack, window)));
        files.flat_map(|(pack, window)| Signal::ALL.map(|signal| (pack, window, signal))).find_map(
            |(pack, window, signal)| {
                let path = self.packs.root.join(&pack.open).join(signal.file(window));
                datapack::check_columns(&path, signal).err()
            },
        )
    }
}

/// # Returns
/// `query.syntax` with line, column and the text found.
pub fn syntax(error: &DataFusionError) -> Problem {
    let text = match error {
        DataFusionError::SQL(error, _) => error.to_string(),
        DataFusionError::Diagnostic(_, inner) | DataFusionError::Context(_, inner) => return syntax(inner),
        other => other.to_string(),
    };
    let problem = Problem::new(ErrorKind::Invalid, "query.syntax", "the query is not SQL");
    let text = text.strip_prefix("sql parser error: ").unwrap_or(&text);
    let (said, place) = match text.rsplit_once(" at Line: ") {
        Some((said, place)) => (said, Some(format!("line {}", place.replace(", Column: ", ", column ")))),
        None => (text, None),
    };
    let problem = match said.strip_prefix("Expected: ").and_then(|said| said.rsplit_once(", found: ")) {
        Some((expected, "EOF")) => problem.found("the end of the query").expected(expected),
        Some((expected, found)) => problem.found(format!("`{found}`")).expected(expected),
        None => problem.found(said),
    };
    match place {
        Some(place) => problem.place(place),
        None => problem.place("the end of the query"),
    }
}

fn schema(error: &SchemaError) -> Problem {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let known: Vec<&str> = valid_fields.iter().map(|column| column.name.as_str()).collect();
            let mut problem = Problem::unknown("query.column_unknown", "column", &field.name, known.clone());
            problem.kind = ErrorKind::Invalid;
            let same = known.iter().find(|name| name.eq_ignore_ascii_case(&field.name)).copied();
            match same.or_else(|| nearest(&field.name, known.iter().copied())) {
                Some(name) => problem.fix(format!("did you mean `{name}`?")),
                None => problem,
            }
        }
        other => Problem::new(ErrorKind::Invalid, "query.column_ambiguous", "a column's name is not clear")
            .found(other.to_string())
            .fix("put the table's name before it"),
    }
}

/// Whether what does not fit into memory did not fit on disk either. The library has no error of its own for its limit: it is
/// a text inside an error of reading and writing, which a test holds.
fn is_out_of_disk(error: &DataFusionError) -> bool {
    let DataFusionError::ArrowError(inner, _) = error else { return disk_is_full(error) };
    matches!(&**inner, ArrowError::IoError(text, _) if text.contains("The used disk space")) || disk_is_full(error)
}

fn disk_is_full(error: &DataFusionError) -> bool {
    let full = |error: &io::Error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    let mut causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.any(|cause| cause.downcast_ref::<io::Error>().is_some_and(full))
}

fn place_of(diagnostic: &Diagnostic) -> Option<String> {
    let start = diagnostic.span?.start;
    (start.line > 0).then(|| format!("line {}, column {}", start.line, start.column))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(400).collect()
}
