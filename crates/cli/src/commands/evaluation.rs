//! `evaluation`: algorithms on datapacks, and how they compare.

use std::time::{Duration, Instant};

use api::board::BoardQuery;
use api::evaluation::{CompareQuery, Evaluation, EvaluationComparison, EvaluationRequest};
use clap::{Args, Subcommand};
use client::Failure;
use model::{ErrorKind, Problem};

use super::{Done, board};
use crate::args::Paging;
use crate::duration::parse_positive;
use crate::error::Exit;
use crate::output::{Column, Format, or_dash};
use crate::session::Session;

/// How often a server is asked how far it is.
const ASK: Duration = Duration::from_millis(200);

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run algorithms on every datapack that is valid and whose target felt the fault
    ///
    /// The trivial baselines are always added. The work outlives this program and the server's process.
    Create(Box<Create>),
    /// Show one evaluation with its board
    Get {
        /// Number
        id: i32,
        #[command(flatten)]
        form: board::Form,
    },
    /// List evaluations, newest first
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        paging: Paging,
    },
    /// Wait for the end of an evaluation, and show its board
    Wait {
        /// Number
        id: i32,
        #[command(flatten)]
        patience: Patience,
    },
    /// Compare two evaluations, algorithm by algorithm, on the datapacks that both scored
    Compare {
        /// Number
        first: i32,
        /// Number
        second: i32,
        /// Which services of the ground truth count as a hit
        #[arg(long, value_parser = ["root", "public"], default_value = "root")]
        rule: String,
    },
    /// Start nothing more of an evaluation; what has ended stays
    Cancel {
        /// Number
        id: i32,
    },
}

#[derive(Debug, Args)]
pub struct Create {
    /// Algorithm, NAME or NAME:VERSION; every built-in one by default
    #[arg(long = "algorithm", value_name = "NAME")]
    algorithms: Vec<String>,
    /// Data set, NAME (its newest version) or NAME:VERSION
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// Only one part of the data set
    #[arg(long, value_parser = ["open", "held_out"], requires = "dataset")]
    part: Option<String>,
    /// Datapack by name or number
    #[arg(long = "pack", value_name = "NAME")]
    packs: Vec<String>,
    /// Only datapacks of one system
    #[arg(long, value_name = "CODE")]
    system: Option<String>,
    /// Only the runs of one submission
    #[arg(long, value_name = "ID")]
    group_id: Option<String>,
    /// A name for it
    #[arg(long)]
    name: Option<String>,
    /// Run also what has answered already
    #[arg(long)]
    always: bool,
    /// Run the built-in algorithms also with the fault's start told 15 s early, 15 s late, and as the detector finds it
    #[arg(long)]
    robustness: bool,
    /// Wait for its end, and show its board
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    patience: Patience,
}

/// How long to wait.
#[derive(Debug, Clone, Args)]
pub struct Patience {
    /// Give up waiting after this long; the work goes on
    #[arg(long = "wait-timeout", value_name = "TIME", value_parser = parse_positive, default_value = "1h")]
    timeout: u64,
}

const COLUMNS: &[Column<Evaluation>] = &[
    ("ID", |e| e.id.to_string()),
    ("NAME", |e| e.name.clone()),
    ("STATE", |e| e.state.clone()),
    ("DONE", |e| format!("{} of {}", e.done, e.executions)),
    ("FAILED", |e| e.failed.to_string()),
    ("PACKS", |e| e.packs.to_string()),
    ("ALGORITHMS", |e| few(&e.algorithm_name)),
    ("CREATED", |e| e.created_at.clone()),
];

/// The first names of a list, and how many more there are.
fn few(list: &str) -> String {
    const SHOWN: usize = 3;
    let names: Vec<&str> = list.split(", ").collect();
    match names.len().checked_sub(SHOWN + 1) {
        None => list.to_owned(),
        Some(rest) => format!("{} and {} more", names[..SHOWN].join(", "), rest + 1),
    }
}

pub fn run(command: Command, session: &Session) -> Done {
    let client = session.client()?;
    match command {
        Command::Create(create) => {
            let (waits, patience) = (create.wait, create.patience.clone());
            let begun = client.create_evaluation(&request(*create))?;
            if !waits {
                show(session, &begun)?;
                return Ok(Exit::Success);
            }
            let ended = wait(session, begun.id.0, &patience)?;
            with_board(session, &ended, &board::Form::default())
        }
        Command::Get { id, form } => with_board(session, &client.evaluation(id)?, &form),
        Command::List { paging } => {
            session.out.pages(&paging, COLUMNS, |page| client.evaluations(page))?;
            Ok(Exit::Success)
        }
        Command::Wait { id, patience } => {
            let ended = wait(session, id, &patience)?;
            with_board(session, &ended, &board::Form::default())
        }
        Command::Compare { first, second, rule } => {
            let compared = client.compare_evaluations(&CompareQuery { first, second, rule: Some(rule) })?;
            compare(session, &compared)?;
            Ok(Exit::Success)
        }
        Command::Cancel { id } => {
            let reply = client.cancel_evaluation(id)?;
            session
                .out
                .record(&reply, || vec![("Cancelled", if reply.cancelled { "yes" } else { "it had ended" }.into())])?;
            Ok(Exit::Success)
        }
    }
}

