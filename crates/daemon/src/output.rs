//! Standard output of `aegis`. A reader that goes away (`| head`) ends neither the server nor a round that is on its way, and
//! what could not be written otherwise is told when the program ends.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::OnceLock;

use model::{ErrorKind, Problem, Result, printable};

static FAILED: OnceLock<String> = OnceLock::new();

/// Stands in the place of the macro of this name everywhere in this program, because that one panics on a closed pipe.
macro_rules! println {
    ($($line:tt)*) => { $crate::output::line(format_args!($($line)*)) };
}

/// Writes one line of text for people; [`finish`] tells of a failure.
pub fn line(line: Arguments<'_>) {
    bytes(format!("{}\n", printable(&line.to_string())).as_bytes());
}

/// Writes what is no line for people, as it is.
pub fn bytes(content: &[u8]) {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(content).and_then(|()| out.flush())
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        FAILED.get_or_init(|| error.to_string());
    }
}

/// How printing ended.
///
/// # Errors
/// `output.not_written` with the first failure.
pub fn finish() -> Result<()> {
    let Some(error) = FAILED.get() else { return Ok(()) };
    Err(Problem::new(ErrorKind::Unavailable, "output.not_written", "standard output cannot be written")
        .found(error.clone()))
}
