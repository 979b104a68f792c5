//! `system lint`: checks a folder of system data by the rules that the built-in systems meet.

use std::path::Path;

use model::counted;
use system::{Finding, Report, Severity};

use super::Done;
use crate::error::Exit;
use crate::output::{Format, Output};

/// 5 when something is wrong; warnings alone are no failure.
pub fn run(folder: &Path, out: &Output) -> Done {
    let report = system::lint(folder)?;
    match out.format {
        Format::Table => {
            for finding in &report.findings {
                out.write(&words(finding))?;
            }
        }
        Format::Ndjson => out.lines(&report.findings)?,
        Format::Json | Format::Yaml => out.document(&report)?,
    }
    out.say(summary(&report));
    Ok(if report.errors() > 0 { Exit::WorkflowFailed } else { Exit::Success })
}

fn summary(report: &Report) -> String {
    let systems = counted(report.systems.len(), "system");
    match (report.errors(), report.findings.len() - report.errors()) {
        (0, 0) => format!("{systems}: nothing is wrong"),
        (errors, warnings) => format!("{systems}: {}, {}", counted(errors, "error"), counted(warnings, "warning")),
    }
}

/// As compilers print it, so that editors find the place.
fn words(finding: &Finding) -> String {
    let line = finding.line.map_or_else(String::new, |line| format!(":{line}"));
    let level = if finding.severity == Severity::Error { "error" } else { "warning" };
    let mut text = format!("{}{line}: {level}: {} [{}]\n", finding.file.display(), finding.message, finding.code);
    let place = Some(finding.place.clone()).filter(|place| !place.is_empty());
    let lines = [("place", &place), ("found", &finding.found), ("expected", &finding.expected), ("fix", &finding.fix)];
    for (name, value) in lines {
        if let Some(value) = value {
            text.push_str(&format!("  {:<9} {value}\n", format!("{name}:")));
        }
    }
    text
}
