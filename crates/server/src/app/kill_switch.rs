//! The kill switch. The runs and the workers recover the faults; here it is turned, and told how far they are.

use api::kill_switch::{ActiveFault, KillSwitch, KillSwitchRequest};
use cluster::{FaultObservation, FaultPhase};
use model::{ErrorKind, Problem, Result};

use super::App;

/// Longest reason, as the store keeps it.
const LONGEST_REASON: usize = 512;

impl App {
    /// # Errors
    /// Whatever the store or the cluster fails with.
    pub async fn kill_switch(&self) -> Result<KillSwitch> {
        let switch = self.store().kill_switch().await?;
        let touched = switch.changed_at.0 > 0;
        let faults = self.cluster().faults().await?;
        Ok(KillSwitch {
            engaged: switch.engaged,
            reason: switch.reason,
            changed_by: touched.then_some(switch.changed_by),
            changed_at: touched.then(|| switch.changed_at.to_string()),
            active_faults: faults.into_iter().filter(|one| one.phase != FaultPhase::Recovered).map(active).collect(),
        })
    }

    /// Turns it. The answer holds the faults that are on at that moment; they are gone when a later answer lacks them.
    ///
    /// # Errors
    /// `kill_switch.reason_too_long`, and whatever the store or the cluster fails with.
    pub async fn set_kill_switch(&self, request: &KillSwitchRequest, by: &str) -> Result<KillSwitch> {
        if request.reason.len() > LONGEST_REASON {
            let problem = Problem::new(ErrorKind::Invalid, "kill_switch.reason_too_long", "the reason is too long");
            return Err(problem
                .place("reason")
                .found(format!("{} bytes", request.reason.len()))
                .expected(format!("at most {LONGEST_REASON} bytes")));
        }
        self.store().set_kill_switch(request.engaged, &request.reason, by).await?;
        self.kill_switch().await
    }
}

fn active(fault: FaultObservation) -> ActiveFault {
    ActiveFault {
        name: fault.name,
        namespace: fault.slot.namespace(),
        run: fault.labels.get("aegis/run").cloned(),
        pods: fault.pods,
        started_at: fault.started_at.map(|at| at.to_string()),
    }
}
