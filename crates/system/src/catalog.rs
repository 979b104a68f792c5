//! Which systems there are: the built-in ones, overridden or extended by a folder.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use model::{ErrorKind, Problem, Result, SystemCode};

use crate::{Registration, Service, Topology, yaml};

/// Everything that is known about one system.
#[derive(Debug)]
pub struct SystemData {
    pub registration: Registration,
    /// `None`: the system can be registered, but there is no data to simulate it or to list its points.
    pub topology: Option<Topology>,
}

impl SystemData {
    pub fn code(&self) -> &SystemCode {
        &self.registration.code
    }

    /// # Errors
    /// `system.no_simulation_data`.
    pub fn topology(&self) -> Result<&Topology> {
        self.topology.as_ref().ok_or_else(|| {
            Problem::new(ErrorKind::Missing, "system.no_simulation_data", "the system has no simulation data")
                .place(format!("system {}", self.code()))
                .expected("files topology.yaml, points.yaml and journeys.yaml")
                .fix(format!(
                    "add them to a folder `{}/` and name the folder above it in the configuration",
                    self.code()
                ))
        })
    }

    /// # Errors
    /// `service.unknown`, with the nearest name.
    pub fn service(&self, name: &str) -> Result<&Service> {
        let topology = self.topology()?;
        topology.service(name).ok_or_else(|| {
            let known: Vec<&str> = topology.services.iter().map(|service| service.name.as_str()).collect();
            Problem::unknown("service.unknown", "service", name, known).place(format!("system {}", self.code()))
        })
    }
}

/// The systems of this process.
#[derive(Debug, Clone)]
pub struct Catalog {
    systems: BTreeMap<SystemCode, Arc<SystemData>>,
}

/// The text of one system's files.
struct Files<'a> {
    /// The name that errors give to the folder.
    folder: String,
    system: &'a str,
    simulation: Option<Simulation<'a>>,
}

/// The files without which nothing is simulated come together or not at all.
struct Simulation<'a> {
    topology: &'a str,
    points: &'a str,
    journeys: &'a str,
    /// Without it every service has the usual instrumentation of its language.
    telemetry: Option<&'a str>,
}

macro_rules! embedded {
    ($code:literal, $file:literal) => {
        include_str!(concat!("../../../systems/", $code, "/", $file, ".yaml"))
    };
}

macro_rules! with_simulation {
    ($code:literal) => {
        Files {
            folder: format!("systems/{}", $code),
            system: embedded!($code, "system"),
            simulation: Some(Simulation {
                topology: embedded!($code, "topology"),
                points: embedded!($code, "points"),
                journeys: embedded!($code, "journeys"),
                telemetry: Some(embedded!($code, "telemetry")),
            }),
        }
    };
}

fn embedded() -> Vec<Files<'static>> {
    vec![
        with_simulation!("ts"),
        with_simulation!("otel-demo"),
        with_simulation!("ob"),
        with_simulation!("sockshop"),
        with_simulation!("hs"),
        with_simulation!("sn"),
        with_simulation!("media"),
        with_simulation!("teastore"),
    ]
}

impl Catalog {
    /// The systems that are embedded in the program.
    ///
    /// # Errors
    /// Never with unchanged data: a test loads it.
    pub fn builtin() -> Result<Self> {
        let mut catalog = Self { systems: BTreeMap::new() };
        for files in embedded() {
            catalog.insert(&files)?;
        }
        Ok(catalog)
    }

    /// The built-in systems, where `folder/<code>/` replaces or adds a whole system.
    ///
    /// # Errors
    /// `system.folder_unreadable`, `system.file_missing`, `system.file_malformed`, `system.data_inconsistent` and what
    /// registration checks report, each naming the file.
    pub fn with_folder(folder: &Path) -> Result<Self> {
        let mut catalog = Self::builtin()?;
        let mut names: Vec<_> = std::fs::read_dir(folder)
            .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
            .map_err(|error| unreadable(folder, error))?;
        names.sort();
        for path in names.iter().filter(|path| path.is_dir()) {
            catalog.insert_folder(path)?;
        }
        Ok(catalog)
    }

    /// # Errors
    /// `system.unknown`, with the nearest code.
    pub fn get(&self, code: &SystemCode) -> Result<Arc<SystemData>> {
        self.systems.get(code).cloned().ok_or_else(|| {
            let known: Vec<&str> = self.systems.keys().map(SystemCode::as_str).collect();
            Problem::unknown("system.unknown", "system", code.as_str(), known)
        })
    }

    /// In alphabetical order.
    pub fn codes(&self) -> impl Iterator<Item = &SystemCode> {
        self.systems.keys()
    }

