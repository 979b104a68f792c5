//! What a load asks of every part, before anything is simulated: a load that can never be served is seen here.

use super::{CallId, Plan, ServiceId};

/// Share of look-ups that miss in a cache that has been used for a while.
const MISSES: f64 = 0.1;

/// What one service would have to do at a given load.
#[derive(Debug, Clone, PartialEq)]
pub struct Offered {
    pub service: String,
    /// Calls per second.
    pub calls_per_s: f64,
    /// Own CPU work in cores, over all pods, and what they may use.
    pub cores: f64,
    pub cores_limit: f64,
    /// Own work over what workers, threads and the CPU limit can do, the tightest of them; from 1 on it is never served.
    pub utilisation: f64,
}

impl Plan {
    /// The load on every service at `journeys_per_s`, in the order of the services. Waits are not counted: a part may
    /// fail earlier than its utilisation says, never later.
    pub fn offered_load(&self, journeys_per_s: f64) -> Vec<Offered> {
        let mut visits = vec![(0.0, 0.0); self.services.len()];
        let weights: f64 = self.journeys.iter().map(|journey| journey.weight).sum();
        for journey in &self.journeys {
            for request in &journey.requests {
                self.visit(request.root, journeys_per_s * journey.weight / weights, &mut visits);
            }
        }
        let services = self.services.iter().zip(visits);
        services
            .map(|(service, (calls_per_s, busy))| {
                let profile = &service.profile;
                let pods = f64::from(service.replicas);
                let cores = busy + profile.cpu_idle * pods;
                let cores_limit = profile.cpu_limit * pods;
                let threads = profile.parallel.min(f64::from(profile.workers)) * pods;
                let utilisation = (cores / cores_limit).max(busy / threads);
                Offered { service: service.name.clone(), calls_per_s, cores, cores_limit, utilisation }
            })
            .collect()
    }

    /// Adds the calls per second and the CPU seconds per second of a call and everything below it.
    fn visit(&self, id: CallId, rate: f64, visits: &mut [(f64, f64)]) {
        let call = &self.calls[id as usize];
        let rate = if call.on_miss { rate * MISSES } else { rate };
        let place: ServiceId = call.to;
        if !call.kind.is_publish() {
            let operation = &self.operations[call.operation as usize];
            let mean = operation.work * (operation.sigma * operation.sigma / 2.0).exp() / 1e9;
            let visit = &mut visits[place as usize];
            *visit = (visit.0 + rate, visit.1 + rate * mean);
        }
        for &child in call.children.iter().chain(&call.delivers) {
            self.visit(child, rate, visits);
        }
    }
}
