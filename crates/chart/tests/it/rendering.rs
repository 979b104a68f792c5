//! Charts rendered by the real `helm`, each with one thing planted that would come to grief.

use chart::{Manifest, Mirror, Mirrors, Scene, Severity, check, render};
use serde_json::{Value, json};
use testkit::ChartFiles;

use crate::{block_on, helms};

/// A chart in which nothing is wrong: templates take what is planted from the values.
const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      {{- with .Values.pod }}{{ toYaml . | nindent 6 }}{{ end }}
      containers:
        - {{ toYaml (merge (dict "name" "web") .Values.container) | nindent 10 }}
"#;
const SERVICE: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {{ toYaml .Values.service | nindent 2 }}
"#;
const MORE: &str = "{{ range .Values.more }}\n---\n{{ toYaml . }}\n{{ end }}";
const VALUES: &str = "container: {image: \"mirror.local/hub/shop/web:1.2.3\"}\nservice: {type: ClusterIP}\nmore: []\n";

fn scene_rules() -> Mirrors {
    let image =
        |from: &str, to: &str, transparent| Mirror { from: from.into(), to: to.into(), plain_http: false, transparent };
    Mirrors::new(vec![image("docker.io", "mirror.local/hub", false), image("quay.io", "mirror.local/quay", true)])
}

/// The codes that are found with these values, with the place, what was found and the fix of the first.
fn found([manifests, neighbour]: &[Vec<Manifest>; 2]) -> (Vec<(String, Severity)>, String) {
    let (mirrors, platforms) = (scene_rules(), ["linux/amd64".to_owned()]);
    let checked = check(&Scene { manifests, neighbour, mirrors: &mirrors, platforms: &platforms });
    assert!(checked.skipped.is_empty(), "{:?}", checked.skipped);
    let words = checked.findings.first().map_or_else(String::new, |finding| finding.problem.to_string());
    let codes = checked.findings.iter().map(|finding| (finding.problem.code.to_string(), finding.severity));
    (codes.collect(), words)
}

/// A collector with these receivers, and these in its pipeline.
fn collector(receivers: &str, used: &str) -> Value {
    let config = format!("receivers: {receivers}\nservice:\n  pipelines:\n    traces: {{receivers: {used}}}\n");
    json!({"kind": "ConfigMap", "metadata": {"name": "collector"}, "data": {"collector.yaml": config}})
}

