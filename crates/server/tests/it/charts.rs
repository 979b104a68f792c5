//! Charts of a registered system: handed over, fetched, looked at, installed; and values that an operator sets.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api::chart::{ArchiveState, CheckState, HelmRequest, InstallRequest, VerifyRequest};
use api::seed::{ApplyRequest, PlanRequest};
use api::system::{Layer, LayerState, RegisterRequest};
use chart::{Mirror, Mirrors};
use client::{Client, Failure};
use seed::{ChangeKind, Consents};
use serde_json::{Value, json};
use server::ChartOptions;
use store::Acquired;
use testkit::{ChartFiles, ChartRepository, Tool, tool};

use crate::world::{World, own_seed, request};

/// What the demo's seed says of its chart.
const REPOSITORY: &str = "https://operationspai.github.io/train-ticket";
const CHART: &str = "trainticket";
const VERSION: &str = "0.4.6";

fn trainticket(version: &str) -> ChartFiles {
    ChartFiles::new(CHART, version).with("values.yaml", "image: docker.io/library/busybox:1\nworkers: [{name: a}]\n").with(
        "templates/web.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  type: {{ .Values.services.tsUiDashboard.type }}\n",
    )
}

/// A server whose mirror of the public repository is on loopback.
fn world(helm: &Path, repository: &ChartRepository) -> World {
    World::start_with(options(helm, repository))
}

fn options(helm: &Path, repository: &ChartRepository) -> impl FnOnce(&Path) -> ChartOptions {
    let (helm, to) = (helm.to_owned(), repository.url());
    move |folder| ChartOptions {
        place: folder.join("charts").into(),
        helm: Some(helm),
        limit: Duration::from_secs(60),
        mirrors: Mirrors::new(vec![Mirror { from: REPOSITORY.into(), to, plain_http: false, transparent: false }]),
        logins: chart::Logins::default(),
        platforms: Vec::new(),
    }
}

fn code<T: std::fmt::Debug>(answer: Result<T, Failure>) -> String {
    answer.unwrap_err().problem.code.into_owned()
}

fn layer(client: &Client) -> (LayerState, String, Option<String>) {
    let system = client.system("ts").unwrap().system;
    let chart = system.layers.into_iter().find(|layer| layer.layer == Layer::Chart).unwrap();
    (chart.state, chart.observed, chart.fix)
}

fn only_archive(world: &World) -> PathBuf {
    let mut files = fs::read_dir(world.folder.path().join("charts")).unwrap();
    files.next().unwrap().unwrap().path()
}

