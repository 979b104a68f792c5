//! Cross references inside a topology: every name refers to something that exists, and nothing is declared twice.

use std::collections::HashSet;
use std::hash::Hash;

use model::{ErrorKind, Problem, nearest};

use crate::{Call, Endpoint, Kind, Protocol, Service, Statement, Topology};

/// Every finding, in file order. Journeys are checked while they are resolved.
pub(crate) fn check(topology: &Topology) -> Vec<Problem> {
    let mut lint = Lint { topology, findings: Vec::new() };
    lint.services();
    lint.calls();
    lint.endpoints();
    lint.rpcs();
    lint.statements();
    lint.methods();
    lint.findings
}

/// A name that no service has, with the nearest one that is.
pub(crate) fn unknown_service(topology: &Topology, name: &str) -> Problem {
    let names = topology.services.iter().map(|service| service.name.as_str());
    let problem = Problem::unknown("system.service_unknown", "service", name, names);
    // It is the data that is wrong, not a question about it.
    Problem { kind: ErrorKind::Invalid, ..problem }
}

struct Lint<'a> {
    topology: &'a Topology,
    findings: Vec<Problem>,
}

impl<'a> Lint<'a> {
    fn services(&mut self) {
        self.unique("topology.yaml: services", self.topology.services.iter().map(|service| &service.name));
        for service in &self.topology.services {
            self.connected(service);
            if service.cpu_millis.is_some_and(|millis| !(10..=128_000).contains(&millis)) {
                let place = format!("topology.yaml: services.{}.cpu_millis", service.name);
                self.report(&place, "the CPU limit is out of range", "10 to 128000 thousandths of a core");
            }
            // A worker may take its messages from a broker and listen on nothing.
            let fits = match service.kind {
                Kind::Loadgen => service.port.is_none(),
                Kind::Worker => true,
                _ => service.port.is_some(),
            };
            if !fits {
                let place = format!("topology.yaml: services.{}", service.name);
                match service.kind {
                    Kind::Loadgen => self.report(&place, "a load generator listens on no port", "no `port`"),
                    _ => self.report(&place, "the service has no port to listen on", "`port`, 1 to 65535"),
                }
            }
            for (key, port) in [("port", service.port), ("service_port", service.service_port)] {
                if port == Some(0) {
                    let place = format!("topology.yaml: services.{}.{key}", service.name);
                    self.report(&place, "nothing can listen on port 0", "1 to 65535");
                }
            }
        }
    }

    fn calls(&mut self) {
        let place = "topology.yaml: calls";
        self.unique(place, self.topology.calls.iter().map(|call| format!("{} -> {}", call.from, call.to)));
        for call in &self.topology.calls {
            self.known_service(&format!("{place}.{}", call.from), &call.from);
            for name in [Some(&call.to), call.via.as_ref()].into_iter().flatten() {
                self.known_service(&format!("{place}.{}.{}", call.from, call.to), name);
            }
            if call.operations.is_empty() {
                self.report(
                    &format!("{place}.{}.{}", call.from, call.to),
                    "the call lists no operation",
                    "one or more in `operations`",
                );
            }
            for operation in &call.operations {
                self.call_operation(&call.from, &call.to, call.protocol, operation);
            }
        }
    }

    /// Operations are declared where they are answered; messages name their queue themselves.
    fn call_operation(&mut self, from: &str, to: &str, protocol: Protocol, operation: &str) {
        let topology = self.topology;
        let (what, known): (&str, Vec<String>) = match protocol {
            Protocol::Http => ("endpoint", topology.endpoints_of(to).map(Endpoint::operation).collect()),
            protocol if protocol.is_rpc() => {
                ("remote procedure", topology.rpcs_of(to).map(|rpc| rpc.operation.clone()).collect())
            }
            protocol if protocol.is_store() => {
                ("statement", topology.statements_of(from).map(Statement::operation).collect())
            }
            _ => return,
        };
        if known.iter().any(|name| name == operation) || topology.service(to).is_none() {
            return;
        }
        let owner = if protocol.is_store() { from } else { to };
        let message = format!("nobody serves the operation: `{owner}` declares no such {what}");
        let problem = Problem::new(ErrorKind::Invalid, "system.operation_unserved", message)
            .place(format!("topology.yaml: calls.{from}.{to}: `{operation}`"))
            .found(format!("`{operation}`"));
        const LISTED: usize = 8;
        let mut names: Vec<&str> = known.iter().map(String::as_str).take(LISTED).collect();
        if known.len() > LISTED {
            names.push("...");
        }
        let expected = if names.is_empty() { format!("a {what} in points.yaml") } else { names.join(", ") };
        let fix = match nearest(operation, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("declare it for `{owner}` in points.yaml, or take it out of the call"),
        };
        self.findings.push(problem.expected(expected).fix(fix));
    }

    fn endpoints(&mut self) {
        let place = "points.yaml: endpoints";
        let names = self.topology.endpoints.iter().map(|item| format!("{} {}", item.service, item.operation()));
        self.unique(place, names);
        for endpoint in &self.topology.endpoints {
            self.known_service(&format!("{place}.{}", endpoint.service), &endpoint.service);
            if !endpoint.route.starts_with('/') {
                self.report(
                    &format!("{place}.{}.{}", endpoint.service, endpoint.operation()),
                    "the route does not begin with a slash",
                    "`/...`",
                );
            }
            let place = format!("{place}.{}.{}", endpoint.service, endpoint.operation());
            if !(200..400).contains(&endpoint.status) {
                self.report(&place, "the status that the endpoint answers with is no success", "200 to 399");
            }
            // An endpoint without a port of its own has that of its service, which is judged by itself.
            let listens = self
                .topology
                .service(&endpoint.service)
                .is_some_and(|service| service.port != Some(0) && service.port.is_some());
            if endpoint.port == 0 && listens {
                self.report(
                    &format!("{place}.port"),
                    "nothing can listen on port 0",
                    "1 to 65535, or the service's own",
                );
            }
        }
    }

