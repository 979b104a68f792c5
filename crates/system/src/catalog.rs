//! Which systems there are: the built-in ones, overridden or extended by a folder.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use model::{ErrorKind, Problem, Result, SystemCode};

use crate::folder::{FILES, Texts, is_system, systems_in};
use crate::review::{Review, review};
use crate::{Registration, Service, Topology};

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

macro_rules! embedded {
    ($code:literal, $file:literal) => {
        Some(include_str!(concat!("../../../systems/", $code, "/", $file, ".yaml")))
    };
    ($code:literal) => {
        (
            $code,
            Texts {
                system: embedded!($code, "system"),
                topology: embedded!($code, "topology"),
                points: embedded!($code, "points"),
                journeys: embedded!($code, "journeys"),
                telemetry: embedded!($code, "telemetry"),
                behaviour: embedded!($code, "simulation"),
            },
        )
    };
}

fn embedded() -> [(&'static str, Texts<&'static str>); 8] {
    [
        embedded!("ts"),
        embedded!("otel-demo"),
        embedded!("ob"),
        embedded!("sockshop"),
        embedded!("hs"),
        embedded!("sn"),
        embedded!("media"),
        embedded!("teastore"),
    ]
}

impl Catalog {
    /// The systems that are embedded in the program.
    ///
    /// # Errors
    /// Never with unchanged data: a test loads it.
    pub fn builtin() -> Result<Self> {
        let mut catalog = Self { systems: BTreeMap::new() };
        for (code, texts) in embedded() {
            catalog.insert(&format!("systems/{code}"), review(code, &texts))?;
        }
        Ok(catalog)
    }

    /// The built-in systems, where `folder/<code>/` replaces or adds a whole system.
    ///
    /// # Errors
    /// `system.folder_unreadable`, `system.none_here`, `system.folder_is_one_system`, and the first finding of the lint about
    /// one of the systems.
    pub fn with_folder(folder: &Path) -> Result<Self> {
        if is_system(folder) {
            return Err(one_system(folder));
        }
        let mut catalog = Self::builtin()?;
        let mut own = Vec::new();
        for path in systems_in(folder)? {
            // A link that leads nowhere is no system that may be left out in silence.
            std::fs::metadata(&path).map_err(|error| unreadable(&path, error))?;
            let place = path.display().to_string();
            own.push((catalog.insert(&place, folder_review(&path))?, place));
        }
        // All of them are known now.
        for (code, place) in own {
            if let Some(taken) = catalog.overlap(&catalog.get(&code)?.registration) {
                return Err(first_of(&place, vec![taken]));
            }
        }
        Ok(catalog)
    }

    /// What a system's patterns take of the slots of others.
    pub(crate) fn overlap(&self, registration: &Registration) -> Option<Problem> {
        let others = self.systems.values().map(|system| &system.registration);
        let others = others.filter(|other| other.code != registration.code);
        let (key, slot, other) = others
            .into_iter()
            .find_map(|other| registration.taken_from(other).map(|(key, slot)| (key, slot, other)))?;
        let problem = Problem::new(
            ErrorKind::Invalid,
            "system.pattern_overlaps",
            "the pattern takes slots of another system for its own",
        );
        Some(
            problem
                .place(format!("{}: {key}", FILES[0]))
                .found(format!("it matches `{slot}`, a slot of `{}`", other.code))
                .expected(format!("a pattern that matches `{}` and a number only", registration.code)),
        )
    }

    /// Takes note of a registration, for comparing others with it.
    pub(crate) fn know(&mut self, registration: &Registration) {
        let data = SystemData { registration: registration.clone(), topology: None };
        self.systems.insert(registration.code.clone(), Arc::new(data));
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

    fn insert(&mut self, folder: &str, review: Review) -> Result<SystemCode> {
        let Some(data) = review.data else { return Err(first_of(folder, review.findings)) };
        let code = data.code().clone();
        self.systems.insert(code.clone(), Arc::new(data));
        Ok(code)
    }
}

/// Everything about the system in a folder.
pub(crate) fn folder_review(path: &Path) -> Review {
    let (texts, findings) = crate::folder::read(path);
    let name =
        path.canonicalize().ok().and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()));
    let mut seen = review(&name.unwrap_or_default(), &texts);
    seen.findings.splice(..0, findings);
    if !seen.findings.is_empty() {
        seen.data = None;
    }
    seen.notes.extend(crate::folder::strangers(path));
    seen
}

/// The first finding, with the number of the others.
fn first_of(folder: &str, findings: Vec<Problem>) -> Problem {
    let others = findings.len().saturating_sub(1);
    let Some(mut first) = findings.into_iter().next() else {
        return Problem::internal("system.data_lost", "a system without findings has no data").place(folder.to_owned());
    };
    let place = format!("{folder}/{}", first.place.as_deref().unwrap_or_default());
    if others > 0 {
        first.message = format!("{} (the first of {} findings)", first.message, others + 1);
        first = match first.fix.clone() {
            Some(fix) => first.fix(format!("{fix}; see all of them with `aegisctl system lint {folder}`")),
            None => first.fix(format!("see all of them with `aegisctl system lint {folder}`")),
        };
    }
    first.place(place)
}

/// A system's own folder where the folder above it is meant: nothing in it would be read.
fn one_system(folder: &Path) -> Problem {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let above =
        whole.parent().map_or_else(|| "the folder above it".to_owned(), |above| format!("`{}`", above.display()));
    Problem::new(ErrorKind::Invalid, "system.folder_is_one_system", "this is the folder of one system")
        .place(folder.display().to_string())
        .found("a system's own files")
        .expected("the folder that has one folder for each system")
        .fix(format!("name {above}"))
}

fn unreadable(path: &Path, error: std::io::Error) -> Problem {
    Problem::new(ErrorKind::Unavailable, "system.folder_unreadable", "a system's data cannot be read")
        .place(path.display().to_string())
        .found(error.to_string())
        .cause(error)
}