#[test]
fn a_registered_chart_is_fetched_kept_and_told_when_it_changes() {
    let test = "a registered chart is fetched, kept and told when it changes";
    let Some(helm) = tool(test, Tool::Helm4) else { return };
    let repository = ChartRepository::start();
    let packed = trainticket(VERSION).package(&helm);
    repository.publish(&helm, &[("trainticket-0.4.6.tgz", &packed)], None);
    let world = world(&helm, &repository);
    let client = world.client();
    let report = client.register(&request("ts", "demo", own_seed())).unwrap();
    assert!(!report.warnings.iter().any(|warning| warning.contains("not fetched")), "{:?}", report.warnings);
    let (state, observed, _) = layer(&client);
    assert_eq!(state, LayerState::Ok);
    let charts = client.charts("ts").unwrap();
    let digest = charts[0].digest.clone().unwrap();
    assert!(observed.contains(&digest[..12]) && observed.contains(&repository.url()), "{observed}");
    assert_eq!(
        (charts[0].state, charts[0].used, charts[0].size),
        (ArchiveState::Kept, true, Some(packed.len() as i64))
    );
    assert_eq!(client.pedestal_versions("ts").unwrap()[0].chart_digest.as_ref(), Some(&digest));
    assert_eq!(fs::read(only_archive(&world)).unwrap(), packed);
    // With the chart at hand its own defaults are among what is explained.
    let origins = client.system("ts").unwrap().pedestal.unwrap().origins;
    assert!(origins.iter().any(|leaf| leaf.key == "image" && leaf.origin == "chart default"), "{origins:?}");

    let verified = client.verify_chart("ts", &VerifyRequest::default()).unwrap();
    assert_eq!((verified.problem, verified.check.state, verified.check.objects), (None, CheckState::Ok, 1));
    assert!(verified.check.skipped.iter().any(|rule| rule.starts_with("chart.image_not_mirrored: ")));

    // A changed byte keeps runs away until the same archive is there again.
    let mut changed = packed.clone();
    changed[30] ^= 1;
    fs::write(only_archive(&world), &changed).unwrap();
    let (state, observed, fix) = layer(&client);
    assert_eq!(state, LayerState::Wrong);
    assert!(
        observed.contains("chart.digest_differs") && fix.unwrap().contains("pedestal helm verify ts"),
        "{observed}"
    );
    assert_eq!(
        code(client.submit(&serde_json::from_value(json!({"system": "ts", "no_fault": true})).unwrap(), None)),
        "system.layer_not_ready"
    );
    client.verify_chart("ts", &VerifyRequest::default()).unwrap();
    assert_eq!(layer(&client).0, LayerState::Ok);

    // The repository has other bytes under the version now, and the kept ones are gone.
    fs::remove_file(only_archive(&world)).unwrap();
    let other = trainticket(VERSION).with("more", "x").package(&helm);
    repository.publish(&helm, &[("trainticket-0.4.6.tgz", &other)], None);
    let verified = client.verify_chart("ts", &VerifyRequest::default()).unwrap();
    assert_eq!(
        (verified.problem.unwrap().code, verified.chart.state),
        ("chart.digest_differs".into(), ArchiveState::Gone)
    );
    assert_eq!(verified.check.state, CheckState::NotChecked);
    // Whoever has the archive hands it over; another one of this version is refused.
    let refused = client.keep_chart(&other).unwrap();
    assert_eq!(code(client.attach_chart("ts", &refused.digest)), "chart.digest_differs");
    let kept = client.keep_chart(&packed).unwrap();
    assert_eq!(client.attach_chart("ts", &kept.digest).unwrap().state, ArchiveState::Kept);
}

/// Our own seed with these versions of the pedestal, and of its chart, besides.
fn seed_with(versions: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    let mut files = own_seed();
    let data = files.get_mut("data.yaml").unwrap();
    for (version, chart) in versions {
        let more = format!(
            "      - name: {version}\n        status: 1\n        helm_config: {{version: {chart}, chart_name: {CHART}, repo_name: \
             train-ticket, repo_url: '{REPOSITORY}', status: 1, values: []}}\n\nprojects:\n"
        );
        *data = data.replacen("projects:\n", &more, 1);
    }
    files
}

