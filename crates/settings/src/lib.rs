//! Runtime settings: how a key is declared, how a value is checked, which keys the product itself reads, and the trait
//! behind which live values are kept. The SQL side of the trait is in `store`. Where values are published for other programs
//! (etcd) is here.

mod backend;
mod catalogue;
mod contract;
mod declaration;
mod etcd;
pub mod judge;
pub mod source;

pub use backend::{Backend, Change, Expect, Live, Owner};
pub use catalogue::{
    BUILD_LIMIT, EXECUTION_LIMIT, FRESHNESS_MAX_WAIT, FRESHNESS_WATERMARK, INJECTION_LIMIT, RESTART_LIMIT,
    SYSTEM_PREFIX, WARMING_LIMIT,
};
pub use catalogue::{Key, Value, catalogue, read};
pub use contract::contract_markdown;
pub use declaration::{Bounds, Declaration, Scope, ValueType};
pub use etcd::Etcd;
pub use source::Source;
