//! Registering a system from a seed: from the seed's words to the rows of all five layers.

use ::seed::{ContainerSeed, DynamicConfig, Parameter, Seed, SystemSeed, VersionSeed};
use ::settings::{Bounds, Declaration, Scope, ValueType};
use ::store::{
    ContainerKind, NewChart, NewContainer, NewOverlay, NewPrerequisite, NewSetting, NewSystem, NewVersion,
    RegisterOptions, Registration, SeedOrigin, Written,
};
use ::system::Signal;
use api::system::{Layer, LayerWrite, RegisterReport, RegisterRequest};
use model::{ErrorKind, Problem, Result, SystemCode, counted};
use serde_json::{Value, json};

use super::App;
use super::release::Stored;

/// Who is recorded as the author of what a registration writes.
const BY: &str = "register";

impl App {
    /// All five layers, or none.
    ///
    /// # Errors
    /// Every error of the seed, with its file and line; `system.already_registered` without `force`;
    /// `version.immutable`.
    pub async fn register(&self, request: RegisterRequest) -> Result<RegisterReport> {
        let seed = Seed::parse(&request.files)?;
        let system = seed.system(&request.name)?;
        let registration = self.registration(&request, &system)?;
        let options = RegisterOptions { force: request.force, dry_run: request.dry_run };
        let registered = self.store().register_system(&registration, options, BY).await?;
        if !request.dry_run {
            self.reserve_namespaces().await?;
        }
        let layers = match (request.dry_run, registered.id) {
            (false, Some(_)) => self.layers(&self.store().system(&request.name).await?).await?,
            _ => Vec::new(),
        };
        Ok(RegisterReport {
            id: registered.id.map(|id| id.0),
            name: request.name,
            is_builtin: system.keys.is_builtin,
            dry_run: request.dry_run,
            writes: registered.writes.into_iter().map(write).collect(),
            warnings: self.warnings(&seed, &system),
            layers,
        })
    }

    fn registration(&self, request: &RegisterRequest, system: &SystemSeed) -> Result<Registration> {
        let mut containers =
            vec![container(&system.pedestal, system)?, container(&system.benchmark.container, system)?];
        for algorithm in &system.algorithms {
            containers.push(container(algorithm, system)?);
        }
        Ok(Registration {
            system: self.new_system(request, system)?,
            settings: system.settings.iter().map(setting).collect(),
            containers,
            telemetry: self.contract(&system.code),
        })
    }

    fn new_system(&self, request: &RegisterRequest, system: &SystemSeed) -> Result<NewSystem> {
        let keys = &system.keys;
        if keys.count == 0 {
            return Err(Problem::new(ErrorKind::Invalid, "system.no_slot", "the system has no slot to run in")
                .place(format!("injection.system.{}.count", system.code))
                .found("0")
                .expected("1 or more"));
        }
        Ok(NewSystem {
            code: system.code.clone(),
            display_name: keys.display_name.clone(),
            description: String::new(),
            ns_pattern: keys.ns_pattern.clone(),
            extract_pattern: keys.extract_pattern.clone(),
            app_label_key: keys.app_label_key.clone(),
            slot_count: keys.count,
            // What cannot run here is registered all the same, and stays disabled.
            enabled: keys.status == ::seed::Status::Enabled && self.cluster().can_run(&system.code).is_ok(),
            is_builtin: keys.is_builtin,
            seed: SeedOrigin {
                env: request.env.clone(),
                digest: system.digest.clone(),
                place: system.pedestal.at.to_string(),
            },
        })
    }

    /// What the telemetry of a system must be like. A system that nothing is known about owes every signal.
    fn contract(&self, code: &SystemCode) -> Value {
        match self.catalog().get(code) {
            Ok(data) => json!({
                "format": 1,
                "required_signals": data.registration.profile.required_signals,
                "entrance": data.registration.entrance,
            }),
            Err(_) => json!({ "format": 1, "required_signals": Signal::ALL, "entrance": null }),
        }
    }

    fn warnings(&self, seed: &Seed, system: &SystemSeed) -> Vec<String> {
        let mut warnings: Vec<String> = system.warnings.iter().map(ToString::to_string).collect();
        let shared = seed.shared_settings().count();
        if shared > 0 {
            warnings.push(format!(
                "left as they are, for they belong to no system: {} of the seed",
                counted(shared, "setting")
            ));
        }
        if let Err(error) = self.cluster().can_run(&system.code) {
            warnings.push(format!("registered and not enabled: {}", error.problem));
        }
        warnings
    }
}

fn write(written: ::store::LayerWrite) -> LayerWrite {
    LayerWrite {
        layer: match written.layer {
            ::store::Layer::Registry => Layer::Registry,
            ::store::Layer::Config => Layer::Config,
            ::store::Layer::Database => Layer::Database,
            ::store::Layer::Chart => Layer::Chart,
            ::store::Layer::Telemetry => Layer::Telemetry,
        },
        key: written.key,
        value: written.value,
        change: match written.written {
            Written::New => "new",
            Written::Changed => "changed",
            Written::Same => "same",
            Written::Kept => "kept, an operator set it",
        }
        .to_owned(),
    }
}

