//! Typed parameters of each fault kind, ready for whoever carries the fault out.

use serde::{Deserialize, Serialize};

macro_rules! effects {
    ($($variant:ident $name:literal $({ $($field:ident: $type:ty),+ $(,)? })?;)*) => {
        /// What is done to the target. Field names and units are those of the capability's parameters.
        #[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(tag = "kind", deny_unknown_fields)]
        pub enum Effect {
            $(#[serde(rename = $name)] $variant $({ $($field: $type),+ })?,)*
        }

        impl Effect {
            /// Name of the capability.
            pub const fn name(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $name,)* }
            }
        }
    };
}

effects! {
    PodKill "pod_kill";
    PodFailure "pod_failure";
    ContainerKill "container_kill";
    MemoryStress "memory_stress" { size_mib: u32, workers: u32 };
    CpuStress "cpu_stress" { load_pct: u32, workers: u32 };
    HttpRequestAbort "http_request_abort";
    HttpResponseAbort "http_response_abort";
    HttpRequestDelay "http_request_delay" { delay_ms: u32 };
    HttpResponseDelay "http_response_delay" { delay_ms: u32 };
    HttpResponseReplaceBody "http_response_replace_body" { body: String };
    HttpResponsePatchBody "http_response_patch_body" { patch_json: String };
    HttpRequestReplacePath "http_request_replace_path" { new_path: String };
    HttpRequestReplaceMethod "http_request_replace_method" { new_method: String };
    HttpResponseReplaceCode "http_response_replace_code" { status_code: u16 };
    DnsError "dns_error";
    DnsRandom "dns_random";
    TimeSkew "time_skew" { offset_s: i32 };
    NetworkDelay "network_delay" { latency_ms: u32, jitter_ms: u32, correlation_pct: u32 };
    NetworkLoss "network_loss" { loss_pct: u32, correlation_pct: u32 };
    NetworkDuplicate "network_duplicate" { duplicate_pct: u32, correlation_pct: u32 };
    NetworkCorrupt "network_corrupt" { corrupt_pct: u32, correlation_pct: u32 };
    NetworkBandwidth "network_bandwidth" { rate_kbytes_per_s: u32, limit_bytes: u32, buffer_bytes: u32 };
    NetworkPartition "network_partition";
    JvmMethodLatency "jvm_method_latency" { delay_ms: u32 };
    JvmMethodReturn "jvm_method_return" { return_type: String };
    JvmMethodException "jvm_method_exception" { exception: String };
    JvmGc "jvm_gc";
    JvmCpuStress "jvm_cpu_stress" { cpu_count: u32 };
    JvmMemoryStress "jvm_memory_stress" { memory_type: String };
    JvmMysqlLatency "jvm_mysql_latency" { delay_ms: u32, connector_version: String };
    JvmMysqlException "jvm_mysql_exception" { message: String, connector_version: String };
    JvmRuntimeMutator "jvm_runtime_mutator" {
        mutation: String,
        strategy: Option<String>,
        from: Option<String>,
        to: Option<String>,
    };
}
