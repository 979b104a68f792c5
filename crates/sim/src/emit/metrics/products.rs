//! What the exporters of off-the-shelf products say: brokers, databases, caches.

use system::Protocol;
use telemetry::otlp::common::KeyValue;

use super::{Reading, Recorder, Round};
use crate::emit::attribute::text;
use crate::emit::resource;
use crate::pod::Pod;

impl Recorder {
    pub(super) fn product(&mut self, reading: &mut Reading<'_>) {
        let pod = reading.pod;
        let service = &self.plan.services[pod.service as usize];
        let postgres = service.image.starts_with("postgres");
        let protocol = service.protocol;
        let mut points = 0;
        let mut round = self.round(reading, resource::began(pod), &mut points);
        let scope = match protocol {
            Protocol::Amqp => rabbitmq(&mut round, reading),
            Protocol::Kafka => kafka(&mut round, reading),
            Protocol::Sql if postgres => postgresql(&mut round, reading),
            Protocol::Sql => mysql(&mut round, reading),
            Protocol::Redis => redis(&mut round, reading),
            _ => "",
        };
        let metrics = round.metrics;
        self.counts.points += points;
        let resource = resource::of_container(&self.namespace, &self.plan.services[pod.service as usize], pod);
        self.keep(resource, scope, metrics);
    }
}

/// Statements and commands that a product has answered, those before the origin included.
fn answered(reading: &Reading<'_>) -> f64 {
    let pod: &Pod = reading.pod;
    pod.requests as f64 + 800.0 + (u64::from(pod.slot) * 131 % 700) as f64
}

fn rabbitmq(round: &mut Round<'_>, reading: &Reading<'_>) -> &'static str {
    let names: Vec<Vec<KeyValue>> =
        reading.queues.iter().map(|(name, ..)| vec![text("queue", name.as_str()), text("vhost", "/")]).collect();
    let of = |value: fn(&(String, u64, u64)) -> u64| -> Vec<(f64, &[KeyValue])> {
        reading.queues.iter().zip(&names).map(|(queue, name)| (value(queue) as f64, name.as_slice())).collect()
    };
    round.gauge("rabbitmq_queue_messages_ready", "{messages}", &of(|queue| queue.1));
    round.gauge("rabbitmq_queue_messages_unacked", "{messages}", &of(|queue| queue.2));
    round.gauge("rabbitmq_queue_messages", "{messages}", &of(|queue| queue.1 + queue.2));
    round.gauge("rabbitmq_queue_consumers", "{consumers}", &of(|_| 1));
    round.sum("rabbitmq_global_messages_received_total", "{messages}", true, &[(answered(reading), &[])]);
    round.gauge("rabbitmq_connections", "{connections}", &[(3.0 + reading.queues.len() as f64, &[])]);
    round.gauge("rabbitmq_process_resident_memory_bytes", "By", &[(reading.pod.working_set(reading.now) * 0.82, &[])]);
    "github.com/open-telemetry/opentelemetry-collector-contrib/receiver/prometheusreceiver"
}

fn kafka(round: &mut Round<'_>, reading: &Reading<'_>) -> &'static str {
    for (topic, waiting, working) in &reading.queues {
        let partition = [text("topic", topic.as_str()), text("partition", "0"), text("group", "accounting")];
        round.gauge("kafka.consumer_group.lag", "{messages}", &[((waiting + working) as f64, &partition)]);
        let end = answered(reading);
        round.gauge("kafka.partition.current_offset", "1", &[(end, &partition[..2])]);
        round.gauge("kafka.consumer_group.offset", "1", &[((end - (waiting + working) as f64).max(0.0), &partition)]);
    }
    let produced = answered(reading);
    let kind = |kind: &str| [text("type", kind)];
    round.sum("kafka.message.count", "{message}", true, &[(produced, &[])]);
    let requests = [(produced, &kind("produce")[..]), (produced * 2.0 + reading.uptime() * 3.9, &kind("fetch")[..])];
    round.sum("kafka.request.count", "{request}", true, &requests);
    round.sum("kafka.request.failed", "{request}", true, &[(0.0, &kind("produce")), (0.0, &kind("fetch"))]);
    round.gauge("kafka.partition.count", "{partition}", &[(52.0, &[])]);
    round.gauge("kafka.partition.offline", "{partition}", &[(0.0, &[])]);
    "io.opentelemetry.jmx"
}

