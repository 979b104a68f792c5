//! SQL over the open parts of datapacks: read-only, and bounded in memory, disk and time.
//!
//! There is one table for each signal, over all the packs that a query names. It has the columns of the signal's
//! [`datapack::Table`] and two more: `pack`, the pack's name, and `window`, `normal` or `abnormal`. A filter on those two
//! decides which files are opened. Nothing else can be read: no other file, no sealed part, no network.
//!
//! [`Answer`] computes in this process, [`child::ask`] in one of its own, which a server wants: no query can end it.
//!
//! Names are case-sensitive, as the columns are. `attr(column, 'key')` gives the text behind a key of a column that holds
//! a JSON object.

mod answer;
mod attribute;
pub mod child;
mod complaint;
mod file;
mod grouping;
mod row;
mod schema;
mod session;
mod statement;
mod table;

pub use answer::{Answer, Column, End, Limits};
pub use table::PackFolder;
