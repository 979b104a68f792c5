//! Every built-in system runs whole journeys, over every protocol that it has.

use std::collections::{BTreeMap, BTreeSet};

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
