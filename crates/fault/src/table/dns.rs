//! Faults on the answers that a service gets when it resolves a name.

use crate::capability::{
    Capability, ChaosObject, Family, Length, Mechanism, Mode, Requirement, TargetKind, TruthRule, WitnessRule,
    WitnessUnit,
};

const fn row(id: u8, name: &'static str, chaos_type: &'static str, action: &'static str) -> Capability {
    Capability {
        id,
        name,
        chaos_type,
        family: Family::Dns,
        summary: "",
        target: TargetKind::Dns,
        params: &[],
        requires: &[Requirement::ResolvesName, Requirement::DnsServer],
        length: Length::Window,
        object: ChaosObject { kind: "DNSChaos", action: Some(action), mode: Mode::All, fields: &[] },
        acts_on: Mechanism::Resolver,
        simulated: true,
        // The client acts; the service behind the name is healthy.
        truth: TruthRule { peer: true, metric: None, function: false, span: true },
        witness: WitnessRule {
            unit: WitnessUnit::Lookups,
            min_share: 0.5,
            min_count: 1,
            why: "runtimes cache answers for half a minute and keep connections open, so one wrong answer may decide \
                  over many requests; less than half means that the resolver was bypassed",
            unfelt: "no look-up of the name happened",
        },
        check: None,
    }
}

pub(super) const ROWS: &[Capability] = &[
    Capability { summary: "Look-ups of the name fail.", ..row(14, "dns_error", "DNSError", "error") },
    Capability {
        summary: "Look-ups of the name give a random address.",
        ..row(15, "dns_random", "DNSRandom", "random")
    },
];
