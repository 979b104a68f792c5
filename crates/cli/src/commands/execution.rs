//! `execution`: runs of one algorithm on one datapack.

use std::path::{Path, PathBuf};

use api::algorithm::{DetectorResult, Execution, ExecutionDetail, ExecutionQuery, RankedAnswer, RankingUpload};
use api::project::{ContainerSpec, ExecuteRequest, ExecuteSpec, SubmittedExecution};
use clap::Subcommand;
use client::Failure;
use model::{ErrorKind, Problem};

use super::Done;
use crate::args::Paging;
use crate::error::Exit;
use crate::output::{Column, Format, or_dash};
use crate::session::{Session, read_file};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List executions, newest first
    #[command(visible_alias = "ls")]
    List {
        /// Only executions in this state: Initial, Failed or Success
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
        /// Only executions on one datapack, by number
        #[arg(long, value_name = "ID")]
        datapack: Option<i32>,
        /// Only executions of one method
        #[arg(long, value_name = "NAME")]
        algorithm: Option<String>,
        /// Only executions that one evaluation ran, by number
        #[arg(long, value_name = "ID")]
        evaluation: Option<i32>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Run one algorithm on datapacks that are there already
    #[command(visible_alias = "create")]
    Submit {
        /// Name or number; may be given again
        #[arg(long, value_name = "NAME", required = true)]
        datapack: Vec<String>,
        /// `name` or `name:version`
        #[arg(long, value_name = "NAME")]
        algorithm: String,
        /// It runs elsewhere, and its answer is handed over with `execution upload`
        #[arg(long)]
        remote: bool,
        #[arg(long, value_name = "NAME", env = "AEGIS_PROJECT", default_value = "default", hide_env_values = true)]
        project: String,
        /// Makes a repeated submission answer what the first one did
        #[arg(long, value_name = "KEY")]
        idempotency_key: Option<String>,
    },
    /// Hand over the answer of an algorithm that ran elsewhere
    Upload {
        /// Number
        #[arg(value_parser = execution_id)]
        id: i32,
        /// JSON: `{"duration": SECONDS, "results": [{"level": "service", "result": NAME, "rank": 1, "confidence": 0.9}]}`
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
    },
    /// Show one execution with its ranking
    Get {
        /// Number
        #[arg(value_parser = execution_id)]
        id: i32,
    },
}

fn execution_id(text: &str) -> Result<i32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "not the number of an execution; `aegisctl execution list` shows them".to_owned())
}

const COLUMNS: &[Column<Execution>] = &[
    ("ID", |e| e.id.to_string()),
    ("ALGORITHM", |e| e.algorithm_name.clone()),
    ("VERSION", |e| e.algorithm_version.clone()),
    ("DATAPACK", |e| e.datapack_name.clone()),
    ("STATE", |e| e.state.to_string()),
    ("SECONDS", |e| format!("{:.2}", e.duration)),
    ("CREATED", |e| e.created_at.clone()),
];

const SUBMITTED: &[Column<SubmittedExecution>] = &[
    ("EXECUTION", |e| e.execution_id.to_string()),
    ("DATAPACK", |e| e.datapack_name.clone()),
    ("RUN", |e| e.trace_id.to_string()),
    ("UPLOAD-UNTIL", |e| or_dash(e.upload_until.as_ref())),
];

const RANKS: &[Column<RankedAnswer>] = &[
    ("RANK", |a| a.rank.to_string()),
    ("SUSPECT", |a| a.result.clone()),
    ("SCORE", |a| a.confidence.map_or_else(|| "-".into(), |score| format!("{score:.4}"))),
];

const ENTRANCES: &[Column<DetectorResult>] = &[
    ("ENTRANCE", |r| r.span_name.clone()),
    ("MEAN-MS", |r| pair(r.normal_avg_duration, r.abnormal_avg_duration, 1000.0)),
    ("P99-MS", |r| pair(r.normal_p99, r.abnormal_p99, 1000.0)),
    ("SUCCESS-%", |r| pair(r.normal_succ_rate, r.abnormal_succ_rate, 100.0)),
    ("ISSUES", |r| issues(&r.issues)),
];

/// The names of the issues; their figures are in the other output forms.
fn issues(text: &str) -> String {
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text) {
        Ok(issues) if issues.is_empty() => "-".to_owned(),
        Ok(issues) => issues.keys().cloned().collect::<Vec<_>>().join(", "),
        Err(_) => text.to_owned(),
    }
}

