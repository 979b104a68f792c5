//! Evaluations: what runs where is decided when one is made; how far it is and what came of it is read afterwards.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ::score::Case;
use api::board::BoardQuery;
use api::evaluation::{CancelEvaluationReply, CompareQuery, Evaluation, EvaluationComparison, EvaluationRequest};
use api::spec::AlgorithmChoice;
use api::{Page, PageQuery};
use model::{ErrorKind, EvaluationId, InjectionId, Onset, Problem, Result, Verdict};
use serde_json::json;
use store::{BoardCase, BoardFilter, Item, NewEvaluation};

use super::algorithm::BUILTIN;
use super::injection::CONTROL;
use super::{App, listed, scores, stored_page};

/// Why a datapack is taken out of an evaluation that began with it.
pub const DAMAGED: &str = "damaged";
/// Most executions of one evaluation.
const MOST: usize = 200_000;

/// A datapack of the scope; with a reason, no algorithm runs on it.
type Judged = (InjectionId, Option<String>);

impl App {
    /// Stores an evaluation; the work begins at once, and outlives every process.
    ///
    /// # Errors
    /// `algorithm.unknown` and its kin, `algorithm.repeated`, `dataset.unknown`, `dataset.part_unknown`,
    /// `datapack.unknown`, `evaluation.no_datapack`, `evaluation.too_large`.
    pub async fn create_evaluation(&self, request: &EvaluationRequest) -> Result<Evaluation> {
        let algorithms = self.evaluated(&request.algorithms).await?;
        let scope = self.scope(request).await?;
        let (packs, runnable) = self.split(scope, false)?;
        let onsets = if request.robustness { &Onset::ALL[..] } else { &[Onset::Known] };
        let mut items = Vec::new();
        for injection in &runnable {
            for algorithm in &algorithms {
                // The files of a datapack are cut where its fault began; a command cannot be told otherwise.
                let onsets = if algorithm.version == BUILTIN { onsets } else { &[Onset::Known] };
                items.extend(onsets.iter().map(|onset| item(*injection, algorithm, *onset)));
            }
        }
        if items.len() > MOST {
            return Err(Problem::new(ErrorKind::Invalid, "evaluation.too_large", "the evaluation is too large")
                .found(format!("{} executions", items.len()))
                .expected(format!("at most {MOST}"))
                .fix("name fewer algorithms, or evaluate one system or data set at a time"));
        }
        if !request.always {
            self.reuse(&runnable, &mut items).await?;
        }
        let names: Vec<String> = algorithms.iter().map(full_name).collect();
        self.store_evaluation(request, &names, packs, items).await
    }

    /// One algorithm on one datapack, whatever became of it before, and nothing else.
    ///
    /// # Errors
    /// `algorithm.unknown` and its kin, `datapack.unknown`, `evaluation.no_datapack`.
    pub async fn test_algorithm(&self, name: &str, pack: &str) -> Result<Evaluation> {
        let algorithm = self.choose_algorithm(name).await?;
        let request = EvaluationRequest { packs: vec![pack.to_owned()], always: true, ..EvaluationRequest::default() };
        let (packs, runnable) = self.split(self.scope(&request).await?, true)?;
        let items = runnable.iter().map(|injection| item(*injection, &algorithm, Onset::Known)).collect();
        let name = format!("test of {}", full_name(&algorithm));
        let request = EvaluationRequest { name: Some(name), ..request };
        self.store_evaluation(&request, &[full_name(&algorithm)], packs, items).await
    }

    async fn store_evaluation(
        &self,
        request: &EvaluationRequest,
        algorithms: &[String],
        packs: Vec<Judged>,
        items: Vec<Item>,
    ) -> Result<Evaluation> {
        let new = NewEvaluation {
            project: self.store().project(store::DEFAULT_PROJECT).await?.id,
            name: request.name.clone().unwrap_or_else(|| "evaluation".to_owned()),
            definition: json!({"format": 1, "request": request, "algorithms": algorithms}),
            packs,
            items,
        };
        let id = self.store().add_evaluation(&new).await?;
        self.evaluation(id).await
    }

    /// # Errors
    /// `evaluation.unknown`.
    pub async fn evaluation(&self, id: EvaluationId) -> Result<Evaluation> {
        Ok(evaluation(&self.store().evaluation(id).await?))
    }

    /// # Errors
    /// `page.out_of_range`.
    pub async fn evaluations(&self, query: PageQuery) -> Result<Page<Evaluation>> {
        let page = query.check()?;
        let list = self.store().evaluations(stored_page(page)).await?;
        Ok(listed(page, &list, evaluation))
    }

