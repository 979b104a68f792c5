//! The data of the eight systems: as complete as the facts that it was made from, and like the systems where they differ.

use std::collections::BTreeSet;

use system::{Catalog, Kind, Phase, Protocol, Step, SystemData, Topology};

use crate::code;

/// Rows, and how many of them are marked as read from code or charts.
type Count = (usize, usize);

struct Facts {
    code: &'static str,
    services: Count,
    calls: Count,
    endpoints: Count,
    rpcs: Count,
    statements: Count,
    methods: usize,
    journeys: usize,
    /// Deployed services to which no journey leads, and why that is right.
    silent: &'static [(&'static str, Why)],
}

enum Why {
    /// It is called when others start, or by them in the background.
    NotForRequests,
    /// No caller is known.
    NobodyCalls,
}

/// What the facts list, less what was found to be wrong with them. Sums are written out: first the facts, then each correction.
const FACTS: [Facts; 8] = [
    Facts {
        code: "ts",
        services: (48, 6),
        // Three calls are commented out in the code, fourteen routes of the gateway lead nowhere that is known, and one
        // caller asks for a path that nobody serves.
        calls: (162 - 3 - 14 - 1, 53 - 3 - 14 - 1),
        endpoints: (272, 104),
        rpcs: (0, 0),
        statements: (75, 7),
        methods: 546,
        journeys: 20,
        silent: &[
            ("ts-food-delivery-service", Why::NobodyCalls),
            ("ts-notification-service", Why::NobodyCalls),
            ("ts-wait-order-service", Why::NobodyCalls),
        ],
    },
    Facts {
        code: "otel-demo",
        services: (22, 2),
        // Four calls belong to parts that are switched off, and of one only the address is configured.
        calls: (41 - 4 - 1, 17 - 4 - 1),
        // Three labels of the framework, three routes of parts that are switched off, three gRPC methods as paths.
        endpoints: (36 - 3 - 3 - 3, 15 - 1),
        // The server spans of cart's three are in traces, under the names of requests.
        rpcs: (19, 9 - 3),
        // The unnamed query is the inserts; one statement belongs to a part that is switched off.
        statements: (9 - 1 - 1, 7 - 1),
        methods: 8,
        journeys: 9,
        silent: &[],
    },
    Facts {
        code: "ob",
        services: (12, 2),
        calls: (16, 2),
        endpoints: (10, 10),
        rpcs: (17, 1),
        statements: (2, 2),
        methods: 10,
        journeys: 7,
        silent: &[],
    },
    Facts {
        code: "sockshop",
        services: (8, 1),
        calls: (9, 1),
        // Six probes; `/catalogue*` is a list and a product.
        endpoints: (56 - 6 + 1, 20),
        rpcs: (4, 2),
        statements: (0, 0),
        methods: 91,
        journeys: 11,
        silent: &[],
    },
    Facts {
        code: "hs",
        services: (21, 12),
        calls: (28, 20),
        endpoints: (10, 10),
        rpcs: (11, 0),
        statements: (19, 19),
        methods: 0,
        journeys: 7,
        silent: &[
            ("consul", Why::NotForRequests),
            ("mongodb-geo", Why::NotForRequests),
            ("mongodb-recommendation", Why::NotForRequests),
            ("mongodb-user", Why::NotForRequests),
        ],
    },
    Facts {
        code: "sn",
        services: (27, 15),
        // The shortener's cache is never used.
        calls: (35 - 1, 30 - 1),
        endpoints: (17, 11),
        rpcs: (27, 22),
        statements: (29, 29),
        methods: 0,
        journeys: 6,
        silent: &[],
    },
    Facts {
        code: "media",
        services: (33, 20),
        // Four pairs are another service's under a wrong name; behind one of them stands the gateway's call that loads data.
        calls: (45 - 4 + 1, 25 + 1),
        endpoints: (8, 0),
        rpcs: (29, 6),
        statements: (43, 43),
        methods: 0,
        journeys: 5,
        silent: &[],
    },
    Facts {
        code: "teastore",
        services: (8, 1),
        calls: (14, 8),
        // Three are client spans of the caller.
        endpoints: (56 - 3, 31),
        rpcs: (0, 0),
        statements: (7, 4),
        methods: 127,
        journeys: 5,
        silent: &[("teastore-registry", Why::NotForRequests)],
    },
];