fn request(create: Create) -> EvaluationRequest {
    EvaluationRequest {
        name: create.name,
        algorithms: create.algorithms,
        dataset: create.dataset,
        part: create.part,
        packs: create.packs,
        system: create.system,
        group_id: create.group_id,
        always: create.always,
        robustness: create.robustness,
    }
}

/// Asks until the evaluation has ended.
pub fn wait(session: &Session, id: i32, patience: &Patience) -> Result<Evaluation, Failure> {
    let client = session.client()?;
    let deadline = Instant::now() + Duration::from_secs(patience.timeout);
    let mut said = -1;
    loop {
        let evaluation = client.evaluation(id)?;
        if evaluation.state != "Running" {
            return Ok(evaluation);
        }
        if evaluation.done != said {
            said = evaluation.done;
            session.out.say(format!("evaluation {id}: {} of {} executions", evaluation.done, evaluation.executions));
        }
        if Instant::now() >= deadline {
            let problem = Problem::new(ErrorKind::Timeout, "evaluation.goes_on", "the evaluation has not ended yet");
            return Err(Failure::from(
                problem
                    .found(format!("{} of {} executions", evaluation.done, evaluation.executions))
                    .fix(format!("wait longer: `aegisctl evaluation wait {id} --wait-timeout 2h`")),
            ));
        }
        std::thread::sleep(ASK);
    }
}

fn show(session: &Session, evaluation: &Evaluation) -> Result<(), Failure> {
    session.out.record(evaluation, || rows(evaluation))
}

fn rows(evaluation: &Evaluation) -> Vec<(&'static str, String)> {
    let excluded: Vec<String> = evaluation.excluded.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    let total = evaluation.reading_seconds + evaluation.ranking_seconds;
    let share = if total > 0.0 { 100.0 * evaluation.reading_seconds / total } else { 0.0 };
    vec![
        ("Evaluation", evaluation.id.to_string()),
        ("Name", evaluation.name.clone()),
        ("State", evaluation.state.clone()),
        ("Executions", format!("{} of {}, {} failed", evaluation.done, evaluation.executions, evaluation.failed)),
        ("Datapacks", evaluation.packs.to_string()),
        ("Not scored", if excluded.is_empty() { "-".into() } else { excluded.join(", ") }),
        ("Algorithms", evaluation.algorithm_name.clone()),
        ("Data set", or_dash(evaluation.dataset_name.as_ref())),
        ("Process seconds", format!("{total:.1}, {share:.0} % of it reading")),
        ("Created", evaluation.created_at.clone()),
        ("Ended", or_dash(evaluation.ended_at.as_ref())),
    ]
}

/// The evaluation and its board: one document in the forms for programs.
fn with_board(session: &Session, evaluation: &Evaluation, form: &board::Form) -> Done {
    let query = BoardQuery { evaluation: Some(evaluation.id.0), rule: form.rule.clone(), ..BoardQuery::default() };
    if board::document(session, form, &query)? {
        return Ok(Exit::Success);
    }
    let scored = session.client()?.board(&query)?;
    if session.out.format == Format::Table {
        show(session, evaluation)?;
        session.out.write("\n")?;
        board::print(session, &scored)?;
    } else {
        session.out.document(&serde_json::json!({"evaluation": evaluation, "board": scored}))?;
    }
    Ok(if evaluation.state == "Cancelled" { Exit::WorkflowFailed } else { Exit::Success })
}

fn compare(session: &Session, compared: &EvaluationComparison) -> Result<(), Failure> {
    if session.out.format != Format::Table {
        return session.out.document(compared);
    }
    session.out.write(&format!(
        "evaluations {} and {}: {} packs ({}) that both scored; only in one of them: {} and {}\n\n",
        compared.first, compared.second, compared.packs, compared.origin, compared.only_first, compared.only_second
    ))?;
    session.out.table(&compared.comparisons, board::PAIRS)?;
    if !compared.not_compared.is_empty() {
        session.out.write(&format!("\nonly in one of them: {}\n", compared.not_compared.join(", ")))?;
    }
    Ok(())
}
