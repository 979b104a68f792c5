//! Where the archives of charts came from.

use super::Step;

pub(super) const STEPS: &[Step] = &[Step {
    name: "sources of charts",
    sql: "ALTER TABLE charts ADD COLUMN archive_source VARCHAR(512) NULL",
    sqlite: None,
}];
