//! Messages that a receiver takes: a large request is sent as several, cut between resources.

use model::Result;
use prost::Message;

use crate::otlp::{ExportLogsServiceRequest, ExportMetricsServiceRequest, ExportTraceServiceRequest, metrics};

/// Takes one message and the number of records in it.
type Send<'a> = dyn FnMut(Vec<u8>, u64) -> Result<()> + 'a;

macro_rules! split {
    ($name:ident, $request:ident, $resources:ident, $count:expr) => {
        pub fn $name(request: &$request, largest: usize, send: &mut Send<'_>) -> Result<()> {
            let count: fn(&$request) -> u64 = $count;
            let resources = &request.$resources;
            if resources.len() > 1 && request.encoded_len() > largest {
                let (first, second) = resources.split_at(resources.len() / 2);
                for half in [first, second] {
                    $name(&$request { $resources: half.to_vec() }, largest, send)?;
                }
                return Ok(());
            }
            match count(request) {
                0 => Ok(()),
                records => send(request.encode_to_vec(), records),
            }
        }
    };
}

split!(traces, ExportTraceServiceRequest, resource_spans, |request| {
    let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
    scopes.map(|scope| scope.spans.len() as u64).sum()
});
split!(logs, ExportLogsServiceRequest, resource_logs, |request| {
    let scopes = request.resource_logs.iter().flat_map(|resource| &resource.scope_logs);
    scopes.map(|scope| scope.log_records.len() as u64).sum()
});
split!(metrics, ExportMetricsServiceRequest, resource_metrics, |request| {
    let scopes = request.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics);
    scopes.flat_map(|scope| &scope.metrics).map(points).sum()
});

fn points(metric: &metrics::Metric) -> u64 {
    use metrics::metric::Data;
    let points = match &metric.data {
        Some(Data::Gauge(data)) => data.data_points.len(),
        Some(Data::Sum(data)) => data.data_points.len(),
        Some(Data::Histogram(data)) => data.data_points.len(),
        Some(Data::ExponentialHistogram(data)) => data.data_points.len(),
        Some(Data::Summary(data)) => data.data_points.len(),
        None => 0,
    };
    points as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::trace::{ResourceSpans, ScopeSpans, Span};

    #[test]
    fn a_large_request_is_cut_between_resources_and_an_empty_one_is_not_sent() {
        let resource = |spans: usize| ResourceSpans {
            scope_spans: vec![ScopeSpans {
                spans: vec![Span { name: "x".repeat(100), ..Span::default() }; spans],
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        };
        let request = ExportTraceServiceRequest { resource_spans: (1..=5).map(resource).collect() };
        let mut sent = Vec::new();
        traces(&request, 600, &mut |bytes, records| {
            sent.push((bytes.len(), records));
            Ok(())
        })
        .unwrap();
        assert_eq!(sent.iter().map(|(_, records)| records).sum::<u64>(), 15);
        // The largest resource alone is more than the limit and cannot be cut.
        assert!(sent.len() >= 4 && sent.iter().filter(|(bytes, _)| *bytes > 600).count() <= 1, "{sent:?}");
        traces(&ExportTraceServiceRequest { resource_spans: vec![resource(0)] }, 600, &mut |_, _| {
            panic!("nothing in it")
        })
        .unwrap();
    }
}