    fn insert_folder(&mut self, path: &Path) -> Result<()> {
        let read = |file: &str| match std::fs::read_to_string(path.join(file)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(&path.join(file), error)),
        };
        let missing = |file: &str| {
            Problem::new(ErrorKind::Missing, "system.file_missing", "a system's folder lacks a file")
                .place(path.join(file).display().to_string())
                .expected("system.yaml, and either all or none of topology.yaml, points.yaml, journeys.yaml")
        };
        let system = read("system.yaml")?.ok_or_else(|| missing("system.yaml"))?;
        let parts = [read("topology.yaml")?, read("points.yaml")?, read("journeys.yaml")?];
        let telemetry = read("telemetry.yaml")?;
        let telemetry = telemetry.as_deref();
        let simulation = match &parts {
            [Some(topology), Some(points), Some(journeys)] => {
                Some(Simulation { topology, points, journeys, telemetry })
            }
            [None, None, None] => None,
            [None, _, _] => return Err(missing("topology.yaml")),
            [_, None, _] => return Err(missing("points.yaml")),
            [_, _, None] => return Err(missing("journeys.yaml")),
        };
        self.insert(&Files { folder: path.display().to_string(), system: &system, simulation })
    }

    fn insert(&mut self, files: &Files<'_>) -> Result<()> {
        let place = format!("{}/system.yaml", files.folder);
        let registration: Registration = yaml::read(&place, files.system)?;
        registration.check(&place)?;
        if !files.folder.ends_with(&format!("/{}", registration.code)) {
            return Err(Problem::new(
                ErrorKind::Invalid,
                "system.folder_misnamed",
                "a folder's name is its system's code",
            )
            .place(place)
            .found(format!("code `{}`", registration.code))
            .fix(format!("rename the folder to `{}`", registration.code)));
        }
        let topology = files.simulation.as_ref().map(|simulation| load(&files.folder, simulation)).transpose()?;
        if let Some(topology) = &topology {
            check_entrance(&registration, topology, &place)?;
        }
        self.systems.insert(registration.code.clone(), Arc::new(SystemData { registration, topology }));
        Ok(())
    }
}

fn load(folder: &str, files: &Simulation<'_>) -> Result<Topology> {
    let topology = yaml::read(&format!("{folder}/topology.yaml"), files.topology)?;
    let points = yaml::read(&format!("{folder}/points.yaml"), files.points)?;
    let journeys: crate::journey::File = yaml::read(&format!("{folder}/journeys.yaml"), files.journeys)?;
    let parts = yaml::parts(topology, points).map_err(|problem| within(folder, problem))?;
    let mut topology = Topology::new(parts, journeys).map_err(|findings| first_of(folder, findings))?;
    if let Some(text) = files.telemetry {
        let file: crate::telemetry::File = yaml::read(&format!("{folder}/telemetry.yaml"), text)?;
        topology.telemetry = file.resolve(&topology).map_err(|findings| first_of(folder, findings))?;
    }
    Ok(topology)
}

/// The first finding, with the number of the others.
fn first_of(folder: &str, findings: Vec<Problem>) -> Problem {
    let others = findings.len() - 1;
    let first = findings.into_iter().next().expect("a failed check has at least one finding");
    let mut first = within(folder, first);
    if others > 0 {
        first.message = format!("{} (and {others} more findings)", first.message);
    }
    first
}

fn within(folder: &str, problem: Problem) -> Problem {
    let place = format!("{folder}/{}", problem.place.as_deref().unwrap_or_default());
    problem.place(place)
}

fn check_entrance(registration: &Registration, topology: &Topology, place: &str) -> Result<()> {
    let entrance = &registration.entrance;
    let named = [&entrance.service, &entrance.load_generator, &entrance.sli_service];
    for name in named {
        if topology.service(name).is_none() {
            let known: Vec<&str> = topology.services.iter().map(|service| service.name.as_str()).collect();
            return Err(Problem::unknown("system.data_inconsistent", "service", name, known).place(place));
        }
    }
    if topology.call(&entrance.load_generator, &entrance.service).is_none() {
        return Err(Problem::new(
            ErrorKind::Invalid,
            "system.data_inconsistent",
            "the load generator does not call the entrance",
        )
        .place(place)
        .expected("a call in topology.yaml"));
    }
    Ok(())
}

fn unreadable(path: &Path, error: std::io::Error) -> Problem {
    Problem::new(ErrorKind::Unavailable, "system.folder_unreadable", "a system's data cannot be read")
        .place(path.display().to_string())
        .found(error.to_string())
        .cause(error)
}
