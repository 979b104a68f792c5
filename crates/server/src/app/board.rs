//! The board: cases and outcomes from the store, scores from `score`.

use std::collections::{BTreeMap, HashMap};

use ::fault::Resolved;
use ::score::{Case, Environment, Options, Outcome, Rule};
use api::board::{Board, BoardQuery, Excluded};
use model::{ErrorKind, ExecutionId, ExecutionState, InjectionId, PackState, Problem, Result, Verdict};
use store::{BoardCase, BoardExecution, BoardFilter};

use super::App;
use super::algorithm::BUILTIN;
use super::injection::CONTROL;
use super::scores;

const ROWS: [&str; 3] = ["ranking", "pipeline", "detected only"];

impl App {
    /// # Errors
    /// `board.row_unknown`, `board.rule_unknown`, `group.id_malformed`, `system.unknown`.
    pub async fn board(&self, query: &BoardQuery) -> Result<Board> {
        let rule = rule(query.rule.as_deref())?;
        if let Some(row) = query.row.as_deref().filter(|row| !ROWS.contains(row)) {
            return Err(invalid(Problem::unknown("board.row_unknown", "row", row, ROWS).place("query: row")));
        }
        let origin_kind = self.cluster().info().kind;
        let environment = environment(&origin_kind)?;
        let filter = BoardFilter {
            origin_kind,
            system: query.system.clone(),
            group: query.group_id.as_deref().map(super::run::group).transpose()?,
        };
        let injections = self.store().board_cases(&filter).await?;
        if injections.is_empty() {
            self.require_known_system(query.system.as_deref()).await?;
        }
        let cases = self.cases(&injections, &filter, environment).await?;
        let outcomes = self.outcomes(&injections, &filter).await?;
        let in_house = rca::algorithm::algorithms()
            .iter()
            .filter(|method| method.about().in_house)
            .map(|method| method.name().to_owned())
            .collect();
        let options = Options { rule, in_house, ..Options::default() };
        // Resampling takes a while on large boards; it must not hold up other requests.
        let scored = tokio::task::spawn_blocking(move || ::score::board(&cases, &outcomes, &options))
            .await
            .map_err(|error| Problem::internal("board.panicked", "the board cannot be computed").cause(error))?;
        let rule = if rule == Rule::Root { "root" } else { "public" };
        let mut board =
            scores::board(rule, scored.environment(environment), environment.as_str(), query.row.as_deref());
        board.excluded = excluded(&injections);
        Ok(board)
    }
}

fn rule(text: Option<&str>) -> Result<Rule> {
    match text {
        None | Some("root") => Ok(Rule::Root),
        Some("public") => Ok(Rule::Public),
        Some(other) => {
            Err(invalid(Problem::unknown("board.rule_unknown", "rule", other, ["root", "public"]).place("query: rule")))
        }
    }
}

/// The list exists; it is the parameter that is wrong.
fn invalid(problem: Problem) -> Problem {
    Problem { kind: ErrorKind::Invalid, ..problem }
}

/// A board is of the runs of this cluster's kind; the others are another board.
fn environment(origin_kind: &str) -> Result<Environment> {
    let known = [Environment::Simulated, Environment::Cluster];
    known.into_iter().find(|one| one.as_str() == origin_kind).ok_or_else(|| {
        Problem::internal("board.origin_unknown", "the cluster is of no known kind").found(origin_kind.to_owned())
    })
}

impl App {
    async fn cases(
        &self,
        injections: &[BoardCase],
        filter: &BoardFilter,
        environment: Environment,
    ) -> Result<Vec<Case>> {
        let candidates = self.store().board_candidates(filter).await?;
        let case = |injection: &BoardCase| {
            let candidates = match candidates.get(&injection.injection) {
                Some(number) => *number,
                None => self.candidates(injection)?,
            };
            case(injection, candidates, environment)
        };
        injections.iter().map(case).collect()
    }

