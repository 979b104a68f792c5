//! The stations where work waits and is served: pools of servers, shared processors, caches, and the connections between pods.

mod cache;
mod channel;
mod cpu;
mod pool;
mod queue;

pub use cache::Cache;
pub use channel::Channel;
pub use cpu::Cpu;
pub use pool::{Entry, Pool};
pub use queue::Queue;
