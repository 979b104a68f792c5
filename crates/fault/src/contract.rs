//! What telemetry shows of each fault: the promise of its mechanism, as data that tests read.

use serde::Serialize;

/// What must show, and what cannot, when the fault is felt on a target under load.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Contract {
    pub must: &'static [Sign],
    pub must_not: &'static [Sign],
    /// How both follow from the mechanism; where a published hint says otherwise, why it does not hold.
    pub why: &'static str,
}

impl Contract {
    /// For the rows of a family to start from; a test finds the row that kept it.
    pub(crate) const NONE: Self = Self { must: &[], must_not: &[], why: "" };
}

macro_rules! signs {
    ($($(#[doc = $doc:literal])+ $variant:ident $name:literal;)*) => {
        /// One thing that telemetry can show, against the same run without the fault.
        ///
        /// *Calls* are the caller's spans of what passes the mechanism: requests to the service, over the link or to the
        /// endpoint, or statements on the table. *Server* is the one that answers them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Sign {
            $($(#[doc = $doc])+ $variant,)*
        }

        impl Sign {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

signs! {
    /// Calls fail.
    CallsFail "calls_fail";
    /// Calls fail at once, not when somebody's patience ends.
    CallsFailAtOnce "calls_fail_at_once";
    /// Calls end when somebody's patience ends, if at all, and have no answer then.
    CallsHang "calls_hang";
    /// Calls take longer, nearly all of them.
    CallsSlow "calls_slow";
    /// Some calls take longer by a retransmission timer; most do not.
    CallsTail "calls_tail";
    /// The caller's own handling fails although its call has an answer.
    CallersFail "callers_fail";
    /// The server's spans are missing.
    ServerSpansVanish "server_spans_vanish";
    /// The server's spans fail with an error of the service (5xx).
    ServerSpansFail "server_spans_fail";
    /// The server's spans take longer.
    ServerSpansSlow "server_spans_slow";
    /// The server's framework answers by itself that it knows no such thing (4xx).
    ServerRefuses "server_refuses";
    /// The calls that the server makes in turn are missing.
    CallsBelowVanish "calls_below_vanish";
    /// The service has a pod of another name.
    PodReplaced "pod_replaced";
    /// The restart count of a container rises.
    ContainerRestarted "container_restarted";
    /// A container is not ready for a while.
    NotReady "not_ready";
    /// The container uses more CPU.
    CpuRises "cpu_rises";
    /// The virtual machine itself uses more CPU.
    ProcessCpuRises "process_cpu_rises";
    /// More periods of the container are throttled.
    Throttled "throttled";
    /// The container's working set rises.
    MemoryRises "memory_rises";
    /// The virtual machine's heap fills.
    HeapRises "heap_rises";
    /// There are full collections.
    FullCollections "full_collections";
    /// A message takes more bytes on the wire.
    BytesRise "bytes_rise";
    /// What the service stamps lies at another time.
    StampsShift "stamps_shift";
}
