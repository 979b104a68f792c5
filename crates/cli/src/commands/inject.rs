//! `inject submit`: from flags or from a file, one submission or a batch of them.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use api::submit::{FaultRequest, RunRequest, SubmitReply, SubmittedRun, WindowsRequest};
use clap::{Args, Subcommand};
use client::{Client, Failure};
use model::{ErrorKind, Problem, Result};
use serde_json::{Map, Value, json};

use super::{Done, run};
use crate::args::finite;
use crate::duration::{parse, parse_positive};
use crate::error::{Exit, line};
use crate::output::{Column, Format, or_dash};
use crate::session::{Session, read_file};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Submit a run: everything is checked before anything is stored
    Submit(Box<Submit>),
}

#[derive(Debug, Args)]
pub struct Submit {
    /// Read the submission from a YAML or JSON file (`-` for standard input); a list is a batch
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["system", "point", "service", "capability", "target", "param", "fault", "no_fault", "paired_control", "seed", "origin", "slot", "normal", "abnormal", "load", "noise", "algorithm", "always_rank", "strict", "repeat"])]
    file: Option<PathBuf>,
    /// Short code of the system; a point says it as well
    #[arg(long, value_name = "CODE", required_unless_present_any = ["file", "point"])]
    system: Option<String>,
    /// Point to hit, which says service, fault and target; `aegisctl point list` shows them
    #[arg(long, value_name = "ID", conflicts_with_all = ["service", "capability", "target", "no_fault"])]
    point: Option<String>,
    /// Service to hit
    #[arg(long, value_name = "NAME", requires = "capability")]
    service: Option<String>,
    /// Fault to inject; `aegisctl fault list` shows them
    #[arg(long, value_name = "NAME", requires = "service")]
    capability: Option<String>,
    /// Where on the service, for faults that ask for it; may be repeated
    #[arg(long, value_name = "KEY=VALUE", requires = "capability", value_parser = parse_pair)]
    target: Vec<(String, Value)>,
    /// Strength of the fault, or where on the service; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    param: Vec<(String, Value)>,
    /// One of several faults that are injected together, as 'SERVICE CAPABILITY [KEY=VALUE]...'; may be repeated
    #[arg(long, value_name = "FAULT", conflicts_with_all = ["point", "service", "capability"], value_parser = parse_fault)]
    fault: Vec<FaultRequest>,
    /// Observe the system without a fault
    #[arg(long, conflicts_with_all = ["service", "capability", "fault", "paired_control"])]
    no_fault: bool,
    /// Add a run without the fault that starts from the same environment
    #[arg(long)]
    paired_control: bool,
    /// Seed of the simulation; drawn when absent
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Where data time starts on the simulated cluster, in seconds since 1970
    #[arg(long, value_name = "SECONDS")]
    origin: Option<i64>,
    /// Slot to use; any free one when absent
    #[arg(long, value_name = "N")]
    slot: Option<u32>,
    /// Length of the normal window [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = parse, allow_hyphen_values = true)]
    normal: Option<i64>,
    /// Length of the abnormal window [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = parse, allow_hyphen_values = true)]
    abnormal: Option<i64>,
    /// Load in journeys per second [default: what the system is normally used with]
    #[arg(long, value_name = "RATE", value_parser = finite, allow_hyphen_values = true)]
    load: Option<f64>,
    /// Strength of the simulated noise, 0 to 2 [default: 1]
    #[arg(long, value_name = "X", value_parser = finite, allow_hyphen_values = true)]
    noise: Option<f64>,
    /// Method that ranks suspects, `name` or `name:version`; may be repeated
    #[arg(long, value_name = "NAME")]
    algorithm: Vec<String>,
    /// Rank even when the detector sees no anomaly
    #[arg(long)]
    always_rank: bool,
    /// Refuse windows that are too short for the detector or a method
    #[arg(long)]
    strict: bool,
    /// Number of runs, each with a seed of its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeat: u32,
    /// Recognise a repeated submission by this key
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Check everything and store nothing
    #[arg(long)]
    dry_run: bool,
    /// Wait until every run has ended
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// Longest time to wait
    #[arg(long, value_name = "TIME", requires = "wait", value_parser = parse_positive)]
    timeout: Option<u64>,
}

/// `key=value`; a value that reads as a number or a truth value is one, and JSON in quotes is text.
fn parse_pair(text: &str) -> std::result::Result<(String, Value), String> {
    let Some((key, value)) = text.split_once('=').filter(|(key, _)| !key.is_empty()) else {
        return Err(format!("`{text}` is not of the form KEY=VALUE"));
    };
    let value = match serde_json::from_str::<Value>(value) {
        Ok(scalar @ (Value::Number(_) | Value::Bool(_) | Value::String(_))) => scalar,
        _ => Value::String(value.to_owned()),
    };
    Ok((key.to_owned(), value))
}

