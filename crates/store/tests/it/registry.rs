//! Registration: five layers or none.

use serde_json::{Value, json};
use settings::{Bounds, Declaration, Expect, Scope, ValueType};
use store::{
    ContainerKind, Layer, NewChart, NewContainer, NewOverlay, NewPrerequisite, NewSetting, NewSystem, NewVersion,
    RegisterOptions, Registration, SeedOrigin, Store, Written,
};

use crate::stand::{code, published_stands};

const FORCE: RegisterOptions = RegisterOptions { force: true, dry_run: false };

pub fn setting(key: &str, value: &str, value_type: ValueType) -> NewSetting {
    let declaration = Declaration {
        key: key.into(),
        scope: Scope::Global,
        value_type,
        default: value.into(),
        seed: None,
        bounds: Bounds::default(),
        description: "a key".into(),
        is_secret: false,
    };
    NewSetting { declaration, value: value.into() }
}

fn version(name: &str) -> NewVersion {
    NewVersion {
        name: name.into(),
        image_ref: String::new(),
        command: String::new(),
        github_link: String::new(),
        enabled: true,
        chart: None,
        env: Value::Null,
        parameters: json!([]),
        overlay: None,
        composed: json!({}),
        place: "data.yaml:12".into(),
    }
}

pub fn registration(system: &str) -> Registration {
    let chart = NewChart {
        repository: "https://charts.example".into(),
        repository_name: "example".into(),
        name: "trainticket".into(),
        version: "0.2.0".into(),
        archive: None,
    };
    let overlay = NewOverlay { name: format!("{system}.yaml"), bytes: format!("code: {system}\n").into_bytes() };
    let pedestal = NewContainer {
        kind: ContainerKind::Pedestal,
        name: system.into(),
        is_public: true,
        versions: vec![NewVersion { chart: Some(chart), overlay: Some(overlay), ..version("0.2.0") }],
        prerequisites: vec![NewPrerequisite {
            kind: "helm".into(),
            name: format!("{system}-operator"),
            definition: json!({"version": "1"}),
        }],
    };
    let benchmark = NewContainer {
        kind: ContainerKind::Benchmark,
        name: "clickhouse".into(),
        is_public: true,
        versions: vec![NewVersion { image_ref: "builder:1".into(), command: "run".into(), ..version("1.0.0") }],
        prerequisites: vec![],
    };
    let key = |name: &str| format!("injection.system.{system}.{name}");
    Registration {
        system: NewSystem {
            code: code(system),
            display_name: "Train Ticket".into(),
            description: String::new(),
            ns_pattern: format!("^{system}\\d+$"),
            extract_pattern: format!("^({system})(\\d+)$"),
            app_label_key: "app".into(),
            slot_count: 4,
            enabled: true,
            is_builtin: true,
            seed: SeedOrigin { env: "prod".into(), digest: "a".repeat(64), place: "data.yaml:10".into() },
        },
        settings: vec![
            setting(&key("count"), "4", ValueType::Int),
            setting(&key("status"), "1", ValueType::Int),
            setting(&key("ns_pattern"), &format!("^{system}\\d+$"), ValueType::String),
        ],
        containers: vec![pedestal, benchmark],
        telemetry: json!({"required_signals": ["traces", "logs"]}),
        objects: Vec::new(),
    }
}

pub async fn register(store: &Store, system: &str) -> store::Registered {
    store.register_system(&registration(system), RegisterOptions::default(), "seed").await.unwrap()
}

