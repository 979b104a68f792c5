//! The file by which programs of this machine find a running server.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Version of the file's form.
pub const FORMAT: u32 = 1;

/// Contents of `server.json`, in the data folder and in `$XDG_STATE_HOME/aegis/`. Mode 0600; gone after a clean end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFile {
    pub format: u32,
    /// Base URL, `http://127.0.0.1:8082`.
    pub address: String,
    /// The server's process. A file whose process is gone is left over from a crash.
    pub pid: i32,
    /// File that holds a token for this server, mode 0600.
    pub token_file: PathBuf,
    /// Address of the OTLP receiver over gRPC, when it is open.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub otlp_grpc: Option<String>,
    /// Address of the OTLP receiver over HTTP, when it is open.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub otlp_http: Option<String>,
    /// The installation's data folder.
    pub data: PathBuf,
}
