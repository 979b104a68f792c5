//! `board`: the scores of the algorithms.

use std::io::IsTerminal;

use api::board::{Board, BoardQuery, BoardRow, Comparison, ExportQuery, Figure};
use clap::Args;
use client::Failure;
use model::{ErrorKind, Problem, counted};

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
    /// Only one evaluation
    #[arg(long, value_name = "ID")]
    evaluation: Option<i32>,
    /// Only the datapacks of a data set, NAME (its newest version) or NAME:VERSION
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// Only one row
    #[arg(long, value_parser = ["ranking", "pipeline", "detected only"])]
    row: Option<String>,
    #[command(flatten)]
    form: Form,
}

/// In which form a board is wanted.
#[derive(Debug, Clone, Default, Args)]
pub struct Form {
    /// Which services of the ground truth count as a hit; those in role root by default
    #[arg(long, value_parser = ["root", "public"])]
    pub rule: Option<String>,
    /// As a document: Markdown, CSV, JSON or a picture
    #[arg(long, value_parser = ["md", "csv", "json", "svg", "png"])]
    format: Option<String>,
}

const COLUMNS: &[Column<BoardRow>] = &[
    ("ROW", |r| r.row.clone()),
    ("ALGORITHM", marked),
    ("PACKS", |r| r.packs.to_string()),
    ("CLUSTERS", |r| r.clusters.to_string()),
    ("FAILED", |r| r.failures.to_string()),
    ("MISSING", |r| r.missing.to_string()),
    ("AC@1", |r| r.ac1.to_string()),
    ("AC@3", |r| r.ac3.to_string()),
    ("AC@5", |r| r.ac5.to_string()),
    ("AVG@3", |r| r.avg3.to_string()),
    ("AVG@5", |r| r.avg5.to_string()),
    ("MRR", |r| r.mrr.to_string()),
    ("SECONDS", |r| r.seconds.map_or_else(|| "-".into(), |seconds| format!("{seconds:.3}"))),
    ("MIB", |r| r.peak_memory.map_or_else(|| "-".into(), |bytes| (bytes >> 20).to_string())),
];

pub const PAIRS: &[Column<Comparison>] = &[
    ("FIRST", |c| c.first.clone()),
    ("SECOND", |c| c.second.clone()),
    ("METRIC", |c| c.metric.clone()),
    ("DIFFERENCE", |c| format!("{:+.3}", c.difference)),
    ("P", |c| format!("{:.4}", c.p)),
    ("P-HOLM", |c| format!("{:.4}", c.p_holm)),
    ("WIN/TIE/LOSS", |c| format!("{}/{}/{}", c.wins, c.ties, c.losses)),
];

/// The name with what a reader has to know about it.
fn marked(row: &BoardRow) -> String {
    let mut name = row.algorithm.clone();
    if row.version != "builtin" {
        name = format!("{name}:{}", row.version);
    }
    for (set, mark) in
        [(row.baseline, " (baseline)"), (row.in_house, " (in-house)"), (row.not_isolated > 0, " (not isolated)")]
    {
        if set {
            name.push_str(mark);
        }
    }
    name
}

pub fn run(arguments: Arguments, session: &Session) -> Done {
    let query = BoardQuery {
        system: arguments.system,
        group_id: arguments.group_id,
        row: arguments.row,
        rule: arguments.form.rule.clone(),
        evaluation: arguments.evaluation,
        dataset: arguments.dataset,
    };
    if document(session, &arguments.form, &query)? {
        return Ok(Exit::Success);
    }
    let board = session.client()?.board(&query)?;
    match session.out.format {
        Format::Table => print(session, &board)?,
        Format::Ndjson => session.out.lines(&board.rows)?,
        Format::Json | Format::Yaml => session.out.document(&board)?,
    }
    Ok(Exit::Success)
}

/// Writes the board as the document that was asked for; false when none was.
pub fn document(session: &Session, form: &Form, query: &BoardQuery) -> Result<bool, Failure> {
    let Some(format) = &form.format else { return Ok(false) };
    let client = session.client()?;
    if format == "json" {
        let text = serde_json::to_string_pretty(&client.board(query)?)
            .map_err(|error| Problem::internal("board.unwritable", error.to_string()))?;
        session.out.bytes(format!("{text}\n").as_bytes())?;
        return Ok(true);
    }
    let wanted = ExportQuery {
        format: format.clone(),
        system: query.system.clone(),
        group_id: query.group_id.clone(),
        rule: query.rule.clone(),
        evaluation: query.evaluation,
        dataset: query.dataset.clone(),
    };
    if format == "png" && std::io::stdout().is_terminal() {
        let problem =
            Problem::new(ErrorKind::Invalid, "usage.binary_to_terminal", "a picture is nothing for a terminal");
        return Err(Failure::from(problem.fix("send it into a file: `> board.png`")));
    }
    let content = client.board_document(&wanted)?.into_body().read_to_vec().map_err(|error| {
        let problem = Problem::new(ErrorKind::Unavailable, "download.broken", "the board broke off");
        Failure::from(problem.found(error.to_string()))
    })?;
    session.out.bytes(&content)?;
    Ok(true)
}

pub fn print(session: &Session, board: &Board) -> Result<(), Failure> {
    let funnel = board.funnel;
    session.out.write(&format!(
        "packs: {}; hit = {}; onset {}\nfunnel: {} submitted, {} completed, {} exposed, {} valid, {} scored\n\n",
        board.origin,
        board.rule,
        board.onset,
        funnel.submitted,
        funnel.completed,
        funnel.exposed,
        funnel.valid,
        funnel.scored
    ))?;
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
    let controls = &board.controls;
    if let Some(rate) = &controls.false_alarm_rate {
        let mark = if controls.packs < 100 { " (fewer than 100 controls)" } else { "" };
        text.push_str(&format!(
            "no-fault controls: {}, false alarms: {}, rate {}{mark}\n",
            controls.packs, controls.false_alarms, rate
        ));
    }
    if let Some(rate) = &controls.miss_rate {
        text.push_str(&format!(
            "the detector missed {} of {} packs with a fault, rate {}\n",
            controls.misses, controls.faulty, rate
        ));
    }
    for row in &board.robustness {
        let told = |figure: &Option<Figure>| figure.as_ref().map_or_else(|| "-".into(), Figure::to_string);
        text.push_str(&format!(
            "onset, {} Avg@5: known {}, 15 s early {}, 15 s late {}, detected {}\n",
            row.algorithm,
            row.known,
            told(&row.early),
            told(&row.late),
            told(&row.detected)
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
