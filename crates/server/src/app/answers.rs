//! Answers of algorithms beside the truth, by datapack and by data set. Nothing is run.

use api::algorithm::Execution;
use api::answers::{
    Answered, DatapackAnswers, DatapackQuestions, DatapackReply, DatasetQuestions, DatasetReply, ExecutionAnswer, Named,
};
use api::injection::Label;
use model::{ErrorKind, ExecutionState, Onset, Problem, Result};
use store::ExecutionFilter;

use super::{App, scores};

/// Most questions of one call.
const MOST: usize = 100;

impl App {
    /// # Errors
    /// `evaluation.specs_out_of_range`. What is wrong with one question is told in its place.
    pub async fn datapack_answers(&self, questions: &DatapackQuestions) -> Result<Answered<DatapackReply>> {
        in_range(questions.specs.len())?;
        let mut replies = Vec::with_capacity(questions.specs.len());
        for one in &questions.specs {
            let answers = async {
                self.require_algorithm(&one.algorithm).await?;
                let pack = self.find_injection(&one.datapack).await?;
                self.answers_on(&one.algorithm, &pack, one.filter_labels.as_deref()).await
            };
            replies.push(answers.await.map(|answers| DatapackReply {
                algorithm: one.algorithm.name.clone(),
                algorithm_version: one.algorithm.version.clone().unwrap_or_default(),
                answers,
            }));
        }
        Ok(answered(replies))
    }

    /// # Errors
    /// `evaluation.specs_out_of_range`. What is wrong with one question is told in its place.
    pub async fn dataset_answers(&self, questions: &DatasetQuestions) -> Result<Answered<DatasetReply>> {
        in_range(questions.specs.len())?;
        let mut replies = Vec::with_capacity(questions.specs.len());
        for one in &questions.specs {
            replies.push(self.answers_in(&one.algorithm, &one.dataset, one.filter_labels.as_deref()).await);
        }
        Ok(answered(replies))
    }

    async fn answers_in(&self, algorithm: &Named, set: &Named, labels: Option<&[Label]>) -> Result<DatasetReply> {
        self.require_algorithm(algorithm).await?;
        let text = match &set.version {
            Some(version) => format!("{}:{version}", set.name),
            None => set.name.clone(),
        };
        let manifest = self.manifest(&text).await?;
        let (mut refs, mut without) = (Vec::new(), Vec::new());
        for member in &manifest.members {
            let pack = self.find_injection(&member.name).await?;
            let answers = self.answers_on(algorithm, &pack, labels).await?;
            match answers.execution_refs.is_empty() {
                true => without.push(member.name.clone()),
                false => refs.push(answers),
            }
        }
        Ok(DatasetReply {
            algorithm: algorithm.name.clone(),
            algorithm_version: algorithm.version.clone().unwrap_or_default(),
            dataset: manifest.name,
            dataset_version: manifest.version,
            total_count: scores::int(manifest.members.len()),
            evalaute_refs: refs,
            not_executed_datapacks: without,
        })
    }

    /// An algorithm that is listed, or that has answered without being registered: one that runs elsewhere.
    async fn require_algorithm(&self, algorithm: &Named) -> Result<()> {
        let filter = ExecutionFilter { algorithm: Some(algorithm.name.clone()), ..ExecutionFilter::default() };
        if self.store().executions(&filter, store::Page::new(1, 1)).await?.total > 0 {
            return Ok(());
        }
        let text = match &algorithm.version {
            Some(version) => format!("{}:{version}", algorithm.name),
            None => algorithm.name.clone(),
        };
        self.algorithm(&text).await.map(drop)
    }

    /// What an algorithm answered on one datapack when it was told of the fault's start as it was.
    async fn answers_on(
        &self,
        algorithm: &Named,
        pack: &store::Injection,
        labels: Option<&[Label]>,
    ) -> Result<DatapackAnswers> {
        let filter = ExecutionFilter {
            state: Some(ExecutionState::Success),
            algorithm: Some(algorithm.name.clone()),
            injection: Some(pack.id),
            ..ExecutionFilter::default()
        };
        let mut refs = Vec::new();
        for stored in self.store().executions(&filter, store::Page::ALL).await?.items {
            let detail = self.execution(stored.id).await?;
            if stored.onset == Onset::Known && is_wanted(&detail.execution, algorithm, labels) {
                refs.push(ExecutionAnswer {
                    execution_id: stored.id,
                    execution_duration: detail.execution.duration,
                    executed_at: detail.execution.updated_at,
                    predictions: detail.granularity_results,
                    detector_results: detail.detector_results,
                });
            }
        }
        let groundtruths = super::injection::ground_truth(&pack.truth)?;
        Ok(DatapackAnswers { datapack: pack.name.clone(), groundtruths, execution_refs: refs })
    }
}

fn is_wanted(execution: &Execution, algorithm: &Named, labels: Option<&[Label]>) -> bool {
    let version = algorithm.version.as_ref().is_none_or(|version| *version == execution.algorithm_version);
    let carried =
        |wanted: &Label| execution.labels.iter().any(|label| label.key == wanted.key && label.value == wanted.value);
    version && labels.is_none_or(|labels| labels.iter().all(carried))
}

fn in_range(questions: usize) -> Result<()> {
    if (1..=MOST).contains(&questions) {
        return Ok(());
    }
    Err(Problem::new(ErrorKind::Invalid, "evaluation.specs_out_of_range", "too few or too many questions at once")
        .place("specs")
        .found(questions.to_string())
        .expected(format!("1 to {MOST}")))
}

fn answered<T>(replies: Vec<Result<T>>) -> Answered<T> {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for (place, reply) in replies.into_iter().enumerate() {
        match reply {
            Ok(reply) => good.push(reply),
            Err(problem) => bad.push(format!("specs[{place}]: {problem}")),
        }
    }
    Answered {
        success_count: scores::int(good.len()),
        success_items: good,
        failed_count: scores::int(bad.len()),
        failed_items: bad,
    }
}
