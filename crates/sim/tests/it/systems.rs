//! Every built-in system runs whole journeys, over every protocol that it has.

use std::collections::{BTreeMap, BTreeSet};

use model::SystemCode;
use sim::Plan;
use system::Catalog;

use crate::probe::{SECOND, Span, calm};

const CODES: [&str; 8] = ["ts", "otel-demo", "ob", "sockshop", "hs", "sn", "media", "teastore"];

#[test]
fn all_eight_systems_answer_nearly_everything() {
    for code in CODES {
        let (probe, world) = calm(code, 5, 10.0, 60);
        let roots: Vec<&Span> =
            probe.spans.iter().filter(|span| span.parent.is_empty() && span.start > 20 * SECOND).collect();
        let failed = roots.iter().filter(|span| span.failed).count() as f64 / roots.len().max(1) as f64;
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for span in &probe.spans {
            let kind = ["rpc.system", "db.system", "messaging.system", "http.request.method"]
                .into_iter()
                .find(|key| span.attributes.contains_key(*key));
            *kinds.entry(kind.unwrap_or("other")).or_default() += 1;
        }
        let services: BTreeSet<&str> = probe.spans.iter().map(|span| span.service.as_str()).collect();
        println!(
            "{code}: {} journeys, {} spans {kinds:?}, {:.2} % of roots fail, {} services",
            world.journeys(),
            probe.spans.len(),
            100.0 * failed,
            services.len()
        );
        assert!(roots.len() > 100, "{code}: {} roots", roots.len());
        assert!(failed < 0.05, "{code}: {failed} of the requests fail without a fault");
    }
}

#[test]
fn the_usual_load_is_served_and_so_are_fifty_journeys_a_second() {
    for code in CODES {
        let system = Catalog::builtin().unwrap().get(&SystemCode::parse(code).unwrap()).unwrap();
        let topology = system.topology().unwrap();
        let plan = Plan::new(code, "app", topology).unwrap();
        let usual = topology.behaviour.journeys_per_s.expect("a built-in system says its load");
        for (load, most) in [(usual, 0.5), (50.0, 0.85)] {
            let mut parts = plan.offered_load(load);
            parts.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation));
            let top: Vec<String> =
                parts.iter().take(4).map(|part| format!("{} {:.2}", part.service, part.utilisation)).collect();
            println!("{code} at {load} journeys/s: {}", top.join(", "));
            assert!(parts[0].utilisation < most, "{code} at {load}: {:?}", parts[0]);
        }
        let flood = plan.offered_load(100_000.0);
        assert!(flood.iter().any(|part| part.utilisation > 1.0), "{code}: nothing is too much");
    }
}
