//! The fault that changes what a method computes.

use model::{ErrorKind, Problem, Result};

use super::jvm;
use crate::capability::{
    Capability, ChaosObject, Family, Field, Form, Length, Mechanism, Mode, Requirement, TargetKind, TruthRule,
};
use crate::contract::{Contract, Sign};
use crate::{Effect, Param, Target};

const OPERATORS: &[&str] = &["add_to_sub", "sub_to_add", "mul_to_div", "div_to_mul"];
const STRINGS: &[&str] = &["empty", "null", "reverse", "uppercase", "lowercase", "random"];
const STRATEGIES: &[&str] = &[
    "add_to_sub",
    "sub_to_add",
    "mul_to_div",
    "div_to_mul",
    "empty",
    "null",
    "reverse",
    "uppercase",
    "lowercase",
    "random",
];

pub(super) const ROWS: &[Capability] = &[Capability {
    id: 31,
    name: "jvm_runtime_mutator",
    chaos_type: "JVMRuntimeMutator",
    family: Family::Mutator,
    summary: "Replaces a constant, an operator or a text inside the method: a wrong result, not a failure.",
    target: TargetKind::JvmMethod,
    params: &[
        Param::choice("mutation", &["constant", "operator", "string"], "what is replaced").public("mutation_type_name"),
        Param::choice("strategy", STRATEGIES, "how an operator or a text is changed")
            .optional()
            .public("mutation_strategy"),
        Param::text("from", 256, "constant that is replaced").optional().public("mutation_from"),
        Param::text("to", 256, "constant that it becomes").optional().public("mutation_to"),
    ],
    requires: &[Requirement::Jvm, Requirement::AgentAttach, Requirement::MutatorKind],
    length: Length::Window,
    object: ChaosObject {
        kind: "RuntimeMutatorChaos",
        action: None,
        mode: Mode::All,
        fields: &[
            jvm::PORT,
            Field { path: "action", form: Form::Value("mutation") },
            Field { path: "strategy", form: Form::Value("strategy") },
            Field { path: "from", form: Form::Value("from") },
            Field { path: "to", form: Form::Value("to") },
        ],
    },
    acts_on: Mechanism::Method,
    simulated: true,
    truth: TruthRule { peer: false, metric: None, function: true, span: false },
    witness: jvm::CALLS,
    contract: Contract {
        must: &[],
        must_not: &[Sign::ServerSpansSlow, Sign::ServerSpansVanish, Sign::NotReady, Sign::ContainerRestarted],
        why: "the method runs as long as before and its result is slightly wrong. What uses it decides: the service \
              fails on it, it becomes a wrong answer over which a caller fails, or no code depends on it and there \
              is nothing to show",
    },
    check: Some(parts_fit_mutation),
}];

fn parts_fit_mutation(_: &Target, effect: &Effect) -> Result<()> {
    let Effect::JvmRuntimeMutator { mutation, strategy, from, to } = effect else { return Ok(()) };
    let strategies = match mutation.as_str() {
        "operator" => OPERATORS,
        "string" => STRINGS,
        _ => &[],
    };
    let wrong = |found: &str, expected: String| {
        Err(Problem::new(ErrorKind::Invalid, "param.combination", "the parameters do not fit the mutation")
            .place("params")
            .found(found.to_owned())
            .expected(expected))
    };
    if strategies.is_empty() {
        return match (strategy, from, to) {
            (None, Some(from), Some(to)) if from != to => Ok(()),
            (None, Some(_), Some(_)) => wrong("`from` equal to `to`", "two different constants".to_owned()),
            _ => wrong("a constant mutation", "`from` and `to`, and no `strategy`".to_owned()),
        };
    }
    match (strategy, from, to) {
        (Some(strategy), None, None) if strategies.contains(&strategy.as_str()) => Ok(()),
        _ => wrong(
            &format!("mutation `{mutation}`, strategy `{}`", strategy.as_deref().unwrap_or("none")),
            format!("neither `from` nor `to`, and a `strategy` out of {}", strategies.join(", ")),
        ),
    }
}
