//! What can be broken, and everything that follows from it.
//!
//! One table ([`capabilities`]) declares each fault kind: its target, parameters, needs, Chaos Mesh object, mechanism,
//! ground truth and witness. Validation ([`resolve`]), rendering ([`render`]), labels ([`truth`]), listings
//! ([`points`]) and documentation ([`schema`]) all read this table, so they cannot disagree.
//!
//! Pure: no input or output, no clock, no randomness.

mod batch;
mod capability;
mod contract;
mod effect;
mod param;
mod point;
mod render;
mod resolve;
mod schema;
mod table;
mod target;
mod truth;

pub use batch::check_batch;
pub use capability::{
    Capability, ChaosObject, Family, Field, Form, Length, Mechanism, Mode, Requirement, TargetField, TargetKind,
    TruthRule, WitnessRule, WitnessUnit,
};
pub use contract::{Contract, Sign};
pub use effect::Effect;
pub use param::{Domain, Literal, Param, Presence, Unit};
pub use point::{Filter, Point, point, points, system_of_point};
pub use render::render;
pub use resolve::{Resolved, Spec, resolve};
pub use schema::{describe, schema};
pub use table::{capabilities, capability};
pub use target::{SqlVerb, Target};
pub use truth::truth;
