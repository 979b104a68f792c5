//! `datapack query`: SQL over datapacks, printed as the rows arrive.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use api::datapack::{QueryColumn, QueryEnd, QueryFirst, QueryLast, QueryRequest};
use clap::Args;
use client::{Class, Client, Failure};
use model::{ErrorKind, Problem, counted};
use serde_json::{Map, Value};

use crate::duration::parse_positive;
use crate::output::{Format, Output};
use crate::session::Session;

/// How much longer than its own limit the server may take to say that the limit was reached.
const GRACE: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// A SELECT; `-` reads it from standard input
    sql: String,
    /// Names or numbers of datapacks; without any, all that are built
    #[arg(value_name = "PACK")]
    packs: Vec<String>,
    /// All datapacks of one system
    #[arg(long, value_name = "CODE", conflicts_with = "packs")]
    system: Option<String>,
    /// Longest time of computing
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_positive)]
    time: u64,
    /// Memory of sorts, groups and joins, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    memory: u64,
    /// Rows of the answer at most
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    rows: u64,
    /// Comma-separated values, whatever `--output` says
    #[arg(long)]
    csv: bool,
}

const EXAMPLES: &str = "\
Tables: traces, logs, metrics, metrics_sum, metrics_histogram, trace_id_ts, each with the columns of its files (see
contracts/datapack.md) and `pack` and `window`. Names are case-sensitive. attr(COLUMN, 'KEY') reads a JSON column.

  aegisctl datapack query \"SELECT \\\"window\\\", ServiceName, count(*) AS n FROM traces GROUP BY ALL ORDER BY n DESC\" ts-000001
  aegisctl datapack query \"SELECT pack, max(Duration) / 1e6 AS ms FROM traces WHERE \\\"window\\\" = 'abnormal' GROUP BY pack\" --system ts
  aegisctl datapack query \"SELECT attr(SpanAttributes, 'http.route') AS route, count(*) FROM traces GROUP BY 1\" 7 --csv";

pub fn run(arguments: Arguments, session: &Session, client: &Client) -> Result<(), Failure> {
    let sql = match arguments.sql.as_str() {
        "-" => std::io::read_to_string(std::io::stdin()).map_err(|error| {
            Problem::new(ErrorKind::Invalid, "query.not_read", "the query cannot be read from standard input")
                .found(error.to_string())
        })?,
        text => text.to_owned(),
    };
    let request = QueryRequest {
        sql,
        packs: arguments.packs,
        system: arguments.system,
        seconds: Some(arguments.time),
        memory_mib: Some(arguments.memory),
        rows: Some(arguments.rows),
    };
    let longest = Duration::from_secs(arguments.time) + GRACE;
    let body = client.query(&request, longest)?.into_body();
    let mut lines = BufReader::new(body.into_with_config().limit(u64::MAX).reader());
    let columns = serde_json::from_str::<QueryFirst>(&line(&mut lines)?).map_err(|error| unclear(&error))?.columns;
    let mut rows = printer(arguments.csv, session.out, columns);
    let end = loop {
        let text = line(&mut lines)?;
        if text.starts_with('[') {
            rows.row(serde_json::from_str(&text).map_err(|error| unclear(&error))?)?;
            continue;
        }
        match serde_json::from_str::<QueryLast>(&text).map_err(|error| unclear(&error))? {
            QueryLast::End(end) => break end,
            QueryLast::Error(problem) => return Err(problem.into()),
        }
    };
    rows.finish()?;
    let QueryEnd { rows, seconds } = end;
    session.out.say(format!("{} in {seconds:.2} s", counted(usize::try_from(rows).unwrap_or(usize::MAX), "row")));
    Ok(())
}

fn line(lines: &mut impl BufRead) -> Result<String, Failure> {
    let mut text = String::new();
    let cut = |found: String| {
        Problem::new(ErrorKind::Unavailable, "query.cut_short", "the answer ended too early").found(found)
    };
    match lines.read_line(&mut text) {
        Ok(0) => Err(cut("no last line".into()).into()),
        Ok(_) if !text.ends_with('\n') => Err(cut("half a line".into()).into()),
        Ok(_) => Ok(text),
        Err(error) => Err(cut(error.to_string()).into()),
    }
}