    /// # Errors
    /// `evaluation.unknown`.
    pub async fn cancel_evaluation(&self, id: EvaluationId) -> Result<CancelEvaluationReply> {
        Ok(CancelEvaluationReply { cancelled: self.store().cancel_evaluation(id).await? })
    }

    /// # Errors
    /// `evaluation.unknown`, `board.rule_unknown`.
    pub async fn compare_evaluations(&self, query: &CompareQuery) -> Result<EvaluationComparison> {
        let of = |evaluation: i32| BoardQuery {
            evaluation: Some(evaluation),
            rule: query.rule.clone(),
            ..BoardQuery::default()
        };
        let (first, second) = (self.scoring(&of(query.first)).await?, self.scoring(&of(query.second)).await?);
        let rule = first.rule.as_str();
        let (origin, options) = (first.environment.as_str(), crate::scoring::options(first.rule));
        let compared = move || {
            let scored = |cases: &[Case]| -> BTreeSet<String> {
                let counts = |case: &&Case| !case.is_control() && case.completed && case.exposed && case.valid;
                cases.iter().filter(counts).map(|case| case.pack.clone()).collect()
            };
            let (a, b) = (scored(&first.cases), scored(&second.cases));
            let both: Vec<&Case> =
                first.cases.iter().filter(|case| a.contains(&case.pack) && b.contains(&case.pack)).collect();
            let paired = ::score::paired(&both, &first.outcomes, &second.outcomes, &options);
            let names = |outcomes: &[::score::Outcome]| -> BTreeSet<String> {
                outcomes.iter().map(|outcome| outcome.algorithm.clone()).collect()
            };
            let (x, y) = (names(&first.outcomes), names(&second.outcomes));
            let alone: Vec<String> = x.symmetric_difference(&y).cloned().collect();
            (paired, a.difference(&b).count(), b.difference(&a).count(), alone)
        };
        let (paired, only_first, only_second, not_compared) = tokio::task::spawn_blocking(compared)
            .await
            .map_err(|error| Problem::internal("board.panicked", "the comparison cannot be computed").cause(error))?;
        Ok(EvaluationComparison {
            first: query.first,
            second: query.second,
            origin: origin.to_owned(),
            rule: rule.to_owned(),
            packs: scores::int(paired.packs),
            only_first: scores::int(only_first),
            only_second: scores::int(only_second),
            comparisons: paired.comparisons.iter().map(scores::comparison).collect(),
            not_compared,
        })
    }

    /// The algorithms that were named, or every built-in one, and the trivial baselines in any case.
    async fn evaluated(&self, names: &[String]) -> Result<Vec<AlgorithmChoice>> {
        let wanted: Vec<String> = if names.is_empty() {
            rca::algorithm::algorithms().iter().map(|method| method.name().to_owned()).collect()
        } else {
            names.to_vec()
        };
        let mut chosen: Vec<AlgorithmChoice> = Vec::new();
        for name in &wanted {
            let choice = self.choose_algorithm(name).await?;
            if chosen.contains(&choice) {
                return Err(Problem::new(ErrorKind::Invalid, "algorithm.repeated", "an algorithm is asked for twice")
                    .place("algorithms")
                    .found(format!("`{name}`")));
            }
            chosen.push(choice);
        }
        Ok(self.with_baselines(chosen))
    }

    /// Every datapack that is asked about, whatever became of it.
    pub(super) async fn scope(&self, request: &EvaluationRequest) -> Result<Vec<BoardCase>> {
        let dataset = match &request.dataset {
            Some(name) => Some(self.find_dataset(name).await?),
            None => None,
        };
        let filter = BoardFilter {
            origin_kind: self.cluster().info().kind,
            system: request.system.clone(),
            group: request.group_id.as_deref().map(super::run::group).transpose()?,
            evaluation: None,
            dataset: dataset.as_ref().map(|dataset| dataset.id),
        };
        let mut scope = self.store().board_cases(&filter).await?;
        if scope.is_empty() {
            self.require_known_system(request.system.as_deref()).await?;
        }
        if let Some(part) = &request.part {
            let kept = super::dataset::part(dataset.as_ref(), part)?;
            scope.retain(|case| kept.contains(&case.name));
        }
        if !request.packs.is_empty() {
            let mut wanted = BTreeSet::new();
            for name in &request.packs {
                wanted.insert(self.find_injection(name).await?.id);
            }
            scope.retain(|case| wanted.contains(&case.injection));
        }
        Ok(scope)
    }