pub async fn nothing_is_left(store: &Store, system: &str) {
    let layers = store.layers(system).await.unwrap();
    assert!(layers.registry.is_none() && layers.telemetry.is_none());
    assert!(layers.config.is_empty() && layers.database.is_empty() && layers.chart.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_writes_five_layers_and_an_unregistration_removes_them() {
    for stand in published_stands("a_registration_writes_five_layers_and_an_unregistration_removes_them").await {
        let store = &stand.store;
        let registered = register(store, "ts").await;
        assert!(registered.writes.iter().all(|write| write.written == Written::New));
        for layer in [Layer::Registry, Layer::Config, Layer::Database, Layer::Chart, Layer::Telemetry] {
            assert!(registered.writes.iter().any(|write| write.layer == layer), "{layer:?}");
        }
        let layers = store.layers("ts").await.unwrap();
        assert_eq!(layers.registry.as_ref().map(|system| system.id), registered.id);
        assert_eq!(layers.config.len(), 3);
        assert!(layers.config.iter().all(|setting| setting.live.is_some()));
        let [pedestal, benchmark] = layers.database.as_slice() else { panic!("{:?}", layers.database) };
        assert_eq!((pedestal.name.as_str(), benchmark.name.as_str()), ("ts", "clickhouse"));
        let hash = pedestal.versions[0].revision.overlay_hash.clone().unwrap();
        assert_eq!(store.overlay(&hash).await.unwrap(), b"code: ts\n");
        assert_eq!(layers.chart[0].version, "0.2.0");
        assert_eq!(layers.telemetry, Some(json!({"required_signals": ["traces", "logs"]})));

        // A second time: a conflict, and with force nothing that changes.
        let again = store.register_system(&registration("ts"), RegisterOptions::default(), "seed").await.unwrap_err();
        assert_eq!(again.code, "system.already_registered");
        let forced = store.register_system(&registration("ts"), FORCE, "seed").await.unwrap();
        assert_eq!(forced.id, registered.id);
        assert!(forced.writes.iter().all(|write| write.written == Written::Same), "{:?}", forced.writes);

        // The benchmark is shared: it goes with the last system that uses it.
        register(store, "hs").await;
        store.unregister_system("ts", "admin").await.unwrap();
        nothing_is_left(store, "ts").await;
        assert_eq!(store.layers("hs").await.unwrap().database.len(), 2);
        store.unregister_system("hs", "admin").await.unwrap();
        assert_eq!(store.containers(None).await.unwrap(), []);
        assert_eq!(store.overlay(&hash).await.unwrap_err().code, "overlay.unknown");
        assert_eq!(store.unregister_system("ts", "admin").await.unwrap_err().code, "system.unknown");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_that_fails_in_the_middle_or_is_a_dry_run_leaves_nothing() {
    for stand in published_stands("a_registration_that_fails_in_the_middle_or_is_a_dry_run_leaves_nothing").await {
        let store = &stand.store;
        let mut shared_name = registration("ts");
        shared_name.containers[1].name = "ts".into();
        let mut wrong_value = registration("ts");
        wrong_value.settings[0].value = "many".into();
        let mut no_slot = registration("ts");
        no_slot.system.slot_count = 0;
        for (wrong, expect) in
            [(shared_name, "container.name_taken"), (wrong_value, "setting.wrong_type"), (no_slot, "store.failed")]
        {
            let problem = store.register_system(&wrong, RegisterOptions::default(), "seed").await.unwrap_err();
            assert_eq!(problem.code, expect, "{}", stand.database.kind);
            nothing_is_left(store, "ts").await;
        }
        let dry = RegisterOptions { dry_run: true, force: false };
        let told = store.register_system(&registration("ts"), dry, "seed").await.unwrap();
        assert!(told.id.is_none() && told.writes.len() > 8);
        nothing_is_left(store, "ts").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_versions_image_and_chart_never_change_and_its_values_do_as_a_new_revision() {
    for stand in published_stands("a_versions_image_and_chart_never_change_and_its_values_do_as_a_new_revision").await {
        let store = &stand.store;
        register(store, "ts").await;
        let first = store.layers("ts").await.unwrap().database[0].versions[0].clone();
        let mut image = registration("ts");
        image.containers[1].versions[0].image_ref = "builder:2".into();
        let refused = store.register_system(&image, FORCE, "seed").await.unwrap_err();
        assert_eq!(
            (&*refused.code, refused.fix.as_deref()),
            ("version.immutable", Some("give it a new version's name, for example `1.0.1`"),)
        );
        let mut chart = registration("ts");
        chart.containers[0].versions[0].chart.as_mut().unwrap().version = "0.3.0".into();
        assert_eq!(store.register_system(&chart, FORCE, "seed").await.unwrap_err().code, "version.immutable");

        let mut values = registration("ts");
        values.containers[0].versions[0].parameters = json!([{"key": "a.b", "value": "17.6"}]);
        let written = store.register_system(&values, FORCE, "seed").await.unwrap().writes;
        let changed: Vec<_> = written.iter().filter(|write| write.written != Written::Same).collect();
        assert_eq!(changed.len(), 1, "{changed:?}");
        let second = store.layers("ts").await.unwrap().database[0].versions[0].clone();
        assert_eq!(second.id, first.id);
        assert_ne!(second.revision.digest, first.revision.digest);
        let old = store.revision(first.id, &first.revision.digest).await.unwrap();
        assert_eq!(old, first.revision, "old revisions stay printable");
        // Back again: the old revision is in force, not a third one.
        store.register_system(&registration("ts"), FORCE, "seed").await.unwrap();
        assert_eq!(store.layers("ts").await.unwrap().database[0].versions[0].revision, first.revision);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operators_decisions_survive_a_new_registration() {
    for stand in published_stands("an_operators_decisions_survive_a_new_registration").await {
        let store = &stand.store;
        register(store, "ts").await;
        let disabled = store.set_system_enabled("ts", false, "admin").await.unwrap();
        assert!(!disabled.enabled);
        let count = "injection.system.ts.count";
        store.set_setting(count, "7", Expect::Anything, "admin").await.unwrap();
        let mut bigger = registration("ts");
        bigger.settings[0].value = "5".into();
        let writes = store.register_system(&bigger, FORCE, "seed").await.unwrap().writes;
        let kept = |key: &str| writes.iter().find(|write| write.key == key).unwrap().written;
        assert_eq!(kept(count), Written::Kept, "{}", stand.database.kind);
        assert_eq!(kept("injection.system.ts.status"), Written::Kept);
        assert!(!store.system("ts").await.unwrap().enabled);
        let live = store.settings(count).await.unwrap().remove(0);
        assert_eq!((live.live.unwrap().value, live.declaration.seed), ("7".into(), Some("5".into())));
        // A system with live runs stays.
        stand.submit(1).await;
        assert_eq!(store.unregister_system("ts", "admin").await.unwrap_err().code, "system.has_live_runs");
        assert_eq!(store.system("tss").await.unwrap_err().fix.as_deref(), Some("did you mean `ts`?"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn systems_that_share_a_benchmark_may_be_registered_at_once() {
    for stand in published_stands("systems_that_share_a_benchmark_may_be_registered_at_once").await {
        let mut registering = Vec::new();
        for system in ["ts", "hs", "sn", "ob"] {
            let store = stand.another().await;
            registering.push(tokio::spawn(async move { register(&store, system).await }));
        }
        for registered in registering {
            registered.await.unwrap();
        }
        assert_eq!(stand.store.systems().await.unwrap().len(), 4, "{}", stand.database.kind);
        let benchmarks = stand.store.containers(Some(ContainerKind::Benchmark)).await.unwrap();
        assert_eq!(benchmarks.len(), 1);
    }
}
