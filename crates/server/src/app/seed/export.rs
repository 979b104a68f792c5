//! The installation as a seed: what it has, in the public format, so that planning it again shows no difference.

use api::seed::ExportReply;
use model::Result;

use super::super::App;
use super::Present;

impl App {
    /// # Errors
    /// Whatever the store fails with.
    pub async fn seed_export(&self) -> Result<ExportReply> {
        let present = Present::read(&self.store().seed_live().await?, None)?;
        Ok(ExportReply { files: ::seed::export(&present.live, &present.base) })
    }
}
