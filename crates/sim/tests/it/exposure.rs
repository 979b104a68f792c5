//! The list of points where each fault is felt, as `docs/exposed-points.md` gives it, holds.

use std::collections::{BTreeMap, BTreeSet};

use fault::{Spec, capabilities, resolve};
use model::SystemCode;
use sim::bench::Weigh;
use sim::{Plan, World};
use system::Catalog;

use crate::probe::{SECOND, environment};

/// Capability, system, service, and the pairs of target and parameters.
type Row = (String, String, String, Vec<(String, String)>);

fn rows() -> Vec<Row> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/exposed-points.md");
    let text = std::fs::read_to_string(file).unwrap();
    let known: BTreeSet<&str> = capabilities().iter().map(|row| row.name).collect();
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    text.lines()
        .map(cells)
        .filter(|cells| cells.get(1).is_some_and(|name| known.contains(name.as_str())))
        .map(|cells| {
            let pairs = cells[4].split(' ').chain(cells[5].split(' ')).filter_map(|pair| pair.split_once('='));
            let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            (cells[1].clone(), cells[2].clone(), cells[3].clone(), pairs)
        })
        .collect()
}

#[test]
fn every_kind_of_fault_is_felt_somewhere() {
    let mut first: BTreeMap<String, Row> = BTreeMap::new();
    for row in rows() {
        first.entry(row.0.clone()).or_insert(row);
    }
    let missing: Vec<&str> =
        capabilities().iter().map(|row| row.name).filter(|name| !first.contains_key(*name)).collect();
    assert!(missing.is_empty(), "no point of {missing:?} is listed");
    let catalog = Catalog::builtin().unwrap();
    for (capability, code, service, pairs) in first.into_values() {
        let system = catalog.get(&SystemCode::parse(&code).unwrap()).unwrap();
        let spec = Spec::from_pairs(&capability, &service, pairs).unwrap();
        let resolved = resolve(&spec, &system).unwrap_or_else(|problem| panic!("{capability} {service}: {problem}"));
        let plan = Plan::new(&code, &system.registration.app_label_key, system.topology().unwrap()).unwrap();
        let mut world = World::new(plan.into(), &format!("{code}0"), environment(7, 20.0));
        let mut sink = Weigh::default();
        world.run(30 * SECOND, &mut sink).unwrap();
        world.start_fault("f", &resolved).unwrap();
        world.run(90 * SECOND, &mut sink).unwrap();
        world.end_fault("f").unwrap();
        let witness = world.witness("f").unwrap();
        assert!(witness.exposed, "{capability} on {service} of {code}: {}", witness.reason);
    }
}
