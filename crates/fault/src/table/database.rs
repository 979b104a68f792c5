//! Faults on the statements that a Java client sends to MySQL, made inside the client's driver.

use super::jvm;
use crate::capability::{
    Capability, ChaosObject, Family, Field, Form, Length, Mechanism, Mode, Requirement, TargetKind, TruthRule,
    WitnessRule, WitnessUnit,
};
use crate::contract::{Contract, Sign};
use crate::{Param, Unit};

const fn row(id: u8, name: &'static str, chaos_type: &'static str, fields: &'static [Field]) -> Capability {
    Capability {
        id,
        name,
        chaos_type,
        family: Family::Database,
        summary: "",
        target: TargetKind::Table,
        params: &[],
        requires: &[Requirement::Jvm, Requirement::SendsStatements, Requirement::AgentAttach],
        length: Length::Window,
        object: ChaosObject { kind: "JVMChaos", action: Some("mysql"), mode: Mode::All, fields },
        acts_on: Mechanism::Statement,
        simulated: true,
        // The client acts; the database is healthy.
        truth: TruthRule { peer: true, metric: None, function: false, span: true },
        witness: WitnessRule {
            unit: WitnessUnit::Statements,
            min_share: 0.5,
            min_count: 10,
            why: "every matching statement is touched, so less than half means that the driver was not matched; \
                  from ten statements on a share and a 90th percentile say anything",
            unfelt: "no statement of this kind was sent",
        },
        contract: Contract::NONE,
        check: None,
    }
}

const VERSION: Param = Param::choice(
    "connector_version",
    &["5", "8", "9"],
    "major version of the client's driver; the stock operator knows 5 and 8",
)
.or_text("9")
.public("mysql_connector");

const CONNECTOR: Field = Field { path: "mysqlConnectorVersion", form: Form::Value("connector_version") };

pub(super) const ROWS: &[Capability] = &[
    Capability {
        summary: "Matching statements take longer.",
        params: &[
            Param::integer("delay_ms", Unit::Milliseconds, 1, 60_000, "time added to each statement")
                .public("latency_ms"),
            VERSION,
        ],
        truth: TruthRule { peer: true, metric: Some("sql_latency"), function: false, span: true },
        contract: Contract {
            must: &[Sign::CallsSlow, Sign::ServerSpansSlow],
            must_not: &[Sign::CallsFail, Sign::CallsBelowVanish, Sign::ServerSpansFail],
            why: "the driver waits before it sends: the client's statements take longer, the database sees the \
              same statements as before",
        },
        ..row(
            29,
            "jvm_mysql_latency",
            "JVMMySQLLatency",
            &[jvm::PORT, CONNECTOR, Field { path: "latency", form: Form::Value("delay_ms") }],
        )
    },
    Capability {
        summary: "Matching statements fail in the driver.",
        params: &[Param::text("message", 256, "text of the exception").or_text("Communications link failure"), VERSION],
        contract: Contract {
            must: &[Sign::CallsFail, Sign::ServerSpansFail, Sign::CallsBelowVanish],
            must_not: &[Sign::CallsHang, Sign::ServerSpansVanish],
            why: "the driver throws without sending, so the database sees fewer statements and no error",
        },
        ..row(
            30,
            "jvm_mysql_exception",
            "JVMMySQLException",
            &[jvm::PORT, CONNECTOR, Field { path: "exception", form: Form::Value("message") }],
        )
    },
];