fn pair(normal: Option<f64>, abnormal: Option<f64>, factor: f64) -> String {
    let text = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{:.1}", value * factor));
    format!("{} -> {}", text(normal), text(abnormal))
}

/// Shows the only execution of an evaluation; one that failed ends the program as a failed workflow.
pub fn of_evaluation(session: &Session, evaluation: i32) -> Done {
    let client = session.client()?;
    let query = ExecutionQuery { evaluation_id: Some(evaluation), ..ExecutionQuery::default() };
    let Some(execution) = client.executions(&query)?.items.into_iter().next() else {
        let problem = model::Problem::new(
            model::ErrorKind::Failed,
            "algorithm.not_run",
            "the datapack cannot be read any more, so the algorithm was not run on it",
        );
        return Err(Failure::from(problem.fix("`aegisctl datapack verify` says what is wrong with it")));
    };
    get(session, &client.execution(execution.id.0)?)?;
    Ok(if execution.state == model::ExecutionState::Success { Exit::Success } else { Exit::WorkflowFailed })
}

pub fn run(command: Command, session: &Session) -> Done {
    let client = session.client()?;
    match command {
        Command::List { state, datapack, algorithm, evaluation, paging } => {
            session.out.pages(&paging, COLUMNS, |page| {
                client.executions(&ExecutionQuery {
                    page: page.page,
                    size: page.size,
                    state: state.clone(),
                    datapack_id: datapack,
                    algorithm: algorithm.clone(),
                    evaluation_id: evaluation,
                })
            })?;
        }
        Command::Submit { datapack, algorithm, remote, project, idempotency_key } => {
            let request = request(&datapack, &algorithm, remote, project);
            let reply = client.execute(&request, idempotency_key.as_deref())?;
            session.out.items(&reply.items, SUBMITTED)?;
        }
        Command::Upload { id, file } => {
            let receipt = client.upload_ranking(id, &answer(&file)?)?;
            session.out.record(&receipt, || {
                vec![("Results", receipt.result_count.to_string()), ("Uploaded", receipt.uploaded_at.clone())]
            })?;
        }
        Command::Get { id } => get(session, &client.execution(id)?)?,
    }
    Ok(Exit::Success)
}

fn request(datapacks: &[String], algorithm: &str, remote: bool, project_name: String) -> ExecuteRequest {
    let (name, version) = match algorithm.split_once(':') {
        Some((name, version)) => (name, Some(version.to_owned())),
        None => (algorithm, None),
    };
    let payload = remote.then(|| serde_json::Map::from_iter([("remote".to_owned(), true.into())]));
    let spec = |datapack: &String| ExecuteSpec {
        algorithm: ContainerSpec {
            name: name.to_owned(),
            version: version.clone(),
            payload: payload.clone(),
            env_vars: None,
        },
        datapack: Some(datapack.clone()),
        dataset: None,
    };
    ExecuteRequest { project_name, specs: datapacks.iter().map(spec).collect(), labels: None }
}

fn answer(file: &Path) -> model::Result<RankingUpload> {
    let bytes = read_file(file, "upload.file_unreadable")?;
    serde_json::from_slice(&bytes).map_err(|error| {
        Problem::new(ErrorKind::Invalid, "upload.file_malformed", "the file holds no answer")
            .place(format!("{}, line {}, column {}", file.display(), error.line(), error.column()))
            .found(error.to_string())
    })
}

fn get(session: &Session, detail: &ExecutionDetail) -> Result<(), Failure> {
    let execution = &detail.execution;
    session.out.record(detail, || {
        vec![
            ("Execution", execution.id.to_string()),
            ("Algorithm", format!("{} {}", execution.algorithm_name, execution.algorithm_version)),
            ("Datapack", execution.datapack_name.clone()),
            ("State", execution.state.to_string()),
            ("Reason", or_dash(execution.reason.as_ref())),
            ("Message", or_dash(execution.message.as_ref())),
            ("Seconds", format!("{:.2}", execution.duration)),
            ("Memory", execution.peak_memory.map_or_else(|| "-".into(), |bytes| format!("{} MiB", bytes >> 20))),
            ("Isolation", or_dash(execution.isolation.as_ref())),
            ("Onset", execution.onset.clone()),
            ("Run", execution.trace_id.to_string()),
        ]
    })?;
    if session.out.format != Format::Table {
        return Ok(());
    }
    session.out.write("\n")?;
    if !detail.detector_results.is_empty() {
        session.out.table(&detail.detector_results, ENTRANCES)?;
    }
    if !detail.granularity_results.is_empty() {
        session.out.table(&detail.granularity_results, RANKS)?;
    }
    Ok(())
}
