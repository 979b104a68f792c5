//! Programs of others that `cargo xtask test` made for the tests: a real collector, the SDKs that applications use, and
//! programs that do what ours do.

use std::path::PathBuf;

use crate::not_run;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// The OpenTelemetry collector: the program.
    Collector,
    /// The OpenTelemetry SDK of Python: a Python program that has it.
    Python,
    /// DuckDB, pandas and the public platform that reads datapacks: a Python program that has them.
    Consumers,
    /// ClickHouse's engine: a Python program that has it.
    ClickHouse,
    /// The OpenTelemetry SDK of Node: a folder for `NODE_PATH`.
    NodeModules,
    /// The public client `rcabench` 1.3.3: a Python program that has it.
    RcabenchNew,
    /// The public client `rcabench` 1.1.51: a Python program that has it.
    RcabenchOld,
    /// RCAEval: a Python program that has it.
    RcaEval,
    /// Helm 3: its program.
    Helm3,
    /// Helm 4: its program.
    Helm4,
    /// What the worked example of an external algorithm needs: a Python program that has it.
    Example,
}

/// Where it is, or `None` after listing `test` as not run.
///
/// # Panics
/// In CI, when it could not be had.
pub fn tool(test: &str, tool: Tool) -> Option<PathBuf> {
    let (name, variable) = match tool {
        Tool::Collector => ("the OpenTelemetry collector", "AEGIS_TEST_COLLECTOR"),
        Tool::Python => ("the OpenTelemetry SDK of Python", "AEGIS_TEST_PYTHON"),
        Tool::Consumers => ("the public programs that read datapacks", "AEGIS_TEST_CONSUMERS"),
        Tool::ClickHouse => ("ClickHouse's engine", "AEGIS_TEST_CLICKHOUSE"),
        Tool::NodeModules => ("the OpenTelemetry SDK of Node", "AEGIS_TEST_NODE_MODULES"),
        Tool::RcabenchNew => ("the public client rcabench 1.3.3", "AEGIS_TEST_RCABENCH_NEW"),
        Tool::RcabenchOld => ("the public client rcabench 1.1.51", "AEGIS_TEST_RCABENCH_OLD"),
        Tool::RcaEval => ("RCAEval", "AEGIS_TEST_RCAEVAL"),
        Tool::Helm3 => ("Helm 3", "AEGIS_TEST_HELM3"),
        Tool::Helm4 => ("Helm 4", "AEGIS_TEST_HELM4"),
        Tool::Example => ("what the example in Python needs", "AEGIS_TEST_EXAMPLE"),
    };
    let path = std::env::var_os(variable).map(PathBuf::from);
    if path.is_none() {
        not_run(
            test,
            &format!("{name} is not there; `cargo xtask test` makes it and says why it could not ({variable})"),
        );
    }
    path
}