fn system(name: &str) -> std::sync::Arc<SystemData> {
    Catalog::builtin().unwrap().get(&code(name)).unwrap()
}

fn count<T>(rows: &[T], inferred: impl Fn(&T) -> bool) -> Count {
    (rows.len(), rows.iter().filter(|row| inferred(row)).count())
}

fn steps(topology: &Topology) -> impl Iterator<Item = &Step> {
    topology.journeys.iter().flat_map(system::Journey::steps)
}

#[test]
fn every_system_has_all_that_is_known_of_it() {
    for facts in &FACTS {
        let system = system(facts.code);
        let topology = system.topology().unwrap();
        let name = facts.code;
        assert_eq!(count(&topology.services, |row| row.inferred), facts.services, "services of {name}");
        assert_eq!(count(&topology.calls, |row| row.inferred), facts.calls, "calls of {name}");
        assert_eq!(count(&topology.endpoints, |row| row.inferred), facts.endpoints, "endpoints of {name}");
        assert_eq!(count(&topology.rpcs, |row| row.inferred), facts.rpcs, "procedures of {name}");
        assert_eq!(count(&topology.statements, |row| row.inferred), facts.statements, "statements of {name}");
        assert_eq!(topology.methods.len(), facts.methods, "methods of {name}");
        assert_eq!(topology.journeys.len(), facts.journeys, "journeys of {name}");
        assert!(topology.endpoints.iter().all(|endpoint| !endpoint.pattern.as_str().contains('{')), "{name}");
    }
}

#[test]
fn journeys_reach_every_service_that_works_on_requests() {
    for facts in &FACTS {
        let system = system(facts.code);
        let topology = system.topology().unwrap();
        let reached: BTreeSet<&str> = steps(topology).map(|step| step.to.as_str()).collect();
        let deployed = topology.services.iter().filter(|service| !service.disabled && service.kind != Kind::Loadgen);
        let silent: Vec<&str> = deployed
            .filter(|service| !service.idle && !reached.contains(service.name.as_str()))
            .map(|service| service.name.as_str())
            .collect();
        let expected: Vec<&str> = facts.silent.iter().map(|(name, _)| *name).collect();
        assert_eq!(silent, expected, "silent services of {}", facts.code);
        for (name, why) in facts.silent {
            let mut callers = topology.calls_to(name).peekable();
            let holds = match why {
                Why::NotForRequests => callers.peek().is_some() && callers.all(|call| call.phase != Phase::Request),
                Why::NobodyCalls => callers.peek().is_none(),
            };
            assert!(holds, "{name} of {}", facts.code);
        }
        let unused = topology.services.iter().filter(|service| service.idle || service.disabled);
        for service in unused {
            assert!(!reached.contains(service.name.as_str()), "{} of {} is reached", service.name, facts.code);
        }
    }
}

#[test]
fn steps_name_what_answers_them() {
    for facts in &FACTS {
        let system = system(facts.code);
        let topology = system.topology().unwrap();
        for step in steps(topology) {
            assert_eq!(step.endpoint.is_some(), step.protocol == Protocol::Http, "{step:?}");
            assert_eq!(step.rpc.is_some(), step.protocol.is_rpc(), "{step:?}");
            assert_eq!(step.statement.is_some(), step.protocol.is_store(), "{step:?}");
        }
        let pauses =
            topology.journeys.iter().flat_map(|journey| &journey.requests).filter(|request| request.think_s > 0.0);
        assert!(pauses.count() > 1, "the users of {} never pause", facts.code);
    }
}

#[test]
fn methods_are_those_that_run_in_the_image() {
    for facts in &FACTS {
        let system = system(facts.code);
        let topology = system.topology().unwrap();
        for service in &topology.services {
            assert!(topology.methods_of(&service.name).count() <= 25, "{} of {}", service.name, facts.code);
        }
        for method in &topology.methods {
            let class = method.class.rsplit('.').next().unwrap();
            let only_for_tests = class.starts_with("Test") || class.ends_with("Test") || class.ends_with("IT");
            assert!(!only_for_tests && !class.contains("Mock") && class != "AdServiceClient", "{method:?}");
        }
    }
}

