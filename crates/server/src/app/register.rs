//! Registering a system: from the words of a seed, or of what the program knows about it, to the rows of all five layers.

mod builtin;

use std::sync::Arc;

use ::seed::{ObjectKind, Seed, State, SystemSeed, field};
use ::store::{RegisterOptions, Registration, SeedOrigin, Written};
use ::system::{Signal, SystemData};
use api::system::{Layer, LayerWrite, RegisterReport, RegisterRequest, RegistrableRequest};
use model::{Problem, Result, SystemCode, counted};
use serde_json::{Value, json};

use super::App;
use super::chart::FetchedCharts;
use super::seed::{Present, rows};

pub(super) use builtin::ENV as BUILT_IN;

/// Who is recorded as the author of what a registration writes.
const BY: &str = "register";

impl App {
    /// All five layers, or none. Without files the system is declared by what the program knows about it.
    ///
    /// # Errors
    /// Every error of the seed, with its file and line; `system.unknown` without a seed; `seed.revision_unknown`; `system.already_registered`
    /// without `force`; `version.immutable`; `settings.unreachable`, `settings.not_adopted`.
    pub async fn register(&self, mut request: RegisterRequest) -> Result<RegisterReport> {
        if let Some(number) = request.seed_revision {
            let revision = self.store().seed_revision(number).await?.seed;
            (request.files, request.env) = (revision.files, revision.env);
        }
        if request.files.is_empty() {
            request.files = builtin::seed(&self.known(&request.name)?.registration)?;
            request.env = builtin::ENV.to_owned();
        }
        let seed = Seed::parse(&request.files)?;
        let system = seed.system(&request.name)?;
        let live = if request.force { Some(self.store().seed_live().await?) } else { None };
        let live = live.map(|live| Present::read(&live, Some(&request.name))).transpose()?.map(|present| present.live);
        let mut registration = self.registration(&request, &seed, &system, live.as_ref())?;
        let mut warnings = self.warnings(&seed, &system);
        let mut fetched = FetchedCharts::default();
        if !request.dry_run {
            // Before anything is written: where the cluster needs the chart, its failure is the registration's.
            fetched = self.fetch_charts(&mut registration.containers).await?;
            warnings.append(&mut fetched.told);
        }
        let options = RegisterOptions { force: request.force, dry_run: request.dry_run };
        let registered = match self.store().register_system(&registration, options, BY).await {
            Ok(registered) => registered,
            Err(problem) => return Err(self.undo_fetched(&fetched, problem).await),
        };
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
            warnings,
            layers,
        })
    }

    /// The systems that can be registered: those of a seed, or without one those that the program knows.
    ///
    /// # Errors
    /// Every error of the seed, with its file and line.
    pub fn registrable(&self, request: &RegistrableRequest) -> Result<Vec<String>> {
        if request.files.is_empty() {
            return Ok(self.catalog().codes().map(ToString::to_string).collect());
        }
        let seed = Seed::parse(&request.files)?;
        Ok(seed.systems().into_iter().map(str::to_owned).collect())
    }

    fn known(&self, name: &str) -> Result<Arc<SystemData>> {
        let codes: Vec<&str> = self.catalog().codes().map(SystemCode::as_str).collect();
        let unknown = || match ::seed::code_meant_by(name, codes.iter().copied()) {
            Some(code) => Problem::unknown("system.unknown", "system", name, codes.iter().copied())
                .fix(format!("did you mean `{code}`?")),
            None => Problem::unknown("system.unknown", "system", name, codes.iter().copied())
                .fix("name a seed that declares it with `--from-seed`"),
        };
        let code = SystemCode::parse(name).ok().filter(|code| codes.contains(&code.as_str()));
        self.catalog().get(&code.ok_or_else(unknown)?)
    }

    /// `live` is what is there already.
    fn registration(
        &self,
        request: &RegisterRequest,
        seed: &Seed,
        system: &SystemSeed,
        live: Option<&State>,
    ) -> Result<Registration> {
        let declared = system.state(seed);
        let state = live.map_or_else(|| declared.clone(), |live| with_operators(&declared, live));
        let mut names =
            vec![format!("pedestal {}", system.code), format!("benchmark {}", system.benchmark.container.name)];
        names.extend(system.algorithms.iter().map(|algorithm| format!("algorithm {}", algorithm.name)));
        let own = state.get(ObjectKind::System, system.code.as_str()).cloned().unwrap_or_default();
        // What cannot run here is registered all the same, and stays disabled.
        let enabled = system.keys.status == ::seed::Status::Enabled && self.cluster().can_run(&system.code).is_ok();
        let origin = SeedOrigin {
            env: request.env.clone(),
            digest: system.digest.clone(),
            place: system.pedestal.at.to_string(),
        };
        let settings = state.objects.iter().filter(|(id, _)| id.kind == ObjectKind::Setting);
        Ok(Registration {
            system: rows::system(&system.code, &own, enabled, origin)?,
            settings: settings.map(|(id, object)| rows::setting(&id.name, object, None)).collect::<Result<_>>()?,
            containers: names.iter().map(|name| rows::container(name, &state, |_| true)).collect::<Result<_>>()?,
            telemetry: self.contract(&system.code),
            objects: declared.objects.iter().map(|(id, object)| rows::seed_object(id, object)).collect(),
        })
    }

    /// What the telemetry of a system must be like. A system that nothing is known about owes every signal.
    pub(super) fn contract(&self, code: &SystemCode) -> Value {
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
                "left as they are, for they belong to no system: {} of the seed; `aegisctl seed apply` writes them",
                counted(shared, "setting")
            ));
        }
        if let Err(error) = self.cluster().can_run(&system.code) {
            warnings.push(format!("registered and not enabled: {}", error.problem));
        }
        warnings
    }
}

/// What is declared, with the Helm values that operators set in the versions that are there already.
fn with_operators(declared: &State, live: &State) -> State {
    let mut state = declared.clone();
    for (id, object) in state.objects.iter_mut().filter(|(id, _)| id.kind == ObjectKind::Version) {
        let Some(there) = live.objects.get(id) else { continue };
        let own = there.fields.iter().filter(|(name, field)| field.operators && name.starts_with(field::VALUE));
        object.fields.extend(own.map(|(name, field)| (name.clone(), field.clone())));
    }
    state
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
