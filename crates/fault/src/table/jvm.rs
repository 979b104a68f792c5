//! Faults inside a Java virtual machine, made by an agent that is attached to it.

use std::sync::LazyLock;

use model::{ErrorKind, Problem, Result};
use regex_lite::Regex;

use super::stress;
use crate::capability::{
    Capability, ChaosObject, Family, Field, Form, Length, Mechanism, Mode, Requirement, TargetKind, TruthRule,
    WitnessRule, WitnessUnit,
};
use crate::contract::{Contract, Sign};
use crate::{Effect, Param, Target, Unit};

/// Port of the agent inside the pod.
pub(super) const PORT: Field = Field { path: "port", form: Form::Number(9277) };

pub(super) const CALLS: WitnessRule = WitnessRule {
    unit: WitnessUnit::Calls,
    min_share: 0.5,
    min_count: 10,
    why: "every call of the method is touched, so less than half means that the agent came late; \
          from ten calls on a share and a 90th percentile say anything",
    unfelt: "the method was not called",
};

const fn row(id: u8, name: &'static str, chaos_type: &'static str, object: ChaosObject) -> Capability {
    Capability {
        id,
        name,
        chaos_type,
        family: Family::Jvm,
        summary: "",
        target: TargetKind::JvmMethod,
        params: &[],
        requires: &[Requirement::Jvm, Requirement::AgentAttach],
        length: Length::Window,
        object,
        acts_on: Mechanism::Method,
        simulated: true,
        truth: TruthRule { peer: false, metric: None, function: true, span: false },
        witness: CALLS,
        contract: Contract::NONE,
        check: None,
    }
}

const fn object(action: &'static str, fields: &'static [Field]) -> ChaosObject {
    ChaosObject { kind: "JVMChaos", action: Some(action), mode: Mode::All, fields }
}

/// The fault does not act in a method, so the process is the target and no function is labelled.
const fn process(metric: Option<&'static str>) -> TruthRule {
    TruthRule { peer: false, metric, function: false, span: false }
}

