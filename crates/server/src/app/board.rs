//! The board: cases and outcomes from the store, scores from `score`.

use std::collections::{BTreeMap, HashMap};

use ::fault::Resolved;
use ::score::{Case, Environment, Options, Outcome, Rule};
use api::board::{Board, BoardQuery, Excluded};
use model::{ErrorKind, ExecutionId, ExecutionState, InjectionId, PackState, Problem, Result, Verdict};
use store::{Execution, ExecutionFilter, Injection, InjectionFilter, Page, Role};

use super::App;
use super::algorithm::BUILTIN;
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
        let filter = InjectionFilter {
            system: query.system.clone(),
            group: query.group_id.as_deref().map(super::run::group).transpose()?,
            ..InjectionFilter::default()
        };
        let kind = self.cluster().info().kind;
        let environment = if kind == "simulated" { Environment::Simulated } else { Environment::Cluster };
        let (injections, executions) = self.everything(&filter).await?;
        if injections.is_empty() {
            self.require_known_system(query.system.as_deref()).await?;
        }
        let cases = self.cases(&injections, &executions, environment);
        let outcomes = self.outcomes(&injections, &executions).await?;
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

impl App {
    async fn everything(&self, filter: &InjectionFilter) -> Result<(Vec<Injection>, Vec<Execution>)> {
        let injections = self.store().injections(filter, Page::ALL).await?.items;
        let of_algorithms =
            ExecutionFilter { role: Some(Role::Algorithm), group: filter.group, ..ExecutionFilter::default() };
        let executions = self.store().executions(&of_algorithms, Page::ALL).await?.items;
        Ok((injections, executions))
    }

    fn cases(&self, injections: &[Injection], executions: &[Execution], environment: Environment) -> Vec<Case> {
        let mut candidates: HashMap<InjectionId, usize> = HashMap::new();
        for execution in executions {
            if let Some(list) = &execution.candidates {
                candidates.insert(execution.injection, list.len());
            }
        }
        let case = |injection: &Injection| self.case(injection, candidates.get(&injection.id).copied(), environment);
        injections.iter().map(case).collect()
    }

    fn case(&self, injection: &Injection, candidates: Option<usize>, environment: Environment) -> Case {
        let faults: Vec<Resolved> = faults_of(injection);
        let mut families: Vec<&str> = faults.iter().map(|fault| fault.capability().family.as_str()).collect();
        families.dedup();
        let points: Vec<&str> = faults.iter().map(|fault| fault.point.as_str()).collect();
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        Case {
            pack: injection.name.clone(),
            system: injection.system.to_string(),
            family: families.join("+"),
            point: points.join("+"),
            environment,
            seed: (environment == Environment::Simulated).then_some(injection.seed),
            completed: injection.pack_path.is_some(),
            exposed: injection.exposed == Some(true),
            valid: !matches!(injection.verdict, Some(Verdict::Invalid | Verdict::NoData)),
            detected: injection.verdict == Some(Verdict::Anomaly),
            truth_roots: if faults.is_empty() { Vec::new() } else { owned(injection.truth.roots()) },
            truth_public: if faults.is_empty() { Vec::new() } else { owned(injection.truth.public()) },
            candidates: candidates.unwrap_or_else(|| self.candidates(injection)),
        }
    }

    /// Of a pack that no algorithm ran on: the services of its system that could have been named.
    fn candidates(&self, injection: &Injection) -> usize {
        let Ok(data) = self.catalog().get(&injection.system) else { return 0 };
        let generator = &data.registration.entrance.load_generator;
        let services = data.topology.as_ref().map(|topology| &topology.services).into_iter().flatten();
        services.filter(|service| service.name != *generator && !service.disabled).count()
    }

    async fn outcomes(&self, injections: &[Injection], executions: &[Execution]) -> Result<Vec<Outcome>> {
        let names: HashMap<InjectionId, &str> =
            injections.iter().map(|injection| (injection.id, injection.name.as_str())).collect();
        let here: Vec<&Execution> =
            executions.iter().filter(|execution| names.contains_key(&execution.injection)).collect();
        let ids: Vec<ExecutionId> = here.iter().map(|execution| execution.id).collect();
        let mut answers = self.store().answers(&ids).await?;
        // Newest first is how they are listed, and of several the last one counts.
        let ended = here.into_iter().rev().filter(|execution| execution.state != ExecutionState::Initial);
        Ok(ended
            .map(|execution| Outcome {
                algorithm: algorithm_name(execution),
                pack: names[&execution.injection].to_owned(),
                answers: (execution.state == ExecutionState::Success)
                    .then(|| answers.remove(&execution.id).unwrap_or_default()),
                reason: execution.reason.clone(),
                seconds: execution.duration_s,
            })
            .collect())
    }
}

fn algorithm_name(execution: &Execution) -> String {
    if execution.version == BUILTIN {
        execution.algorithm.clone()
    } else {
        format!("{}:{}", execution.algorithm, execution.version)
    }
}

/// A stored fault that can no longer be read has no family and no point, and shows up as such.
fn faults_of(injection: &Injection) -> Vec<Resolved> {
    let list = injection.faults.as_array().into_iter().flatten();
    list.filter_map(|fault| Resolved::from_value(fault).ok()).collect()
}

/// Packs with a fault that no row counts, by reason.
fn excluded(injections: &[Injection]) -> Vec<Excluded> {
    let mut reasons: BTreeMap<&str, i32> = BTreeMap::new();
    for injection in injections.iter().filter(|injection| injection.fault_name != "none") {
        let reason = match (injection.pack_path.is_some(), injection.verdict, injection.exposed) {
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
