//! What the registration of one system needs, collected from a seed and checked.

mod keys;

use model::SystemCode;
use serde::{Deserialize, Serialize};

pub use keys::SystemKeys;
pub(crate) use keys::{PREFIX, by_system, codes, of_system, system_of};

use crate::schema::{Container, ContainerKind};
use crate::{
    ContainerSeed, DynamicConfig, Finding, Findings, Parameter, Prerequisite, Revision, Seed, Spot, check, names,
    setting,
};

/// The environment variable that tells a benchmark where to look.
pub(crate) const NAMESPACE: &str = "NAMESPACE";
/// The benchmark that serves every system which has none of its own.
const SHARED_BENCHMARK: &str = "clickhouse";

/// One system of a seed, ready to be registered: every part is there and fits the others.
#[derive(Debug, Clone, PartialEq)]
pub struct SystemSeed {
    pub code: SystemCode,
    /// The mandatory settings, typed.
    pub keys: SystemKeys,
    /// The declarations of all settings of this system, mandatory and optional, in the order of the file.
    pub settings: Vec<DynamicConfig>,
    pub pedestal: ContainerSeed,
    pub benchmark: BenchmarkSeed,
    /// All enabled algorithms of the seed; they serve every system.
    pub algorithms: Vec<ContainerSeed>,
    pub prerequisites: Vec<Prerequisite>,
    /// [`Seed::digest`].
    pub digest: String,
    /// Findings about this system that are no errors.
    pub warnings: Vec<Finding>,
}

/// The container that builds this system's datapacks on a real cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BenchmarkSeed {
    pub container: ContainerSeed,
    /// It serves other systems as well: the run must set `NAMESPACE` to its slot.
    pub is_shared: bool,
}

impl SystemSeed {
    /// What a run would install: the highest enabled version of the pedestal.
    pub fn revision(&self) -> &Revision {
        let newest = self.pedestal.newest().and_then(|version| version.revision.as_ref());
        newest.expect("a checked pedestal has an enabled version, and each of its versions has a chart")
    }
}

impl Seed {
    /// Short codes of the systems that the seed declares, by name.
    pub fn systems(&self) -> Vec<&str> {
        let mut codes: Vec<&str> =
            self.of_kind(ContainerKind::Pedestal).map(|container| container.name.as_str()).collect();
        codes.sort_unstable();
        codes
    }

    /// Settings that belong to no single system.
    pub fn shared_settings(&self) -> impl Iterator<Item = &DynamicConfig> {
        self.document.dynamic_configs.iter().filter(|row| !row.key.starts_with(PREFIX))
    }

    pub(crate) fn of_kind(&self, kind: ContainerKind) -> impl Iterator<Item = &Container> {
        self.document.containers.iter().filter(move |container| container.kind.value == kind && container.is_enabled())
    }

    /// Collects and checks one system.
    ///
    /// # Errors
    /// `seed.system_unknown` (with the code that may be meant), `seed.system_disabled`, and every error of the system's settings, pedestal,
    /// overlay, benchmark, prerequisites, and of the algorithms.
    pub fn system(&self, code: &str) -> Result<SystemSeed, Findings> {
        let pedestal = self.of_kind(ContainerKind::Pedestal).find(|container| *container.name == code);
        let Some(pedestal) = pedestal else { return Err(self.unknown_system(code).into()) };
        let mut report = Findings::default();
        check::names(self, &mut report);
        let settings: Vec<DynamicConfig> = of_system(self, code).cloned().collect();
        setting::check_keys(&settings, &mut report);
        for row in &settings {
            setting::check(row, &mut report);
        }
        let keys = SystemKeys::of(code, &pedestal.name.at, &settings, &mut report);
        let container = ContainerSeed::of(pedestal, self, &mut report);
        let benchmark = self.benchmark(code, &pedestal.at, &mut report);
        let algorithms: Vec<_> = self
            .of_kind(ContainerKind::Algorithm)
            .filter_map(|algorithm| ContainerSeed::of(algorithm, self, &mut report))
            .collect();
        check::prerequisites(pedestal, &mut report);
        let ((), warnings) = report.unless_wrong(())?;
        Ok(SystemSeed {
            code: SystemCode::parse(code).expect("the names were checked"),
            keys: keys.expect("it is only missing after an error"),
            settings,
            pedestal: container.expect("it is only missing after an error"),
            benchmark: benchmark.expect("it is only missing after an error"),
            algorithms,
            prerequisites: pedestal.prerequisites.clone(),
            digest: self.digest.clone(),
            warnings,
        })
    }

