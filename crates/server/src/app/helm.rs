//! What a version of a pedestal is installed with, and changing that at run time: by the same rules as a seed, and with a note
//! of whose value it is, so that the next seed does not take it away unseen.

use ::seed::{Field, Object, ObjectId, ObjectKind, Parameter, Spot, State, ValueSource, ValueType, field};
use ::store::Version;
use api::chart::{HelmConfig, HelmParameter, HelmRequest};
use model::{ErrorKind, Problem, Result};
use serde_json::{Value, json};

use super::App;
use super::release::Stored;
use super::seed::{Present, rows};

/// Where a value stands that no file has.
const BY_HAND: &str = "set by an operator";

impl App {
    /// # Errors
    /// `system.unknown`, `version.unknown`, `system.layer_not_ready`.
    pub async fn helm_config(&self, name: &str, version: Option<&str>) -> Result<HelmConfig> {
        let code = self.find_system(name).await?.code;
        let version = self.pedestal_version(code.as_str(), version).await?;
        let present = Present::read(&self.store().seed_live().await?, Some(code.as_str()))?;
        let object = version_object(&present.live, code.as_str(), &version.name)?.clone();
        config(code.as_str(), &version, &object)
    }

    /// Sets and unsets values under an existing version, as a new revision of it. Everything or nothing.
    ///
    /// # Errors
    /// `system.unknown`, `version.unknown`; `helm.nothing_to_set`; `version.immutable` for another chart; what composing finds;
    /// `seed.apply_running`.
    pub async fn set_helm_config(&self, name: &str, request: &HelmRequest, by: &str) -> Result<HelmConfig> {
        let code = self.find_system(name).await?.code.to_string();
        let (app, request, by) = (self.clone(), request.clone(), by.to_owned());
        // A caller who goes away leaves no duty behind.
        let setting = tokio::spawn(async move {
            app.set_alone(&code, &request, &by).await?;
            app.helm_config(&code, request.version.as_deref()).await
        });
        setting.await.map_err(|error| Problem::internal("helm.work_died", "a change of values died").cause(error))?
    }

    async fn set_alone(&self, code: &str, request: &HelmRequest, by: &str) -> Result<()> {
        // A seed that is applied meanwhile would write over what it has not seen.
        let Ok(_alone) = self.applying().try_lock() else {
            return Err(super::seed::running("another request to this server".into()));
        };
        let lease = self.take_duty(by).await?;
        let done = self.set_holding(code, request).await;
        self.store().release(&lease).await?;
        done
    }

    async fn set_holding(&self, code: &str, request: &HelmRequest) -> Result<()> {
        let version = self.pedestal_version(code, request.version.as_deref()).await?;
        require_same_chart(code, &version, request)?;
        if request.set.is_empty() && request.unset.is_empty() {
            return Err(Problem::new(ErrorKind::Invalid, "helm.nothing_to_set", "no value is set or unset")
                .expected("at least one key")
                .fix("name one with `--set KEY=VALUE`, `--set-json KEY=JSON` or `--unset KEY`"));
        }
        let mut state = Present::read(&self.store().seed_live().await?, Some(code))?.live;
        let id = version_id(code, &version.name);
        let object = state.objects.get_mut(&id).ok_or_else(|| lost(&id.name))?;
        for (key, value) in &request.set {
            set(object, &version.name, key, Some(value))?;
        }
        for key in &request.unset {
            set(object, &version.name, key, None)?;
        }
        // Composed before it is written: a value that cannot be installed is refused here.
        let container = rows::container(&format!("pedestal {code}"), &state, |wanted| *wanted == id)?;
        self.store().register_containers(&[container]).await?;
        Ok(())
    }
}

fn version_id(code: &str, version: &str) -> ObjectId {
    ObjectId { kind: ObjectKind::Version, name: format!("pedestal {code} {version}") }
}

fn version_object<'a>(state: &'a State, code: &str, version: &str) -> Result<&'a Object> {
    let id = version_id(code, version);
    state.objects.get(&id).ok_or_else(|| lost(&id.name))
}

fn lost(name: &str) -> Problem {
    Problem::internal("version.lost", "a version that is registered is not there").place(name.to_owned())
}

