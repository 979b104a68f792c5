//! A seed that has no errors, every part of it read once.

use model::SystemCode;

use crate::{ContainerSeed, Finding, Findings, Seed, Spot, SystemKeys, check};

/// What a seed means: containers and systems that fit each other. Its other sections are read from the document.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// Those that are used, in the order of the file.
    pub containers: Vec<ContainerSeed>,
    /// By code.
    pub systems: Vec<CheckedSystem>,
    /// Findings that are no errors.
    pub warnings: Vec<Finding>,
}

/// A system with its settings typed and the name of the benchmark that builds its datapacks.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedSystem {
    pub code: SystemCode,
    pub keys: SystemKeys,
    pub benchmark: String,
    pub at: Spot,
}

impl Seed {
    /// # Errors
    /// Everything that [`Seed::lint`] says, when an error is among it.
    pub fn check(&self) -> Result<Checked, Findings> {
        let (checked, findings) = check::everything(self);
        let (checked, warnings) = findings.unless_wrong(checked)?;
        Ok(Checked { warnings, ..checked })
    }
}
