//! Detectors and algorithms: the built-in ones, commands, and those that seeds declare; and their executions.

mod command;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use api::Page;
use api::algorithm::{
    AddAlgorithmRequest, Algorithm, CommandSpec, DetectorResult, Execution, ExecutionDetail, ExecutionQuery, Method,
    RankedAnswer,
};
use api::spec::AlgorithmChoice;
use model::{
    Answer, ErrorKind, EvaluationId, ExecutionId, ExecutionState, InjectionId, Problem, ProjectId, Result, Windows,
};
use rca::algorithm::About;
use rca::minimum::Minimum;
use sha2::{Digest, Sha256};
use store::{ContainerKind, ExecutionFilter, Version};

use super::container::builtin_number;
use super::injection::labels;
use super::{App, listed, stored_page};
use crate::auth::Caller;
use crate::extract;

/// Version of what is part of the program.
pub const BUILTIN: &str = "builtin";
/// The one name of the detector.
pub const DETECTOR: &str = "detector";

impl App {
    /// Every version of every method, built-in ones first.
    ///
    /// # Errors
    /// Whatever the store fails with.
    pub async fn algorithms(&self) -> Result<Vec<Algorithm>> {
        let mut list = vec![detector()];
        list.extend(rca::algorithm::algorithms().iter().map(|method| builtin(method.name(), &method.about())));
        for stored in self.store().commands().await? {
            list.push(self.command(&stored)?);
        }
        for container in self.store().containers(Some(ContainerKind::Algorithm)).await? {
            let versions = container.versions.iter().filter(|version| version.name != BUILTIN);
            list.extend(versions.map(|version| declared(&container.name, version)));
        }
        Ok(list)
    }

    /// # Errors
    /// `state.unknown`, `page.out_of_range`.
    pub async fn executions(&self, query: &ExecutionQuery) -> Result<Page<Execution>> {
        self.executions_of(None, query).await
    }

    /// Those of one project, by its name or number.
    ///
    /// # Errors
    /// `project.unknown`, and as for [`Self::executions`].
    pub async fn project_executions(&self, project: &str, query: &ExecutionQuery) -> Result<Page<Execution>> {
        let project = self.find_project(project).await?.id;
        self.executions_of(Some(project), query).await
    }

    async fn executions_of(&self, project: Option<ProjectId>, query: &ExecutionQuery) -> Result<Page<Execution>> {
        let page = api::PageQuery { page: query.page, size: query.size }.check()?;
        let code = ExecutionState::code;
        let filter = ExecutionFilter {
            state: extract::state(query.state.as_deref(), ExecutionState::ALL, ExecutionState::as_str, code)?,
            injection: query.datapack_id.map(InjectionId),
            algorithm: query.algorithm.clone(),
            project,
            evaluation: query.evaluation_id.map(EvaluationId),
            ..ExecutionFilter::default()
        };
        let list = self.store().executions(&filter, stored_page(page)).await?;
        let mut names: HashMap<InjectionId, String> = HashMap::new();
        for execution in &list.items {
            if let Entry::Vacant(place) = names.entry(execution.injection) {
                place.insert(self.store().injection(execution.injection).await?.name);
            }
        }
        Ok(listed(page, &list, |one| execution(one, &names[&one.injection])))
    }

    /// # Errors
    /// `execution.unknown`.
    pub async fn execution(&self, id: ExecutionId) -> Result<ExecutionDetail> {
        let stored = self.store().execution(id).await?;
        let pack = self.store().injection(stored.injection).await?.name;
        // An execution that failed has no answer, and so has the detector.
        let answers = self.store().answers(&[id]).await?.remove(&id).unwrap_or_default();
        let rows = self.store().detector_rows(id).await?;
        Ok(ExecutionDetail {
            execution: execution(&stored, &pack),
            granularity_results: answers.into_iter().map(ranked).collect(),
            detector_results: rows.into_iter().map(detected).collect(),
        })
    }

    /// The version that a submission means by `name` or `name:version`.
    ///
    /// # Errors
    /// `algorithm.unknown`, `algorithm.version_unknown`, `algorithm.not_runnable`.
    pub(super) async fn choose_algorithm(&self, text: &str) -> Result<AlgorithmChoice> {
        let (name, version) = match text.split_once(':') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        let known = self.algorithms().await?;
        let of_name: Vec<&Algorithm> = known.iter().filter(|one| one.name == name && one.role == "algorithm").collect();
        if of_name.is_empty() {
            let names = known.iter().filter(|one| one.role == "algorithm").map(|one| one.name.as_str());
            return Err(Problem::unknown("algorithm.unknown", "algorithm", name, names).place("algorithms"));
        }
        let one = match version {
            Some(version) => of_name.iter().find(|one| one.version == version).ok_or_else(|| {
                let versions = of_name.iter().map(|one| one.version.as_str());
                Problem::unknown("algorithm.version_unknown", "version", version, versions)
                    .place(format!("algorithms: {name}"))
            })?,
            // The built-in one, else the newest command, else whatever there is.
            None => of_name
                .iter()
                .find(|one| one.version == BUILTIN)
                .or_else(|| of_name.iter().rev().find(|one| one.runnable))
                .unwrap_or(&of_name[0]),
        };
        if let Some(reason) = one.reason.as_ref().filter(|_| !one.runnable) {
            return Err(Problem::new(ErrorKind::Missing, "algorithm.not_runnable", "the algorithm cannot run here")
                .place(format!("algorithms: {text}"))
                .found(reason.clone())
                .fix(format!("choose the built-in version `{name}`, or one that runs on this cluster")));
        }
        Ok(self.choice(name, &one.version))
    }

