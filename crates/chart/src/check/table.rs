//! The rules, one row each.

use super::{Scene, Severity, Spot, pod, pool, ready, text};

/// The spots where a rule is broken, or why it cannot be judged.
pub(super) type Judged = Result<Vec<Spot>, &'static str>;

pub(super) struct Rule {
    /// Stable.
    pub code: &'static str,
    pub severity: Severity,
    pub message: &'static str,
    /// Where the spot knows no better one.
    pub fix: &'static str,
    pub judge: fn(&Scene<'_>) -> Judged,
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "chart.image_empty",
        severity: Severity::Error,
        message: "a container has no image",
        fix: "set the image in the values; a template may still read a key that was renamed",
        judge: pod::empty_images,
    },
    Rule {
        code: "chart.image_not_mirrored",
        severity: Severity::Error,
        message: "an image is named where the nodes cannot fetch it, and not at its mirror",
        fix: "write the mirror's reference into the values",
        judge: pod::unmirrored_images,
    },
    Rule {
        code: "chart.image_registry_unknown",
        severity: Severity::Warning,
        message: "an image comes from a registry that no mirror rule knows",
        fix: "add a mirror rule, or say with `transparent = true` that the nodes reach it",
        judge: pod::unknown_registries,
    },
    Rule {
        code: "chart.image_two_registries",
        severity: Severity::Warning,
        message: "an image's reference names a second registry behind the first, as when a chart joins two values that both have one",
        fix: "give the registry in one value and the bare repository in the other",
        judge: pod::glued_images,
    },
    Rule {
        code: "chart.load_balancer",
        severity: Severity::Error,
        message: "a Service of type LoadBalancer is never ready where nothing provides one, and waiting for it hangs",
        fix: "set the type to ClusterIP or NodePort in the values",
        judge: ready::load_balancers,
    },
    Rule {
        code: "chart.command_relative",
        severity: Severity::Error,
        message: "a relative command is looked for in the working directory, which is another one than the image's",
        fix: "name the command by its absolute path, or leave `workingDir` to the image",
        judge: pod::relative_commands,
    },
    Rule {
        code: "chart.mount_relative",
        severity: Severity::Error,
        message: "a volume is mounted at a path that is not absolute",
        fix: "begin the path with `/`",
        judge: pod::relative_mounts,
    },
    Rule {
        code: "chart.ready_needs_hook",
        severity: Severity::Error,
        message: "a workload cannot become ready before a hook that only runs once everything is ready",
        fix: "make it a pre-install hook, or install it with the release",
        judge: ready::needs_post_install_hook,
    },
    Rule {
        code: "chart.reference_missing",
        severity: Severity::Warning,
        message: "a workload needs an object that the chart does not have",
        fix: "it stays pending unless an operator of the cluster makes the object; add it to the chart, or mark it optional",
        judge: ready::missing_references,
    },
    Rule {
        code: "chart.probe_port_unknown",
        severity: Severity::Error,
        message: "a probe asks a port by a name that its container does not have, so it never succeeds",
        fix: "name a port of the container, or give the number",
        judge: ready::unknown_probe_ports,
    },
    Rule {
        code: "chart.developer_cluster",
        severity: Severity::Error,
        message: "a name is valid in a developer's cluster only",
        fix: "replace it by a name that the nodes can resolve",
        judge: text::developer_names,
    },
    Rule {
        code: "chart.address_two_schemes",
        severity: Severity::Error,
        message: "an address begins with two schemes, as when a chart puts one before a value that has its own",
        fix: "give the value without a scheme: HOST:PORT",
        judge: text::doubled_schemes,
    },
    Rule {
        code: "chart.collector_receives_nothing",
        severity: Severity::Error,
        message: "a collector is configured without receivers, so it does not start or sees nothing",
        fix: "set the receivers in the values; a chart that takes a file of its own ignores one from elsewhere",
        judge: text::empty_receivers,
    },
    Rule {
        code: "chart.developer_storage",
        severity: Severity::Warning,
        message: "a storage class is the default of a developer's cluster",
        fix: "leave the class to the cluster, or name one that it has",
        judge: text::developer_storage,
    },
    Rule {
        code: "chart.image_never_pulled",
        severity: Severity::Error,
        message: "an image is never pulled: it runs only where somebody has put it on the node by hand",
        fix: "set `imagePullPolicy: IfNotPresent`",
        judge: pod::never_pulled,
    },
    Rule {
        code: "chart.object_shared",
        severity: Severity::Error,
        message: "two slots would own one object, and Helm refuses the second",
        fix: "let the name hold the release's: `{{ .Release.Name }}`, or install it once, as a prerequisite",
        judge: pool::shared_objects,
    },
    Rule {
        code: "chart.node_port_shared",
        severity: Severity::Error,
        message: "two slots would have one port of the nodes, and the cluster refuses the second",
        fix: "use a template for it in the seed: `31%03d` is another port in each slot",
        judge: pool::shared_node_ports,
    },
    Rule {
        code: "chart.host_port",
        severity: Severity::Warning,
        message: "a pod takes a port of its node, which the pods of the other slots want as well",
        fix: "leave the port away, or make it differ by slot",
        judge: pod::host_ports,
    },
    Rule {
        code: "chart.platform_unavailable",
        severity: Severity::Error,
        message: "a pod asks for a platform that no node has",
        fix: "ask for one that the nodes have, or name the nodes' platforms: `nodes.platforms` in the configuration",
        judge: pod::unavailable_platforms,
    },
];