#[test]
fn pods_and_names_are_the_real_ones() {
    let cases = [
        // (system, service, container, label, name in DNS, name in telemetry)
        ("ts", "rabbitmq", "rabbitmq", "ts-rabbitmq", "rabbitmq", "rabbitmq"),
        ("ob", "cartservice", "server", "cartservice", "cartservice", "cartservice"),
        ("ob", "redis-cart", "redis", "redis-cart", "redis-cart", "redis-cart"),
        ("hs", "search", "hotel-reserv-search", "search", "search", "search"),
        (
            "hs",
            "memcached-reserve",
            "hotel-reserv-reservation-mmc",
            "memcached-reserve",
            "memcached-reserve",
            "memcached-reserve",
        ),
        ("sockshop", "catalog", "coherence", "catalog", "catalogue", "catalog"),
        ("sockshop", "users", "coherence", "users", "user", "users"),
        ("media", "page-service", "page-service", "page-service", "page-service", "cast-info-service"),
        ("teastore", "teastore-auth", "auth", "auth", "teastore-auth-0.teastore-auth", "teastore-auth"),
        ("teastore", "teastore-db", "db", "db", "teastore-db", "teastore-db"),
    ];
    for (name, service, container, label, dns_name, reported) in cases {
        let system = system(name);
        let found = system.service(service).unwrap();
        let names = (found.container(), found.label(), found.dns_name(), found.reported_name());
        assert_eq!(names, (container, label, dns_name, reported), "{service} of {name}");
    }
    let sockshop = system("sockshop");
    let ports: BTreeSet<u16> = sockshop.topology().unwrap().endpoints.iter().map(|endpoint| endpoint.port).collect();
    assert_eq!(ports, BTreeSet::from([7001, 8079]));
    let needed: Vec<&str> = sockshop.registration.prerequisites.iter().map(|need| need.name.as_str()).collect();
    assert_eq!(needed, ["coherence-operator"]);
    let hs = system("hs");
    let looked_up: Vec<&str> = hs.topology().unwrap().resolves("frontend").iter().map(|peer| peer.dns_name()).collect();
    assert_eq!(looked_up, ["consul"], "the others are found in Consul, by address");
}

/// The calls of the handling of one operation, as a journey makes them.
fn handling<'a>(topology: &'a Topology, service: &str, operation: &str) -> &'a [Step] {
    let step = steps(topology).find(|step| step.to == service && step.operation == operation);
    &step.unwrap_or_else(|| panic!("no journey makes {service} handle {operation}")).children
}

#[test]
fn handlers_behave_like_the_code() {
    let sockshop = system("sockshop");
    let order = handling(sockshop.topology().unwrap(), "orders", "POST /orders");
    let detached: Vec<&str> = order.iter().filter(|step| step.is_async).map(|step| step.to.as_str()).collect();
    assert_eq!(detached, ["payment", "shipping"]);

    let ob = system("ob");
    let topology = ob.topology().unwrap();
    let index = handling(topology, "frontend", "GET /");
    let prices = index.iter().filter(|step| step.operation.ends_with("/Convert")).count();
    assert_eq!(prices, 9, "one conversion for each product");
    let optional: Vec<&str> = index.iter().filter(|step| step.tolerated).map(|step| step.to.as_str()).collect();
    assert_eq!(optional, ["adservice"]);
    assert_eq!(topology.call("frontend", "adservice").unwrap().timeout_ms, Some(100));

    let sn = system("sn");
    let compose = handling(sn.topology().unwrap(), "compose-post-service", "ComposePostService/ComposePost");
    let together: Vec<bool> = compose.iter().map(|step| step.parallel).collect();
    assert_eq!(together, [false, true, true, true, false, true, true], "four parts at once, then three places at once");

    let hs = system("hs");
    let rates = handling(hs.topology().unwrap(), "rate", "rate.Rate/GetRates");
    let flags: Vec<_> = rates.iter().map(|step| (step.operation.as_str(), step.on_miss, step.is_async)).collect();
    assert_eq!(flags, [("get_multi", false, false), ("find inventory", true, false), ("set", true, true)]);

    let demo = system("otel-demo");
    let checkout = handling(demo.topology().unwrap(), "checkout", "oteldemo.CheckoutService/PlaceOrder");
    let consumers: Vec<&str> =
        checkout.iter().filter(|step| step.via.as_deref() == Some("kafka")).map(|step| step.to.as_str()).collect();
    assert_eq!(consumers, ["accounting", "fraud-detection"]);
}