    /// Adds a version of a command. The same again is no change.
    ///
    /// # Errors
    /// `algorithm.name_malformed`, `algorithm.name_taken`, `algorithm.no_command`, `algorithm.no_container_runtime`,
    /// `algorithm.variable_reserved`, `algorithm.limit_out_of_range`, `algorithm.no_isolation`, `algorithm.program_missing`,
    /// `algorithm.version_exists`, `token.role_too_low`.
    pub async fn add_algorithm(&self, caller: &Caller, request: &AddAlgorithmRequest) -> Result<Algorithm> {
        let spec = command::checked(request, self.limits())?;
        command::allow(caller.token(), &spec)?;
        if !spec.no_isolation
            && let Err(problem) = self.isolation()
        {
            return Err(problem);
        }
        command::program(&spec)?;
        let definition = serde_json::to_value(&spec)
            .map_err(|error| Problem::internal("algorithm.unwritable", error.to_string()))?;
        let digest = hex::encode(Sha256::digest(definition.to_string().as_bytes()));
        self.store().add_command(&request.name, &request.version, &definition, &digest).await?;
        self.algorithm(&format!("{}:{}", request.name, request.version)).await
    }

    /// One version, `name:version`, or the one that a submission means by `name`.
    ///
    /// # Errors
    /// `algorithm.unknown`, `algorithm.version_unknown`.
    pub async fn algorithm(&self, text: &str) -> Result<Algorithm> {
        let known = self.algorithms().await?;
        let (name, version) = text.split_once(':').unwrap_or((text, ""));
        let of_name: Vec<&Algorithm> = known.iter().filter(|one| one.name == name).collect();
        if of_name.is_empty() {
            let names = known.iter().map(|one| one.name.as_str());
            return Err(Problem::unknown("algorithm.unknown", "algorithm", name, names));
        }
        let found = if version.is_empty() {
            of_name.iter().find(|one| one.version == BUILTIN).or(of_name.last())
        } else {
            of_name.iter().find(|one| one.version == version)
        };
        found.map(|one| (*one).clone()).ok_or_else(|| {
            let versions = of_name.iter().map(|one| one.version.as_str());
            Problem::unknown("algorithm.version_unknown", "version", version, versions).place(name.to_owned())
        })
    }

    fn command(&self, stored: &store::Command) -> Result<Algorithm> {
        let spec: CommandSpec = serde_json::from_value(stored.definition.clone()).map_err(|error| {
            Problem::internal("algorithm.unreadable", "a stored command cannot be read").cause(error)
        })?;
        let isolated = if spec.no_isolation { Ok(()) } else { self.isolation() };
        let missing = isolated.and_then(|()| command::program(&spec)).err();
        Ok(Algorithm {
            name: stored.name.clone(),
            version: stored.version.clone(),
            role: "algorithm".into(),
            kind: "command".into(),
            runnable: missing.is_none(),
            reason: missing.map(|problem| problem.message),
            in_house: false,
            baseline: false,
            summary: format!("the command {}", spec.command.join(" ")),
            minimum_window_seconds: 0,
            source: None,
            method: None,
            command: Some(spec),
        })
    }

    /// Whoever has anything ranked gets the trivial methods as well: a board without them says nothing. They have no part in
    /// what a submission is warned of.
    pub(super) fn with_baselines(&self, mut named: Vec<AlgorithmChoice>) -> Vec<AlgorithmChoice> {
        if named.is_empty() {
            return named;
        }
        for baseline in rca::algorithm::controls() {
            if named.iter().all(|known| known.name != baseline.name()) {
                named.push(self.choice(baseline.name(), BUILTIN));
            }
        }
        named
    }

    pub(super) fn choice(&self, name: &str, version: &str) -> AlgorithmChoice {
        let limits = self.limits();
        AlgorithmChoice {
            name: name.to_owned(),
            version: version.to_owned(),
            limit_seconds: limits.seconds,
            limit_memory_mib: limits.memory_mib,
            remote: false,
        }
    }
}

