//! The stations where work waits and is served: pools of servers and shared processors.

mod cpu;
mod pool;

pub use cpu::Cpu;
pub use pool::{Entry, Pool};