fn mysql(round: &mut Round<'_>, reading: &Reading<'_>) -> &'static str {
    let kind = |kind: &str| [text("kind", kind)];
    let running = f64::from(reading.pod.workers.busy());
    let sessions = reading.sessions as f64;
    round.sum(
        "mysql.threads",
        "{threads}",
        false,
        &[(sessions, &kind("connected")), (running + 2.0, &kind("running")), (9.0, &kind("cached"))],
    );
    let statements = answered(reading);
    round.sum("mysql.query.count", "{queries}", true, &[(statements, &[])]);
    round.sum("mysql.connection.count", "{connections}", true, &[(sessions + 14.0, &[])]);
    round.sum(
        "mysql.handlers",
        "1",
        true,
        &[(statements * 2.4, &kind("read_key")), (statements * 0.31, &kind("commit"))],
    );
    round.sum("mysql.row_locks", "1", true, &[((statements / 4100.0).floor(), &kind("waits"))]);
    let pages = reading.pod.working_set(reading.now) * 0.7;
    round.gauge("mysql.buffer_pool.usage", "By", &[(pages, &kind("clean")), (pages * 0.004, &kind("dirty"))]);
    "mysql.telemetry"
}

fn postgresql(round: &mut Round<'_>, reading: &Reading<'_>) -> &'static str {
    let database = [text("postgresql.database.name", "otel")];
    let statements = answered(reading);
    round.sum("postgresql.backends", "1", false, &[(reading.sessions as f64 + 1.0, &database)]);
    round.sum("postgresql.commits", "1", true, &[(statements, &database)]);
    round.sum("postgresql.rollbacks", "1", true, &[((statements / 5200.0).floor(), &database)]);
    round.sum("postgresql.db_size", "By", false, &[(8_400_000.0 + statements * 310.0, &database)]);
    round.gauge("postgresql.connection.max", "{connections}", &[(100.0, &[])]);
    let source = |source: &str| [text("source", source)];
    let blocks =
        [((statements / 900.0).floor(), &source("heap_read")[..]), (statements * 3.1, &source("heap_hit")[..])];
    round.sum("postgresql.blocks_read", "1", true, &blocks);
    "github.com/open-telemetry/opentelemetry-collector-contrib/receiver/postgresqlreceiver"
}

fn redis(round: &mut Round<'_>, reading: &Reading<'_>) -> &'static str {
    let commands = answered(reading);
    round.sum("redis.clients.connected", "{client}", false, &[((reading.sessions.max(1)) as f64, &[])]);
    round.sum("redis.commands.processed", "{command}", true, &[(commands.floor(), &[])]);
    round.gauge("redis.commands", "{ops}/s", &[((commands / reading.uptime().max(1.0)).floor(), &[])]);
    round.gauge("redis.memory.used", "By", &[(1_100_000.0 + commands * 38.0, &[])]);
    round.gauge("redis.memory.rss", "By", &[(reading.pod.working_set(reading.now) * 0.4, &[])]);
    round.sum("redis.keyspace.hits", "{hit}", true, &[((commands * 0.58).floor(), &[])]);
    round.sum("redis.keyspace.misses", "{miss}", true, &[((commands * 0.07).floor(), &[])]);
    let state = |state: &str| [text("state", state)];
    round.sum(
        "redis.cpu.time",
        "s",
        true,
        &[(reading.cpu_spent() * 0.4, &state("sys")), (reading.cpu_spent() * 0.6, &state("user"))],
    );
    round.sum("redis.uptime", "s", true, &[(reading.uptime().floor(), &[])]);
    "github.com/open-telemetry/opentelemetry-collector-contrib/receiver/redisreceiver"
}
