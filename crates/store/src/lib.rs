//! The SQL state of the product: all of its tables, migrations and queries, for SQLite and for MySQL or MariaDB.
//!
//! Operations are whole steps (`submit`, `claim_task`, `complete_task`, `register_system`): each is one transaction that
//! changes states by compare-and-set and stores the events that tell of it. Nothing outside this crate sees a statement
//! or a table.

mod access;
mod board;
mod chart;
mod check;
mod claim;
mod command;
mod connect;
mod control;
mod convert;
mod counter;
mod dataset;
mod difficulty;
mod entity;
mod evaluation;
mod event;
mod execution;
mod failure;
mod injection;
pub mod killpoint;
mod label;
mod lease;
mod limit;
mod log;
mod migrate;
mod migration;
mod missing;
mod observer;
mod outcome;
mod patience;
mod project;
mod publication;
mod publish;
mod query;
mod ranking;
mod reconcile;
mod register;
mod registry;
mod run;
mod seed;
mod setting;
mod submit;
mod task;
mod token;
mod upload;
mod version;

pub use access::{ApiKey, NewApiKey, User};
pub use board::{BoardCase, BoardExecution, BoardFilter, MOST_CASES};
pub use chart::{KeptArchive, NewChart};
pub use check::{BuiltPack, Sample};
pub use command::Command;
pub use connect::{Backend, Store, redacted, sqlite_file};
pub use control::{CancelReceipt, KillSwitch, Retried};
pub use dataset::{Dataset, NewDataset};
pub use evaluation::{Evaluation, Item, ItemEnd, NewEvaluation, Progress, evaluation_resource};
pub use event::{Event, NewEvent};
pub use execution::{DetectorRow, Execution, ExecutionResult, Findings, NewExecution, Role};
pub use injection::{Injection, InjectionChange, NewInjection, Pack};
pub use lease::{Acquired, HeldLease, Incarnation, IncarnationId, Lease};
pub use limit::{LimitGrant, SlotGrant};
pub use log::{LogLevel, LogLine};
pub use migrate::DEFAULT_PROJECT;
pub use observer::LeaseObserver;
pub use outcome::{Effects, Failed, Finish, When};
pub use project::Project;
pub use publish::{Standing, TakenBack};
pub use query::{ExecutionFilter, InjectionFilter, Listed, Page, RunFilter, TaskFilter};
pub use ranking::{NewRanking, RankingSubmission, SubmittedRanking, SubmittedRankings};
pub use reconcile::{Process, Reconciled, Reconciler, Tree};
pub use register::{Layer, LayerWrite, NewSystem, RegisterOptions, Registered, Registration, Unregistered};
pub use registry::{Chart, Container, ContainerKind, Layers, Prerequisite, Revision, SeedOrigin, System, Version};
pub use run::Run;
pub use seed::{
    APPLY_DUTY, Decide, LiveContainer, LivePrerequisite, LiveVersion, NewSeedRevision, Removal, SeedLive, SeedObject,
    SeedRevision, SeedWrites, SettingWrite, SystemWrite,
};
pub use setting::{NewSetting, Setting, Written};
pub use submit::{IdempotencyKey, NewRun, Submission, Submitted, SubmittedRun};
pub use task::{Claim, ClaimedTask, NewTask, Task, TaskError, Wait};
pub use token::{NewToken, Token, TokenOrigin, TokenRole, fresh_secret, secret_hash};
pub use upload::Upload;
pub use version::{NewContainer, NewOverlay, NewPrerequisite, NewVersion};
