//! Faults that end or stop processes.

use crate::capability::{
    Capability, ChaosObject, Family, Length, Mechanism, Mode, TargetKind, TruthRule, WitnessRule, WitnessUnit,
};

/// One pod of the service is hit, as in a real outage of a replica.
const fn object(action: &'static str) -> ChaosObject {
    ChaosObject { kind: "PodChaos", action: Some(action), mode: Mode::One, fields: &[] }
}

const TRUTH: TruthRule = TruthRule { peer: false, metric: None, function: false, span: false };

const WITNESS: WitnessRule = WitnessRule {
    unit: WitnessUnit::Processes,
    min_share: 0.0,
    min_count: 1,
    why: "one process that was ended or stopped has felt it; a share would punish services with many replicas",
    unfelt: "no process was there",
};

const fn row(id: u8, name: &'static str, chaos_type: &'static str, action: &'static str) -> Capability {
    Capability {
        id,
        name,
        chaos_type,
        family: Family::Pod,
        summary: "",
        target: TargetKind::Service,
        params: &[],
        requires: &[],
        length: Length::OneShot,
        object: object(action),
        acts_on: Mechanism::Process,
        simulated: true,
        truth: TRUTH,
        witness: WITNESS,
        check: None,
    }
}

pub(super) const ROWS: &[Capability] = &[
    Capability {
        summary: "Deletes one pod of the service; its controller starts a new one.",
        ..row(0, "pod_kill", "PodKill", "pod-kill")
    },
    Capability {
        summary: "Keeps one pod of the service from answering for the whole window.",
        length: Length::Window,
        ..row(1, "pod_failure", "PodFailure", "pod-failure")
    },
    Capability {
        summary: "Kills one container; it is restarted in place, in the same pod.",
        target: TargetKind::Container,
        simulated: true,
        ..row(2, "container_kill", "ContainerKill", "container-kill")
    },
];
