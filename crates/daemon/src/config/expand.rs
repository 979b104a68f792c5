//! What is not written into the configuration file itself: `${NAME}` stands for a variable of the environment, `${file:PATH}` for
//! the text of a file, without the line's end. `$${` is a plain `${`.

use model::{ErrorKind, Problem, Result};
use toml::Value;

/// What a placeholder stood for. It has no debug form: it may be a password.
pub struct Filled {
    /// As it is written in the file: `${NAME}`.
    written: String,
    text: String,
}

/// Puts what they stand for in the place of all placeholders. `variable` and `file` look one up.
///
/// # Errors
/// `config.variable_unset`, `config.file_unreadable`, `config.placeholder_malformed`, each with the line and the key.
pub fn expand(table: &mut toml::Table, text: &str, name: &str) -> Result<Vec<Filled>> {
    let mut filled = Vec::new();
    for (key, value) in table.iter_mut() {
        walk(key, value, &mut |key, written| {
            let place = || {
                let line = text.lines().position(|line| line.contains(written)).map_or(1, |index| index + 1);
                format!("{name}:{line}: {key}")
            };
            fill(written, &mut filled).map_err(|problem| problem.place(place()))
        })?;
    }
    Ok(filled)
}

fn walk(key: &str, value: &mut Value, change: &mut impl FnMut(&str, &str) -> Result<String>) -> Result<()> {
    match value {
        Value::String(text) if text.contains("${") => *text = change(key, text)?,
        Value::Array(items) => items.iter_mut().try_for_each(|item| walk(key, item, change))?,
        Value::Table(entries) => {
            entries.iter_mut().try_for_each(|(name, item)| walk(&format!("{key}.{name}"), item, change))?;
        }
        _ => {}
    }
    Ok(())
}

fn fill(written: &str, filled: &mut Vec<Filled>) -> Result<String> {
    let mut done = String::new();
    let mut rest = written;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            done.push_str(&rest[..at]);
            done.push('{');
            rest = &rest[at + 2..];
            continue;
        }
        done.push_str(&rest[..at]);
        let Some((inside, after)) = rest[at + 2..].split_once('}').filter(|(inside, _)| !inside.is_empty()) else {
            return Err(Problem::new(
                ErrorKind::Invalid,
                "config.placeholder_malformed",
                "a placeholder in the configuration file has no end or no name",
            )
            .expected(
                "`${NAME}` for a variable of the environment, `${file:PATH}` for a file, `$${` for a plain `${`",
            ));
        };
        let text = look_up(inside)?;
        done.push_str(&text);
        filled.push(Filled { written: format!("${{{inside}}}"), text });
        rest = after;
    }
    done.push_str(rest);
    Ok(done)
}

fn look_up(inside: &str) -> Result<String> {
    let Some(path) = inside.strip_prefix("file:") else {
        return std::env::var(inside).map_err(|error| {
            Problem::new(
                ErrorKind::Missing,
                "config.variable_unset",
                "the configuration file names a variable of the environment that is not there",
            )
            .found(match error {
                std::env::VarError::NotPresent => format!("`{inside}` is not set"),
                std::env::VarError::NotUnicode(_) => format!("`{inside}` is not text"),
            })
            .fix(format!("set {inside} where the program is started, or write `$${{{inside}}}` for the plain text"))
        });
    };
    let unreadable = |found: String| {
        Problem::new(
            ErrorKind::Missing,
            "config.file_unreadable",
            "the configuration file names a file that cannot be read",
        )
        .found(format!("{path}: {found}"))
        .expected("a file of one line")
    };
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(unreadable("it is empty".to_owned())),
        text => Ok(text.to_owned()),
    }
}

/// A text that may repeat what was filled in, with the placeholders in its place.
pub fn hidden(text: &str, filled: &[Filled]) -> String {
    // The longest first: one may be a part of another.
    let mut filled: Vec<&Filled> = filled.iter().filter(|one| !one.text.is_empty()).collect();
    filled.sort_by_key(|one| std::cmp::Reverse(one.text.len()));
    filled.iter().fold(text.to_owned(), |text, one| text.replace(&one.text, &one.written))
}