/// Methods whose declared minimum the windows do not reach where metrics are collected at that interval.
pub fn too_short(algorithms: &[AlgorithmChoice], windows: &Windows, metric_interval_s: u64) -> Vec<Problem> {
    let detector = [(DETECTOR, rca::detector::MINIMUM)];
    let chosen = algorithms.iter().filter_map(|choice| {
        let method = rca::algorithm::algorithm(&choice.name).ok()?;
        Some((choice.name.as_str(), method.about().minimum))
    });
    let check = |(name, minimum): (&str, Minimum)| minimum.check_at(name, windows, metric_interval_s).err();
    detector.into_iter().chain(chosen).filter_map(check).collect()
}

/// A stored execution in the words of the wire.
fn execution(stored: &store::Execution, pack: &str) -> Execution {
    Execution {
        id: stored.id,
        algorithm_id: builtin_number(&stored.algorithm),
        algorithm_name: stored.algorithm.clone(),
        algorithm_version: stored.version.clone(),
        algorithm_version_id: builtin_number(&format!("{}:{}", stored.algorithm, stored.version)),
        datapack_id: stored.injection,
        datapack_name: pack.to_owned(),
        state: stored.state,
        status: "enabled".into(),
        duration: stored.duration_s,
        peak_memory: stored.peak_memory,
        isolation: stored.isolation.clone(),
        onset: stored.onset.as_str().to_owned(),
        evaluation_id: stored.evaluation,
        task_id: stored.task,
        trace_id: stored.run,
        labels: labels(&stored.labels),
        reason: stored.reason.clone(),
        message: stored.message.clone(),
        created_at: stored.created_at.to_string(),
        updated_at: stored.updated_at.to_string(),
    }
}

fn ranked(answer: Answer) -> RankedAnswer {
    RankedAnswer {
        level: answer.level,
        result: answer.name,
        rank: i32::try_from(answer.rank).unwrap_or(i32::MAX),
        confidence: answer.score,
    }
}

fn detected(row: store::DetectorRow) -> DetectorResult {
    let figure = |name: &str| row.figures.get(name).copied().flatten();
    DetectorResult {
        issues: row.issues.to_string(),
        abnormal_avg_duration: figure("abnormal_avg_duration"),
        normal_avg_duration: figure("normal_avg_duration"),
        abnormal_p90: figure("abnormal_p90"),
        normal_p90: figure("normal_p90"),
        abnormal_p95: figure("abnormal_p95"),
        normal_p95: figure("normal_p95"),
        abnormal_p99: figure("abnormal_p99"),
        normal_p99: figure("normal_p99"),
        abnormal_succ_rate: figure("abnormal_succ_rate"),
        normal_succ_rate: figure("normal_succ_rate"),
        span_name: row.span_name,
    }
}

fn detector() -> Algorithm {
    Algorithm {
        name: DETECTOR.into(),
        version: BUILTIN.into(),
        role: "detector".into(),
        kind: "built in".into(),
        runnable: true,
        reason: None,
        in_house: false,
        baseline: false,
        summary: "compares latency, success rate and presence of each endpoint at the entrance between the windows"
            .into(),
        minimum_window_seconds: seconds(rca::detector::MINIMUM),
        source: None,
        method: None,
        command: None,
    }
}

fn builtin(name: &str, about: &About) -> Algorithm {
    Algorithm {
        name: name.into(),
        version: BUILTIN.into(),
        role: "algorithm".into(),
        kind: "built in".into(),
        runnable: true,
        reason: None,
        in_house: about.in_house,
        baseline: about.control,
        summary: about.summary.into(),
        minimum_window_seconds: seconds(about.minimum),
        source: Some(about.source.into()),
        method: Some(Method {
            input: about.input.iter().map(|part| part.as_str().to_owned()).collect(),
            shapes: about.shapes.into(),
            units: about.units.into(),
            complexity: about.complexity.into(),
            deviations: about.deviations.iter().map(|told| (*told).to_owned()).collect(),
        }),
        command: None,
    }
}

/// A seed's container. Nothing here can run one yet, and the list says so.
fn declared(name: &str, version: &Version) -> Algorithm {
    Algorithm {
        name: name.into(),
        version: version.name.clone(),
        role: if name == DETECTOR { "detector" } else { "algorithm" }.into(),
        kind: "container".into(),
        runnable: false,
        reason: Some("no container runtime".into()),
        in_house: false,
        baseline: false,
        summary: format!("the container {}", version.image_ref),
        minimum_window_seconds: 0,
        source: (!version.github_link.is_empty()).then(|| version.github_link.clone()),
        method: None,
        command: None,
    }
}

/// At the interval at which most systems collect their metrics.
fn seconds(minimum: Minimum) -> i64 {
    const METRIC_INTERVAL_S: u64 = 15;
    i64::try_from(minimum.seconds(METRIC_INTERVAL_S).0).unwrap_or(i64::MAX)
}
