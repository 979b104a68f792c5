//! Systems: lists, the five-layer table, enabling and unregistering.

use std::collections::BTreeSet;

use ::chart::Kept;
use ::store::{Container, ContainerKind, Layers, Setting};
use api::spec::Release;
use api::system::{
    Layer, LayerState, LayerStatus, Pedestal, SeedOrigin, SettingValue, System, SystemDetail, UnregisterReport,
    UpdateRequest,
};
use api::{Page, PageQuery};
use model::{ErrorKind, Problem, Result, SystemCode, counted};

use super::chart::short;
use super::release::{Stored, newest, pedestal, release};
use super::{App, page_of};

/// Who is recorded as the author of what people change through the API.
const BY: &str = "api";
/// Settings that every system has, below `injection.system.<code>.`.
pub(super) const MANDATORY: [&str; 7] =
    ["count", "ns_pattern", "extract_pattern", "display_name", "app_label_key", "is_builtin", "status"];

impl App {
    /// # Errors
    /// Whatever the store fails with.
    pub async fn systems(&self, query: PageQuery) -> Result<Page<System>> {
        let page = page_of(query, self.store().systems().await?, |system| system)?;
        let mut items = Vec::with_capacity(page.items.len());
        for stored in &page.items {
            let layers = self.store().layers(stored.code.as_str()).await?;
            items.push(item(stored, &layers, self.judge_all(stored, &layers)));
        }
        Ok(Page { items, pagination: page.pagination })
    }

    /// By name or number.
    ///
    /// # Errors
    /// `system.unknown`.
    pub async fn system(&self, name: &str) -> Result<SystemDetail> {
        let stored = self.find_system(name).await?;
        let layers = self.store().layers(stored.code.as_str()).await?;
        let services = self.catalog().get(&stored.code).ok().and_then(|data| {
            let topology = data.topology.as_ref()?;
            Some(topology.services.iter().map(|service| service.name.clone()).collect())
        });
        Ok(SystemDetail {
            system: item(&stored, &layers, self.judge_all(&stored, &layers)),
            seed: Some(SeedOrigin {
                env: stored.seed.env.clone(),
                content_hash: stored.seed.digest.clone(),
                applied_at: stored.updated_at.to_string(),
            }),
            pedestal: newest(&layers.database).map(|version| self.pedestal(version)).transpose()?,
            settings: layers.config.iter().map(setting).collect(),
            services: services.unwrap_or_default(),
        })
    }

    /// Enables or disables.
    ///
    /// # Errors
    /// `system.unknown`, `system.status_unknown`, `system.layer_not_ready`, `system.no_simulation_data`.
    pub async fn update_system(&self, name: &str, request: &UpdateRequest) -> Result<System> {
        let stored = self.find_system(name).await?;
        let enable = enables(request)?;
        if enable {
            self.require_layers(&stored).await?;
        }
        let changed = self.store().set_system_enabled(stored.code.as_str(), enable, BY).await?;
        let layers = self.store().layers(changed.code.as_str()).await?;
        Ok(item(&changed, &layers, self.judge_all(&changed, &layers)))
    }

    /// # Errors
    /// `system.unknown`, `system.has_live_runs`.
    pub async fn unregister(&self, name: &str) -> Result<UnregisterReport> {
        let stored = self.find_system(name).await?;
        let done = self.store().unregister_system(stored.code.as_str(), BY).await?;
        self.reserve_namespaces().await?;
        let count = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
        let kept = if done.runs_kept > 0 {
            vec![format!("{} with their datapacks", counted(done.runs_kept, "run"))]
        } else {
            Vec::new()
        };
        Ok(UnregisterReport {
            name: stored.code.to_string(),
            removed: done.removed.into_iter().map(|(layer, n)| (layer.as_str().to_owned(), count(n))).collect(),
            kept,
        })
    }

    pub(super) async fn layers(&self, stored: &::store::System) -> Result<Vec<LayerStatus>> {
        let layers = self.store().layers(stored.code.as_str()).await?;
        Ok(self.judge(stored, &layers))
    }

    /// A system that a run may be submitted for.
    ///
    /// # Errors
    /// `system.unknown`, `system.disabled`, `system.layer_not_ready`, `system.no_simulation_data`.
    pub(super) async fn system_that_runs(&self, name: &str) -> Result<::store::System> {
        let stored = self.find_system(name).await.map_err(|problem| problem.place("system"))?;
        self.require_layers(&stored).await?;
        if stored.enabled {
            return Ok(stored);
        }
        Err(Problem::new(ErrorKind::Conflict, "system.disabled", "the system is disabled")
            .place("system")
            .found(format!("`{}`", stored.code))
            .fix(format!("enable it with `aegisctl system enable {}`", stored.code)))
    }