/// Where releases are installed from archives, a chart that cannot be had leaves nothing of a registration or of a seed.
#[test]
fn a_chart_that_cannot_be_fetched_undoes_a_registration_and_a_seed() {
    let test = "a chart that cannot be fetched undoes a registration and a seed";
    let Some(helm) = tool(test, Tool::Helm4) else { return };
    let repository = ChartRepository::start();
    let publish = |version: &str| {
        let packed = trainticket(version).package(&helm);
        repository.publish(&helm, &[(&format!("trainticket-{version}.tgz"), &packed)], None);
    };
    publish(VERSION);
    let world = World::start_needy(options(&helm, &repository));
    let client = world.client();
    let archives = || fs::read_dir(world.folder.path().join("charts")).map_or(0, Iterator::count);

    let nothing = (0, 0, 0, 0);
    let count = || {
        let settings = client.settings(&serde_json::from_value(json!({"prefix": "injection.system.ts."})).unwrap());
        let containers = world.block_on(world.store.containers(None)).unwrap();
        let systems = client.systems(api::PageQuery::default()).unwrap();
        (systems.pagination.total, settings.unwrap().pagination.total, containers.len(), archives())
    };
    assert_eq!(count(), nothing);
    let wanted = request("ts", "demo", seed_with(&[("1.1.0", "0.4.7")]));
    let refused = client.register(&wanted).unwrap_err().problem;
    assert_eq!(refused.code, "chart.version_not_found");
    assert!(refused.message.ends_with("undone: the fetched archive of trainticket 0.4.6"), "{}", refused.message);
    assert_eq!(count(), nothing);
    let apply = |files| ApplyRequest { env: "demo".into(), files, ..ApplyRequest::default() };
    assert_eq!(code(client.seed_apply(&apply(wanted.files.clone()))), "chart.version_not_found");
    assert_eq!((count(), client.seed_history().unwrap()), (nothing, vec![]));

    // Published, the same registration goes through, with both charts kept.
    publish("0.4.7");
    client.register(&wanted).unwrap();
    assert_eq!(layer(&client).0, LayerState::Ok);
    let registered = count();
    assert_eq!(registered.3, 2);
    // What the store refuses undoes what was fetched for it before.
    publish("0.4.8");
    let newer = request("ts", "demo", seed_with(&[("1.1.0", "0.4.7"), ("1.2.0", "0.4.8")]));
    let refused = client.register(&newer).unwrap_err().problem;
    assert_eq!(refused.code, "system.already_registered");
    assert!(refused.message.ends_with("undone: the fetched archive of trainticket 0.4.8"), "{}", refused.message);
    assert_eq!(count(), registered);
    client.register(&RegisterRequest { force: true, ..newer }).unwrap();
    assert_eq!(archives(), 3);
}

#[test]
fn what_is_handed_over_is_the_chart_that_is_declared() {
    let test = "what is handed over is the chart that is declared";
    let Some(helm) = tool(test, Tool::Helm3) else { return };
    let world = World::start().with_ts();
    let client = world.client();
    assert_eq!(layer(&client).0, LayerState::NotFetched);
    let verified = client.verify_chart("ts", &VerifyRequest::default()).unwrap();
    assert_eq!(
        (verified.problem.unwrap().code, verified.check.state),
        ("helm.not_found".into(), CheckState::NotChecked)
    );
    let digest = |files: ChartFiles| client.keep_chart(&files.package(&helm)).unwrap().digest;
    let newer = digest(trainticket("0.4.7"));
    assert_eq!(code(client.attach_chart("ts", &newer)), "chart.another_version");
    assert_eq!(code(client.attach_chart("ts", &digest(ChartFiles::new("shop", VERSION)))), "chart.another_name");
    assert_eq!(code(client.attach_chart("ts", "../../etc/passwd")), "chart.digest_malformed");
    assert_eq!(code(client.attach_chart("ts", &"0".repeat(64))), "chart.archive_gone");
    assert_eq!(code(client.keep_chart(b"<html>")), "chart.not_gzip");
    let chart = client.attach_chart("ts", &digest(trainticket(VERSION))).unwrap();
    assert_eq!((chart.state, chart.source.unwrap()), (ArchiveState::Kept, "handed over by admin".into()));
    // Without the program nothing was looked at, and that is no success.
    let verified = client.verify_chart("ts", &VerifyRequest::default()).unwrap();
    assert_eq!((verified.problem, verified.check.state), (None, CheckState::NotChecked));
    assert!(verified.check.reason.unwrap().contains("helm.not_found"));
    // Whatever is unregistered and registered again may have another archive.
    client.unregister("ts").unwrap();
    client.register(&request("ts", "demo", own_seed())).unwrap();
    assert_eq!(layer(&client).0, LayerState::NotFetched);
}

