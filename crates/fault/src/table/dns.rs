//! Faults on the answers that a service gets when it resolves a name.

use crate::capability::{
    Capability, ChaosObject, Family, Length, Mechanism, Mode, Requirement, TargetKind, TruthRule, WitnessRule,
    WitnessUnit,
};
use crate::contract::{Contract, Sign};

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
        contract: Contract::NONE,
        check: None,
    }
}

pub(super) const ROWS: &[Capability] = &[
    Capability {
        summary: "Look-ups of the name fail.",
        contract: Contract {
            must: &[Sign::CallsFailAtOnce],
            must_not: &[Sign::CallsHang, Sign::ServerSpansFail, Sign::NotReady],
            why: "a look-up is refused at once; connections that are open go on, so failures begin when they are \
              closed for their age or number of requests, and never when they are not",
        },
        ..row(14, "dns_error", "DNSError", "error")
    },
    Capability {
        summary: "Look-ups of the name give a random address.",
        contract: Contract {
            must: &[Sign::CallsHang],
            must_not: &[Sign::ServerSpansFail, Sign::NotReady, Sign::CallsFailAtOnce],
            why: "nothing answers at most arbitrary addresses, so the attempt ends with somebody's patience; few \
              refuse; open connections go on as with a refused look-up",
        },
        ..row(15, "dns_random", "DNSRandom", "random")
    },
];