    /// For a list that turned out empty: a system that nobody ever heard of is a mistake, not an empty answer.
    ///
    /// # Errors
    /// `system.unknown`, with the nearest code.
    pub(super) async fn require_known_system(&self, name: Option<&str>) -> Result<()> {
        let Some(name) = name else { return Ok(()) };
        let registered = self.store().systems().await?;
        let registered = registered.iter().map(|system| system.code.as_str());
        let known: BTreeSet<&str> = registered.chain(self.catalog().codes().map(SystemCode::as_str)).collect();
        if known.contains(name) {
            return Ok(());
        }
        Err(Problem::unknown("system.unknown", "system", name, known).place("query: system"))
    }

    /// Lets the receiver of telemetry always have room for the slots of registered systems.
    pub(super) async fn reserve_namespaces(&self) -> Result<()> {
        let mut names = Vec::new();
        for system in self.store().systems().await? {
            let count = self.slot_count(&system).await?;
            names.extend((0..count).map(|number| format!("{}{number}", system.code)));
        }
        self.signals().reserve_namespaces(names);
        Ok(())
    }

    /// The pool's size: the live setting, which an operator may have changed, else what the seed said.
    pub(super) async fn slot_count(&self, stored: &::store::System) -> Result<u32> {
        let layers = self.store().layers(stored.code.as_str()).await?;
        Ok(live_count(stored, &layers.config))
    }

    /// # Errors
    /// `system.layer_not_ready`, and what composing finds.
    pub(super) async fn release(&self, stored: &::store::System, slots: &[u32]) -> Result<Release> {
        let layers = self.store().layers(stored.code.as_str()).await?;
        let version = newest(&layers.database).ok_or_else(|| {
            Problem::new(ErrorKind::Missing, "system.layer_not_ready", "the system has no pedestal to install")
                .place(format!("system {}", stored.code))
        })?;
        release(version, self.own_values(version)?.as_deref(), slots)
    }

    fn pedestal(&self, version: &::store::Version) -> Result<Pedestal> {
        // A chart that is damaged is told by its layer; what the seed says is shown all the same.
        pedestal(version, self.own_values(version).ok().flatten().as_deref())
    }

    pub(super) async fn find_system(&self, name: &str) -> Result<::store::System> {
        let Ok(number) = name.parse::<i32>() else { return self.store().system(name).await };
        let systems = self.store().systems().await?;
        systems.into_iter().find(|system| system.id.0 == number).ok_or_else(|| {
            Problem::new(ErrorKind::NotFound, "system.unknown", "there is no system of this number")
                .found(number.to_string())
        })
    }

    async fn require_layers(&self, stored: &::store::System) -> Result<()> {
        let layers = self.layers(stored).await?;
        let Some(odd) = layers.iter().find(|layer| !layer.state.allows_runs()) else { return Ok(()) };
        if odd.state == LayerState::NoSimulationData {
            self.cluster().can_run(&stored.code)?;
        }
        let problem = Problem::new(ErrorKind::Missing, "system.layer_not_ready", "a layer of the system is not ready")
            .place(format!("system {}: layer {}", stored.code, odd.layer))
            .found(format!("{} ({})", odd.state, odd.observed));
        Err(match &odd.fix {
            Some(fix) => problem.fix(fix.clone()),
            None => problem,
        })
    }

    fn judge(&self, stored: &::store::System, layers: &Layers) -> Vec<LayerStatus> {
        let mut judged = vec![
            registry(stored, layers),
            config(stored, layers),
            database(layers),
            self.chart(stored, layers),
            self.telemetry(stored, layers),
        ];
        for layer in &mut judged {
            layer.source = self.read_from(layer.layer);
        }
        judged
    }