/// `SERVICE CAPABILITY [KEY=VALUE]...`, separated by blanks. The server tells the target's keys from the parameters.
fn parse_fault(text: &str) -> std::result::Result<FaultRequest, String> {
    let mut words = text.split_whitespace();
    let (Some(service), Some(capability)) = (words.next(), words.next()) else {
        return Err(format!("`{text}` is not of the form 'SERVICE CAPABILITY [KEY=VALUE]...'"));
    };
    let mut params = Map::new();
    for word in words {
        let (key, value) = parse_pair(word)?;
        if params.insert(key.clone(), value).is_some() {
            return Err(format!("`{key}` is given twice"));
        }
    }
    Ok(FaultRequest {
        service: service.to_owned(),
        capability: capability.to_owned(),
        params,
        ..FaultRequest::default()
    })
}

const COLUMNS: &[Column<SubmittedRun>] = &[
    ("RUN", |run| run.trace_id.to_string()),
    ("SEED", |run| run.seed.to_string()),
    ("DATAPACK", |run| or_dash(run.injection_id.as_ref())),
    ("CONTROL-OF", |run| or_dash(run.control_of.as_ref())),
];

pub fn submit(arguments: Submit, session: &Session) -> Done {
    let (wait, timeout, key) = (arguments.wait, arguments.timeout, arguments.idempotency_key.clone());
    let requests = match &arguments.file {
        Some(path) => requests_of_file(path, arguments.dry_run)?,
        None => vec![request_of_flags(arguments)?],
    };
    let client = session.client()?;
    let deadline = timeout.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    if let [request] = requests.as_slice() {
        let reply = client.submit(request, key.as_deref())?;
        return finish(session, &client, &reply, wait, deadline);
    }
    batch(session, &client, &requests, key.as_deref(), wait, deadline)
}

fn finish(session: &Session, client: &Client, reply: &SubmitReply, wait: bool, deadline: Option<Instant>) -> Done {
    for note in &reply.notes {
        session.out.say(format!("note: {note}"));
    }
    if wait {
        let ids: Vec<_> = reply.items.iter().map(|item| item.trace_id).collect();
        return run::wait_for(session, client, &ids, deadline);
    }
    match session.out.format {
        Format::Table => session.out.table(&reply.items, COLUMNS)?,
        Format::Ndjson => session.out.lines(&reply.items)?,
        Format::Json | Format::Yaml => session.out.document(reply)?,
    }
    if reply.dry_run {
        session.out.say("nothing was stored");
    }
    if reply.deduplicated {
        session.out.say("known by its idempotency key; nothing was stored");
        return Ok(Exit::Deduplicated);
    }
    Ok(Exit::Success)
}

