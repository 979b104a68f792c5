//! Faults that end or stop processes.

use crate::capability::{
    Capability, ChaosObject, Family, Length, Mechanism, Mode, TargetKind, TruthRule, WitnessRule, WitnessUnit,
};
use crate::contract::{Contract, Sign};

/// One pod of the service is hit, as in a real outage of a replica.
const fn object(action: &'static str) -> ChaosObject {
    ChaosObject { kind: "PodChaos", action: Some(action), mode: Mode::One, fields: &[] }
}

const TRUTH: TruthRule = TruthRule { peer: false, metric: None, function: false, span: false };

const WITNESS: WitnessRule = WitnessRule {
    unit: WitnessUnit::Processes,
    min_share: 0.0,
    min_count: 1,
    why: "one process that was ended or stopped has felt it; a share would punish services with many \
              replicas",
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
        contract: Contract::NONE,
        check: None,
    }
}

pub(super) const ROWS: &[Capability] = &[
    Capability {
        summary: "Deletes one pod of the service; its controller starts a new one.",
        contract: Contract {
            must: &[Sign::PodReplaced, Sign::NotReady, Sign::CallsFailAtOnce],
            must_not: &[Sign::ContainerRestarted, Sign::CallsHang],
            why: "the pod is deleted and another one takes its place, which counts its own restarts from 0: a \
              rising restart count, as a published hint has it, belongs to a killed container; until the \
              endpoint is gone, and until the new pod is ready, connections are refused",
        },
        ..row(0, "pod_kill", "PodKill", "pod-kill")
    },
    Capability {
        summary: "Keeps one pod of the service from answering for the whole window.",
        length: Length::Window,
        contract: Contract {
            must: &[Sign::ServerSpansVanish, Sign::CallsFailAtOnce, Sign::NotReady, Sign::ContainerRestarted],
            must_not: &[Sign::PodReplaced, Sign::CallsHang],
            why: "the container's image is replaced by one that only waits, in the same pod with the same address: \
              nobody listens at the port, so the kernel refuses at once; the change of image and the change \
              back restart the container",
        },
        ..row(1, "pod_failure", "PodFailure", "pod-failure")
    },
    Capability {
        summary: "Kills one container; it is restarted in place, in the same pod.",
        target: TargetKind::Container,
        simulated: true,
        contract: Contract {
            must: &[Sign::ContainerRestarted, Sign::NotReady, Sign::CallsFailAtOnce],
            must_not: &[Sign::PodReplaced, Sign::CallsHang],
            why: "the kubelet starts the container again in the same pod and counts it; connections are reset, \
              then refused until the process is ready",
        },
        ..row(2, "container_kill", "ContainerKill", "container-kill")
    },
];