#[test]
fn a_chart_is_installed_by_hand_and_never_under_a_run() {
    let test = "a chart is installed by hand and never under a run";
    let Some(helm) = tool(test, Tool::Helm3) else { return };
    let repository = ChartRepository::start();
    let packed = trainticket(VERSION).package(&helm);
    let balanced = trainticket("0.5.0")
        .with("templates/b.yaml", "kind: Service\nmetadata: {name: b}\nspec: {type: LoadBalancer}\n");
    let balanced = balanced.package(&helm);
    repository.publish(&helm, &[("trainticket-0.4.6.tgz", &packed), ("trainticket-0.5.0.tgz", &balanced)], None);
    let world = world(&helm, &repository);
    let client = world.client();
    client.register(&request("ts", "demo", own_seed())).unwrap();
    assert_eq!(client.releases("ts").unwrap(), []);

    // Somebody else's slot is left alone.
    let other = store::IncarnationId::random();
    let lease = |slot: &str| {
        let resource = format!("slot:{slot}");
        world.block_on(world.store.acquire(&resource, other, Duration::from_secs(60), "run 7")).unwrap()
    };
    let Acquired::Yes(held) = lease("ts0") else { panic!("nobody held it") };
    let installed = client.install_chart("ts", &InstallRequest::default()).unwrap();
    assert_eq!((installed.release.namespace.as_str(), installed.release.ready), ("ts1", true));
    assert_eq!(installed.release.chart_digest, client.charts("ts").unwrap()[0].digest);
    assert_eq!(installed.check.state, CheckState::Ok);
    assert!(installed.steps.last().unwrap().contains("trainticket 0.4.6 is installed in ts1"), "{:?}", installed.steps);
    let refused = client.install_chart("ts", &InstallRequest { slot: Some(0), ..InstallRequest::default() });
    let refused = refused.unwrap_err().problem;
    assert_eq!((refused.code.as_ref(), refused.found.unwrap().as_str()), ("slot.none_free", "ts0 is held by run 7"));
    world.block_on(world.store.release(&held)).unwrap();

    // Another source: looked at first, and installed in spite of what was found only when that is asked for.
    let from = InstallRequest {
        slot: Some(0),
        repo: Some(repository.url()),
        chart: Some(CHART.into()),
        version: Some("0.5.0".into()),
        ..InstallRequest::default()
    };
    let refused = client.install_chart("ts", &from).unwrap_err().problem;
    assert!(refused.code == "chart.check_failed" && refused.found.unwrap().contains("chart.load_balancer"));
    let installed = client.install_chart("ts", &InstallRequest { despite_findings: true, ..from.clone() }).unwrap();
    assert_eq!((installed.release.chart_version.as_str(), installed.check.state), ("0.5.0", CheckState::Failed));
    assert!(installed.steps.iter().any(|step| step.contains("the next run in this slot replaces it")));
    assert_eq!(client.releases("ts").unwrap().len(), 2);
    // Once more is the same release, not a name that is in use.
    let again = InstallRequest { slot: Some(1), ..InstallRequest::default() };
    for _ in 0..2 {
        let installed = client.install_chart("ts", &again).unwrap();
        assert_eq!((installed.release.namespace.as_str(), installed.release.ready), ("ts1", true));
    }
    assert_eq!(client.releases("ts").unwrap().len(), 2);
    let unpublished = InstallRequest { version: Some("0.5.1".into()), ..from.clone() };
    assert_eq!(code(client.install_chart("ts", &unpublished)), "chart.version_not_found");
    assert_eq!(code(client.install_chart("ts", &InstallRequest { chart: None, ..from })), "chart.source_incomplete");
    // No lease is left behind.
    assert!(world.block_on(world.store.leases("slot:")).unwrap().is_empty());
    assert_eq!(
        code(client.install_chart("ts", &InstallRequest { slot: Some(99), ..Default::default() })),
        "slot.unknown"
    );
}

fn set(pairs: &[(&str, Value)], unset: &[&str]) -> HelmRequest {
    HelmRequest {
        set: pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
        unset: unset.iter().map(|key| (*key).to_owned()).collect(),
        ..HelmRequest::default()
    }
}