/// Submits one after the other. A part that failed makes the whole end with 5, whatever the others did.
fn batch(
    session: &Session,
    client: &Client,
    requests: &[RunRequest],
    key: Option<&str>,
    wait: bool,
    deadline: Option<Instant>,
) -> Done {
    let (mut results, mut ids, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for (index, request) in requests.iter().enumerate() {
        let key = key.map(|key| format!("{key}/{index}"));
        match client.submit(request, key.as_deref()) {
            Ok(reply) => {
                ids.extend(reply.items.iter().map(|item| item.trace_id));
                results.push(json!({"index": index, "ok": true, "reply": reply}));
            }
            Err(failure) => {
                results.push(json!({"index": index, "ok": false, "error": line(&failure)}));
                failures.push(failure);
            }
        }
    }
    if failures.len() == requests.len() {
        return Err(failures.swap_remove(0));
    }
    if wait {
        failures.iter().for_each(|failure| session.out.say(format!("not submitted: {failure}")));
        let exit = run::wait_for(session, client, &ids, deadline)?;
        return Ok(if failures.is_empty() { exit } else { Exit::WorkflowFailed });
    }
    print_batch(session, &results)?;
    Ok(if failures.is_empty() { Exit::Success } else { Exit::WorkflowFailed })
}

fn print_batch(session: &Session, results: &[Value]) -> std::result::Result<(), Failure> {
    session.out.items(
        results,
        &[
            ("INDEX", |item| item["index"].to_string()),
            ("RESULT", |item| if item["ok"] == true { "ok" } else { "failed" }.to_owned()),
            ("RUNS", |item| {
                let runs = item["reply"]["items"].as_array().into_iter().flatten();
                runs.filter_map(|run| run["trace_id"].as_str()).collect::<Vec<_>>().join(" ")
            }),
            ("ERROR", |item| {
                let error = &item["error"];
                error["code"].as_str().map_or_else(String::new, |code| format!("{code}: {}", error["message"]))
            }),
        ],
    )
}

fn request_of_flags(arguments: Submit) -> Result<RunRequest> {
    let params = collect("--param", arguments.param)?;
    let target = collect("--target", arguments.target)?;
    let faults = match (arguments.point, arguments.service, arguments.capability) {
        (None, Some(service), Some(capability)) => {
            vec![FaultRequest { point: None, service, capability, target, params }]
        }
        (Some(point), ..) => vec![FaultRequest { point: Some(point), params, ..FaultRequest::default() }],
        _ if params.is_empty() => arguments.fault,
        _ => {
            return Err(Problem::new(
                ErrorKind::Invalid,
                "usage.param_without_fault",
                "there is no fault to parametrise",
            )
            .place("--param")
            .expected("`--point`, or `--service` and `--capability`; `--fault` takes its own"));
        }
    };
    Ok(RunRequest {
        system: arguments.system.unwrap_or_default(),
        slot: arguments.slot,
        faults,
        no_fault: arguments.no_fault,
        paired_control: arguments.paired_control,
        seed: arguments.seed,
        origin: arguments.origin,
        windows: WindowsRequest { normal_seconds: arguments.normal, abnormal_seconds: arguments.abnormal },
        load: arguments.load,
        noise: arguments.noise,
        algorithms: arguments.algorithm,
        always_rank: arguments.always_rank,
        strict: arguments.strict,
        repeat: arguments.repeat,
        dry_run: arguments.dry_run,
    })
}

fn collect(place: &str, pairs: Vec<(String, Value)>) -> Result<Map<String, Value>> {
    let mut out = Map::new();
    for (key, value) in pairs {
        if out.insert(key.clone(), value).is_some() {
            return Err(Problem::new(ErrorKind::Invalid, "usage.key_repeated", "a key is given twice")
                .place(place)
                .found(format!("`{key}`")));
        }
    }
    Ok(out)
}

fn requests_of_file(path: &Path, dry_run: bool) -> Result<Vec<RunRequest>> {
    let text = read_text(path)?;
    let malformed = |place: String, found: String| {
        Problem::new(ErrorKind::Invalid, "submit.file_malformed", "the file is no submission")
            .place(place)
            .found(found)
            .expected("a mapping as in `aegisctl inject submit --help`, or a list of them")
    };
    let place = path.display().to_string();
    let value: Value = serde_saphyr::from_str(&text).map_err(|error| malformed(place.clone(), error.to_string()))?;
    let items = match value {
        Value::Array(items) => items,
        single => vec![single],
    };
    if items.is_empty() {
        return Err(malformed(place, "an empty list".into()));
    }
    let read = |(index, item): (usize, Value)| {
        let mut request: RunRequest = serde_json::from_value(item)
            .map_err(|error| malformed(format!("{place}: submission {}", index + 1), error.to_string()))?;
        request.dry_run |= dry_run;
        Ok(request)
    };
    items.into_iter().enumerate().map(read).collect()
}

fn read_text(path: &Path) -> Result<String> {
    let bytes = if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map_err(|error| {
            Problem::new(ErrorKind::Missing, "submit.file_unreadable", "standard input cannot be read")
                .found(error.to_string())
        })?;
        bytes
    } else {
        read_file(path, "submit.file_unreadable")?
    };
    String::from_utf8(bytes).map_err(|_| {
        Problem::new(ErrorKind::Invalid, "submit.file_malformed", "the file is not UTF-8 text")
            .place(path.display().to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_they_look_like_and_quotes_make_text() {
        let value = |text: &str| parse_pair(text).unwrap().1;
        assert_eq!(value("latency_ms=200"), json!(200));
        assert_eq!(value("loss=0.5"), json!(0.5));
        assert_eq!(value("flag=true"), json!(true));
        assert_eq!(value("route=/a=b"), json!("/a=b"));
        assert_eq!(value("version=\"17.6\""), json!("17.6"));
        assert_eq!(value("empty="), json!(""));
        assert!(parse_pair("=x").is_err() && parse_pair("x").is_err());
    }

    #[test]
    fn a_fault_is_a_service_a_capability_and_pairs() {
        let fault = parse_fault("ts-a  network_delay target_service=ts-b latency_ms=200").unwrap();
        assert_eq!((fault.service.as_str(), fault.capability.as_str()), ("ts-a", "network_delay"));
        assert_eq!(Value::Object(fault.params), json!({"target_service": "ts-b", "latency_ms": 200}));
        assert!(["NaN", "inf", "-inf", "x"].iter().all(|text| finite(text).is_err()) && finite("0.5") == Ok(0.5));
        for wrong in ["", "ts-a", "ts-a pod_kill x", "ts-a pod_kill x=1 x=2"] {
            assert!(parse_fault(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_is_one_submission_or_a_list_and_is_read_strictly() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.yaml");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            requests_of_file(&path, true)
        };
        assert_eq!(read("{system: ts, no_fault: true}").unwrap().len(), 1);
        let two =
            read("- {system: ts, no_fault: true}\n- system: ts\n  faults: [{service: a, capability: pod_kill}]\n");
        assert!(two.unwrap().iter().all(|request| request.dry_run));
        let problem = read("- {system: ts, no_fault: true}\n- {system: ts, no_falt: true}\n").unwrap_err();
        assert!(problem.place.unwrap().ends_with("submission 2"));
        assert_eq!(read("[]").unwrap_err().code, "submit.file_malformed");
    }
}
