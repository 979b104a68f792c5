//! States and their legal transitions. The strings and integers are those of the public wire contract.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A state change that the state machine does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a {machine} cannot go from {from} to {to}")]
pub struct IllegalTransition {
    pub machine: &'static str,
    pub from: &'static str,
    pub to: &'static str,
}

macro_rules! states {
    ($(#[$doc:meta])* $name:ident, $machine:literal, { $($variant:ident = $code:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name {
            $(#[serde(rename = $text)] $variant,)*
        }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The integer that requests and older data use.
            pub const fn code(self) -> i32 {
                match self { $(Self::$variant => $code,)* }
            }

            pub fn from_code(code: i32) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)* _ => None }
            }

            /// The string that responses use.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)* _ => None }
            }

            /// The change to `to`, or an error when it is not legal.
            pub fn change(self, to: Self) -> Result<Self, IllegalTransition> {
                if self.may_become(to) {
                    Ok(to)
                } else {
                    Err(IllegalTransition { machine: $machine, from: self.as_str(), to: to.as_str() })
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

states! {
    /// A run: one pipeline pass over one slot.
    RunState, "run", {
        Pending = 0, "Pending";
        Running = 1, "Running";
        Completed = 2, "Completed";
        Failed = 3, "Failed";
        Cancelled = 4, "Cancelled";
    }
}

impl RunState {
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// A failed or cancelled run becomes `Running` again only by an explicit retry.
    pub const fn may_become(self, to: Self) -> bool {
        use RunState::{Cancelled, Completed, Failed, Pending, Running};
        matches!(
            (self, to),
            (Pending, Running | Failed | Cancelled)
                | (Running, Completed | Failed | Cancelled)
                | (Failed | Cancelled, Running)
        )
    }
}

states! {
    /// A task: one leased step of a run.
    TaskState, "task", {
        Cancelled = -2, "Cancelled";
        Error = -1, "Error";
        Pending = 0, "Pending";
        Rescheduled = 1, "Rescheduled";
        Running = 2, "Running";
        Completed = 3, "Completed";
    }
}

impl TaskState {
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Cancelled | Self::Error | Self::Completed)
    }

    /// `Running -> Running` is a takeover by another worker; `Error | Cancelled -> Pending` is an explicit retry.
    pub const fn may_become(self, to: Self) -> bool {
        use TaskState::{Cancelled, Completed, Error, Pending, Rescheduled, Running};
        matches!(
            (self, to),
            (Pending | Rescheduled, Running | Cancelled | Error)
                | (Running, Running | Rescheduled | Completed | Error | Cancelled)
                | (Error | Cancelled, Pending)
        )
    }
}

states! {
    /// What a task does. A run is a chain of these.
    TaskKind, "task kind", {
        BuildContainer = 0, "BuildContainer";
        RestartPedestal = 1, "RestartPedestal";
        FaultInjection = 2, "FaultInjection";
        RunAlgorithm = 3, "RunAlgorithm";
        BuildDatapack = 4, "BuildDatapack";
        CollectResult = 5, "CollectResult";
        CronJob = 6, "CronJob";
    }
}

impl TaskKind {
    /// A kind never changes.
    const fn may_become(self, _to: Self) -> bool {
        false
    }
}

states! {
    /// How far the datapack of a run has come.
    PackState, "datapack", {
        Initial = 0, "initial";
        InjectFailed = 1, "inject_failed";
        InjectSuccess = 2, "inject_success";
        BuildFailed = 3, "build_failed";
        BuildSuccess = 4, "build_success";
        DetectorFailed = 5, "detector_failed";
        DetectorSuccess = 6, "detector_success";
    }
}

impl PackState {
    /// A failed stage may be repeated by an explicit retry, so a failure may become that stage's success.
    pub const fn may_become(self, to: Self) -> bool {
        use PackState::{
            BuildFailed, BuildSuccess, DetectorFailed, DetectorSuccess, Initial, InjectFailed, InjectSuccess,
        };
        matches!(
            (self, to),
            (Initial | InjectFailed, InjectFailed | InjectSuccess)
                | (InjectSuccess | BuildFailed, BuildFailed | BuildSuccess)
                | (BuildSuccess | DetectorFailed, DetectorFailed | DetectorSuccess)
                | (InjectSuccess | BuildFailed | BuildSuccess | DetectorFailed | DetectorSuccess, Initial)
        )
    }
}

states! {
    /// One run of one algorithm on one datapack.
    ExecutionState, "execution", {
        Initial = 0, "Initial";
        Failed = 1, "Failed";
        Success = 2, "Success";
    }
}

impl ExecutionState {
    pub const fn may_become(self, to: Self) -> bool {
        matches!((self, to), (Self::Initial, Self::Failed | Self::Success) | (Self::Failed, Self::Initial))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_state_is_left_only_by_a_retry() {
        for &from in RunState::ALL.iter().filter(|state| state.is_terminal()) {
            let targets: Vec<_> = RunState::ALL.iter().filter(|&&to| from.may_become(to)).collect();
            let expect: Vec<&RunState> = if from == RunState::Completed { vec![] } else { vec![&RunState::Running] };
            assert_eq!(targets, expect, "{from}");
        }
        for &from in TaskState::ALL.iter().filter(|state| state.is_terminal()) {
            let targets: Vec<_> = TaskState::ALL.iter().filter(|&&to| from.may_become(to)).collect();
            let expect: Vec<&TaskState> = if from == TaskState::Completed { vec![] } else { vec![&TaskState::Pending] };
            assert_eq!(targets, expect, "{from}");
        }
    }

    #[test]
    fn codes_and_names_go_both_ways() {
        for &state in TaskState::ALL {
            assert_eq!(TaskState::from_code(state.code()), Some(state));
            assert_eq!(TaskState::parse(state.as_str()), Some(state));
        }
    }
}
