//! Where live values are kept.

use async_trait::async_trait;
use model::Result;
use serde::{Deserialize, Serialize};

use crate::Scope;

/// Who set a live value. A seed never overwrites an operator's value silently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    Seed,
    Operator,
}

impl Owner {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::Operator => "operator",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Seed, Self::Operator].into_iter().find(|owner| owner.as_str() == text)
    }
}

/// One live value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    pub key: String,
    pub scope: Scope,
    pub value: String,
    pub owner: Owner,
    /// Grows with each change of any key.
    pub revision: i64,
}

/// What must be there for a change to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    Anything,
    Absent,
    Revision(i64),
}

/// One change of a live value; `value` is absent when the key was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub revision: i64,
    pub key: String,
    pub value: Option<String>,
    pub previous: Option<String>,
    pub owner: Owner,
    pub changed_by: String,
    /// Microseconds since the Unix epoch.
    pub at: model::WallTime,
}

/// A place for live values: SQL, or etcd. Values are checked by whoever calls, against their declarations.
#[async_trait]
pub trait Backend: Send + Sync {
    async fn get(&self, key: &str) -> Result<Option<Live>>;

    /// Live values whose keys start with `prefix`, by key.
    async fn list(&self, prefix: &str) -> Result<Vec<Live>>;

    /// Sets a value and returns it with its new revision.
    ///
    /// # Errors
    /// `setting.changed_meanwhile` when what is there is not what was expected; `setting.unknown` for a key that is not
    /// declared.
    async fn set(&self, key: &str, value: &str, owner: Owner, expect: Expect, by: &str) -> Result<Live>;

    /// Deletes a value; `false` when there was none.
    ///
    /// # Errors
    /// `setting.changed_meanwhile` as for [`Backend::set`].
    async fn delete(&self, key: &str, expect: Expect, by: &str) -> Result<bool>;

    /// At most `limit` changes after `revision`, in order: a watch goes on from the last one that it saw.
    async fn changes_after(&self, revision: i64, limit: u64) -> Result<Vec<Change>>;
}
