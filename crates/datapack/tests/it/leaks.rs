//! The answer must not stand in the open part.

use std::fs;

use arrow::array::{ArrayRef, RecordBatch};
use datapack::{Builder, InMemory, PackInput, Signal, leak};
use model::Window;
use serde_json::json;
use tempfile::tempdir;

use crate::synthetic::{input, log_rows, logs, map, published, telemetry, texts};

fn leak_of(input: PackInput, source: &InMemory) -> Option<(String, String)> {
    let packs = tempdir().unwrap();
    let refusal = Builder::new(packs.path(), input).unwrap().build(source).err()?;
    assert_eq!(refusal.problem.code, "datapack.leak", "{}", refusal.problem);
    Some((refusal.problem.place.unwrap(), refusal.problem.found.unwrap()))
}

/// Healthy telemetry with one more log record in each of the given windows.
fn saying(windows: &[Window], body: &str) -> InMemory {
    let mut source = telemetry();
    for &window in windows {
        let mut rows = log_rows(window);
        let time = rows[0].0;
        rows.push((time, "cart", body.to_owned()));
        source.replace(window, Signal::Logs, vec![logs(&rows)]);
    }
    source
}

#[test]
fn words_of_fault_tools_and_forbidden_words_refuse_the_pack() {
    for body in ["PodChaos kill-cart applied", "exec STRESS-NG --cpu 2", "cpu-stress on cart", "see run-1"] {
        let (place, found) = leak_of(input(1), &saying(&[Window::Abnormal], body)).unwrap();
        assert_eq!(place, "abnormal_logs.parquet: Body");
        assert!(found.contains(body), "{found}");
        assert!(leak_of(input(1), &saying(&Window::BOTH, body)).is_some(), "also when both windows have it: {body}");
    }
}

#[test]
fn a_word_that_the_application_uses_itself_gives_nothing_away() {
    assert!(leak_of(input(1), &saying(&[Window::Abnormal], "response injected")).is_some());
    assert_eq!(leak_of(input(1), &saying(&Window::BOTH, "bean injected")), None);
}

#[test]
fn an_event_of_kubernetes_refuses_the_pack_and_a_quoted_one_does_not() {
    let with_attributes = |attributes: &str| {
        let batch = logs(&log_rows(Window::Abnormal));
        let column: ArrayRef = texts((0..batch.num_rows()).map(|_| attributes));
        let columns = batch
            .schema()
            .fields()
            .iter()
            .zip(batch.columns())
            .map(|(field, old)| {
                (field.name().clone(), if field.name() == "LogAttributes" { column.clone() } else { old.clone() })
            })
            .collect::<Vec<_>>();
        let mut source = telemetry();
        source.replace(Window::Abnormal, Signal::Logs, vec![RecordBatch::try_from_iter(columns).unwrap()]);
        source
    };
    let (place, found) = leak_of(input(1), &with_attributes(r#"{"event.domain":"k8s"}"#)).unwrap();
    assert_eq!(place, "abnormal_logs.parquet: LogAttributes");
    assert!(found.contains("event of Kubernetes"), "{found}");
    assert_eq!(leak_of(input(1), &with_attributes(r#"{"body":"{\"event.domain\":\"k8s\"}"}"#)), None);
}

#[test]
fn the_inventory_names_no_fault() {
    let mut chaos = input(1);
    chaos.k8s.extend(map(json!({"namespaces": [{"metadata": {"name": "chaos-mesh"}}]})));
    assert_eq!(leak_of(chaos, &telemetry()).unwrap().0, "k8s.json");
    let mut events = input(1);
    events.k8s.extend(map(json!({"events": []})));
    assert_eq!(leak_of(events, &telemetry()).unwrap().0, "k8s.json");
}

#[test]
fn a_published_open_part_is_clean_and_planted_leaks_are_found() {
    let packs = tempdir().unwrap();
    let pack = published(packs.path(), 1);
    let open = pack.open_part();
    let forbidden = input(1).forbidden;
    assert_eq!(leak::lint(&open, &forbidden).unwrap(), []);

    let plant = |name: &str, bytes: &[u8]| {
        let path = open.join(name);
        let before = fs::read(&path).ok();
        fs::write(&path, bytes).unwrap();
        let findings = leak::lint(&open, &forbidden).unwrap();
        match before {
            Some(before) => fs::write(&path, before).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        assert!(!findings.is_empty(), "{name} was planted");
        findings.into_iter().map(|finding| finding.place).collect::<Vec<_>>()
    };
    assert!(plant("cpu-stress.txt", b"").contains(&"file names".to_owned()));
    let env = fs::read_to_string(open.join("env.json")).unwrap().replace("\"DB_TIMEZONE\"", "\"FAULT\"");
    assert_eq!(plant("env.json", env.as_bytes()), ["env.json"]);
    assert_eq!(plant("injection.json", br#"{"name":"shop-000001","ground_truth":[]}"#), ["injection.json"]);
    // A file of the right columns by another writer: its footer may say anything.
    let foreign = {
        use parquet::arrow::ArrowWriter;
        let mut bytes = Vec::new();
        let batch = RecordBatch::new_empty(Signal::TraceIdTs.table().schema());
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        bytes
    };
    let places = plant("normal_trace_id_ts.parquet", &foreign);
    assert_eq!(places, ["normal_trace_id_ts.parquet: footer"; 2]);
}
