//! Faults on the packets that one service sends to another.

use crate::capability::{
    Capability, ChaosObject, Family, Field, Form, Length, Mechanism, Mode, Requirement, TargetKind, TruthRule,
    WitnessRule, WitnessUnit,
};
use crate::contract::{Contract, Sign};
use crate::{Param, Unit};

const fn object(action: &'static str, fields: &'static [Field]) -> ChaosObject {
    ChaosObject { kind: "NetworkChaos", action: Some(action), mode: Mode::All, fields }
}

const EVERY_PACKET: WitnessRule = WitnessRule {
    unit: WitnessUnit::Messages,
    min_share: 0.5,
    min_count: 10,
    why: "every packet on the link is touched, so less than half means another way or a late start; \
          from ten messages on a share and a 90th percentile say anything",
    unfelt: "no message was sent from the source to the target",
};

const SOME_PACKETS: WitnessRule = WitnessRule {
    unit: WitnessUnit::Messages,
    min_share: 0.005,
    min_count: 10,
    why: "half of the weakest setting (1 %); ten events keep the chance deviation of their number below a \
              third",
    unfelt: "no message was sent from the source to the target",
};

const fn row(id: u8, name: &'static str, chaos_type: &'static str, object: ChaosObject) -> Capability {
    Capability {
        id,
        name,
        chaos_type,
        family: Family::Network,
        summary: "",
        target: TargetKind::Link,
        params: &[],
        requires: &[Requirement::CallsTarget],
        length: Length::Window,
        object,
        acts_on: Mechanism::Link,
        simulated: true,
        truth: TruthRule { peer: true, metric: None, function: false, span: true },
        witness: SOME_PACKETS,
        contract: Contract::NONE,
        check: None,
    }
}

const CORRELATION: Param =
    Param::integer("correlation_pct", Unit::Percent, 0, 100, "how much a packet's fate follows the one before").or(0);

