//! The cluster's own view: the kubelet and cAdvisor about pods and containers, the cluster receiver about workloads.

use super::{Reading, Recorder};
use crate::emit::attribute::text;
use crate::emit::resource;
use crate::engine::SECOND;
use crate::plan::Workload;
use crate::pod::PodState;

const KUBELET: &str = "github.com/open-telemetry/opentelemetry-collector-contrib/receiver/kubeletstatsreceiver";
const CLUSTER: &str = "github.com/open-telemetry/opentelemetry-collector-contrib/receiver/k8sclusterreceiver";
const SCRAPED: &str = "github.com/open-telemetry/opentelemetry-collector-contrib/receiver/prometheusreceiver";
/// Bytes of an average packet on a pod's interface.
const PACKET: f64 = 640.0;

impl Recorder {
    pub(super) fn kubelet(&mut self, reading: &mut Reading<'_>) {
        let pod = reading.pod;
        if pod.state == PodState::Pending {
            return;
        }
        let profile = pod.profile;
        let working_set = pod.working_set(reading.now) * reading.draw.between(0.998, 1.002);
        // Beside the process there are the kernel's share and cached files, which do not grow with it.
        let resident = working_set - profile.memory_base * 0.06;
        let used = working_set + profile.memory_base * reading.draw.between(0.095, 0.1);
        let (usage, spent) = (reading.cpu_usage, reading.cpu_spent());
        let files = profile.memory_base * 0.21 + reading.uptime() * 190.0;
        let mut points = 0;
        let mut round = self.round(reading, resource::created(pod), &mut points);
        round.gauge("k8s.pod.cpu.usage", "{cpu}", &[(usage, &[])]);
        round.gauge("k8s.pod.cpu_limit_utilization", "1", &[(usage / profile.cpu_limit, &[])]);
        round.gauge("k8s.pod.memory.working_set", "By", &[(working_set, &[])]);
        round.gauge("k8s.pod.memory.usage", "By", &[(used, &[])]);
        round.gauge("k8s.pod.memory.rss", "By", &[(resident, &[])]);
        round.gauge("k8s.pod.memory_limit_utilization", "1", &[(working_set / profile.memory_limit, &[])]);
        round.gauge("k8s.pod.filesystem.usage", "By", &[(files, &[])]);
        round.sum("k8s.pod.cpu.time", "s", true, &[(spent, &[])]);
        let age = (reading.now - resource::created(pod)) as f64 / SECOND as f64;
        round.sum("k8s.pod.uptime", "s", true, &[(age.floor(), &[])]);
        let way = |way: &str| [text("interface", "eth0"), text("direction", way)];
        let traffic = pod.traffic;
        let (received, sent) = (traffic.received as f64, traffic.sent as f64);
        round.sum("k8s.pod.network.io", "By", true, &[(received, &way("receive")), (sent, &way("transmit"))]);
        let errors = [(0.0, &way("receive")[..]), (traffic.errors as f64, &way("transmit")[..])];
        round.sum("k8s.pod.network.errors", "{errors}", true, &errors);
        let metrics = round.metrics;
        let service = &self.plan.services[pod.service as usize];
        let of_pod = resource::of_pod(&self.namespace, service, pod);
        let of_container = resource::of_container(&self.namespace, service, pod);
        self.keep(of_pod.clone(), KUBELET, metrics);
        let mut round = self.round(reading, resource::began(pod), &mut points);
        round.gauge("container.cpu.usage", "{cpu}", &[(usage, &[])]);
        round.gauge("container.memory.working_set", "By", &[(working_set, &[])]);
        round.gauge("container.memory.usage", "By", &[(used, &[])]);
        round.gauge("container.memory.rss", "By", &[(resident, &[])]);
        round.gauge("container.memory.available", "By", &[((profile.memory_limit - working_set).max(0.0), &[])]);
        round.gauge("container.filesystem.usage", "By", &[(files, &[])]);
        round.sum("container.cpu.time", "s", true, &[(spent, &[])]);
        round.sum("container.uptime", "s", true, &[(reading.uptime().floor(), &[])]);
        let metrics = round.metrics;
        self.keep(of_container.clone(), KUBELET, metrics);
        let (periods, cut, still) = pod.cpu.throttling();
        let mut round = self.round(reading, resource::began(pod), &mut points);
        round.sum("container_cpu_cfs_periods_total", "{periods}", true, &[(periods as f64, &[])]);
        round.sum("container_cpu_cfs_throttled_periods_total", "{periods}", true, &[(cut as f64, &[])]);
        round.sum("container_cpu_cfs_throttled_seconds_total", "s", true, &[(still as f64 / SECOND as f64, &[])]);
        let metrics = round.metrics;
        self.keep(of_container, SCRAPED, metrics);
        let mut round = self.round(reading, resource::created(pod), &mut points);
        let eth0 = [text("interface", "eth0")];
        round.sum(
            "container_network_receive_packets_total",
            "{packets}",
            true,
            &[((received / PACKET).floor(), &eth0)],
        );
        round.sum("container_network_transmit_packets_total", "{packets}", true, &[((sent / PACKET).floor(), &eth0)]);
        round.sum("container_network_receive_packets_dropped_total", "{packets}", true, &[(0.0, &eth0)]);
        round.sum(
            "container_network_transmit_packets_dropped_total",
            "{packets}",
            true,
            &[(traffic.errors as f64, &eth0)],
        );
        let metrics = round.metrics;
        self.keep(of_pod, SCRAPED, metrics);
        self.counts.points += points;
    }

    pub(super) fn cluster(&mut self, reading: &mut Reading<'_>) {
        let pod = reading.pod;
        let plan = self.plan.clone();
        let service = &plan.services[pod.service as usize];
        let mut points = 0;
        // The receiver's numbers: 1 pending, 2 running.
        let phase = if pod.state == PodState::Pending { 1.0 } else { 2.0 };
        let ready = f64::from(u8::from(pod.serves()));
        let since = resource::created(pod);
        let mut round = self.round(reading, since, &mut points);
        round.gauge("k8s.pod.phase", "", &[(phase, &[])]);
        let metrics = round.metrics;
        self.keep(resource::of_pod(&self.namespace, service, pod), CLUSTER, metrics);
        let mut round = self.round(reading, since, &mut points);
        round.gauge("k8s.container.ready", "", &[(ready, &[])]);
        round.gauge("k8s.container.restarts", "{restart}", &[(f64::from(pod.restarts), &[])]);
        round.gauge("k8s.container.cpu_limit", "{cpu}", &[(pod.profile.cpu_limit, &[])]);
        round.gauge("k8s.container.memory_limit", "By", &[(pod.profile.memory_limit, &[])]);
        let metrics = round.metrics;
        self.keep(resource::of_container(&self.namespace, service, pod), CLUSTER, metrics);
        let (desired, available) = match service.workload {
            Workload::Deployment => ("k8s.deployment.desired", "k8s.deployment.available"),
            Workload::StatefulSet => ("k8s.statefulset.desired_pods", "k8s.statefulset.ready_pods"),
        };
        let mut round = self.round(reading, since, &mut points);
        round.gauge(desired, "{pod}", &[(f64::from(service.replicas), &[])]);
        round.gauge(available, "{pod}", &[(ready, &[])]);
        let metrics = round.metrics;
        self.keep(resource::of_workload(&self.namespace, service), CLUSTER, metrics);
        self.counts.points += points;
    }
}