/// A version's name stands for its chart.
fn require_same_chart(code: &str, version: &Version, request: &HelmRequest) -> Result<()> {
    let Some(chart) = &version.chart else { return Ok(()) };
    for (what, wanted, found) in [
        ("chart_name", &request.chart_name, &chart.name),
        ("chart_version", &request.chart_version, &chart.version),
        ("repo_url", &request.repo_url, &chart.repository),
        ("repo_name", &request.repo_name, &chart.repository_name),
    ] {
        if let Some(wanted) = wanted.as_ref().filter(|wanted| *wanted != found) {
            return Err(Problem::new(
                ErrorKind::Conflict,
                "version.immutable",
                format!("the {what} of a version cannot change"),
            )
            .place(format!("pedestal {code} {}", version.name))
            .found(format!("`{wanted}`"))
            .expected(format!("`{found}`"))
            .fix("declare a new version with it in the seed, and apply that"));
        }
    }
    Ok(())
}

/// Puts an operator's value under a key; `None` sets nothing there, whatever the seed says.
fn set(object: &mut Object, version: &str, key: &str, value: Option<&Value>) -> Result<()> {
    ::seed::KeyPath::parse(key).map_err(|reason| {
        Problem::new(ErrorKind::Invalid, "parameter.key_malformed", format!("a key is malformed: {reason}"))
            .found(format!("`{key}`"))
            .expected("a path as in Helm's `--set`: `a.b[0].c`")
    })?;
    let name = format!("{}{key}", field::VALUE);
    let known = ::seed::parameters(version, object, field::VALUE).ok_or_else(|| {
        Problem::internal("seed.live_malformed", "the parameters of a version cannot be read").place(version.to_owned())
    })?;
    let known = known.into_iter().find(|parameter| parameter.key == key);
    let at = Spot::whole(BY_HAND);
    let (value_type, source) = match value {
        None => (known.as_ref().map_or(ValueType::String, |known| known.value_type), ValueSource::Unset),
        Some(Value::String(text)) => {
            let declared = known.as_ref().map_or(ValueType::String, |known| known.value_type);
            (declared, ValueSource::Default(text.clone()))
        }
        Some(value) => (type_of(value), ValueSource::Default(value.to_string())),
    };
    let parameter = Parameter {
        key: key.to_owned(),
        value_type,
        source,
        required: known.as_ref().is_some_and(|known| known.required),
        overridable: known.as_ref().is_none_or(|known| known.overridable),
        version: version.to_owned(),
        at: at.clone(),
    };
    let last = object.fields.values().map(|field| field.order + 1).max().unwrap_or_default();
    let order = object.fields.get(&name).map_or(last, |field| field.order);
    let field = Field { operators: true, order, ..Field::new(::seed::parameter_value(&parameter), Some(&at)) };
    object.put(name, field);
    Ok(())
}

fn type_of(value: &Value) -> ValueType {
    match value {
        Value::Bool(_) => ValueType::Bool,
        Value::Number(number) if number.is_i64() || number.is_u64() => ValueType::Int,
        Value::Number(_) => ValueType::Float,
        Value::Array(_) => ValueType::Array,
        Value::Object(_) => ValueType::Object,
        Value::String(_) | Value::Null => ValueType::String,
    }
}

fn config(code: &str, version: &Version, object: &Object) -> Result<HelmConfig> {
    let stored = Stored::read(&version.revision.composed)?;
    let revision = stored.revision();
    let fields: [(&str, &str); 2] = [("Name", &revision.version), ("GithubLink", &revision.github_link)];
    let mut parameters = Vec::new();
    for parameter in &revision.parameters {
        let name = format!("{}{}", field::VALUE, parameter.key);
        let field = object.fields.get(&name);
        let secret = ::seed::looks_secret(&parameter.key);
        let value = parameter.value(0, &fields).map_err(|finding| Problem::from(::seed::Findings::from(finding)))?;
        parameters.push(HelmParameter {
            key: parameter.key.clone(),
            value: value.map(|value| if secret { json!("a secret") } else { value }),
            kind: parameter.value_type.to_string(),
            owner: if field.is_some_and(|field| field.operators) { rows::OPERATOR } else { "seed" }.to_owned(),
        });
    }
    let chart = &revision.chart;
    Ok(HelmConfig {
        system: code.to_owned(),
        pedestal_version: version.name.clone(),
        chart_name: chart.name.clone(),
        chart_version: chart.version.clone(),
        repo_url: chart.repo_url.clone(),
        repo_name: chart.repo_name.clone(),
        chart_digest: version.chart.as_ref().and_then(|chart| chart.archive_digest.clone()),
        revision: version.revision.digest.clone(),
        overlay: version.revision.overlay_hash.clone(),
        parameters,
    })
}