    fn rpcs(&mut self) {
        let place = "points.yaml: rpcs";
        self.unique(place, self.topology.rpcs.iter().map(|item| format!("{} {}", item.service, item.operation)));
        for rpc in &self.topology.rpcs {
            self.known_service(&format!("{place}.{}", rpc.service), &rpc.service);
            if rpc.operation.split_once('/').is_none_or(|(service, method)| service.is_empty() || method.is_empty()) {
                let place = format!("{place}.{}.{}", rpc.service, rpc.operation);
                self.report(
                    &place,
                    "the operation does not say which method of which service it is",
                    "`package.Service/Method`",
                );
            }
        }
    }

    fn statements(&mut self) {
        let place = "points.yaml: statements";
        let names = self.topology.statements.iter().map(|item| format!("{} {}", item.service, item.operation()));
        self.unique(place, names);
        for statement in &self.topology.statements {
            self.known_service(&format!("{place}.{}", statement.service), &statement.service);
            self.known_service(
                &format!("{place}.{}.{}", statement.service, statement.operation()),
                &statement.instance,
            );
            let place = format!("{place}.{}.{}", statement.service, statement.operation());
            match self.topology.call(&statement.service, &statement.instance) {
                None => self.report(
                    &place,
                    "the service does not call the data store that the statement is sent to",
                    "a call in topology.yaml",
                ),
                Some(call) if call.protocol != statement.system.protocol() => {
                    self.report(
                        &place,
                        "the call to the data store has a protocol that the store does not speak",
                        "one protocol for the statement and for the call in topology.yaml",
                    );
                }
                Some(_) => {}
            }
        }
    }

    fn methods(&mut self) {
        let place = "points.yaml: methods";
        let names = self.topology.methods.iter().map(|item| format!("{} {}.{}", item.service, item.class, item.method));
        self.unique(place, names);
        for method in &self.topology.methods {
            self.known_service(&format!("{place}.{}", method.service), &method.service);
            if self.topology.service(&method.service).is_some_and(|service| !service.runs_on_jvm()) {
                self.report(
                    &format!("{place}.{}", method.service),
                    "the service of the method does not run on a JVM",
                    "a service whose `language` runs on one",
                );
            }
            if method.method == "main" || method.method.starts_with('<') {
                let name = format!("{place}.{}.{}.{}", method.service, method.class, method.method);
                self.report(
                    &name,
                    "no request reaches the method: it runs only when the service starts",
                    "a method that requests reach",
                );
            }
            if let Some(operation) = &method.serves {
                let served = self.topology.endpoint_index(&method.service, operation).is_some()
                    || self.topology.rpc_index(&method.service, operation).is_some()
                    || self.topology.calls_to(&method.service).any(|call| call.operations.contains(operation));
                if !served {
                    let name = format!("{place}.{}.{}.{}", method.service, method.class, method.method);
                    self.report(
                        &name,
                        "the method serves an operation that its service does not have",
                        "an endpoint, a remote procedure or a called operation of the service",
                    );
                }
            }
        }
    }

    /// A service that calls nothing and that nothing calls is a leftover, unless the data says that it is idle.
    fn connected(&mut self, service: &Service) {
        let named = |call: &Call| {
            [Some(&call.from), Some(&call.to), call.via.as_ref()]
                .into_iter()
                .flatten()
                .any(|name| *name == service.name)
        };
        if service.idle || service.disabled || self.topology.calls.iter().any(named) {
            return;
        }
        let problem = Problem::new(
            ErrorKind::Invalid,
            "system.service_unused",
            "nothing calls the service, and it calls nothing",
        );
        self.findings.push(
            problem
                .place(format!("topology.yaml: services.{}", service.name))
                .found(format!("`{}`", service.name))
                .expected("a call in topology.yaml")
                .fix("declare its calls, mark it `idle: true`, or remove it"),
        );
    }

    fn known_service(&mut self, place: &str, name: &str) {
        if self.topology.service(name).is_none() {
            self.findings.push(unknown_service(self.topology, name).place(place.to_owned()));
        }
    }

    fn unique<T: Hash + Eq + std::fmt::Display>(&mut self, place: &str, names: impl Iterator<Item = T>) {
        let mut seen = HashSet::new();
        let mut twice = Vec::new();
        for name in names {
            let text = name.to_string();
            if !seen.insert(name) {
                twice.push(text);
            }
        }
        for name in twice {
            let problem = Problem::new(ErrorKind::Invalid, "system.name_repeated", "the name is declared twice");
            let place = format!("{place}.{}", name.replacen(" -> ", ".", 1));
            self.findings.push(problem.place(place).found(format!("`{name}`")).expected("one declaration"));
        }
    }

    fn report(&mut self, place: &str, message: &str, expected: &str) {
        self.findings.push(
            Problem::new(ErrorKind::Invalid, "system.data_inconsistent", message).place(place).expected(expected),
        );
    }
}
