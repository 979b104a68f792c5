//! `aegis bench-query`: the time of one query over a folder of packs, without a server and without printing its rows.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use model::{Problem, Result};
use query::{Answer, Limits, PackFolder};
use serde_json::{Value, json};

#[derive(clap::Args)]
pub struct Args {
    /// How often.
    #[arg(long, default_value_t = 1)]
    repeats: u32,
    sql: String,
    /// Folder of packs.
    packs: PathBuf,
}

/// Prints one JSON line for each repetition, with the seconds and the rows.
pub fn run(args: &Args) -> Result<()> {
    let unreadable = |error: std::io::Error| {
        Problem::internal("bench.no_packs", "the folder of packs cannot be read").found(error.to_string())
    };
    let mut packs = Vec::new();
    for entry in std::fs::read_dir(&args.packs).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            packs.push(PackFolder { open: PathBuf::from(&name).join("open"), name });
        }
    }
    packs.sort_by(|a, b| a.name.cmp(&b.name));
    let limits = Limits { memory: 512 << 20, spill: 1 << 30, time: Duration::from_secs(600), rows: u64::MAX };
    for _ in 0..args.repeats {
        let begin = Instant::now();
        let mut text = Vec::new();
        let answer = Answer::begin(&args.sql, &args.packs, packs.clone(), limits, &std::env::temp_dir())?;
        answer.write(&mut text)?;
        let seconds = begin.elapsed().as_secs_f64();
        let lines: std::result::Result<Vec<Value>, _> =
            serde_json::Deserializer::from_slice(&text).into_iter().collect();
        let mut lines =
            lines.map_err(|error| Problem::internal("bench.answer", "the answer is not JSON").cause(error))?;
        let end = lines.pop().unwrap_or_default();
        if end["end"].is_null() {
            return Err(Problem::internal("bench.query_failed", "the query failed").found(end.to_string()));
        }
        println!("{}", json!({"seconds": seconds, "rows": &lines[1..]}));
    }
    Ok(())
}
