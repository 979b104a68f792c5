//! Submitting executions: one method on a datapack that is there already.

use api::project::{ContainerSpec, ExecuteReply, ExecuteRequest, ExecuteSpec, SubmittedExecution};
use api::spec::{AlgorithmChoice, RunSpec};
use model::{ErrorKind, GroupId, InjectionId, Problem, Result, RunId, TaskKind, WallTime};
use serde_json::{Value, json};
use store::{Injection, NewExecution, NewRanking, NewTask, RankingSubmission, Role};

use super::algorithm::DETECTOR;
use super::container::builtin_number;
use super::submit::{idempotency_key, other_project};
use super::{App, label};

/// Most executions of one request, data sets counted by their datapacks.
const MOST_EXECUTIONS: usize = 1000;
/// How long the answer of a method that runs elsewhere is waited for.
const UPLOAD_WITHIN: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// One execution that is wanted.
struct Wanted {
    choice: AlgorithmChoice,
    pack: Injection,
    dataset: Option<i32>,
}

impl App {
    /// All executions are stored, or none. Without a project in the path it is the one that the body names.
    ///
    /// # Errors
    /// Every way in which a submission can be wrong; nothing is stored then.
    pub async fn execute(
        &self,
        project: Option<&str>,
        request: ExecuteRequest,
        key: Option<&str>,
    ) -> Result<ExecuteReply> {
        let project = self.find_project(project.unwrap_or(&request.project_name)).await?;
        if request.project_name != project.name {
            return Err(other_project(&request.project_name, &project.name));
        }
        let key = key.map(|key| idempotency_key("execute", key, &(project.id, &request))).transpose()?;
        let labels = label::object(request.labels.as_deref().unwrap_or_default())?;
        let wanted = self.wanted(&request.specs).await?;
        let mut rankings = Vec::with_capacity(wanted.len());
        for one in &wanted {
            rankings.push(self.new_ranking(one, &labels).await?);
        }
        let submission = RankingSubmission { group: GroupId::random(), project: project.id, rankings, key };
        let until = WallTime::now().plus(UPLOAD_WITHIN);
        let submitted = self.store().submit_rankings(&submission).await?;
        let items = wanted.iter().zip(&submitted.rankings).zip(0..);
        Ok(ExecuteReply {
            group_id: submitted.group,
            items: items.map(|((wanted, stored), index)| item(index, wanted, stored, until)).collect(),
        })
    }

    /// Every method on every datapack that the request names.
    async fn wanted(&self, specs: &[ExecuteSpec]) -> Result<Vec<Wanted>> {
        let mut wanted = Vec::new();
        for (spec, at) in specs.iter().zip(0..) {
            let within = |problem: Problem| {
                let place = problem.place.clone().map_or_else(String::new, |place| format!(".{place}"));
                problem.place(format!("specs[{at}]{place}"))
            };
            let choice = self.method(&spec.algorithm).await.map_err(within)?;
            for (pack, dataset) in self.packs_of(spec).await.map_err(within)? {
                wanted.push(Wanted { choice: choice.clone(), pack, dataset });
            }
        }
        if (1..=MOST_EXECUTIONS).contains(&wanted.len()) {
            return Ok(wanted);
        }
        Err(Problem::new(ErrorKind::Invalid, "execute.size_out_of_range", "the number of executions is not allowed")
            .place("specs")
            .found(wanted.len().to_string())
            .expected(format!("1 to {MOST_EXECUTIONS}")))
    }

    async fn packs_of(&self, spec: &ExecuteSpec) -> Result<Vec<(Injection, Option<i32>)>> {
        match (&spec.datapack, &spec.dataset) {
            (Some(name), None) => Ok(vec![(self.usable(self.find_injection(name).await?)?, None)]),
            (None, Some(dataset)) => {
                let (id, members) = self.members(dataset).await?;
                let mut packs = Vec::with_capacity(members.len());
                for member in members {
                    packs.push((self.usable(self.store().injection(member).await?)?, Some(id)));
                }
                Ok(packs)
            }
            _ => {
                let message = "an execution needs either a datapack or a data set";
                Err(Problem::new(ErrorKind::Invalid, "execute.no_datapack", message).place("datapack"))
            }
        }
    }

    async fn members(&self, wanted: &ContainerSpec) -> Result<(i32, Vec<InjectionId>)> {
        let all = self.store().datasets().await?;
        // The newest version when none is named.
        let version = wanted.version.as_deref().filter(|version| !version.is_empty());
        let found = all
            .iter()
            .rev()
            .find(|set| set.name == wanted.name && version.is_none_or(|version| set.version == version));
        let Some(found) = found else {
            let names: Vec<String> = all.iter().map(|set| format!("{} {}", set.name, set.version)).collect();
            let asked = format!("{} {}", wanted.name, version.unwrap_or_default());
            return Err(Problem::unknown(
                "dataset.unknown",
                "data set",
                asked.trim(),
                names.iter().map(String::as_str),
            )
            .place("dataset"));
        };
        Ok((found.id.0, found.members.clone()))
    }

