//! Systems of a few parts, made for one test each.

use std::path::Path;

use sim::{Plan, World};
use system::{Catalog, SystemData};

use crate::probe::{Probe, SECOND, environment};

/// A system of a few parts, from the rows of its files.
pub struct Tiny {
    pub services: &'static str,
    pub calls: &'static str,
    pub points: &'static str,
    pub handlers: &'static str,
    pub behaviour: &'static str,
}

/// Work that varies little.
const STEADY: &str = "source: test, work_cv: 0.01, cpu_limit: 8";

impl Tiny {
    fn system(&self) -> std::sync::Arc<SystemData> {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("tiny");
        std::fs::create_dir(&place).unwrap();
        let write = |file: &str, text: String| std::fs::write(place.join(file), text).unwrap();
        let registration: &Path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../systems/hs/system.yaml"));
        let registration = std::fs::read_to_string(registration).unwrap();
        let registration = registration
            .replace("code: hs", "code: tiny")
            .replace("^hs", "^tiny")
            .replace("^(hs)", "^(tiny)")
            .replace("service: frontend", "service: a")
            .replace("load_generator: load-generator", "load_generator: users");
        write("system.yaml", registration);
        let generator = "- {name: users, language: go, kind: loadgen, protocol: http}";
        let front = "- {name: a, language: go, kind: web, protocol: http, port: 80}";
        write(
            "topology.yaml",
            format!(
                "format: 1\nservices:\n{generator}\n{front}\n{}\ncalls:\n  users:\n  - {{to: a, protocol: http, operations: [GET /]}}\n{}\n",
                self.services, self.calls
            ),
        );
        write("points.yaml", format!("format: 1\nendpoints:\n  a:\n  - {{method: GET, route: /}}\n{}\n", self.points));
        write(
            "journeys.yaml",
            format!(
                "format: 1\nhandlers:\n{}\njourneys:\n- {{name: one, weight: 1, requests: [{{operation: GET /}}]}}\n",
                self.handlers
            ),
        );
        write(
            "simulation.yaml",
            format!(
                "format: 1\nload: {{journeys_per_s: 1, source: test}}\nservices:\n- {{services: [a], {STEADY}, operations: {{'GET /': 0.5}}}}\n{}\n",
                self.behaviour
            ),
        );
        let catalog = Catalog::with_folder(folder.path()).unwrap_or_else(|problem| panic!("{problem}"));
        catalog.get(&model::SystemCode::parse("tiny").unwrap()).unwrap()
    }

    pub fn world(&self, load: f64) -> (World, std::sync::Arc<SystemData>) {
        let system = self.system();
        let plan = Plan::new("tiny", "app", system.topology().unwrap()).unwrap();
        let calm = cluster::Environment { noise: 0.0, ..environment(3, load) };
        (World::new(plan.into(), "tiny0", calm), system)
    }

    pub fn run(&self, load: f64, seconds: i64) -> Probe {
        let (mut probe, (mut world, _)) = (Probe::default(), self.world(load));
        world.run(seconds * SECOND, &mut probe).unwrap();
        probe
    }
}