#[test]
fn what_an_operator_sets_is_a_revision_and_a_conflict_with_the_next_seed() {
    let world = World::start();
    let client = world.client();
    let apply = |files, consents| ApplyRequest {
        files,
        env: "demo".into(),
        system: None,
        commit: None,
        revision: None,
        plan: None,
        consents,
    };
    client.seed_apply(&apply(own_seed(), Consents::default())).unwrap();
    let before = client.helm("ts", None).unwrap();
    assert!(before.parameters.iter().all(|parameter| parameter.owner == "seed"));
    let kind = |config: &api::chart::HelmConfig, key: &str| {
        let found = config.parameters.iter().find(|parameter| parameter.key == key).cloned();
        found.map(|parameter| (parameter.value, parameter.kind, parameter.owner))
    };

    let changes = [
        ("services.tsUiDashboard.type", json!("ClusterIP")),
        ("extra.tag", json!("17.6")),
        ("extra.replicas", json!(3)),
    ];
    let after = client.set_helm("ts", &set(&changes, &["services.tsUiDashboard.nodePort"])).unwrap();
    assert_ne!(after.revision, before.revision);
    let operator = |value: Option<Value>, kind: &str| Some((value, kind.to_owned(), "operator".to_owned()));
    assert_eq!(kind(&after, "services.tsUiDashboard.type"), operator(Some(json!("ClusterIP")), "string"));
    assert_eq!(kind(&after, "extra.tag"), operator(Some(json!("17.6")), "string"));
    assert_eq!(kind(&after, "extra.replicas"), operator(Some(json!(3)), "int"));
    assert_eq!(kind(&after, "services.tsUiDashboard.nodePort"), operator(None, "int"));
    let values = client.system("ts").unwrap().pedestal.unwrap().values;
    assert_eq!(values["services"]["tsUiDashboard"], json!({"type": "ClusterIP"}));
    assert_eq!(values["extra"], json!({"tag": "17.6", "replicas": 3}));

    // What cannot be: another chart under this version, a key that is none, nothing at all.
    let other = HelmRequest { chart_version: Some("0.4.7".into()), ..set(&[("a", json!("b"))], &[]) };
    assert_eq!(code(client.set_helm("ts", &other)), "version.immutable");
    assert_eq!(code(client.set_helm("ts", &set(&[("a[", json!("b"))], &[]))), "parameter.key_malformed");
    assert_eq!(code(client.set_helm("ts", &set(&[], &[]))), "helm.nothing_to_set");
    let wrong = client.set_helm("ts", &set(&[("extra.replicas", json!("many"))], &[]));
    assert!(code(wrong).starts_with("parameter."));
    assert_eq!(client.helm("ts", None).unwrap(), after, "nothing of it was written");

    // The seed as it was applied: four values of an operator, which are no difference to apply.
    let plan = |files| client.seed_plan(&PlanRequest { env: "demo".into(), files, system: None }).unwrap().plan;
    let same = plan(own_seed());
    assert_eq!(same.changes, []);
    assert!(same.drift.iter().all(|change| change.kind == ChangeKind::OperatorValue), "{:?}", same.drift);
    assert_eq!(same.drift.len(), 4);
    // A seed that changes one of them as well is a conflict, and applying it leaves the operator's value.
    let mut files = own_seed();
    let data = files.get_mut("data.yaml").unwrap();
    *data = data.replacen("template_string: 31%03d", "template_string: 32%03d", 1);
    let conflicts: Vec<ChangeKind> = plan(files.clone()).changes.iter().map(|change| change.kind).collect();
    assert_eq!(conflicts, [ChangeKind::Conflict]);
    client.seed_apply(&apply(files.clone(), Consents::default())).unwrap();
    assert_eq!(client.helm("ts", None).unwrap().parameters, after.parameters);
    // So does a registration by force.
    let force = RegisterRequest { force: true, ..request("ts", "demo", files.clone()) };
    client.register(&force).unwrap();
    assert_eq!(client.helm("ts", None).unwrap().parameters, after.parameters);
    // With the operators' consent the seed's values come back.
    let consents = Consents { overwrite_operator: true, revert_drift: true, ..Consents::default() };
    client.seed_apply(&apply(files, consents)).unwrap();
    let back = client.helm("ts", None).unwrap();
    assert!(back.parameters.iter().all(|parameter| parameter.owner == "seed"), "{:?}", back.parameters);
    assert_eq!(kind(&back, "services.tsUiDashboard.nodePort").unwrap().0, Some(json!(32000)));
    assert_eq!(kind(&back, "extra.tag"), None);
}
