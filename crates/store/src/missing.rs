//! The one form of "there is no such thing".

use std::fmt::Display;

use model::{ErrorKind, Problem};

pub(crate) fn not_found(code: &'static str, noun: &str, id: impl Display) -> Problem {
    let problem = Problem::new(ErrorKind::NotFound, code, format!("there is no such {noun}")).found(format!("`{id}`"));
    match code.split_once('.').map(|(noun, _)| noun) {
        Some(noun @ ("run" | "task" | "datapack" | "execution" | "evaluation")) => {
            problem.fix(format!("see `aegisctl {noun} list`"))
        }
        _ => problem,
    }
}