    /// As [`App::judge`], and with what was found where live values are published. That does not keep runs away: the values
    /// that were accepted stay in force.
    fn judge_all(&self, stored: &::store::System, layers: &Layers) -> Vec<LayerStatus> {
        let mut judged = self.judge(stored, layers);
        let followed = self.followed().borrow();
        let prefix = format!("{}{}.", ::settings::SYSTEM_PREFIX, stored.code);
        let is_its = |text: &Option<String>| text.as_ref().is_some_and(|text| text.contains(&prefix));
        let mut findings = followed.findings().filter(|finding| is_its(&finding.place) || is_its(&finding.found));
        let config = judged.iter_mut().find(|layer| layer.layer == Layer::Config && layer.state == LayerState::Ok);
        if let (Some(config), Some(finding)) = (config, findings.next()) {
            let more = findings.count();
            config.state = LayerState::Wrong;
            config.fix = finding.fix.clone();
            let place = finding.place.as_deref().unwrap_or_default();
            let found = finding.found.as_deref().unwrap_or_default();
            config.observed = format!("{place}: {}; found {found}", finding.message);
            if more > 0 {
                config.observed.push_str(&format!(" (and {more} more, see `aegisctl settings status`)"));
            }
        }
        judged
    }

    fn read_from(&self, layer: Layer) -> String {
        match (layer, self.store().source()) {
            (Layer::Registry, _) => "store: systems".to_owned(),
            (Layer::Config, None) => "store: settings".to_owned(),
            (Layer::Config, Some(source)) => format!("store: settings, compared with {}", source.place()),
            (Layer::Database, _) => "store: containers, versions, revisions".to_owned(),
            (Layer::Chart, _) => format!("store: charts, and {}", self.charts().place()),
            (Layer::Telemetry, _) => "store: telemetry contracts, and what the cluster can run".to_owned(),
        }
    }

    fn chart(&self, stored: &::store::System, layers: &Layers) -> LayerStatus {
        let Some(chart) = newest(&layers.database).and_then(|version| version.chart.as_ref()) else {
            return bad(Layer::Chart, LayerState::Missing, "no chart is declared".into(), AGAIN);
        };
        let declared = format!("{} {} from {}", chart.name, chart.version, chart.repository);
        let fix = self.chart_fix(stored, chart);
        let Some(digest) = &chart.archive_digest else {
            return match self.cluster().info().needs_chart {
                false => good(Layer::Chart, LayerState::NotFetched, declared),
                true => bad(Layer::Chart, LayerState::Missing, format!("{declared}: not fetched"), &fix),
            };
        };
        match self.charts().state(digest) {
            Kept::Whole(size) => {
                let source = chart.archive_source.as_deref().unwrap_or("a source that was not recorded");
                let observed = format!("{declared}; archive sha256:{}, {size} bytes, {source}", short(digest));
                good(Layer::Chart, LayerState::Ok, observed)
            }
            state => {
                let problem = self.charts().problem(digest, &state);
                let found = problem.found.as_deref().unwrap_or_default();
                let observed = format!("{declared}: {} [{}]; found {found}", problem.message, problem.code);
                bad(Layer::Chart, LayerState::Wrong, observed, &fix)
            }
        }
    }

    fn telemetry(&self, stored: &::store::System, layers: &Layers) -> LayerStatus {
        let Some(contract) = &layers.telemetry else {
            return bad(Layer::Telemetry, LayerState::Missing, "no telemetry contract is stored".into(), AGAIN);
        };
        let signals = contract["required_signals"].as_array().map_or(0, Vec::len);
        match self.cluster().can_run(&stored.code) {
            Ok(()) => good(Layer::Telemetry, LayerState::Ok, format!("required: {}", counted(signals, "signal"))),
            Err(error) => LayerStatus {
                layer: Layer::Telemetry,
                state: LayerState::NoSimulationData,
                observed: error.problem.message.clone(),
                source: String::new(),
                fix: error.problem.fix,
            },
        }
    }
}

/// # Errors
/// `system.status_unknown`.
pub fn enables(request: &UpdateRequest) -> Result<bool> {
    match request.status {
        1 => Ok(true),
        0 => Ok(false),
        other => Err(Problem::new(ErrorKind::Invalid, "system.status_unknown", "there is no such status")
            .place("body: status")
            .found(other.to_string())
            .expected("1 to enable, 0 to disable")),
    }
}

const AGAIN: &str = "register the system again with `--force`";

fn good(layer: Layer, state: LayerState, observed: String) -> LayerStatus {
    LayerStatus { layer, state, observed, source: String::new(), fix: None }
}

fn bad(layer: Layer, state: LayerState, observed: String, fix: &str) -> LayerStatus {
    LayerStatus { layer, state, observed, source: String::new(), fix: Some(fix.to_owned()) }
}

