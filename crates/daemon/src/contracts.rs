//! The promises to outsiders, generated from the code: `contracts/`.

use std::path::Path;

use model::{ErrorKind, Problem, Result};

/// Writes every contract that this program can generate. `cli.json` comes from `aegisctl schema dump`.
pub fn write(folder: &Path) -> Result<()> {
    let openapi = server::openapi()
        .to_pretty_json()
        .map_err(|error| Problem::internal("contracts.openapi", error.to_string()))?;
    for (name, text) in [
        ("openapi.json", openapi + "\n"),
        ("settings.md", settings::contract_markdown()),
        ("doctor.md", api::doctor::contract_markdown()),
        ("datapack.md", datapack::contract_markdown()),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|error| {
            Problem::new(ErrorKind::Unavailable, "contracts.unwritable", "a contract cannot be written")
                .place(path.display().to_string())
                .cause(error)
        })?;
    }
    Ok(())
}
