//! Spans of messages: handed to a broker, and handled by who takes them from it.

use system::{Protocol, Stack};
use telemetry::otlp::common::KeyValue;
use telemetry::otlp::trace::span::SpanKind;

use super::{Ends, Scopes, is_java};
use crate::emit::attribute::{int, text};
use crate::emit::template::{Slot, Template, Verdict};
use crate::plan::ServicePlan;

const THREAD: [(&str, Slot); 2] = [("thread.id", Slot::ThreadId), ("thread.name", Slot::ThreadName)];

fn scope(stack: Stack, kafka: bool, name: &str, scopes: &mut Scopes) -> u8 {
    match stack {
        stack if is_java(stack) && kafka => scopes.agent("kafka-clients-0.11"),
        stack if is_java(stack) => scopes.agent("rabbitmq-2.7"),
        Stack::Dotnet => scopes.number("OpenTelemetry.Instrumentation.ConfluentKafka", "0.1.0-alpha.2"),
        _ => scopes.number(name, ""),
    }
}

fn common(ends: &Ends<'_>, kafka: bool, verb: &str) -> Vec<KeyValue> {
    let queue = ends.operation.route.as_str();
    let size = int("messaging.message.body.size", i64::from(ends.operation.request_bytes));
    let mut constant = vec![
        text("messaging.system", if kafka { "kafka" } else { "rabbitmq" }),
        text("messaging.operation", verb),
        text("messaging.destination.name", queue),
        size,
    ];
    if !kafka {
        constant.push(text("messaging.rabbitmq.destination.routing_key", queue));
    }
    constant
}

/// Handing over. `broker` is the callee.
pub fn publish(ends: &Ends<'_>, scopes: &mut Scopes) -> Template {
    let kafka = ends.to.protocol == Protocol::Kafka;
    let stack = ends.caller.stack;
    let scope = scope(stack, kafka, &ends.from.reported_name, scopes);
    let name = format!("{} publish", ends.operation.route);
    let template = Template::new(name, SpanKind::Producer, scope, Verdict::Exception { named: true })
        .with(common(ends, kafka, "publish"));
    if kafka {
        let constant = [
            text("peer.service", ends.to.name.as_str()),
            text("net.transport", "ip_tcp"),
            text("server.address", ends.to.dns_name.as_str()),
            int("messaging.kafka.destination.partition", 0),
        ];
        template.with(constant).slots([("messaging.kafka.producer.offset", Slot::Offset)])
    } else {
        let peer = text("network.peer.port", ends.port(5672).to_string());
        let template = template.with([peer, text("server.address", ends.to.dns_name.as_str())]);
        if is_java(stack) { template.slots(THREAD) } else { template }
    }
}

/// Handling. `broker` is who delivered it.
pub fn process(ends: &Ends<'_>, broker: Option<&ServicePlan>, scopes: &mut Scopes) -> Template {
    let kafka = broker.map_or(ends.to.protocol, |broker| broker.protocol) == Protocol::Kafka;
    let stack = ends.callee.stack;
    let scope = scope(stack, kafka, &ends.to.reported_name, scopes);
    let verb = if kafka && stack == Stack::Dotnet { "receive" } else { "process" };
    let template = Template::new(
        format!("{} {verb}", ends.operation.route),
        SpanKind::Consumer,
        scope,
        Verdict::Exception { named: true },
    )
    .with(common(ends, kafka, verb));
    let template = if is_java(stack) { template.slots(THREAD) } else { template };
    if kafka {
        let constant = [
            text("messaging.kafka.consumer.group", ends.to.name.as_str()),
            int("messaging.destination.partition.id", 0),
        ];
        template.with(constant).slots([("messaging.kafka.message.offset", Slot::Offset)])
    } else {
        template
    }
}
