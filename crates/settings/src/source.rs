//! Where live values are published for other programs: a tree of texts beside the store, such as etcd.
//!
//! The store knows each key's declaration and the value that it accepted last; a source holds what everybody may read and
//! write. Nothing here knows a declaration: paths and texts go in and out, each with the revision that wrote it.

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use model::Result;

use crate::{Expect, Scope};

/// Says whose tree it is. It is not a setting.
pub const INSTALLATION: &str = "aegis/installation";

/// One published text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub value: String,
    /// The source's revision that wrote it.
    pub revision: i64,
}

/// What a source held at one revision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub revision: i64,
    /// By path below the source's prefix, such as `global/injection.system.ts.count`.
    pub entries: BTreeMap<String, Entry>,
}

/// One change to make. `value` is absent to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    pub path: String,
    pub value: Option<String>,
    pub expect: Expect,
}

/// One change that a watch saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub path: String,
    /// Absent when the path was deleted.
    pub entry: Option<Entry>,
}

/// What changed up to one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub revision: i64,
    pub events: Vec<Event>,
}

/// A tree of live values.
#[async_trait]
pub trait Source: Send + Sync + fmt::Debug {
    /// Its address, without a password.
    fn place(&self) -> &str;

    /// Everything below the prefix, at one revision.
    ///
    /// # Errors
    /// `settings.unreachable`, `settings.refused`; so for every call.
    async fn snapshot(&self) -> Result<Snapshot>;

    /// What keys with these beginnings hold outside the prefix, or without a scope, by their whole name there. Nothing
    /// reads it; somebody put it where nothing reads.
    async fn misplaced(&self, beginnings: &[String]) -> Result<BTreeMap<String, Entry>>;

    /// The entries of these paths.
    async fn get(&self, paths: &[String]) -> Result<BTreeMap<String, Entry>>;

    /// Makes all of the changes or none, and returns the revision that made them. At most [`MOST_WRITES`] at once. With
    /// `mark` they are only made while [`INSTALLATION`] has this revision: whoever writes the mark anew can be sure that
    /// no change from before, which may still be under way to the source, is made after that.
    ///
    /// # Errors
    /// `setting.changed_meanwhile` when an entry is not what was expected. After `settings.unreachable` the changes may
    /// have been made all the same, or be made later: write the mark anew and read before going on.
    async fn commit(&self, writes: &[Write], mark: Option<i64>) -> Result<i64>;

    /// Deletes one key outside of the prefix by its whole name, if it still has this revision.
    ///
    /// # Errors
    /// `setting.changed_meanwhile`.
    async fn discard(&self, name: &str, revision: i64) -> Result<()>;

    /// What changes after this revision.
    ///
    /// # Errors
    /// `settings.compacted` when the source no longer knows: take a snapshot and watch from its revision.
    async fn watch(&self, after: i64) -> Result<Box<dyn Watch>>;
}

/// Most changes of one [`Source::commit`].
pub const MOST_WRITES: usize = 100;

/// A running watch. It ends with an error; go on with another one from the last revision that was seen.
#[async_trait]
pub trait Watch: Send {
    /// Waits for the next changes; events of one revision are never torn apart.
    async fn next(&mut self) -> Result<Batch>;
}

/// Where a key stands below a source's prefix.
pub fn path(scope: Scope, key: &str) -> String {
    format!("{scope}/{key}")
}

/// The scope and the key of a path, when it is of that form.
pub fn parse_path(path: &str) -> Option<(Scope, &str)> {
    let (scope, key) = path.split_once('/')?;
    Some((Scope::parse(scope)?, key))
}
