//! Typed ids. Things that people list are int32, as on the wire; things that a pipeline creates are UUID text.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! int_id {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

int_id! {
    /// A registered benchmark system.
    SystemId
    /// A container row: algorithm, benchmark or pedestal.
    ContainerId
    /// One immutable version of a container.
    VersionId
    ProjectId
    /// One injection and the datapack that it leads to.
    InjectionId
    /// One run of one algorithm on one datapack.
    ExecutionId
    EvaluationId
    DatasetId
}

macro_rules! uuid_id {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A new random id.
            pub fn random() -> Self {
                Self(Uuid::new_v4())
            }

            /// The id that follows from this one and a label, so that a repeated step names the same thing.
            pub fn derive(&self, label: &str) -> Uuid {
                Uuid::new_v5(&self.0, label.as_bytes())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    )*};
}

uuid_id! {
    /// One pipeline pass over one slot (`trace` on the wire).
    RunId
    /// One leased step of a run.
    TaskId
    /// The runs of one submission.
    GroupId
}