#[test]
fn each_rule_finds_what_it_is_for_and_nothing_else() {
    let image = "mirror.local/hub/shop/web:1.2.3";
    let container = |more: Value| {
        let mut container = json!({"image": image});
        container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"container": container})
    };
    let volume = json!([{"name": "v", "secret": {"secretName": "made-later"}}]);
    let late = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "made-later", "annotations": {"helm.sh/hook": "post-install"}},
    });
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
        "spec": {"storageClassName": "standard"}});
    let arm = json!({"nodeSelector": {"kubernetes.io/arch": "arm64"}});
    let port = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 31000}]});
    let role = json!({"kind": "ClusterRole", "metadata": {"name": "shop"}, "rules": []});
    let elsewhere = json!({"kind": "Secret", "metadata": {"name": "shop", "namespace": "monitoring"}});
    let cases = [
        ("chart.object_shared", json!({"more": [role]}), "ClusterRole shop"),
        ("chart.object_shared", json!({"more": [elsewhere]}), "in namespace `monitoring`"),
        ("chart.node_port_shared", json!({"service": port}), "nodePort 31000"),
        (
            "chart.image_empty",
            container(json!({"image": ""})),
            "Deployment web (shop/templates/deployment.yaml): spec.template.spec.containers[web].image",
        ),
        (
            "chart.image_not_mirrored",
            container(json!({"image": "nginx:1.27"})),
            "`mirror.local/hub/library/nginx:1.27`",
        ),
        ("chart.image_registry_unknown", container(json!({"image": "gcr.io/shop/web:1"})), "mirror.local/hub, quay.io"),
        (
            "chart.image_two_registries",
            container(json!({"image": "mirror.local/hub/registry.example/y/rabbitmq:4"})),
            "expected one registry",
        ),
        (
            "chart.load_balancer",
            json!({"service": {"type": "LoadBalancer"}}),
            "Service web (shop/templates/service.yaml): spec.type",
        ),
        (
            "chart.command_relative",
            container(json!({"command": ["./frontend"], "workingDir": "/srv"})),
            "`./frontend` in `/srv`",
        ),
        (
            "chart.mount_relative",
            container(json!({"volumeMounts": [{"name": "v", "mountPath": "conf"}]})),
            "volumeMounts[v].mountPath",
        ),
        ("chart.ready_needs_hook", json!({"pod": {"volumes": volume}, "more": [late]}), "a post-install hook"),
        ("chart.reference_missing", json!({"pod": {"volumes": volume}}), "Secret `made-later`"),
        (
            "chart.probe_port_unknown",
            container(
                json!({"readinessProbe": {"httpGet": {"port": "http"}}, "ports": [{"name": "web", "containerPort": 80}]}),
            ),
            "expected web",
        ),
        (
            "chart.developer_cluster",
            container(json!({"env": [{"name": "OTLP", "value": "http://host.docker.internal:4317"}]})),
            "env[OTLP].value",
        ),
        (
            "chart.address_two_schemes",
            container(json!({"env": [{"name": "OTLP", "value": "http://http://collector:4317"}]})),
            "`http://http://` in `http://http://collector:4317`",
        ),
        ("chart.collector_receives_nothing", json!({"more": [collector("{}", "[otlp]")]}), "collector.yaml: receivers"),
        (
            "chart.collector_receives_nothing",
            json!({"more": [collector("{otlp: {}}", "[]")]}),
            "service.pipelines.traces.receivers",
        ),
        ("chart.developer_storage", json!({"more": [claim]}), "`standard`"),
        ("chart.image_never_pulled", container(json!({"imagePullPolicy": "Never"})), "imagePullPolicy"),
        ("chart.host_port", container(json!({"ports": [{"containerPort": 80, "hostPort": 8080}]})), "hostPort 8080"),
        ("chart.platform_unavailable", json!({"pod": arm}), "kubernetes.io/arch: arm64"),
    ];
    for (helm, program) in helms("each rule finds what it is for") {
        let chart = ChartFiles::new("shop", "1.2.3")
            .with("values.yaml", VALUES)
            .with("templates/deployment.yaml", DEPLOYMENT)
            .with("templates/service.yaml", SERVICE)
            .with("templates/more.yaml", MORE)
            .package(&program);
        let manifests = |values: &Value| -> model::Result<[Vec<Manifest>; 2]> {
            let in_slot = |release| block_on(render(&helm, &chart, values, release));
            Ok([in_slot("shop0")?, in_slot("shop1")?])
        };
        assert_eq!(found(&manifests(&json!({})).unwrap()).0, [], "the chart itself is in order");
        for (code, values, words) in &cases {
            let (codes, first) = found(&manifests(values).unwrap());
            assert_eq!(codes.iter().map(|(code, _)| code.as_str()).collect::<Vec<_>>(), [*code], "{first}");
            assert!(first.contains(words), "{code}: {first}");
        }
        // What looks alike and is in order.
        for values in [
            container(json!({"image": "quay.io/shop/web:1"})),
            container(json!({"image": "mirror.local/hub/shop/web.v2:1.2.3"})),
            container(json!({"command": ["frontend"], "workingDir": "/srv"})),
            container(json!({"command": ["./frontend"]})),
            container(json!({"env": [{"name": "SELF", "value": "http://localhost:8080"}]})),
            json!({"pod": {"volumes": [{"name": "v", "secret": {"secretName": "x", "optional": true}}]}}),
            json!({"pod": {"nodeSelector": {"kubernetes.io/arch": "amd64"}}}),
            json!({"more": [collector("{otlp: {}}", "[otlp]")]}),
            container(json!({"env": [{"name": "DB", "value": "jdbc:mysql://db:3306/shop?from=http://web"}]})),
        ] {
            assert_eq!(found(&manifests(&values).unwrap()).0, [], "{values}");
        }
        let problem = manifests(&json!({"container": "no mapping"})).unwrap_err();
        assert_eq!(problem.code, "chart.not_rendered");
        assert!(problem.found.unwrap().contains("deployment.yaml"));
    }
}

#[test]
fn what_cannot_be_judged_is_said() {
    let none = Mirrors::default();
    let checked = check(&Scene { manifests: &[], neighbour: &[], mirrors: &none, platforms: &[] });
    let skipped: Vec<&str> = checked.skipped.iter().map(|(code, _)| *code).collect();
    assert_eq!(
        skipped,
        [
            "chart.image_not_mirrored",
            "chart.image_registry_unknown",
            "chart.object_shared",
            "chart.node_port_shared",
            "chart.platform_unavailable"
        ]
    );
}

#[test]
fn a_chart_sees_its_release_and_never_a_cluster() {
    for (helm, program) in helms("a chart sees its release") {
        let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}-{{ .Release.Namespace }}\"}\ndata: {seen: {{ lookup \"v1\" \"Namespace\" \"\" \"\" | toJson | quote }}}\n";
        let chart = ChartFiles::new("shop", "1.2.3").with("templates/a.yaml", template).package(&program);
        let manifests = block_on(render(&helm, &chart, &json!({}), "shop3")).unwrap();
        assert_eq!((manifests[0].name.as_str(), &manifests[0].body["data"]["seen"]), ("shop3-shop3", &json!("{}")));
    }
}
