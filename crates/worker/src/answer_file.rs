//! The file in which a command leaves its answer: `result.csv` or `result.json` in its output folder.

use std::path::Path;

use api::algorithm::{RankedAnswer, ranked_answers};
use model::{Answer, ErrorKind, Problem, Result};
use serde::Deserialize;

/// Largest answer, bytes.
const LARGEST: u64 = 4 * 1024 * 1024;

/// A row of `result.csv`; further columns mean nothing.
#[derive(Debug, Deserialize)]
struct Row {
    level: String,
    result: String,
    rank: String,
    #[serde(default)]
    confidence: Option<String>,
}

/// `result.json`: the list of answers, or an object that holds it as `results`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Document {
    List(Vec<RankedAnswer>),
    Object { results: Vec<RankedAnswer> },
}

/// Reads the answer.
///
/// # Errors
/// `algorithm.no_answer`, `algorithm.answered_twice`, `algorithm.answer_too_large`, `algorithm.answer_unreadable`, and those of
/// [`api::algorithm::ranked_answers`].
pub fn read(folder: &Path) -> Result<Vec<Answer>> {
    let (json, csv) = (folder.join("result.json"), folder.join("result.csv"));
    if json.exists() && csv.exists() {
        return Err(Problem::new(ErrorKind::Failed, "algorithm.answered_twice", "it left two answers")
            .found("`result.csv` and `result.json`")
            .expected("one of them"));
    }
    if json.exists() {
        return ranked_answers(from_json(&text(&json)?)?);
    }
    if csv.exists() {
        return ranked_answers(from_csv(&text(&csv)?)?);
    }
    let message = "it ended well but left no answer";
    Err(Problem::new(ErrorKind::Failed, "algorithm.no_answer", message)
        .expected("`result.csv` or `result.json` in the folder OUTPUT_PATH, or an answer by HTTP"))
}

fn text(path: &Path) -> Result<String> {
    let file = std::fs::symlink_metadata(path).map_err(|error| unreadable(path, error))?;
    // A link would be followed with our own rights.
    if !file.is_file() {
        return Err(unreadable(path, "no regular file"));
    }
    if file.len() > LARGEST {
        return Err(Problem::new(ErrorKind::Failed, "algorithm.answer_too_large", "its answer is too large")
            .found(format!("{} bytes", file.len()))
            .expected(format!("at most {LARGEST} bytes")));
    }
    std::fs::read_to_string(path).map_err(|error| unreadable(path, error))
}

fn from_json(text: &str) -> Result<Vec<RankedAnswer>> {
    match serde_json::from_str(text) {
        Ok(Document::List(list) | Document::Object { results: list }) => Ok(list),
        Err(error) => Err(unreadable(Path::new("result.json"), error)),
    }
}

fn from_csv(text: &str) -> Result<Vec<RankedAnswer>> {
    let wrong = |line: usize, what: &str| unreadable(Path::new("result.csv"), format!("line {line}: {what}"));
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let mut list = Vec::new();
    for (row, line) in reader.deserialize().zip(2..) {
        let row: Row = row.map_err(|error| wrong(line, &error.to_string()))?;
        let level = serde_json::from_value(serde_json::Value::String(row.level.clone()));
        let confidence = row.confidence.filter(|text| !text.is_empty()).map(|text| text.parse()).transpose();
        list.push(RankedAnswer {
            level: level.map_err(|_| wrong(line, &format!("`{}` is no level", row.level)))?,
            result: row.result,
            rank: row.rank.parse().map_err(|_| wrong(line, &format!("`{}` is no rank", row.rank)))?,
            confidence: confidence.map_err(|_| wrong(line, "the confidence is no number"))?,
        });
    }
    Ok(list)
}

fn unreadable(path: &Path, found: impl std::fmt::Display) -> Problem {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Problem::new(ErrorKind::Failed, "algorithm.answer_unreadable", "its answer is not of the agreed form")
        .found(format!("{name}: {found}"))
        .expected("level, result, rank and optionally confidence of each suspect")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, text: &str) -> std::result::Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(name), text).unwrap();
        read(folder.path())
            .map(|answers| answers.into_iter().map(|answer| answer.name).collect())
            .map_err(|problem| problem.code.into_owned())
    }

    #[test]
    fn both_forms_are_read_and_ordered_by_rank() {
        let expect = Ok(vec!["cart".to_owned(), "web".to_owned()]);
        assert_eq!(check("result.csv", "level,result,rank,confidence\nservice,web,2,0\nservice,cart,1,0.5\n"), expect);
        assert_eq!(check("result.csv", "rank,level,result\n1,service,cart\n2,service,web\n"), expect);
        let list = r#"[{"level":"service","result":"cart","rank":1},{"level":"service","result":"web","rank":2}]"#;
        assert_eq!(check("result.json", list), expect);
        assert_eq!(check("result.json", &format!(r#"{{"results": {list}}}"#)), expect);
    }

    #[test]
    fn what_is_no_answer_says_so_under_its_own_code() {
        let code = |name: &str, text: &str| check(name, text).unwrap_err();
        assert_eq!(code("other.txt", ""), "algorithm.no_answer");
        assert_eq!(code("result.csv", "level,result,rank\n"), "algorithm.answer_empty");
        assert_eq!(code("result.csv", "cart\nweb\n"), "algorithm.answer_unreadable");
        assert_eq!(code("result.csv", "level,result,rank\nplanet,cart,1\n"), "algorithm.answer_unreadable");
        assert_eq!(code("result.csv", "level,result,rank\nservice,cart,first\n"), "algorithm.answer_unreadable");
        assert_eq!(code("result.csv", "level,result,rank\nservice,a,1\nservice,b,1\n"), "algorithm.answer_invalid");
        assert_eq!(code("result.csv", "level,result,rank\nservice,a,0\n"), "algorithm.answer_invalid");
        assert_eq!(code("result.csv", "level,result,rank\nservice,a,99\n"), "algorithm.answer_invalid");
        assert_eq!(code("result.csv", "level,result,rank\nservice,a,3\nservice,b,1\n"), "algorithm.answer_invalid");
        assert_eq!(code("result.csv", "level,result,rank,confidence\nservice,a,1,NaN\n"), "algorithm.answer_invalid");
        assert_eq!(code("result.json", "\u{0}garbage"), "algorithm.answer_unreadable");
        assert_eq!(code("result.json", &"[".repeat(5 * 1024 * 1024)), "algorithm.answer_too_large");
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/hostname", folder.path().join("result.json")).unwrap();
        assert_eq!(read(folder.path()).unwrap_err().code, "algorithm.answer_unreadable");
    }
}