    /// All of the scope, each with the reason why no algorithm runs on it; and those on which algorithms do.
    fn split(&self, scope: Vec<BoardCase>, any_built: bool) -> Result<(Vec<Judged>, Vec<InjectionId>)> {
        let packs: Vec<Judged> = scope
            .iter()
            .map(|case| {
                let reason = if any_built { (!case.built).then_some("no datapack") } else { reason(case) };
                (case.injection, reason.map(str::to_owned))
            })
            .collect();
        let runnable: Vec<InjectionId> =
            packs.iter().filter(|(_, reason)| reason.is_none()).map(|(injection, _)| *injection).collect();
        if !runnable.is_empty() {
            return Ok((packs, runnable));
        }
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, reason) in &packs {
            *reasons.entry(reason.as_deref().unwrap_or_default()).or_default() += 1;
        }
        let found: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        Err(Problem::new(ErrorKind::Invalid, "evaluation.no_datapack", "there is no datapack that could be scored")
            .found(if found.is_empty() { "no datapack at all".to_owned() } else { found.join(", ") })
            .expected("at least one datapack that is valid and whose target felt the fault"))
    }

    /// Gives items the executions that answered the same question already.
    async fn reuse(&self, injections: &[InjectionId], items: &mut [Item]) -> Result<()> {
        let key = |item: &Item| (item.injection, item.algorithm.clone(), item.version.clone(), item.onset);
        let known: HashMap<_, _> =
            self.store().answered(injections).await?.iter().map(|item| (key(item), item.execution)).collect();
        for item in items {
            item.execution = known.get(&key(item)).copied().flatten();
        }
        Ok(())
    }
}

/// Why no algorithm is scored on a datapack.
fn reason(case: &BoardCase) -> Option<&'static str> {
    match (case.built, case.verdict, case.exposed) {
        (false, ..) => Some("no datapack"),
        (_, Some(Verdict::Invalid), _) => Some("invalid"),
        (_, Some(Verdict::NoData), _) => Some("no data"),
        _ if case.fault_name == CONTROL => Some("no-fault control"),
        (_, _, Some(true)) => None,
        _ => Some("not exposed"),
    }
}

fn item(injection: InjectionId, algorithm: &AlgorithmChoice, onset: Onset) -> Item {
    Item { injection, algorithm: algorithm.name.clone(), version: algorithm.version.clone(), onset, execution: None }
}

fn full_name(algorithm: &AlgorithmChoice) -> String {
    if algorithm.version == BUILTIN {
        algorithm.name.clone()
    } else {
        format!("{}:{}", algorithm.name, algorithm.version)
    }
}

fn evaluation(stored: &store::Evaluation) -> Evaluation {
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let request = &stored.definition["request"];
    let text = |key: &str| request[key].as_str().map(str::to_owned);
    let names: Vec<&str> =
        stored.definition["algorithms"].as_array().into_iter().flatten().filter_map(|name| name.as_str()).collect();
    let progress = &stored.progress;
    let state = match (stored.cancelled_at, stored.ended_at) {
        (Some(_), _) => "Cancelled",
        (None, Some(_)) => "Completed",
        (None, None) => "Running",
    };
    let figures = json!({
        "state": state, "executions": progress.items, "done": progress.done, "failed": progress.failed,
        "packs": progress.packs, "excluded": progress.excluded,
    });
    let dataset = text("dataset");
    let (dataset_name, dataset_version) =
        match dataset.as_deref().map(|name| name.split_once(':').unwrap_or((name, ""))) {
            Some((name, version)) => {
                (Some(name.to_owned()), Some(version.to_owned()).filter(|version| !version.is_empty()))
            }
            None => (None, None),
        };
    Evaluation {
        id: stored.id,
        project_id: stored.project,
        name: stored.name.clone(),
        eval_type: if dataset_name.is_some() { "dataset" } else { "datapack" }.to_owned(),
        algorithm_name: names.join(", "),
        algorithm_version: names.first().and_then(|name| name.split_once(':')).map_or(BUILTIN, |(_, v)| v).to_owned(),
        dataset_name,
        dataset_version,
        state: state.to_owned(),
        executions: number(progress.items),
        done: number(progress.done),
        failed: number(progress.failed),
        packs: number(progress.packs),
        excluded: progress.excluded.iter().map(|(reason, count)| (reason.clone(), number(*count))).collect(),
        reading_seconds: stored.reading_s,
        ranking_seconds: stored.ranking_s,
        result_json: figures.to_string(),
        created_at: stored.created_at.to_string(),
        updated_at: stored.updated_at.to_string(),
        ended_at: stored.ended_at.map(|at| at.to_string()),
    }
}
