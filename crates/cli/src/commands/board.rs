//! `board`: the scores of the algorithms.

use api::board::{Board, BoardQuery, BoardRow, Figure};
use clap::Args;
use client::Failure;
use model::counted;

use super::Done;
use crate::error::Exit;
use crate::output::{Column, Format};
use crate::session::Session;

#[derive(Debug, Args)]
pub struct Arguments {
    /// Only datapacks of one system
    #[arg(long, value_name = "CODE")]
    system: Option<String>,
    /// Only the runs of one submission
    #[arg(long, value_name = "ID")]
    group_id: Option<String>,
    /// Only one row
    #[arg(long, value_parser = ["ranking", "pipeline", "detected only"])]
    row: Option<String>,
    /// Which services of the ground truth count as a hit
    #[arg(long, value_parser = ["root", "public"], default_value = "root")]
    rule: String,
}

const COLUMNS: &[Column<BoardRow>] = &[
    ("ROW", |r| r.row.clone()),
    ("ALGORITHM", |r| {
        let mark = if r.in_house { " (in-house)" } else { "" };
        format!("{}{mark}", r.algorithm)
    }),
    ("PACKS", |r| r.packs.to_string()),
    ("CLUSTERS", |r| r.clusters.to_string()),
    ("FAILED", |r| r.failures.to_string()),
    ("MISSING", |r| r.missing.to_string()),
    ("AC@1", |r| figure(&r.ac1)),
    ("AC@3", |r| figure(&r.ac3)),
    ("AC@5", |r| figure(&r.ac5)),
    ("AVG@5", |r| figure(&r.avg5)),
    ("MRR", |r| figure(&r.mrr)),
];

fn figure(figure: &Figure) -> String {
    match (figure.low, figure.high) {
        (Some(low), Some(high)) => format!("{:.2} [{low:.2}, {high:.2}]", figure.value),
        _ => format!("{:.2} ({})", figure.value, figure.interval),
    }
}

pub fn run(arguments: Arguments, session: &Session) -> Done {
    let query = BoardQuery {
        system: arguments.system,
        group_id: arguments.group_id,
        row: arguments.row,
        rule: Some(arguments.rule),
    };
    let board = session.client()?.board(&query)?;
    match session.out.format {
        Format::Table => print(session, &board)?,
        Format::Ndjson => session.out.lines(&board.rows)?,
        Format::Json | Format::Yaml => session.out.document(&board)?,
    }
    Ok(Exit::Success)
}

fn print(session: &Session, board: &Board) -> Result<(), Failure> {
    session.out.write(&format!("packs: {}; hit = {}; onset {}\n\n", board.origin, board.rule, board.onset))?;
    session.out.table(&board.rows, COLUMNS)?;
    let mut text = String::from("\n");
    for view in &board.views {
        let chance = view.chance;
        text.push_str(&format!(
            "by chance, {}: AC@1 {:.2}, AC@3 {:.2}, AC@5 {:.2}, Avg@5 {:.2}, MRR {:.2} ({})\n",
            view.row,
            chance.ac1,
            chance.ac3,
            chance.ac5,
            chance.avg5,
            chance.mrr,
            counted(view.packs, "pack")
        ));
    }
    text.push_str(&format!("{}\n", board.definition));
    if board.controls.packs > 0 {
        text.push_str(&format!(
            "no-fault controls: {}, false alarms: {}\n",
            board.controls.packs, board.controls.false_alarms
        ));
    }
    for excluded in &board.excluded {
        text.push_str(&format!("not counted: {} ({})\n", excluded.packs, excluded.reason));
    }
    for note in &board.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    session.out.write(&text)
}
