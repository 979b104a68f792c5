//! The board: cases and outcomes from the store, scores from `score`.

use std::collections::{BTreeMap, HashMap};

use ::score::{Case, Environment, Outcome, Rule};
use api::board::{Board, BoardQuery, Excluded, ExportQuery};
use model::{
    Answer, ErrorKind, EvaluationId, ExecutionId, ExecutionState, InjectionId, PackState, Problem, Result, Verdict,
};
use store::{BoardCase, BoardExecution, BoardFilter};

use super::App;
use super::algorithm::BUILTIN;
use super::injection::CONTROL;
use super::scores;
use crate::scoring::{self, Label};

const ROWS: [&str; 3] = ["ranking", "pipeline", "detected only"];

/// What a board is computed from.
pub struct Scoring {
    pub environment: Environment,
    pub rule: Rule,
    pub injections: Vec<BoardCase>,
    pub cases: Vec<Case>,
    pub outcomes: Vec<Outcome>,
}

impl Scoring {
    /// Resampling takes a while on large boards; it must not hold up other requests.
    async fn board(self) -> Result<(Vec<BoardCase>, ::score::Board)> {
        let options = scoring::options(self.rule);
        let scored = tokio::task::spawn_blocking(move || ::score::board(&self.cases, &self.outcomes, &options)).await;
        let scored =
            scored.map_err(|error| Problem::internal("board.panicked", "the board cannot be computed").cause(error))?;
        Ok((self.injections, scored))
    }
}

impl App {
    /// # Errors
    /// `board.row_unknown`, `board.rule_unknown`, `group.id_malformed`, `system.unknown`, `evaluation.unknown`,
    /// `dataset.unknown`.
    pub async fn board(&self, query: &BoardQuery) -> Result<Board> {
        if let Some(row) = query.row.as_deref().filter(|row| !ROWS.contains(row)) {
            let problem = Problem::unknown("board.row_unknown", "row", row, ROWS).place("query: row");
            return Err(scoring::invalid(problem));
        }
        let scoring = self.scoring(query).await?;
        let environment = scoring.environment;
        let rule = scoring.rule;
        let (injections, scored) = scoring.board().await?;
        let mut board = scores::board(rule, scored.environment(environment), environment, query.row.as_deref());
        board.excluded = excluded(&injections);
        Ok(board)
    }

    /// The board as a document.
    ///
    /// # Errors
    /// `board.format_unknown`, `board.empty`, and those of [`App::board`].
    pub async fn board_document(&self, query: &ExportQuery) -> Result<scoring::Document> {
        scoring::check_format(&query.format).map_err(|problem| problem.place("query: format"))?;
        let wanted = BoardQuery {
            system: query.system.clone(),
            group_id: query.group_id.clone(),
            row: None,
            rule: query.rule.clone(),
            evaluation: query.evaluation,
            dataset: query.dataset.clone(),
        };
        let scoring = self.scoring(&wanted).await?;
        let (environment, rule) = (scoring.environment, scoring.rule);
        let (_, scored) = scoring.board().await?;
        let board = scored.environment(environment).ok_or_else(|| {
            Problem::new(ErrorKind::NotFound, "board.empty", "there is no datapack that the board could count")
        })?;
        scoring::document(board, rule, &query.format)
    }

    /// # Errors
    /// As [`App::board`], its rows apart.
    pub async fn scoring(&self, query: &BoardQuery) -> Result<Scoring> {
        let rule = scoring::rule(query.rule.as_deref()).map_err(|problem| problem.place("query: rule"))?;
        let origin_kind = self.cluster().info().kind;
        let environment = environment(&origin_kind)?;
        let filter = BoardFilter {
            origin_kind,
            system: query.system.clone(),
            group: query.group_id.as_deref().map(super::run::group).transpose()?,
            evaluation: query.evaluation.map(EvaluationId),
            dataset: match &query.dataset {
                Some(name) => Some(self.find_dataset(name).await?.id),
                None => None,
            },
        };
        if let Some(evaluation) = filter.evaluation {
            self.store().evaluation(evaluation).await?;
        }
        let injections = self.store().board_cases(&filter).await?;
        if injections.is_empty() {
            self.require_known_system(query.system.as_deref()).await?;
        }
        let cases = self.cases(&injections, &filter, environment).await?;
        let outcomes = self.outcomes(&injections, &filter).await?;
        Ok(Scoring { environment, rule, injections, cases, outcomes })
    }
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
        let difficulties = self.difficulties(injections, &filter.origin_kind).await?;
        let damaged = match filter.evaluation {
            Some(evaluation) => self.store().excluded_packs(evaluation).await?,
            None => BTreeMap::new(),
        };
        let case = |injection: &BoardCase| {
            let candidates = match candidates.get(&injection.injection) {
                Some(number) => *number,
                None => self.candidates(injection)?,
            };
            let mut case = scoring::case(&label(injection), candidates, environment)?;
            case.difficulty = difficulties[&injection.injection];
            case.valid &= damaged.get(&injection.injection).is_none_or(|reason| reason != super::evaluation::DAMAGED);
            Ok(case)
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
                answers: answers.remove(&execution.id).map(|list| decided(list, execution.remote)),
                reason: execution.reason,
                seconds: execution.duration_s,
                peak_memory: execution.peak_memory,
                onset: execution.onset,
                unconfined: execution.isolation.as_deref() == Some("none"),
            })
            .collect())
    }
}

fn label(injection: &BoardCase) -> Label<'_> {
    Label {
        pack: &injection.name,
        system: injection.system.as_str(),
        faults: &injection.faults,
        truth: &injection.truth,
        seed: injection.seed,
        built: injection.built,
        exposed: injection.exposed == Some(true),
        verdict: injection.verdict,
    }
}

fn algorithm_name(execution: &BoardExecution) -> String {
    if execution.version == BUILTIN {
        execution.algorithm.clone()
    } else {
        format!("{}:{}", execution.algorithm, execution.version)
    }
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

/// An uploaded answer gives every suspect a rank of its own, which is what counts: many clients send the same confidence for all,
/// and that makes no tie.
fn decided(mut answers: Vec<Answer>, remote: bool) -> Vec<Answer> {
    if remote {
        answers.iter_mut().for_each(|answer| answer.score = None);
    }
    answers
}
