//! `kill-switch`: no new faults, and every live one recovered.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::kill_switch::{ActiveFault, KillSwitch, KillSwitchRequest};
use clap::{Args, Subcommand};
use client::{Client, Failure};
use model::{ErrorKind, Problem, counted};
use serde_json::json;

use super::Done;
use crate::duration::parse_positive;
use crate::error::Exit;
use crate::output::{Column, Format, or_dash};
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Let no fault start, recover every live one, and report until none is left
    On(On),
    /// Let faults be injected again; runs that were ended stay ended
    Off,
    /// Show how the switch stands and which faults are on
    Status,
}

#[derive(Debug, Args)]
pub struct On {
    /// Why, for those who find it on
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Do not wait until every fault is recovered
    #[arg(long)]
    no_wait: bool,
    /// Longest time to wait
    #[arg(long, value_name = "TIME", value_parser = parse_positive, default_value = "5m", conflicts_with = "no_wait")]
    timeout: u64,
}

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(200);

const COLUMNS: &[Column<ActiveFault>] = &[
    ("FAULT", |fault| fault.name.clone()),
    ("NAMESPACE", |fault| fault.namespace.clone()),
    ("RUN", |fault| or_dash(fault.run.as_ref())),
    ("PODS", |fault| fault.pods.join(" ")),
];

pub fn run(command: Command, session: &Session) -> Done {
    match command {
        Command::On(arguments) => return on(&arguments, session),
        Command::Off => {
            let request = KillSwitchRequest { engaged: false, reason: String::new() };
            show(session, &session.client()?.set_kill_switch(&request)?)?;
        }
        Command::Status => show(session, &session.client()?.kill_switch()?)?,
    }
    Ok(Exit::Success)
}

fn show(session: &Session, switch: &KillSwitch) -> Result<(), Failure> {
    session.out.record(switch, || {
        let mut fields = vec![("Kill switch", if switch.engaged { "on" } else { "off" }.to_owned())];
        if let (Some(at), Some(by)) = (&switch.changed_at, &switch.changed_by) {
            fields.push(("Changed", format!("{at} by {by}")));
        }
        if !switch.reason.is_empty() {
            fields.push(("Reason", switch.reason.clone()));
        }
        fields.push(("Active faults", switch.active_faults.len().to_string()));
        fields
    })?;
    if session.out.format != Format::Table || switch.active_faults.is_empty() {
        return Ok(());
    }
    session.out.write("\n")?;
    session.out.table(&switch.active_faults, COLUMNS)
}

/// Turns it on and prints a receipt: every fault that was on, and that it is gone.
pub fn on(arguments: &On, session: &Session) -> Done {
    let client = session.client()?;
    let started = Instant::now();
    let switch = client.set_kill_switch(&KillSwitchRequest { engaged: true, reason: arguments.reason.clone() })?;
    if arguments.no_wait {
        show(session, &switch)?;
        return Ok(Exit::Success);
    }
    session.out.say(format!("the kill switch is on; to recover: {}", counted(switch.active_faults.len(), "fault")));
    let recovered = recover(session, &client, switch, started + Duration::from_secs(arguments.timeout))?;
    let seconds = started.elapsed().as_secs_f64();
    match session.out.format {
        Format::Table => {
            if !recovered.is_empty() {
                session.out.table(&recovered, COLUMNS)?;
            }
            let count = counted(recovered.len(), "fault");
            session.out.write(&format!("{count} recovered in {seconds:.1} s, none is left\n"))?;
        }
        Format::Ndjson => session.out.lines(&recovered)?,
        Format::Json | Format::Yaml => {
            session
                .out
                .document(&json!({"engaged": true, "recovered": recovered, "active_faults": [], "seconds": seconds}))?;
        }
    }
    session.out.say("faults stay off until `aegisctl kill-switch off`");
    Ok(Exit::Success)
}

/// Looks again and again until no fault is on; every one that was ever seen.
fn recover(
    session: &Session,
    client: &Client,
    mut switch: KillSwitch,
    deadline: Instant,
) -> Result<Vec<ActiveFault>, Failure> {
    let mut seen: BTreeMap<String, ActiveFault> = BTreeMap::new();
    let mut left = switch.active_faults.len();
    while !switch.active_faults.is_empty() {
        seen.extend(switch.active_faults.into_iter().map(|fault| (fault.name.clone(), fault)));
        if Instant::now() >= deadline {
            return Err(Problem::new(ErrorKind::Timeout, "kill_switch.not_done", "not every fault is recovered yet")
                .found(format!("{} on", counted(left, "fault")))
                .expected("none")
                .fix("the switch stays on and the work goes on; look with `aegisctl kill-switch status`")
                .into());
        }
        // Between two looks, up to the deadline above.
        std::thread::sleep(PAUSE);
        switch = client.kill_switch()?;
        if switch.active_faults.len() != left {
            left = switch.active_faults.len();
            session.out.say(format!("still on: {}", counted(left, "fault")));
        }
    }
    Ok(seen.into_values().collect())
}
