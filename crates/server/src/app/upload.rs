//! Answers that programs of others hand over: checked as a whole, then stored as a whole.

use std::collections::{BTreeMap, HashSet};

use api::algorithm::{DetectorResult, DetectorUpload, RankingUpload, UploadReply, UploadedSuspect};
use model::{Answer, ErrorKind, ExecutionId, Level, Problem, Result};
use serde_json::{Map, Value};
use store::{DetectorRow, Findings, TokenOrigin};

use super::App;
use crate::auth::Caller;

/// More suspects than any system has.
const MOST_RESULTS: usize = 10_000;
/// What the store keeps of a name.
const LONGEST_NAME: usize = 1024;

impl App {
    /// # Errors
    /// `upload.*` for what is wrong with the answer; `execution.unknown`, `execution.not_remote`,
    /// `execution.already_uploaded`, `execution.already_ended`.
    pub async fn upload_ranking(&self, caller: &Caller, id: ExecutionId, upload: RankingUpload) -> Result<UploadReply> {
        let answers = ranking(&upload)?;
        let findings = Findings { answers, detector: Vec::new() };
        self.upload(caller, id, &findings, upload.duration, None).await
    }

    /// # Errors
    /// As for [`Self::upload_ranking`].
    pub async fn upload_detection(
        &self,
        caller: &Caller,
        id: ExecutionId,
        upload: DetectorUpload,
    ) -> Result<UploadReply> {
        check_size(upload.duration, upload.results.len())?;
        let rows: Vec<DetectorRow> =
            upload.results.iter().zip(0..).map(|(row, at)| detected(at, row)).collect::<Result<_>>()?;
        let anomalies = rows.iter().any(|row| row.issues.as_object().is_some_and(|issues| !issues.is_empty()));
        let findings = Findings { answers: Vec::new(), detector: rows };
        self.upload(caller, id, &findings, upload.duration, Some(anomalies)).await
    }

    async fn upload(
        &self,
        caller: &Caller,
        id: ExecutionId,
        findings: &Findings,
        duration: f64,
        has_anomalies: Option<bool>,
    ) -> Result<UploadReply> {
        // What this installation runs by itself is answered by it, or by the program that it gave a token to.
        let attended = caller.token().origin == TokenOrigin::Execution(id);
        if !attended && !self.store().execution(id).await?.remote {
            let message = "the execution runs here and answers by itself";
            return Err(Problem::new(ErrorKind::Conflict, "execution.not_remote", message)
                .found(format!("execution {id}"))
                .fix("submit one whose algorithm has the payload `{\"remote\": true}`, and upload to that"));
        }
        let at = self.store().upload(id, findings, duration).await?;
        let count = findings.answers.len() + findings.detector.len();
        Ok(UploadReply {
            result_count: i32::try_from(count).unwrap_or(i32::MAX),
            uploaded_at: at.to_string(),
            has_anomalies,
        })
    }
}

fn wrong(code: &'static str, message: &str, place: impl Into<String>) -> Problem {
    Problem::new(ErrorKind::Invalid, code, message).place(place)
}

fn check_size(duration: f64, results: usize) -> Result<()> {
    if !(duration.is_finite() && duration > 0.0) {
        return Err(wrong("upload.duration_out_of_range", "the duration is no time", "duration")
            .found(duration.to_string())
            .expected("seconds, more than 0"));
    }
    if !(1..=MOST_RESULTS).contains(&results) {
        return Err(wrong("upload.size_out_of_range", "the number of results is not allowed", "results")
            .found(results.to_string())
            .expected(format!("1 to {MOST_RESULTS}")));
    }
    Ok(())
}

/// The suspects in the order of their ranks.
fn ranking(upload: &RankingUpload) -> Result<Vec<Answer>> {
    check_size(upload.duration, upload.results.len())?;
    let mut ranks = HashSet::new();
    let mut answers = Vec::with_capacity(upload.results.len());
    for (suspect, at) in upload.results.iter().zip(0..) {
        let answer = self::answer(at, suspect)?;
        if !ranks.insert(answer.rank) {
            return Err(wrong("upload.rank_repeated", "a rank is given twice", format!("results[{at}].rank"))
                .found(answer.rank.to_string())
                .expected("each rank once in the whole upload, whatever the level"));
        }
        answers.push(answer);
    }
    answers.sort_by_key(|answer| answer.rank);
    Ok(answers)
}