    /// A datapack that an algorithm may rank on: it is built and has a verdict.
    fn usable(&self, pack: Injection) -> Result<Injection> {
        if pack.pack_path.is_some() && pack.verdict.is_some() {
            return Ok(pack);
        }
        Err(Problem::new(ErrorKind::Conflict, "datapack.not_ready", "the datapack has no verdict yet")
            .place(format!("datapack {}", pack.name))
            .found(format!("state {}", pack.state))
            .fix(format!("ask `aegisctl run why {}`", pack.run)))
    }

    async fn method(&self, asked: &ContainerSpec) -> Result<AlgorithmChoice> {
        if asked.env_vars.as_ref().is_some_and(|vars| !vars.is_empty()) {
            let message = "the method takes no environment";
            return Err(
                Problem::new(ErrorKind::Invalid, "algorithm.env_not_taken", message).place("algorithm.env_vars")
            );
        }
        let version = asked.version.as_deref().filter(|version| !version.is_empty());
        if is_remote(asked)? {
            return remote(&asked.name, version);
        }
        let text = version.map_or_else(|| asked.name.clone(), |version| format!("{}:{version}", asked.name));
        self.choose_algorithm(&text).await.map_err(|problem| match problem.code.as_ref() {
            "algorithm.unknown" => {
                let own = format!("if `{}` runs elsewhere, say so with the payload {{\"remote\": true}}", asked.name);
                let fix = problem.fix.clone().map_or(own.clone(), |fix| format!("{fix}; {own}"));
                problem.fix(fix)
            }
            _ => problem,
        })
    }

    async fn new_ranking(&self, wanted: &Wanted, labels: &Value) -> Result<NewRanking> {
        let Wanted { choice, pack, .. } = wanted;
        let mut spec = RunSpec::from_json(&self.store().run(pack.run).await?.spec)?;
        spec.algorithms = vec![choice.clone()];
        let mut first = NewTask::new(TaskKind::RunAlgorithm);
        first.algorithm = Some(choice.name.clone());
        first.payload = json!({"verdict": pack.verdict, "reason": format!("ranked on the datapack {}", pack.name)});
        Ok(NewRanking {
            id: RunId::random(),
            execution: NewExecution {
                algorithm: choice.name.clone(),
                version: choice.version.clone(),
                role: Role::Algorithm,
                injection: pack.id,
                seed: spec.environment.seed,
                remote: choice.remote,
            },
            spec: spec.to_json(),
            labels: labels.clone(),
            first,
        })
    }
}

/// Whether the request says that the method runs elsewhere. What else a payload says would have no effect.
fn is_remote(asked: &ContainerSpec) -> Result<bool> {
    let mut remote = false;
    for (key, value) in asked.payload.iter().flatten() {
        match (key.as_str(), value.as_bool()) {
            ("remote", Some(value)) => remote = value,
            _ => {
                let message = "the payload of an algorithm says whether it runs elsewhere, and nothing else";
                return Err(Problem::new(ErrorKind::Invalid, "algorithm.payload_not_taken", message)
                    .place(format!("algorithm.payload.{key}"))
                    .expected("{\"remote\": true}"));
            }
        }
    }
    Ok(remote)
}

/// A method that nobody needs to register: its author names it and its version.
fn remote(name: &str, version: Option<&str>) -> Result<AlgorithmChoice> {
    let wrong = |code, message: &str, place: &str| Problem::new(ErrorKind::Invalid, code, message).place(place);
    let plain = |text: &str, longest: usize| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        (1..=longest).contains(&text.len()) && text.chars().all(allowed)
    };
    if !plain(name, 128) {
        return Err(wrong("algorithm.name_malformed", "the algorithm's name is malformed", "algorithm.name")
            .found(format!("`{name}`"))
            .expected("1 to 128 letters, digits, `-`, `_` and `.`"));
    }
    if name == DETECTOR || rca::algorithm::algorithm(name).is_ok() {
        return Err(wrong("algorithm.name_taken", "a method of this name is built in", "algorithm.name")
            .found(format!("`{name}`"))
            .fix("take another name, so that nobody mistakes one for the other"));
    }
    let Some(version) = version.filter(|version| plain(version, 64)) else {
        return Err(wrong(
            "algorithm.version_malformed",
            "a method that runs elsewhere needs a version",
            "algorithm.version",
        )
        .expected("1 to 64 letters, digits, `-`, `_` and `.`"));
    };
    Ok(AlgorithmChoice {
        name: name.to_owned(),
        version: version.to_owned(),
        limit_seconds: UPLOAD_WITHIN.as_secs(),
        // Nothing of it runs here.
        limit_memory_mib: 0,
        remote: true,
    })
}

fn item(index: i32, wanted: &Wanted, stored: &store::SubmittedRanking, until: WallTime) -> SubmittedExecution {
    let Wanted { choice, pack, dataset } = wanted;
    SubmittedExecution {
        index,
        trace_id: stored.run,
        task_id: stored.task,
        execution_id: stored.execution,
        algorithm_id: builtin_number(&choice.name),
        algorithm_version_id: builtin_number(&format!("{}:{}", choice.name, choice.version)),
        datapack_id: stored.injection,
        datapack_name: pack.name.clone(),
        dataset_id: *dataset,
        upload_until: choice.remote.then(|| until.to_string()),
    }
}