    fn unknown_system(&self, code: &str) -> Finding {
        let kind = ContainerKind::Pedestal;
        if let Some(pedestal) = self.document.containers.iter().find(|c| c.kind.value == kind && *c.name == code) {
            let at = pedestal.status.as_ref().map_or(&pedestal.at, |status| &status.at);
            return Finding::error("seed.system_disabled", at, format!("the seed says that `{code}` is not used"))
                .fix("write `status: 1` to use it");
        }
        let known = self.systems();
        let finding = Finding::error("seed.system_unknown", &self.document.at, "the seed has no such system")
            .found(format!("`{code}`"))
            .expected(known.join(", "));
        match names::meant(code, known.iter().copied()) {
            Some(meant) => finding.fix(format!("did you mean `{meant}`?")),
            None => finding,
        }
    }

    /// The benchmark named `<code>-bench`, else the one whose `NAMESPACE` is a slot of the system, else the shared one.
    pub(crate) fn benchmark(&self, code: &str, at: &Spot, report: &mut Findings) -> Option<BenchmarkSeed> {
        let own_name = format!("{code}-bench");
        let named = self.of_kind(ContainerKind::Benchmark).find(|container| *container.name == own_name);
        let own = named.or_else(|| self.of_kind(ContainerKind::Benchmark).find(|container| serves(container, code)));
        let shared = || self.of_kind(ContainerKind::Benchmark).find(|container| *container.name == SHARED_BENCHMARK);
        let (container, is_shared) = match (own, shared()) {
            (Some(own), _) => (own, *own.name == SHARED_BENCHMARK),
            (None, Some(shared)) => (shared, true),
            (None, None) => {
                report.push(
                    Finding::error("benchmark.missing", at, format!("no benchmark builds datapacks of `{code}`"))
                        .expected(format!(
                            "a benchmark `{code}-bench`, one whose NAMESPACE is `{code}0`, or `{SHARED_BENCHMARK}`"
                        )),
                );
                return None;
            }
        };
        let container = ContainerSeed::of(container, self, report)?;
        let newest = container.newest()?;
        let variable = newest.environment.iter().find(|parameter| parameter.key == NAMESPACE);
        if let Some(finding) = namespace_fault(variable, &container.name, &newest.at) {
            report.push(finding);
            return None;
        }
        Some(BenchmarkSeed { container, is_shared })
    }
}

/// The run must be able to say which slot a benchmark reads.
fn namespace_fault(variable: Option<&Parameter>, name: &str, at: &Spot) -> Option<Finding> {
    match variable {
        None => Some(
            Finding::error("benchmark.no_namespace", at, format!("the benchmark `{name}` does not take a namespace"))
                .expected("an environment variable `NAMESPACE`"),
        ),
        Some(variable) if !variable.overridable => Some(
            Finding::error(
                "benchmark.namespace_fixed",
                &variable.at,
                format!("`NAMESPACE` of the benchmark `{name}` cannot be set by a run"),
            )
            .expected("`overridable: true`"),
        ),
        Some(_) => None,
    }
}

fn serves(benchmark: &Container, code: &str) -> bool {
    benchmark.versions.iter().flat_map(|version| &version.env_vars).filter(|row| *row.key == NAMESPACE).any(|row| {
        let default = row.default_value.as_ref().map_or("", |text| text.as_str());
        default
            .strip_prefix(code)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    })
}
