//! Printing data in the four forms, and talk beside it.

mod narrow;

use std::io::{self, IsTerminal, Write};

use api::{Page, PageQuery, Pagination};
use clap::ValueEnum;
use client::Failure;
use comfy_table::{Cell, Color, Table, presets};
use model::{ErrorKind, Problem, printable};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::Paging;

/// Form of the data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns for people
    #[default]
    Table,
    /// One indented document
    Json,
    /// One compact record a line
    Ndjson,
    /// One YAML document
    Yaml,
}

impl Format {
    /// The form asked for, from arguments that could not be parsed.
    pub fn guess(arguments: impl Iterator<Item = String>) -> Self {
        let arguments: Vec<String> = arguments.collect();
        let mut found = std::env::var("AEGIS_OUTPUT").ok();
        for (index, argument) in arguments.iter().enumerate() {
            if matches!(argument.as_str(), "-o" | "--output") {
                found = arguments.get(index + 1).cloned();
            } else if let Some(value) = argument.strip_prefix("--output=").or_else(|| argument.strip_prefix("-o")) {
                found = Some(value.trim_start_matches('=').to_owned());
            }
        }
        found.and_then(|text| Self::from_str(&text, false).ok()).unwrap_or_default()
    }
}

/// A column of a table: its heading and how a record fills it.
pub type Column<T> = (&'static str, fn(&T) -> String);

/// Where and how a command prints.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    pub format: Format,
    pub color: bool,
    pub quiet: bool,
    /// Standard error is a terminal, so progress may be drawn there.
    pub progress: bool,
}