pub(super) const ROWS: &[Capability] = &[
    Capability {
        summary: "Each call of the method takes longer.",
        params: &[Param::integer("delay_ms", Unit::Milliseconds, 1, 60_000, "time added to each call")
            .public("latency_duration")],
        simulated: true,
        // Public labels say `network_latency` here, although no packet is late; the service's own latency is what grows.
        truth: TruthRule { peer: false, metric: Some("http_latency"), function: true, span: false },
        contract: Contract {
            must: &[Sign::ServerSpansSlow, Sign::CallsSlow],
            must_not: &[Sign::CallsFail, Sign::CpuRises, Sign::NotReady],
            why: "the method waits inside the handling and uses no processor",
        },
        ..row(
            23,
            "jvm_method_latency",
            "JVMLatency",
            object("latency", &[PORT, Field { path: "latency", form: Form::Value("delay_ms") }]),
        )
    },
    Capability {
        summary: "The method returns a fixed value at once, without doing its work.",
        params: &[Param::choice("return_type", &["string", "int"], "type that the method returns")],
        contract: Contract {
            must: &[Sign::CallsBelowVanish],
            must_not: &[Sign::ServerSpansSlow, Sign::ServerSpansVanish, Sign::NotReady],
            why: "the method does none of its work; whether the value breaks the service, its caller or nothing \
              depends on who uses it",
        },
        ..row(
            24,
            "jvm_method_return",
            "JVMReturn",
            object(
                "return",
                &[
                    PORT,
                    Field {
                        path: "returnValue",
                        form: Form::Mapped("return_type", &[("string", "\"unknown\""), ("int", "42")]),
                    },
                ],
            ),
        )
    },
    Capability {
        summary: "Each call of the method throws.",
        params: &[Param::text("exception", 256, "constructor call: class with one text argument")
            .or_text(r#"java.io.IOException("Connection reset by peer")"#)],
        simulated: true,
        check: Some(exception_is_constructor),
        contract: Contract {
            must: &[Sign::ServerSpansFail, Sign::CallsFail],
            must_not: &[Sign::ServerSpansSlow, Sign::ServerSpansVanish, Sign::NotReady],
            why: "the handling ends with the exception, which the framework answers with 500",
        },
        ..row(
            25,
            "jvm_method_exception",
            "JVMException",
            object("exception", &[PORT, Field { path: "exception", form: Form::Value("exception") }]),
        )
    },
    Capability {
        summary: "Makes the virtual machine collect garbage.",
        target: TargetKind::Service,
        length: Length::OneShot,
        acts_on: Mechanism::Heap,
        truth: process(None),
        witness: WitnessRule {
            unit: WitnessUnit::Collections,
            min_share: 0.0,
            min_count: 1,
            why: "one forced collection stops all threads once, and that is the whole fault",
            unfelt: "no virtual machine was there",
        },
        contract: Contract {
            must: &[Sign::FullCollections],
            must_not: &[Sign::CallsFail, Sign::ContainerRestarted, Sign::HeapRises],
            why: "all threads stand still once, for some hundred milliseconds; requests of that instant wait, the \
              others do not",
        },
        ..row(26, "jvm_gc", "JVMGarbageCollector", object("gc", &[PORT]))
    },
    Capability {
        summary: "Threads inside the virtual machine burn CPU.",
        target: TargetKind::Service,
        params: &[Param::integer("cpu_count", Unit::None, 1, 16, "threads, one core each").or(1)],
        acts_on: Mechanism::Cpu,
        truth: process(Some("cpu")),
        witness: stress::CPU_WITNESS,
        contract: Contract {
            must: &[Sign::CpuRises, Sign::ProcessCpuRises, Sign::Throttled, Sign::ServerSpansSlow],
            must_not: &[Sign::ContainerRestarted, Sign::PodReplaced, Sign::HeapRises],
            why: "threads of the virtual machine burn the quota that its workers need, and count as its own use",
        },
        ..row(
            27,
            "jvm_cpu_stress",
            "JVMCPUStress",
            object("stress", &[PORT, Field { path: "cpuCount", form: Form::Value("cpu_count") }]),
        )
    },
    Capability {
        summary: "Fills memory inside the virtual machine.",
        target: TargetKind::Service,
        params: &[Param::choice("memory_type", &["heap", "stack"], "memory that is filled")
            .or_text("heap")
            .public("mem_type")],
        acts_on: Mechanism::Heap,
        truth: process(Some("memory")),
        witness: stress::MEMORY_WITNESS,
        contract: Contract {
            must: &[Sign::HeapRises, Sign::FullCollections],
            must_not: &[Sign::ContainerRestarted, Sign::PodReplaced, Sign::NotReady],
            why: "live data near the maximum make every collection a full one; the error for want of memory ends \
              the filling thread alone; a filled stack shows only as one more MiB",
        },
        ..row(
            28,
            "jvm_memory_stress",
            "JVMMemoryStress",
            object("stress", &[PORT, Field { path: "memType", form: Form::Value("memory_type") }]),
        )
    },
];

static CONSTRUCTOR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"^([a-z_][A-Za-z0-9_]*\.)+[A-Z][A-Za-z0-9_$]*\("[^"\\]*"\)$"#).expect("the pattern is fixed and valid")
});

fn exception_is_constructor(_: &Target, effect: &Effect) -> Result<()> {
    match effect {
        Effect::JvmMethodException { exception } if !CONSTRUCTOR.is_match(exception) => {
            Err(Problem::new(ErrorKind::Invalid, "param.malformed", "the exception is not a constructor call")
                .place("params.exception")
                .found(format!("`{exception}`"))
                .expected(
                    r#"a full class name with one text, such as `java.io.IOException("Connection reset by peer")`"#,
                ))
        }
        _ => Ok(()),
    }
}