    /// Of a pack that no algorithm answered on: the services of its system that could have been named. Of a system that is
    /// gone nothing is known, and the board says so.
    fn candidates(&self, injection: &BoardCase) -> Result<usize> {
        let data = match self.catalog().get(&injection.system) {
            Ok(data) => data,
            Err(problem) if problem.kind == ErrorKind::NotFound => return Ok(0),
            Err(problem) => return Err(problem),
        };
        let generator = &data.registration.entrance.load_generator;
        let services = data.topology.as_ref().map(|topology| &topology.services).into_iter().flatten();
        Ok(services.filter(|service| service.name != *generator && !service.disabled).count())
    }

    async fn outcomes(&self, injections: &[BoardCase], filter: &BoardFilter) -> Result<Vec<Outcome>> {
        let names: HashMap<InjectionId, &str> =
            injections.iter().map(|injection| (injection.injection, injection.name.as_str())).collect();
        let executions = self.store().board_executions(filter).await?;
        // One that was submitted a moment ago may have come in between the two questions.
        let here = executions.into_iter().filter(|execution| names.contains_key(&execution.injection));
        let here: Vec<BoardExecution> = here.collect();
        let answered = here.iter().filter(|execution| execution.state == ExecutionState::Success);
        let ids: Vec<ExecutionId> = answered.map(|execution| execution.id).collect();
        let mut answers = self.store().answers(&ids).await?;
        Ok(here
            .into_iter()
            .map(|execution| Outcome {
                algorithm: algorithm_name(&execution),
                pack: names[&execution.injection].to_owned(),
                answers: answers.remove(&execution.id),
                reason: execution.reason,
                seconds: execution.duration_s,
            })
            .collect())
    }
}

fn case(injection: &BoardCase, candidates: usize, environment: Environment) -> Result<Case> {
    let faults: Vec<Resolved> = faults_of(injection)?;
    let mut families: Vec<&str> = faults.iter().map(|fault| fault.capability().family.as_str()).collect();
    families.sort_unstable();
    families.dedup();
    let mut points: Vec<&str> = faults.iter().map(|fault| fault.point.as_str()).collect();
    points.sort_unstable();
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    Ok(Case {
        pack: injection.name.clone(),
        system: injection.system.to_string(),
        family: families.join("+"),
        point: points.join("+"),
        environment,
        seed: (environment == Environment::Simulated).then_some(injection.seed),
        completed: injection.built,
        exposed: injection.exposed == Some(true),
        valid: !matches!(injection.verdict, Some(Verdict::Invalid | Verdict::NoData)),
        detected: injection.verdict == Some(Verdict::Anomaly),
        truth_roots: if faults.is_empty() { Vec::new() } else { owned(injection.truth.roots()) },
        truth_public: if faults.is_empty() { Vec::new() } else { owned(injection.truth.public()) },
        candidates,
    })
}

fn algorithm_name(execution: &BoardExecution) -> String {
    if execution.version == BUILTIN {
        execution.algorithm.clone()
    } else {
        format!("{}:{}", execution.algorithm, execution.version)
    }
}

fn faults_of(injection: &BoardCase) -> Result<Vec<Resolved>> {
    let list = injection.faults.as_array().into_iter().flatten();
    let read = list.map(|fault| {
        Resolved::from_value(fault).map_err(|problem| {
            let place = format!("datapack {}", injection.name);
            problem.place(place).fix("it was submitted by another version of Aegis; ask for a board without it")
        })
    });
    read.collect()
}

/// Packs with a fault that no row counts, by reason.
fn excluded(injections: &[BoardCase]) -> Vec<Excluded> {
    let mut reasons: BTreeMap<&str, i32> = BTreeMap::new();
    for injection in injections.iter().filter(|injection| injection.fault_name != CONTROL) {
        let reason = match (injection.built, injection.verdict, injection.exposed) {
            (_, Some(Verdict::Invalid), _) => "invalid",
            (_, Some(Verdict::NoData), _) => "no data",
            (false, ..) if injection.state == PackState::Initial => "not ended, or ended before its fault",
            (false, ..) => "no datapack",
            (true, _, Some(true)) => continue,
            (true, ..) => "not exposed",
        };
        *reasons.entry(reason).or_default() += 1;
    }
    reasons.into_iter().map(|(reason, packs)| Excluded { reason: reason.to_owned(), packs }).collect()
}
