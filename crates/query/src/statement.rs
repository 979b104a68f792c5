//! What may be asked: one query, over the tables of the packs, that changes nothing.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::common::TableReference;
use datafusion::execution::context::SQLOptions;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::{Statement as Sql, TableFactor, Visit, Visitor};
use datapack::Signal;
use model::{ErrorKind, Problem, Result};

use crate::complaint;

/// Longest text of a query, in bytes. A longer one is a program's mistake.
const LONGEST: usize = 64 * 1024;

/// The schema that describes the tables.
const DESCRIPTION: &str = "information_schema";

/// Functions that make rows of nothing.
const ROW_MAKERS: [&str; 3] = ["generate_series", "range", "unnest"];

/// The second look, at the plan: whatever would change something is refused there as well.
pub fn read_only() -> SQLOptions {
    SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false)
}

/// # Errors
/// `query.too_long`, `query.empty`, `query.syntax`, `query.several_statements`, `query.not_read_only`,
/// `query.outside_packs`, `query.table_unknown`.
pub fn read(sql: &str) -> Result<Statement> {
    if sql.len() > LONGEST {
        return Err(Problem::new(ErrorKind::Invalid, "query.too_long", "the query is too long")
            .found(format!("{} bytes", sql.len()))
            .expected(format!("at most {LONGEST} bytes")));
    }
    let parsed = DFParserBuilder::new(sql).build().and_then(|mut parser| parser.parse_statements());
    let mut statements = parsed.map_err(|error| complaint::syntax(&error))?;
    let Some(statement) = statements.pop_front() else {
        return Err(Problem::new(ErrorKind::Invalid, "query.empty", "there is no query").expected("a SELECT"));
    };
    if !statements.is_empty() {
        return Err(Problem::new(
            ErrorKind::Invalid,
            "query.several_statements",
            "only one query is answered at a time",
        )
        .found(format!("{} statements", statements.len() + 1)));
    }
    check_reads(&statement)?;
    check_tables(&statement)?;
    Ok(statement)
}

fn check_reads(statement: &Statement) -> Result<()> {
    match statement {
        Statement::Explain(explain) => check_reads(&explain.statement),
        Statement::Statement(sql) => match sql.visit(&mut Writes) {
            ControlFlow::Break(text) => Err(not_read_only(&text)),
            ControlFlow::Continue(()) => Ok(()),
        },
        _ => Err(not_read_only(&statement.to_string())),
    }
}

/// Stops at the first statement that does not only read, wherever it stands: a query may have one as its body.
struct Writes;

impl Visitor for Writes {
    type Break = String;

    fn pre_visit_statement(&mut self, statement: &Sql) -> ControlFlow<String> {
        match statement {
            Sql::Query(_)
            | Sql::Explain { .. }
            | Sql::ExplainTable { .. }
            | Sql::ShowTables { .. }
            | Sql::ShowColumns { .. } => ControlFlow::Continue(()),
            other => ControlFlow::Break(other.to_string()),
        }
    }
}

/// The refusal of what would change something.
pub fn not_read_only(statement: &str) -> Problem {
    let shown: String = statement.chars().take(60).collect();
    Problem::new(ErrorKind::Invalid, "query.not_read_only", "a query cannot change anything")
        .found(format!("`{shown}`"))
        .expected("SELECT, EXPLAIN or DESCRIBE")
        .fix("datapacks are what was measured; to work on a copy use `aegisctl datapack download`")
}

fn check_tables(statement: &Statement) -> Result<()> {
    let mut functions = Functions::default();
    if let Statement::Statement(sql) = statement {
        let _: ControlFlow<()> = sql.visit(&mut functions);
    }
    if let Some(name) = functions.0.iter().find(|name| !ROW_MAKERS.contains(&name.as_str())) {
        return Err(outside(name));
    }
    let (relations, _) = resolve_table_references(statement, false).map_err(|error| complaint::syntax(&error))?;
    relations
        .iter()
        .filter(|relation| !functions.0.contains(&relation.table().to_lowercase()))
        .try_for_each(check_table)
}

