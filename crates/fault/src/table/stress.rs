//! Faults that use up a container's CPU or memory from beside the service's own process.

use crate::capability::{
    Capability, ChaosObject, Family, Field, Form, Length, Mechanism, Mode, TargetKind, TruthRule, WitnessRule,
    WitnessUnit,
};
use crate::contract::{Contract, Sign};
use crate::{Param, Unit};

pub(super) const CPU_WITNESS: WitnessRule = WitnessRule {
    unit: WitnessUnit::CpuPeriods,
    min_share: 0.1,
    min_count: 20,
    why: "work that waits in fewer than one period of ten leaves the 90th percentile where it was; \
          twenty periods are two seconds of delay",
    unfelt: "the service had no work while the fault was on",
};

pub(super) const MEMORY_WITNESS: WitnessRule = WitnessRule {
    unit: WitnessUnit::Bytes,
    min_share: 0.7,
    min_count: 1 << 20,
    why: "at least 70 % of the asked-for memory was resident at once, as the published contract has it, \
          and not less than one MiB, which is lost in allocator noise",
    unfelt: "no memory was asked for",
};

const fn row(id: u8, name: &'static str, chaos_type: &'static str) -> Capability {
    Capability {
        id,
        name,
        chaos_type,
        family: Family::Stress,
        summary: "",
        target: TargetKind::Container,
        params: &[],
        requires: &[],
        length: Length::Window,
        object: ChaosObject { kind: "StressChaos", action: None, mode: Mode::All, fields: &[] },
        acts_on: Mechanism::Memory,
        simulated: true,
        truth: TruthRule { peer: false, metric: None, function: false, span: false },
        witness: MEMORY_WITNESS,
        contract: Contract::NONE,
        check: None,
    }
}

const WORKERS: Param = Param::integer("workers", Unit::None, 1, 8, "processes that cause the load").or(1);

pub(super) const ROWS: &[Capability] = &[
    Capability {
        summary: "Holds memory inside the container; over its limit the kernel kills a process there.",
        params: &[
            Param::integer("size_mib", Unit::Mebibytes, 1, 65_536, "memory to hold, all workers together"),
            WORKERS,
        ],
        object: ChaosObject {
            kind: "StressChaos",
            action: None,
            mode: Mode::All,
            fields: &[
                Field { path: "stressors.memory.workers", form: Form::Value("workers") },
                Field { path: "stressors.memory.size", form: Form::Text("{size_mib}MiB") },
            ],
        },
        truth: TruthRule { peer: false, metric: Some("memory"), function: false, span: false },
        contract: Contract {
            must: &[Sign::MemoryRises],
            must_not: &[Sign::HeapRises, Sign::PodReplaced, Sign::FullCollections],
            why: "the memory belongs to a process beside the service's: the container's working set shows it, the \
              virtual machine's heap does not; past the limit the kernel kills in the container and the \
              restart count rises",
        },
        ..row(3, "memory_stress", "MemoryStress")
    },
    Capability {
        summary: "Burns CPU inside the container; felt when it, with the service's own use, exceeds the limit.",
        params: &[Param::integer("load_pct", Unit::Percent, 1, 100, "load of each worker, of one core"), WORKERS],
        object: ChaosObject {
            kind: "StressChaos",
            action: None,
            mode: Mode::All,
            fields: &[
                Field { path: "stressors.cpu.workers", form: Form::Value("workers") },
                Field { path: "stressors.cpu.load", form: Form::Value("load_pct") },
            ],
        },
        acts_on: Mechanism::Cpu,
        truth: TruthRule { peer: false, metric: Some("cpu"), function: false, span: false },
        witness: CPU_WITNESS,
        contract: Contract {
            must: &[Sign::CpuRises, Sign::Throttled, Sign::ServerSpansSlow],
            must_not: &[Sign::ProcessCpuRises, Sign::ContainerRestarted, Sign::PodReplaced],
            why: "processes beside the service's burn the quota that both share; past it all stand still until the \
              next period; the service's own process does no more work than before",
        },
        ..row(4, "cpu_stress", "CPUStress")
    },
];
