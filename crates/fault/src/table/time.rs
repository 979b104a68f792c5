//! The fault on a container's clock.

use crate::capability::{
    Capability, ChaosObject, Family, Field, Form, Length, Mechanism, Mode, TargetKind, TruthRule, WitnessRule,
    WitnessUnit,
};
use crate::contract::{Contract, Sign};
use crate::{Domain, Param, Presence, Unit};

pub(super) const ROWS: &[Capability] = &[Capability {
    id: 16,
    name: "time_skew",
    chaos_type: "TimeSkew",
    family: Family::Time,
    summary: "Shifts the clock that the container's processes read.",
    target: TargetKind::Container,
    params: &[Param {
        name: "offset_s",
        unit: Unit::Seconds,
        domain: Domain::NonZero { min: -3600, max: 3600 },
        presence: Presence::Required,
        public_name: Some("time_offset"),
        doc: "shift; negative is into the past",
    }],
    requires: &[],
    length: Length::Window,
    object: ChaosObject {
        kind: "TimeChaos",
        action: None,
        mode: Mode::All,
        fields: &[Field { path: "timeOffset", form: Form::Text("{offset_s}s") }],
    },
    acts_on: Mechanism::Clock,
    simulated: true,
    truth: TruthRule { peer: false, metric: None, function: false, span: false },
    witness: WitnessRule {
        unit: WitnessUnit::Processes,
        min_share: 0.0,
        min_count: 1,
        why: "a process whose clock was shifted has felt it, whatever it does with the time",
        unfelt: "no process was there",
    },
    contract: Contract {
        must: &[Sign::StampsShift],
        must_not: &[Sign::CallsSlow, Sign::CallsFail, Sign::ServerSpansFail, Sign::NotReady],
        why: "spans, log lines and metrics of the process are stamped by its clock; durations come from a \
              clock that no setting moves, and the order of events stays",
    },
    check: None,
}];