fn check_table(table: &TableReference) -> Result<()> {
    let known = || Signal::ALL.iter().map(|signal| signal.as_str());
    match table {
        TableReference::Bare { table } if known().any(|name| name == &**table) => Ok(()),
        TableReference::Partial { schema, .. } if &**schema == DESCRIPTION => Ok(()),
        TableReference::Bare { table } if is_name(table) => {
            let mut problem = Problem::unknown("query.table_unknown", "table", table, known().collect::<Vec<_>>());
            problem.kind = ErrorKind::Invalid;
            Err(problem)
        }
        other => Err(outside(&other.to_string())),
    }
}

/// Whether a text is a plain name, not a path, a file or an address.
fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn outside(name: &str) -> Problem {
    Problem::new(ErrorKind::Invalid, "query.outside_packs", "a query reads datapacks and nothing else")
        .found(format!("`{name}`"))
        .expected(Signal::ALL.map(Signal::as_str).join(", "))
        .fix("name one of the tables; which datapacks they hold is said beside the query")
}

/// The table functions of a statement, in lower case.
#[derive(Default)]
struct Functions(BTreeSet<String>);

impl Visitor for Functions {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => {
                self.0.insert(name.to_string().to_lowercase());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_write_or_read_elsewhere_is_refused() {
        let code = |sql: &str| read(sql).map(|_| ()).map_err(|problem| problem.code.into_owned());
        for good in [
            "SELECT count(*) FROM traces",
            "WITH t AS (SELECT * FROM traces) SELECT * FROM t JOIN logs USING (TraceId)",
            "EXPLAIN SELECT 1",
            "EXPLAIN ANALYZE SELECT * FROM logs",
            "DESCRIBE metrics",
            "SHOW TABLES",
            "SELECT * FROM information_schema.columns",
            "SELECT * FROM generate_series(1, 3)",
            "SELECT 1;",
        ] {
            assert_eq!(code(good), Ok(()), "{good}");
        }
        for (bad, expected) in [
            ("CREATE TABLE x AS SELECT 1", "query.not_read_only"),
            ("CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'", "query.not_read_only"),
            ("INSERT INTO traces VALUES (1)", "query.not_read_only"),
            ("DELETE FROM traces", "query.not_read_only"),
            ("UPDATE traces SET SpanName = ''", "query.not_read_only"),
            ("DROP TABLE traces", "query.not_read_only"),
            ("COPY traces TO '/tmp/x.csv'", "query.not_read_only"),
            ("COPY (SELECT 1) TO 'x.parquet'", "query.not_read_only"),
            ("SET datafusion.execution.batch_size = 1", "query.not_read_only"),
            ("RESET datafusion.execution.batch_size", "query.not_read_only"),
            ("EXPLAIN INSERT INTO traces VALUES (1)", "query.not_read_only"),
            ("WITH t AS (SELECT 1) INSERT INTO traces SELECT * FROM t", "query.not_read_only"),
            ("EXPLAIN ANALYZE COPY traces TO 'x.csv'", "query.not_read_only"),
            ("SELECT * FROM '/etc/passwd'", "query.outside_packs"),
            ("SELECT * FROM \"sealed/truth.json\"", "query.outside_packs"),
            ("SELECT * FROM read_csv('/etc/passwd')", "query.outside_packs"),
            ("SELECT * FROM 'https://example.org/x.parquet'", "query.outside_packs"),
            ("SELECT (SELECT count(*) FROM '/etc/passwd')", "query.outside_packs"),
            ("SELECT * FROM other.traces", "query.outside_packs"),
            ("SELECT * FROM trace", "query.table_unknown"),
            ("SELECT 1; SELECT 2", "query.several_statements"),
            ("", "query.empty"),
            ("SELEC 1", "query.syntax"),
        ] {
            assert_eq!(code(bad), Err(expected.to_owned()), "{bad}");
        }
    }

    #[test]
    fn a_mistake_is_told_with_its_place() {
        let problem = read("SELECT ServiceName,\n  count(*\nFROM traces").unwrap_err();
        assert_eq!(problem.code, "query.syntax");
        assert_eq!(problem.place.as_deref(), Some("line 3, column 1"));
        assert!(problem.found.as_deref().is_some_and(|found| found.contains("FROM")), "{problem:?}");
    }
}
