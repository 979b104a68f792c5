//! Labels on injections and executions.

use api::algorithm::ExecutionDetail;
use api::injection::{InjectionDetail, Label};
use api::project::LabelRequest;
use model::{ErrorKind, ExecutionId, Problem, Result};
use serde_json::{Map, Value};

use super::App;

const LONGEST_KEY: usize = 128;
const LONGEST_VALUE: usize = 1024;
const MOST: usize = 100;

impl App {
    /// # Errors
    /// `datapack.unknown`, `label.malformed`, `label.too_many`.
    pub async fn label_injection(&self, name: &str, request: &LabelRequest) -> Result<InjectionDetail> {
        let (add, remove) = read(request)?;
        let id = self.find_injection(name).await?.id;
        self.store().label_injection(id, &add, &remove).await?;
        self.injection(&id.to_string()).await
    }

    /// # Errors
    /// `execution.unknown`, `label.malformed`, `label.too_many`.
    pub async fn label_execution(&self, id: ExecutionId, request: &LabelRequest) -> Result<ExecutionDetail> {
        let (add, remove) = read(request)?;
        self.store().label_execution(id, &add, &remove).await?;
        self.execution(id).await
    }
}

/// Labels to set, and keys to take away.
type Changes = (Vec<(String, String)>, Vec<String>);

fn read(request: &LabelRequest) -> Result<Changes> {
    let add = request.add_labels.as_deref().unwrap_or_default();
    let add = add.iter().map(|label| check(label).map(|()| (label.key.clone(), label.value.clone())));
    Ok((add.collect::<Result<_>>()?, request.remove_labels.clone().unwrap_or_default()))
}

/// The form in which labels are stored.
///
/// # Errors
/// `label.malformed`, `label.too_many`.
pub fn object(labels: &[Label]) -> Result<Value> {
    labels.iter().try_for_each(check)?;
    if labels.len() > MOST {
        return Err(Problem::new(ErrorKind::Invalid, "label.too_many", "there would be too many labels")
            .place("labels")
            .found(labels.len().to_string())
            .expected(format!("at most {MOST}")));
    }
    let pairs = labels.iter().map(|label| (label.key.clone(), Value::from(label.value.as_str())));
    Ok(Value::Object(pairs.collect::<Map<_, _>>()))
}

fn check(label: &Label) -> Result<()> {
    let plain = |text: &str| !text.chars().any(char::is_control);
    let key = (1..=LONGEST_KEY).contains(&label.key.chars().count()) && plain(&label.key);
    if key && label.value.chars().count() <= LONGEST_VALUE && plain(&label.value) {
        return Ok(());
    }
    Err(Problem::new(ErrorKind::Invalid, "label.malformed", "a label is malformed")
        .place(format!("labels: {}", label.key))
        .expected(format!("a key of 1 to {LONGEST_KEY} characters and a value of at most {LONGEST_VALUE}")))
}