fn setting(row: &DynamicConfig) -> NewSetting {
    let text = |value: &Option<::seed::Located<String>>| value.as_ref().map(|value| value.value.clone());
    let options = text(&row.options).filter(|options| !options.is_empty()).map_or_else(Vec::new, |json| {
        serde_json::from_str::<Vec<Value>>(&json).expect("a seed is linted before it is registered")
    });
    let default = row.default_text().to_owned();
    NewSetting {
        value: default.clone(),
        declaration: Declaration {
            key: row.key.value.clone(),
            scope: match row.scope.value {
                ::seed::Scope::Producer => Scope::Producer,
                ::seed::Scope::Consumer => Scope::Consumer,
                ::seed::Scope::Global => Scope::Global,
            },
            value_type: match row.value_type.value {
                ::seed::SettingType::String => ValueType::String,
                ::seed::SettingType::Bool => ValueType::Bool,
                ::seed::SettingType::Int => ValueType::Int,
                ::seed::SettingType::Float => ValueType::Float,
                ::seed::SettingType::StringArray => ValueType::StringArray,
            },
            seed: Some(default.clone()),
            default,
            bounds: Bounds {
                min: row.min_value.as_ref().map(|bound| bound.value),
                max: row.max_value.as_ref().map(|bound| bound.value),
                pattern: text(&row.pattern).filter(|pattern| !pattern.is_empty()),
                options: options
                    .iter()
                    .map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned))
                    .collect(),
            },
            description: text(&row.description).unwrap_or_default(),
            is_secret: row.is_secret(),
        },
    }
}

fn container(seed: &ContainerSeed, system: &SystemSeed) -> Result<NewContainer> {
    let kind = match seed.kind {
        ::seed::ContainerKind::Algorithm => ContainerKind::Algorithm,
        ::seed::ContainerKind::Benchmark => ContainerKind::Benchmark,
        ::seed::ContainerKind::Pedestal => ContainerKind::Pedestal,
    };
    let prerequisites = if kind == ContainerKind::Pedestal { prerequisites(system) } else { Vec::new() };
    Ok(NewContainer {
        kind,
        name: seed.name.clone(),
        is_public: seed.is_public,
        versions: seed.versions.iter().map(version).collect::<Result<_>>()?,
        prerequisites,
    })
}

fn prerequisites(system: &SystemSeed) -> Vec<NewPrerequisite> {
    let one = |row: &::seed::Prerequisite| NewPrerequisite {
        kind: row.kind.value.clone(),
        name: row.name.value.clone(),
        definition: json!({
            "chart": row.chart.as_ref().map(|chart| &chart.value),
            "namespace": row.namespace.as_ref().map(|namespace| &namespace.value),
            "version": row.version.as_ref().map(|version| &version.value),
            "values": row.values.iter().map(|value| json!({"key": value.key.value, "value": value.value.value})).collect::<Vec<_>>(),
        }),
    };
    system.prerequisites.iter().map(one).collect()
}

fn version(seed: &VersionSeed) -> Result<NewVersion> {
    let revision = seed.revision.as_ref();
    let stored = revision.map(|revision| Stored::new(revision.clone())).transpose()?;
    let (image_ref, command) =
        seed.image.as_ref().map_or_else(Default::default, |image| (image.reference.clone(), image.command.clone()));
    Ok(NewVersion {
        name: seed.name.clone(),
        image_ref,
        command,
        github_link: seed.github_link.clone(),
        enabled: seed.status == ::seed::Status::Enabled,
        chart: revision.map(|revision| NewChart {
            repository: revision.chart.repo_url.clone(),
            repository_name: revision.chart.repo_name.clone(),
            name: revision.chart.name.clone(),
            version: revision.chart.version.clone(),
        }),
        env: without_places(&seed.environment),
        parameters: revision.map_or_else(|| json!([]), |revision| without_places(&revision.parameters)),
        overlay: revision
            .and_then(|revision| revision.overlay.as_ref())
            .map(|overlay| NewOverlay { name: overlay.file.clone(), bytes: overlay.text.clone().into_bytes() }),
        composed: stored.map_or(Value::Null, |stored| stored.to_value()),
        place: seed.at.to_string(),
    })
}

/// What decides a version's content hash: lines that moved in the file make no new revision.
fn without_places(parameters: &[Parameter]) -> Value {
    let one = |parameter: &Parameter| {
        json!({
            "key": parameter.key,
            "value_type": parameter.value_type,
            "source": parameter.source,
            "required": parameter.required,
            "overridable": parameter.overridable,
        })
    };
    Value::Array(parameters.iter().map(one).collect())
}
