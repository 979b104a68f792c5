//! Why a single record is refused while the rest of its request is kept, and how often that happened.

use crate::Export;

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $reason:literal;)*) => {
        /// The closed list of reasons. The codes are stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Refusal { $($(#[$doc])* $name,)* }

        impl Refusal {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            pub const fn reason(self) -> &'static str {
                match self { $(Self::$name => $reason,)* }
            }
        }
    };
}

refusals! {
    TraceId = "otlp.trace_id_malformed", "a trace id is not 16 bytes, or all zero";
    SpanId = "otlp.span_id_malformed", "a span id is not 8 bytes, or all zero";
    ParentSpanId = "otlp.parent_span_id_malformed", "a parent span id is neither absent nor 8 bytes";
    EndsBeforeStart = "otlp.span_ends_before_start", "a span ends before it starts";
    Time = "otlp.time_out_of_range", "a timestamp is absent or outside the accepted range";
    SpanKind = "otlp.span_kind_unknown", "a span kind is not one that OTLP defines";
    StatusCode = "otlp.status_code_unknown", "a span status is not one that OTLP defines";
    Severity = "otlp.severity_out_of_range", "a severity number is outside 0 to 24";
    NoValue = "otlp.point_without_value", "a data point has no recorded value";
    NotFinite = "otlp.value_not_finite", "a value is not a finite number";
    Buckets = "otlp.histogram_counts_mismatch", "the bucket counts of a histogram do not fit its bounds or its count";
    Bounds = "otlp.histogram_bounds_unordered", "the bounds of a histogram do not ascend";
    Unnamed = "otlp.metric_unnamed", "a metric has no name";
    /// Exponential histograms and summaries are in no datapack.
    Kind = "otlp.metric_kind_unsupported", "a metric is neither gauge, sum nor histogram";
    Namespace = "otlp.namespace_too_long", "a namespace is longer than 253 bytes";
    Malformed = "otlp.record_malformed", "a record is not the protobuf of one";
    NotText = "otlp.text_not_utf8", "a text is not UTF-8";
    Temporality = "otlp.temporality_not_cumulative",
        "a sum or histogram is not cumulative; configure cumulative temporality or use the collector's deltatocumulative processor";
    AttributeCount = "otlp.attributes_too_many", "a record or its resource has more attributes than the limit";
    ValueLength = "otlp.attribute_too_long", "the key or the value of an attribute is longer than the limit";
    TextLength = "otlp.text_too_long", "a name, message or body is longer than the limit";
    Namespaces = "otlp.namespaces_too_many", "more distinct namespaces arrived within the hour than the limit";
    Services = "otlp.services_too_many", "a namespace has more distinct services within the hour than the limit";
    AttributeKeys = "otlp.attribute_keys_too_many",
        "a namespace has more distinct attribute keys within the hour than the limit; put what varies into values";
    Series = "otlp.series_too_many",
        "a namespace has more distinct metric series within the hour than the limit; drop the attribute that varies";
}

/// How many records were refused, by reason.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally([u64; Refusal::ALL.len()]);

impl Tally {
    pub fn add(&mut self, refusal: Refusal, count: u64) {
        self.0[refusal as usize] += count;
    }

    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }

    /// The reasons that occurred, in the order of the list.
    pub fn list(&self) -> Vec<(&'static str, u64)> {
        let counted = Refusal::ALL.iter().zip(self.0).filter(|(_, count)| *count > 0);
        counted.map(|(refusal, count)| (refusal.code(), count)).collect()
    }
}

/// What became of the records of one request: the good ones are kept, the bad ones refused and counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accepted {
    pub accepted: u64,
    /// Stable code and number of records, only reasons that occurred.
    pub refused: Vec<(&'static str, u64)>,
}

impl Accepted {
    pub(crate) fn new(accepted: u64, tally: &Tally) -> Self {
        Self { accepted, refused: tally.list() }
    }

    pub fn refused_total(&self) -> u64 {
        self.refused.iter().map(|(_, count)| count).sum()
    }

    /// The sentence for an OTLP partial success; empty when nothing was refused.
    pub fn message(&self, export: Export) -> String {
        let refused = self.refused_total();
        if refused == 0 {
            return String::new();
        }
        let reasons: Vec<String> = self
            .refused
            .iter()
            .map(|(code, count)| {
                let known = Refusal::ALL.iter().find(|refusal| refusal.code() == *code);
                format!("{count} x {}, {}", code, known.map_or("", |refusal| refusal.reason()))
            })
            .collect();
        format!("{refused} of {} {} refused: {}", refused + self.accepted, export.records(), reasons.join("; "))
    }
}