impl Output {
    pub fn new(format: Format, no_color: bool, quiet: bool) -> Self {
        let refused = no_color || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            format,
            color: format == Format::Table && !refused && !dumb && io::stdout().is_terminal(),
            quiet,
            progress: !quiet && !dumb && io::stderr().is_terminal(),
        }
    }

    /// Talk: one line on standard error, unless asked to be quiet.
    pub fn say(&self, text: impl AsRef<str>) {
        if !self.quiet {
            // There is nobody left to tell when standard error is closed.
            let _ = writeln!(io::stderr(), "{}", printable(text.as_ref()));
        }
    }

    /// One record: fields below each other in a table.
    pub fn record<T: Serialize>(
        &self,
        value: &T,
        fields: impl FnOnce() -> Vec<(&'static str, String)>,
    ) -> Result<(), Failure> {
        if self.format != Format::Table {
            return self.document(value);
        }
        let fields = fields();
        let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or_default() + 1;
        let mut text = String::new();
        for (name, value) in fields {
            let indented = value.replace('\n', &format!("\n{:width$} ", ""));
            text.push_str(&format!("{:<width$} {indented}\n", format!("{name}:")));
        }
        self.write(&text)
    }

    /// Records that are not a page of something longer.
    pub fn items<T: Serialize>(&self, items: &[T], columns: &[Column<T>]) -> Result<(), Failure> {
        match self.format {
            Format::Table => self.table(items, columns),
            Format::Ndjson => self.lines(items),
            Format::Json | Format::Yaml => self.document(&items),
        }
    }

    /// One page, or all of them.
    pub fn pages<T: Serialize>(
        &self,
        paging: &Paging,
        columns: &[Column<T>],
        fetch: impl Fn(PageQuery) -> Result<Page<T>, Failure>,
    ) -> Result<(), Failure> {
        if !paging.all {
            let page = fetch(PageQuery { page: paging.page, size: paging.size })?;
            return self.page(&page, columns);
        }
        let mut items = Vec::new();
        for number in 1.. {
            let page = fetch(PageQuery { page: Some(number), size: Some(PageQuery::LARGEST) })?;
            let last = number >= page.pagination.total_pages;
            if self.format == Format::Ndjson {
                self.lines(&page.items)?;
            } else {
                items.extend(page.items);
            }
            if last {
                break;
            }
        }
        match self.format {
            Format::Ndjson => Ok(()),
            Format::Table => self.table(&items, columns),
            Format::Json | Format::Yaml => {
                let total = i32::try_from(items.len()).unwrap_or(i32::MAX);
                let pagination = Pagination { page: 1, size: total, total, total_pages: i32::from(total > 0) };
                self.document(&Page { items, pagination })
            }
        }
    }

    fn page<T: Serialize>(&self, page: &Page<T>, columns: &[Column<T>]) -> Result<(), Failure> {
        match self.format {
            Format::Json | Format::Yaml => self.document(page),
            Format::Ndjson => {
                self.lines(&page.items)?;
                self.say(json!({"_meta": page.pagination}).to_string());
                Ok(())
            }
            Format::Table => {
                self.table(&page.items, columns)?;
                let meta = page.pagination;
                if meta.total_pages > 1 {
                    self.say(format!(
                        "page {} of {}, {} in all; `--all` shows every one",
                        meta.page, meta.total_pages, meta.total
                    ));
                }
                Ok(())
            }
        }
    }

    /// One document in a form for programs. As a table it is JSON as well, because it has no columns.
    pub fn document<T: Serialize>(&self, value: &T) -> Result<(), Failure> {
        let text = match self.format {
            Format::Ndjson => serde_json::to_string(value).map(|text| text + "\n").map_err(unprintable)?,
            Format::Yaml => yaml(value)?,
            Format::Json | Format::Table => {
                serde_json::to_string_pretty(value).map(|text| text + "\n").map_err(unprintable)?
            }
        };
        self.bytes(text.as_bytes())
    }

    /// What is YAML by nature, whatever form was asked for.
    pub fn yaml<T: Serialize>(&self, value: &T) -> Result<(), Failure> {
        self.bytes(yaml(value)?.as_bytes())
    }

    pub fn lines<T: Serialize>(&self, items: &[T]) -> Result<(), Failure> {
        let mut text = String::new();
        for item in items {
            text.push_str(&serde_json::to_string(item).map_err(unprintable)?);
            text.push('\n');
        }
        self.bytes(text.as_bytes())
    }

    pub fn table<T>(&self, items: &[T], columns: &[Column<T>]) -> Result<(), Failure> {
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let row = |item| columns.iter().map(|(_, value)| value(item)).collect();
        self.grid(&names, &items.iter().map(row).collect::<Vec<_>>())
    }

    /// A table whose columns are known only now.
    pub fn grid<N: AsRef<str>>(&self, names: &[N], rows: &[Vec<String>]) -> Result<(), Failure> {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let headings: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let printable = |row: &Vec<String>| row.iter().map(|cell| printable(cell).into_owned()).collect();
        let mut rows: Vec<Vec<String>> = rows.iter().map(printable).collect();
        // There is a width only where standard output is a terminal.
        let layout = table.width().and_then(|width| narrow::fit(&headings, &mut rows, width.into()));
        let all: Vec<usize> = (0..headings.len()).collect();
        let shown = layout.as_ref().map_or(&all, |layout| &layout.columns);
        table.set_header(shown.iter().map(|&at| Cell::new(headings[at])));
        for row in &rows {
            table.add_row(shown.iter().map(|&at| self.cell(&row[at])));
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, narrow::GAP as u16));
        }
        if let Some(layout) = &layout {
            layout.arrange(&mut table);
        }
        if self.color {
            table.enforce_styling();
        }
        self.bytes((table.trim_fmt() + "\n").as_bytes())?;
        let left: Vec<&str> = all.iter().filter(|at| !shown.contains(at)).map(|&at| headings[at]).collect();
        if !left.is_empty() {
            self.say(format!("no room for {}; a wider terminal or `-o json` shows them", left.join(", ")));
        }
        Ok(())
    }

    fn cell(&self, text: &str) -> Cell {
        let cell = Cell::new(text);
        if !self.color {
            return cell;
        }
        match text {
            "Completed" | "Success" | "ok" | "enabled" | "anomaly" | "healthy" | "detector_success" => {
                cell.fg(Color::Green)
            }
            "Failed" | "Error" | "failed" | "wrong" | "missing" | "invalid" | "no_data" | "detector_failed"
            | "build_failed" | "inject_failed" | "unhealthy" | "changed" => cell.fg(Color::Red),
            "Running" | "Pending" | "Rescheduled" | "warning" | "no_anomaly" | "not_exposed" | "Cancelled" => {
                cell.fg(Color::Yellow)
            }
            _ => cell,
        }
    }

    /// Text for people on standard output.
    pub fn write(&self, text: &str) -> Result<(), Failure> {
        self.bytes(printable(text).as_bytes())
    }

    /// Documents for programs, as they are. A reader that went away (`| head`) ends the program quietly and successfully.
    pub fn bytes(&self, content: &[u8]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        match out.write_all(content).and_then(|()| out.flush()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
            Err(error) => {
                Err(Problem::new(ErrorKind::Unavailable, "output.not_written", "standard output cannot be written")
                    .found(error.to_string())
                    .into())
            }
        }
    }
}

fn unprintable(error: serde_json::Error) -> Failure {
    Problem::internal("output.unprintable", "the data cannot be printed").found(error.to_string()).into()
}

/// # Errors
/// `output.unprintable`.
pub fn yaml<T: Serialize>(value: &T) -> Result<String, Failure> {
    // By way of JSON, so that both forms have the same members and the same numbers.
    let value: Value = serde_json::to_value(value).map_err(unprintable)?;
    serde_saphyr::to_string(&value).map_err(|error| {
        Problem::internal("output.unprintable", "the data cannot be printed as YAML").found(error.to_string()).into()
    })
}

/// The text of an optional member, `-` for none.
pub fn or_dash<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(|| "-".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_guessed_from_arguments_that_are_wrong() {
        let guess = |text: &str| Format::guess(text.split(' ').map(str::to_owned));
        assert_eq!(guess("aegisctl run lst -o json"), Format::Json);
        assert_eq!(guess("aegisctl --output=ndjson run lst"), Format::Ndjson);
        assert_eq!(guess("aegisctl run lst -oyaml"), Format::Yaml);
        assert_eq!(guess("aegisctl run lst -o nothing"), Format::Table);
    }
}
