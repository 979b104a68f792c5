//! From labelled datapacks to a board: what the server does for its own runs, and `aegis datapack score` for imported ones.

use api::board::Board;
use fault::Resolved;
use model::{ErrorKind, Level, Problem, Result, Truth, Verdict};
use score::{Case, Difficulty, Environment, EnvironmentBoard, Options, Rule};
use serde_json::Value;

pub use crate::app::{effect, wire};

/// The forms of a board as a document.
pub const FORMATS: [&str; 4] = ["md", "csv", "svg", "png"];

/// What is known of a datapack before any algorithm ran.
pub struct Label<'a> {
    pub pack: &'a str,
    pub system: &'a str,
    /// A JSON list: the faults as resolved; of an imported datapack objects with `capability` and `service`.
    pub faults: &'a Value,
    pub truth: &'a Truth,
    /// The simulator's; other clusters have none.
    pub seed: u64,
    pub built: bool,
    pub exposed: bool,
    pub verdict: Option<Verdict>,
}

/// A board as a document.
pub struct Document {
    pub content_type: &'static str,
    pub file_name: &'static str,
    pub content: Vec<u8>,
}

/// # Errors
/// `board.rule_unknown`. Without a text it is `root`.
pub fn rule(text: Option<&str>) -> Result<Rule> {
    let Some(text) = text else { return Ok(Rule::Root) };
    let known = Rule::ALL.into_iter().find(|rule| rule.as_str() == text);
    known.ok_or_else(|| invalid(Problem::unknown("board.rule_unknown", "rule", text, Rule::ALL.map(Rule::as_str))))
}

/// The settings of every board of this project.
pub fn options(rule: Rule) -> Options {
    let all = rca::algorithm::algorithms().iter();
    Options {
        rule,
        in_house: all.filter(|method| method.about().in_house).map(|method| method.name().to_owned()).collect(),
        baselines: rca::algorithm::controls().map(|method| method.name().to_owned()).collect(),
        ..Options::default()
    }
}

/// # Errors
/// `fault.*` for faults that another version resolved, `datapack.fault_unnamed` for an imported one without a name.
pub fn case(label: &Label<'_>, candidates: usize, environment: Environment) -> Result<Case> {
    let named = faults(label, environment)?;
    let mut families: Vec<&str> = named.iter().map(|(family, _)| family.as_str()).collect();
    families.sort_unstable();
    families.dedup();
    let mut points: Vec<&str> = named.iter().map(|(_, point)| point.as_str()).collect();
    points.sort_unstable();
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    let truth = |names: Vec<&str>| if named.is_empty() { Vec::new() } else { owned(names) };
    Ok(Case {
        pack: label.pack.to_owned(),
        system: label.system.to_owned(),
        family: families.join("+"),
        point: points.join("+"),
        environment,
        seed: (environment == Environment::Simulated).then_some(label.seed),
        completed: label.built,
        exposed: label.exposed,
        valid: !matches!(label.verdict, Some(Verdict::Invalid | Verdict::NoData)),
        detected: label.verdict == Some(Verdict::Anomaly),
        truth_roots: truth(label.truth.roots()),
        truth_public: truth(label.truth.public()),
        truth_levels: Level::ALL[1..]
            .iter()
            .map(|level| (*level, owned(label.truth.at(*level))))
            .filter(|(_, names)| !names.is_empty())
            .collect(),
        candidates,
        difficulty: Difficulty::default(),
    })
}

/// Family and point of each fault. Another benchmark's family is its own word for the fault, and its point the service.
fn faults(label: &Label<'_>, environment: Environment) -> Result<Vec<(String, String)>> {
    let list = label.faults.as_array().into_iter().flatten();
    let place = || format!("datapack {}", label.pack);
    let named = list.map(|fault| {
        // A fault of ours that went out and came back has its form; another benchmark's has words alone.
        if environment == Environment::Imported && fault.get("format").is_none() {
            let text = |key: &str| fault.get(key).and_then(Value::as_str).map(str::to_owned);
            return text("capability").zip(text("service")).ok_or_else(|| {
                Problem::new(ErrorKind::Failed, "datapack.fault_unnamed", "the label of the datapack names no fault")
                    .place(place())
                    .fix("import it again")
            });
        }
        let fault = Resolved::from_value(fault).map_err(|problem| {
            problem.place(place()).fix("it was submitted by another version of Aegis; ask for a board without it")
        })?;
        Ok((fault.capability().family.as_str().to_owned(), fault.point))
    });
    named.collect()
}

/// # Errors
/// `board.format_unknown`.
pub fn check_format(format: &str) -> Result<()> {
    match FORMATS.contains(&format) {
        true => Ok(()),
        false => Err(invalid(Problem::unknown("board.format_unknown", "format", format, FORMATS))),
    }
}

/// # Errors
/// `board.format_unknown`, and what drawing a picture refuses.
pub fn document(board: &EnvironmentBoard, rule: Rule, format: &str) -> Result<Document> {
    check_format(format)?;
    let (content_type, file_name, content) = match format {
        "md" => ("text/markdown; charset=utf-8", "board.md", score::render::markdown(board, rule).into_bytes()),
        "csv" => ("text/csv; charset=utf-8", "board.csv", score::render::csv(board).into_bytes()),
        "png" => ("image/png", "board.png", score::render::png(&score::render::svg(board, rule))?),
        _ => ("image/svg+xml", "board.svg", score::render::svg(board, rule).into_bytes()),
    };
    Ok(Document { content_type, file_name, content })
}

/// The board in the form that `aegisctl board -o json` prints.
pub fn public(board: &EnvironmentBoard, rule: Rule) -> Board {
    wire(rule, Some(board), board.environment, None)
}

/// The list exists; it is the parameter that is wrong.
pub fn invalid(problem: Problem) -> Problem {
    Problem { kind: ErrorKind::Invalid, ..problem }
}