fn registry(stored: &::store::System, layers: &Layers) -> LayerStatus {
    let count = live_count(stored, &layers.config);
    let status = if stored.enabled { "enabled" } else { "disabled" };
    let observed = format!("number {}, {status}, {} of {}", stored.id, counted(count, "slot"), stored.ns_pattern);
    good(Layer::Registry, LayerState::Ok, observed)
}

fn config(stored: &::store::System, layers: &Layers) -> LayerStatus {
    let key = |name: &str| format!("{}{}.{name}", ::settings::SYSTEM_PREFIX, stored.code);
    let live = |name: &str| {
        let key = key(name);
        layers.config.iter().find(|setting| setting.declaration.key == key && setting.live.is_some())
    };
    let missing: Vec<String> = MANDATORY.iter().filter(|name| live(name).is_none()).map(|name| key(name)).collect();
    if !missing.is_empty() {
        return bad(Layer::Config, LayerState::Missing, format!("without a value: {}", missing.join(", ")), AGAIN);
    }
    let wrong = |setting: &&Setting| {
        let live = setting.live.as_ref()?;
        setting.declaration.check(&live.value).err().map(|problem| problem.to_string())
    };
    if let Some(problem) = layers.config.iter().find_map(|setting| wrong(&setting)) {
        return bad(Layer::Config, LayerState::Wrong, problem, "set the key to a legal value");
    }
    let operator =
        |setting: &&Setting| setting.live.as_ref().is_some_and(|live| live.owner == ::settings::Owner::Operator);
    let own = layers.config.iter().filter(operator).count();
    let observed = format!("{}, {own} of them set by an operator", counted(layers.config.len(), "key"));
    good(Layer::Config, LayerState::Ok, observed)
}

fn database(layers: &Layers) -> LayerStatus {
    let has = |kind: ContainerKind| {
        layers
            .database
            .iter()
            .any(|one: &Container| one.kind == kind && one.versions.iter().any(|version| version.enabled))
    };
    for (kind, name) in [(ContainerKind::Pedestal, "pedestal"), (ContainerKind::Benchmark, "benchmark")] {
        if !has(kind) {
            return bad(Layer::Database, LayerState::Missing, format!("no enabled version of a {name}"), AGAIN);
        }
    }
    let version = newest(&layers.database).expect("there is an enabled version of the pedestal");
    match Stored::read(&version.revision.composed) {
        Ok(_) => {
            let short = version.revision.digest.get(..12).unwrap_or_default();
            let observed = {
                let containers = counted(layers.database.len(), "container");
                format!("pedestal {} in revision {short}, {containers}", version.name)
            };
            good(Layer::Database, LayerState::Ok, observed)
        }
        Err(problem) => bad(Layer::Database, LayerState::Wrong, problem.to_string(), AGAIN),
    }
}

fn live_count(stored: &::store::System, config: &[Setting]) -> u32 {
    let key = format!("{}{}.count", ::settings::SYSTEM_PREFIX, stored.code);
    let setting = config.iter().find(|setting| setting.declaration.key == key);
    let live = setting.and_then(|setting| setting.live.as_ref()?.value.parse().ok());
    live.unwrap_or(stored.slot_count)
}

fn setting(setting: &Setting) -> SettingValue {
    let (value, owner) = match &setting.live {
        Some(_) if setting.declaration.is_secret => ("a secret".to_owned(), "-"),
        Some(live) => (live.value.clone(), live.owner.as_str()),
        None => (setting.declaration.default.clone(), "default"),
    };
    SettingValue { key: setting.declaration.key.clone(), value, owner: owner.to_owned() }
}

fn item(stored: &::store::System, layers: &Layers, judged: Vec<LayerStatus>) -> System {
    System {
        id: stored.id.0,
        name: stored.code.to_string(),
        display_name: stored.display_name.clone(),
        ns_pattern: stored.ns_pattern.clone(),
        extract_pattern: stored.extract_pattern.clone(),
        app_label_key: stored.app_label_key.clone(),
        count: i32::try_from(live_count(stored, &layers.config)).unwrap_or(i32::MAX),
        description: stored.description.clone(),
        is_builtin: stored.is_builtin,
        enabled: stored.enabled,
        status: if stored.enabled { "enabled" } else { "disabled" }.to_owned(),
        layers: judged,
        created_at: stored.created_at.to_string(),
        updated_at: stored.updated_at.to_string(),
    }
}