fn unclear(error: &serde_json::Error) -> Failure {
    let problem =
        Problem::internal("client.answer_not_understood", "a line of the answer is not what the contract says")
            .found(error.to_string());
    Failure { class: Class::Decode, problem, request_id: None, status: None }
}

/// Rows on their way to standard output in one of the forms.
trait Rows {
    fn row(&mut self, row: Vec<Value>) -> Result<(), Failure>;
    fn finish(&mut self) -> Result<(), Failure>;
}

fn printer(csv: bool, out: Output, columns: Vec<QueryColumn>) -> Box<dyn Rows> {
    let names = distinct(columns);
    match (csv, out.format) {
        (true, _) => Box::new(Csv { out, names, begun: false }),
        (_, Format::Ndjson) => Box::new(Objects { out, names, form: LINES, begun: false }),
        (_, Format::Json) => Box::new(Objects { out, names, form: ARRAY, begun: false }),
        (_, Format::Table | Format::Yaml) => Box::new(Whole { out, names, rows: Vec::new() }),
    }
}

/// The columns' names, a repeated one with a number behind it: an object has each member once.
fn distinct(columns: Vec<QueryColumn>) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(columns.len());
    for column in columns {
        let free = |name: &String| !names.contains(name);
        let mut numbered = (2..).map(|number| format!("{}_{number}", column.name));
        let name = Some(column.name.clone()).filter(free).or_else(|| numbered.find(free));
        names.push(name.unwrap_or(column.name));
    }
    names
}

fn object(names: &[String], row: Vec<Value>) -> Value {
    Value::Object(names.iter().cloned().zip(row).collect::<Map<_, _>>())
}

/// A cell without JSON's quotes; nothing for null.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

struct Csv {
    out: Output,
    names: Vec<String>,
    begun: bool,
}

impl Csv {
    fn record(&self, cells: &[String]) -> Result<(), Failure> {
        let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(Vec::new());
        let text = writer.write_record(cells).map_err(|error| error.to_string());
        let text = text.and_then(|()| writer.into_inner().map_err(|error| error.to_string()));
        let text =
            text.map_err(|error| Problem::internal("output.unprintable", "a row cannot be printed").found(error))?;
        self.out.bytes(&text)
    }

    fn header(&mut self) -> Result<(), Failure> {
        if self.begun {
            return Ok(());
        }
        self.begun = true;
        self.record(&self.names)
    }
}

impl Rows for Csv {
    fn row(&mut self, row: Vec<Value>) -> Result<(), Failure> {
        self.header()?;
        self.record(&row.iter().map(cell).collect::<Vec<_>>())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.header()
    }
}

/// What stands around objects.
struct Form {
    before: &'static str,
    between: &'static str,
    after: &'static str,
    /// The whole text when there are no rows.
    empty: &'static str,
}

const LINES: Form = Form { before: "", between: "\n", after: "\n", empty: "" };
const ARRAY: Form = Form { before: "[\n  ", between: ",\n  ", after: "\n]\n", empty: "[]\n" };

struct Objects {
    out: Output,
    names: Vec<String>,
    form: Form,
    begun: bool,
}

impl Rows for Objects {
    fn row(&mut self, row: Vec<Value>) -> Result<(), Failure> {
        let lead = if self.begun { self.form.between } else { self.form.before };
        self.begun = true;
        self.out.bytes(format!("{lead}{}", object(&self.names, row)).as_bytes())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.out.bytes(if self.begun { self.form.after } else { self.form.empty }.as_bytes())
    }
}

/// Forms that need all rows before the first one can be printed.
struct Whole {
    out: Output,
    names: Vec<String>,
    rows: Vec<Vec<Value>>,
}

impl Rows for Whole {
    fn row(&mut self, row: Vec<Value>) -> Result<(), Failure> {
        self.rows.push(row);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let rows = std::mem::take(&mut self.rows);
        if self.out.format == Format::Yaml {
            let objects: Vec<Value> = rows.into_iter().map(|row| object(&self.names, row)).collect();
            return self.out.document(&objects);
        }
        let cells: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
        self.out.grid(&self.names, &cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_name_gets_a_number() {
        let column = |name: &str| QueryColumn { name: name.into(), kind: "text".into() };
        assert_eq!(distinct(vec![column("a"), column("a_2"), column("a"), column("b")]), ["a", "a_2", "a_3", "b"]);
    }
}