pub(super) const ROWS: &[Capability] = &[
    Capability {
        summary: "Holds every packet from the source to the target.",
        params: &[
            Param::integer("latency_ms", Unit::Milliseconds, 1, 60_000, "added one-way delay").public("latency"),
            Param::integer("jitter_ms", Unit::Milliseconds, 0, 60_000, "how far the delay varies either way")
                .or(0)
                .public("jitter"),
            CORRELATION,
        ],
        simulated: true,
        truth: TruthRule { peer: true, metric: Some("network_latency"), function: false, span: true },
        witness: EVERY_PACKET,
        contract: Contract {
            must: &[Sign::CallsSlow],
            must_not: &[Sign::CallsFail, Sign::ServerSpansSlow, Sign::ServerSpansVanish],
            why: "packets wait on the way: the time lies between the caller's and the server's span",
        },
        ..row(
            17,
            "network_delay",
            "NetworkDelay",
            object(
                "delay",
                &[
                    Field { path: "delay.latency", form: Form::Text("{latency_ms}ms") },
                    Field { path: "delay.jitter", form: Form::Text("{jitter_ms}ms") },
                    Field { path: "delay.correlation", form: Form::Text("{correlation_pct}") },
                ],
            ),
        )
    },
    Capability {
        summary: "Drops a share of the packets from the source to the target.",
        params: &[
            Param::integer("loss_pct", Unit::Percent, 1, 100, "share of packets that are dropped").public("loss"),
            CORRELATION,
        ],
        simulated: true,
        contract: Contract {
            must: &[Sign::CallsTail],
            must_not: &[Sign::CallsFail, Sign::ServerSpansFail, Sign::CallsHang],
            why: "TCP sends again after 200 ms or more, so loss is a latency tail and not, as a published hint has \
              it, a share of errors",
        },
        ..row(
            18,
            "network_loss",
            "NetworkLoss",
            object(
                "loss",
                &[
                    Field { path: "loss.loss", form: Form::Text("{loss_pct}") },
                    Field { path: "loss.correlation", form: Form::Text("{correlation_pct}") },
                ],
            ),
        )
    },
    Capability {
        summary: "Sends a share of the packets from the source to the target twice.",
        params: &[
            Param::integer("duplicate_pct", Unit::Percent, 1, 100, "share of packets that are doubled")
                .public("duplicate"),
            CORRELATION,
        ],
        contract: Contract {
            must: &[Sign::BytesRise],
            must_not: &[Sign::CallsFail, Sign::CallsSlow, Sign::CallsTail, Sign::ServerSpansFail],
            why: "TCP throws the second copy away: only the bytes on the wire tell",
        },
        ..row(
            19,
            "network_duplicate",
            "NetworkDuplicate",
            object(
                "duplicate",
                &[
                    Field { path: "duplicate.duplicate", form: Form::Text("{duplicate_pct}") },
                    Field { path: "duplicate.correlation", form: Form::Text("{correlation_pct}") },
                ],
            ),
        )
    },
    Capability {
        summary: "Changes bits in a share of the packets from the source to the target.",
        params: &[
            Param::integer("corrupt_pct", Unit::Percent, 1, 100, "share of packets that are damaged").public("corrupt"),
            CORRELATION,
        ],
        contract: Contract {
            must: &[Sign::CallsTail],
            must_not: &[Sign::CallsFail, Sign::ServerSpansFail, Sign::CallsHang],
            why: "a damaged segment fails its checksum and is sent again: it acts as loss, not as errors",
        },
        ..row(
            20,
            "network_corrupt",
            "NetworkCorrupt",
            object(
                "corrupt",
                &[
                    Field { path: "corrupt.corrupt", form: Form::Text("{corrupt_pct}") },
                    Field { path: "corrupt.correlation", form: Form::Text("{correlation_pct}") },
                ],
            ),
        )
    },
    Capability {
        summary: "Limits the rate from the source to the target; packets queue, then are dropped.",
        params: &[
            // The object writes `kbps` and means kilobytes, as the traffic-control tools do.
            Param::integer("rate_kbytes_per_s", Unit::KilobytesPerSecond, 1, 1_000_000, "rate that remains")
                .public("rate_kbps"),
            Param::integer("limit_bytes", Unit::Bytes, 1, 2_147_483_647, "bytes that may wait in the queue")
                .or(20_971_520)
                .public("limit"),
            Param::integer("buffer_bytes", Unit::Bytes, 1, 2_147_483_647, "bytes that may be sent at once")
                .or(10_000)
                .public("buffer"),
        ],
        witness: WitnessRule {
            unit: WitnessUnit::Bytes,
            min_share: 0.05,
            min_count: 10_000,
            why: "bytes that had to wait or were dropped; below one of twenty, and below one default burst, \
                  the limit was never the bottleneck",
            unfelt: "no message was sent from the source to the target",
        },
        contract: Contract {
            must: &[Sign::CallsSlow],
            must_not: &[Sign::ServerSpansFail, Sign::ServerSpansSlow, Sign::NotReady],
            why: "packets wait for tokens in front of the link, and are dropped and sent again when the queue is \
              full; the server's own time does not change",
        },
        ..row(
            21,
            "network_bandwidth",
            "NetworkBandwidth",
            object(
                "bandwidth",
                &[
                    Field { path: "bandwidth.rate", form: Form::Text("{rate_kbytes_per_s}kbps") },
                    Field { path: "bandwidth.limit", form: Form::Value("limit_bytes") },
                    Field { path: "bandwidth.buffer", form: Form::Value("buffer_bytes") },
                ],
            ),
        )
    },
    Capability {
        summary: "Drops every packet from the source to the target.",
        witness: EVERY_PACKET,
        contract: Contract {
            must: &[Sign::CallsHang, Sign::ServerSpansVanish],
            must_not: &[Sign::CallsFailAtOnce, Sign::ServerSpansFail, Sign::NotReady],
            why: "packets vanish, so there is silence until somebody's patience ends: no refusal, and a caller \
              without patience has no finished span at all, where a published hint expects failed ones",
        },
        ..row(22, "network_partition", "NetworkPartition", object("partition", &[]))
    },
];
