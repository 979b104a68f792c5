//! The stations where work waits and is served: pools of servers, shared processors, and the connections between pods.

mod channel;
mod cpu;
mod pool;

pub use channel::Channel;
pub use cpu::Cpu;
pub use pool::{Entry, Pool};
