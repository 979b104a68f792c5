//! One system's files as a whole: everything that is wrong with them, and the data when nothing is.
//!
//! The catalog and the lint both read systems through here, so that a user's folder meets exactly the rules that the
//! built-in systems meet.

use std::collections::HashSet;

use model::{ErrorKind, Problem};
use serde::de::DeserializeOwned;

use crate::folder::{FILES, Texts};
use crate::{Kind, Registration, SystemData, Topology, behaviour, journey, telemetry, yaml};

/// What came of reading a system's files. The place of a finding begins with the file's name.
#[derive(Debug, Default)]
pub(crate) struct Review {
    /// There when nothing is wrong.
    pub data: Option<SystemData>,
    /// There when its own file can be read.
    pub registration: Option<Registration>,
    pub findings: Vec<Problem>,
    /// What deserves a second look and is legal.
    pub notes: Vec<Problem>,
}

/// Reads a system from its texts. `folder` is the name of the folder that they are in.
pub(crate) fn review(folder: &str, texts: &Texts<impl AsRef<str>>) -> Review {
    let mut review = Review::default();
    let registration: Option<Registration> = review.parse(FILES[0], texts.system.as_ref());
    if let Some(registration) = &registration {
        review.findings.extend(registration.check().into_iter().map(|problem| in_file(FILES[0], problem)));
        if registration.code.as_str() != folder {
            review.findings.push(misnamed(folder, registration));
        }
    }
    let topology = review.topology(texts);
    let simulated = texts.topology.is_some() || texts.points.is_some() || texts.journeys.is_some();
    if let (Some(registration), Some(topology)) = (&registration, &topology) {
        review.findings.extend(entrance(registration, topology));
        review.findings.extend(unserved_load(topology));
        review.notes.extend(unvisited(topology));
    }
    review.registration.clone_from(&registration);
    if let Some(registration) = registration
        && review.findings.is_empty()
        && topology.is_some() == simulated
    {
        review.data = Some(SystemData { registration, topology });
    }
    review
}

impl Review {
    /// A file's contents, if it is there and can be read.
    fn parse<T: DeserializeOwned>(&mut self, file: &str, text: Option<&impl AsRef<str>>) -> Option<T> {
        match yaml::read(file, text?.as_ref()) {
            Ok(value) => Some(value),
            Err(findings) => {
                self.findings.extend(findings);
                None
            }
        }
    }

    fn topology(&mut self, texts: &Texts<impl AsRef<str>>) -> Option<Topology> {
        let topology = self.parse(FILES[1], texts.topology.as_ref());
        let points = self.parse(FILES[2], texts.points.as_ref());
        let journeys: Option<journey::File> = self.parse(FILES[3], texts.journeys.as_ref());
        let telemetry: Option<telemetry::File> = self.parse(FILES[4], texts.telemetry.as_ref());
        let behaviour: Option<behaviour::File> = self.parse(FILES[5], texts.behaviour.as_ref());
        let parts = match yaml::parts(topology?, points?) {
            Ok(parts) => parts,
            Err(problem) => {
                self.findings.push(problem);
                return None;
            }
        };
        let (mut topology, findings) = Topology::new(parts, journeys?);
        self.findings.extend(findings);
        match telemetry.map(|file| file.resolve(&topology)) {
            Some(Ok(telemetry)) => topology.telemetry = telemetry,
            Some(Err(findings)) => self.findings.extend(findings),
            // Every service has the usual instrumentation of its language.
            None => {}
        }
        match behaviour.map(|file| file.resolve(&topology)) {
            Some(Ok(behaviour)) => topology.behaviour = behaviour,
            Some(Err(findings)) => self.findings.extend(findings),
            // Every part behaves as is usual for its kind.
            None => {}
        }
        Some(topology)
    }
}

fn in_file(file: &str, problem: Problem) -> Problem {
    let place = problem.place.clone().unwrap_or_default();
    problem.place(format!("{file}: {place}"))
}

fn misnamed(folder: &str, registration: &Registration) -> Problem {
    Problem::new(ErrorKind::Invalid, "system.folder_misnamed", "a folder's name is its system's code")
        .place(format!("{}: code", FILES[0]))
        .found(format!("code `{}` in the folder `{folder}`", registration.code))
        .expected("a folder that is named like the code")
        .fix(format!("rename the folder to `{}`", registration.code))
}

/// What the registration says about where load enters, against the parts.
fn entrance(registration: &Registration, topology: &Topology) -> Vec<Problem> {
    let entrance = &registration.entrance;
    let named = [
        ("service", &entrance.service),
        ("load_generator", &entrance.load_generator),
        ("sli_service", &entrance.sli_service),
    ];
    let mut findings: Vec<Problem> = named
        .into_iter()
        .filter(|(_, name)| topology.service(name).is_none())
        .map(|(key, name)| crate::lint::unknown_service(topology, name).place(format!("{}: entrance.{key}", FILES[0])))
        .collect();
    if findings.is_empty() && topology.call(&entrance.load_generator, &entrance.service).is_none() {
        let problem = Problem::new(
            ErrorKind::Invalid,
            "system.entrance_unconnected",
            "the load generator does not call the entrance",
        );
        findings.push(
            problem
                .place(format!("{}: entrance.service", FILES[0]))
                .found(format!("`{}` -> `{}`", entrance.load_generator, entrance.service))
                .expected("a call in topology.yaml"),
        );
    }
    findings
}

/// The load that the system is normally used with, and that some service can never serve.
fn unserved_load(topology: &Topology) -> impl Iterator<Item = Problem> {
    let load = topology.usual_load();
    topology.overloaded(load).into_iter().map(move |overload| {
        Problem::new(ErrorKind::Invalid, "system.load_unserved", "the service can never serve the usual load")
            .place(format!("{}: services.{}", FILES[1], overload.service))
            .found(format!(
                "at {load} journeys/s its requests need at least {:.1} cores of CPU",
                overload.needed
            ))
            .expected(format!("at most {:.1} cores", overload.cores))
            .fix("let fewer requests reach it (`times`, heavy journeys, calls that repeat others), or raise its `cpu_limit`")
    })
}

/// Services that no journey comes by: a fault on them is never felt.
fn unvisited(topology: &Topology) -> Vec<Problem> {
    let steps = topology.journeys.iter().flat_map(|journey| journey.steps());
    let visited: HashSet<&str> =
        steps.flat_map(|step| [Some(step.to.as_str()), step.via.as_deref()]).flatten().collect();
    if visited.is_empty() {
        // Nothing is known about the journeys; what is wrong with them is told elsewhere.
        return Vec::new();
    }
    let silent = topology.services.iter().filter(|service| {
        service.kind != Kind::Loadgen && !service.idle && !service.disabled && !visited.contains(service.name.as_str())
    });
    let note = |name: &str| {
        Problem::new(
            ErrorKind::Invalid,
            "system.service_unvisited",
            "no journey comes by the service, so no fault on it is ever felt",
        )
        .place(format!("{}: services.{name}", FILES[1]))
        .found(format!("`{name}`"))
        .fix("let a journey reach it, or mark it `idle: true`")
    };
    silent.map(|service| note(&service.name)).collect()
}