fn answer(at: usize, suspect: &UploadedSuspect) -> Result<Answer> {
    let place = |member: &str| format!("results[{at}].{member}");
    let level = suspect.level.trim().to_ascii_lowercase();
    let level: Level = serde_json::from_value(Value::String(level)).map_err(|_| {
        wrong("upload.level_unknown", "there is no such level", place("level"))
            .found(format!("`{}`", suspect.level))
            .expected("service, pod, container, metric, function or span")
    })?;
    let name = name(&suspect.result, place("result"))?;
    let Some(rank) = u32::try_from(suspect.rank).ok().filter(|rank| *rank > 0) else {
        return Err(wrong("upload.rank_out_of_range", "a rank counts from 1", place("rank"))
            .found(suspect.rank.to_string())
            .expected("1 or more"));
    };
    within(suspect.confidence, 1.0, place("confidence"))?;
    Ok(Answer { level, name, rank, score: suspect.confidence })
}

fn name(text: &str, place: String) -> Result<String> {
    let text = text.trim();
    if !text.is_empty() && text.chars().count() <= LONGEST_NAME {
        return Ok(text.to_owned());
    }
    Err(wrong("upload.name_malformed", "a result names nothing, or too much", place)
        .expected(format!("1 to {LONGEST_NAME} characters")))
}

fn within(value: Option<f64>, most: f64, place: String) -> Result<()> {
    match value {
        Some(value) if !(0.0..=most).contains(&value) => {
            let expected = if most.is_finite() { format!("0 to {most}") } else { "0 or more".to_owned() };
            Err(wrong("upload.number_out_of_range", "a number is out of range", place)
                .found(value.to_string())
                .expected(expected))
        }
        _ => Ok(()),
    }
}

/// One entrance, as a detector that runs elsewhere saw it.
fn detected(at: usize, row: &DetectorResult) -> Result<DetectorRow> {
    let place = |member: &str| format!("results[{at}].{member}");
    let span_name = name(&row.span_name, place("span_name"))?;
    let issues: Map<String, Value> = serde_json::from_str(&row.issues).map_err(|error| {
        wrong("upload.issues_malformed", "the issues are no JSON object", place("issues"))
            .found(error.to_string())
            .expected("the text of a JSON object; `{}` when there is no issue")
    })?;
    let mut figures = BTreeMap::new();
    for (member, value, most) in [
        ("abnormal_avg_duration", row.abnormal_avg_duration, f64::INFINITY),
        ("normal_avg_duration", row.normal_avg_duration, f64::INFINITY),
        ("abnormal_p90", row.abnormal_p90, f64::INFINITY),
        ("normal_p90", row.normal_p90, f64::INFINITY),
        ("abnormal_p95", row.abnormal_p95, f64::INFINITY),
        ("normal_p95", row.normal_p95, f64::INFINITY),
        ("abnormal_p99", row.abnormal_p99, f64::INFINITY),
        ("normal_p99", row.normal_p99, f64::INFINITY),
        ("abnormal_succ_rate", row.abnormal_succ_rate, 1.0),
        ("normal_succ_rate", row.normal_succ_rate, 1.0),
    ] {
        within(value, most, place(member))?;
        figures.insert(member.to_owned(), value);
    }
    Ok(DetectorRow { span_name, issues: Value::Object(issues), figures })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suspect(level: &str, result: &str, rank: i32, confidence: Option<f64>) -> UploadedSuspect {
        UploadedSuspect { level: level.into(), result: result.into(), rank, confidence }
    }

    #[test]
    fn an_answer_is_taken_as_a_whole_or_refused_with_its_place() {
        let upload = |duration, results: &[UploadedSuspect]| RankingUpload { duration, results: results.to_vec() };
        let good = [suspect("service", "b", 2, None), suspect("Service", " a ", 1, Some(1.0))];
        let names: Vec<String> = ranking(&upload(0.1, &good)).unwrap().into_iter().map(|answer| answer.name).collect();
        assert_eq!(names, ["a", "b"], "in the order of the ranks");
        for (duration, results, code, place) in [
            (0.0, &good[..], "upload.duration_out_of_range", "duration"),
            (f64::NAN, &good[..], "upload.duration_out_of_range", "duration"),
            (1.0, &[], "upload.size_out_of_range", "results"),
            (1.0, &[suspect("host", "a", 1, None)], "upload.level_unknown", "results[0].level"),
            (1.0, &[suspect("service", " ", 1, None)], "upload.name_malformed", "results[0].result"),
            (1.0, &[suspect("service", "a", 0, None)], "upload.rank_out_of_range", "results[0].rank"),
            (1.0, &[suspect("service", "a", 1, Some(1.5))], "upload.number_out_of_range", "results[0].confidence"),
            (
                1.0,
                &[suspect("service", "a", 1, None), suspect("pod", "b", 1, None)],
                "upload.rank_repeated",
                "results[1].rank",
            ),
        ] {
            let problem = ranking(&upload(duration, results)).unwrap_err();
            assert_eq!((problem.code.as_ref(), problem.place.as_deref()), (code, Some(place)));
        }
    }
}
