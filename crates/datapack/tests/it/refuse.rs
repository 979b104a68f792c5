//! Every refusal with its code, its place and its cause; nothing of a refused pack is published.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datapack::{Builder, InMemory, PackInput, Refusal, Signal, Source};
use model::{Result, Verdict, Window};
use tempfile::tempdir;

use crate::synthetic::{input, log_rows, logs, rows, telemetry, traces, windows};

fn refused(input: PackInput, source: &dyn Source) -> Refusal {
    let packs = tempdir().unwrap();
    let refusal = Builder::new(packs.path(), input).unwrap().build(source).err().expect("the pack is refused");
    let visible = std::fs::read_dir(packs.path())
        .unwrap()
        .filter(|entry| !entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
    assert_eq!(visible.count(), 0);
    refusal
}

fn with(window: Window, signal: Signal, batches: Vec<RecordBatch>) -> InMemory {
    let mut source = telemetry();
    source.replace(window, signal, batches);
    source
}

/// The traces of the normal window with one column replaced.
fn with_column(name: &str, array: ArrayRef) -> InMemory {
    let batch = traces(&rows(Window::Normal));
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
        let column = if field.name() == name { array.clone() } else { column.clone() };
        (field.name().as_str(), column)
    });
    with(
        Window::Normal,
        Signal::Traces,
        vec![RecordBatch::try_from_iter_with_nullable(columns.map(|(n, c)| (n, c, true))).unwrap()],
    )
}

#[test]
fn an_empty_required_signal_is_refused_with_its_probable_cause() {
    let cause = |source: &InMemory, place: &str, word: &str| {
        let refusal = refused(input(1), source);
        assert_eq!(refusal.verdict(), Some(Verdict::NoData));
        let problem = refusal.problem;
        assert_eq!((problem.code.as_ref(), problem.place.as_deref()), ("datapack.empty_signal", Some(place)));
        let fix = problem.fix.unwrap();
        assert!(fix.contains(word), "{fix}");
        assert!(refusal.quality.unwrap().errors().count() >= 1);
    };
    let without = |pairs: &[(Window, Signal)]| {
        let mut source = telemetry();
        pairs.iter().for_each(|&(window, signal)| drop(source.replace(window, signal, Vec::new())));
        source
    };
    let (n, a) = (Window::Normal, Window::Abnormal);
    cause(&without(&[(n, Signal::Logs)]), "normal_logs.parquet", "warm-up");
    cause(&without(&[(a, Signal::Traces)]), "abnormal_traces.parquet", "silenced");
    let histograms = [(n, Signal::MetricsHistogram), (a, Signal::MetricsHistogram)];
    cause(&without(&histograms), "normal_metrics_histogram.parquet", "span-metrics");
    cause(&without(&[(n, Signal::MetricsSum), (a, Signal::MetricsSum)]), "normal_metrics_sum.parquet", "pipeline");
    cause(&InMemory::default(), "normal_traces.parquet", "k8s.namespace.name");

    let mut lenient = input(2);
    lenient.profile.required.remove(&Signal::MetricsHistogram);
    let packs = tempdir().unwrap();
    let staged = Builder::new(packs.path(), lenient).unwrap().build(&without(&histograms)).unwrap();
    let quality = staged.manifest().content.quality.clone();
    assert_eq!(quality.findings.len(), 2, "{:?}", quality.findings);
    staged.publish().unwrap().load(&[]).unwrap();
}

#[test]
fn what_the_source_knows_of_an_empty_signal_is_said() {
    struct Elsewhere(InMemory);
    impl Source for Elsewhere {
        fn batches(&self, window: Window, signal: Signal) -> Result<datapack::Batches<'_>> {
            self.0.batches(window, signal)
        }
        fn why_empty(&self, _: Window, _: Signal) -> Result<Option<String>> {
            Ok(Some("the namespace `demo` has such records".into()))
        }
    }
    let source = Elsewhere(with(Window::Normal, Signal::Logs, Vec::new()));
    assert_eq!(refused(input(1), &source).problem.fix.unwrap(), "the namespace `demo` has such records");
}

#[test]
fn windows_that_reach_beyond_the_data_are_refused() {
    // Twice as long as what was sent, on either side.
    let mut early = input(1);
    early.windows.normal_start.0 -= 30_000_000_000;
    let problem = refused(early, &telemetry()).problem;
    assert_eq!(problem.code, "datapack.window_not_covered");
    assert!(problem.message.contains("begins"), "{}", problem.message);

    let mut late = input(1);
    late.windows.abnormal_end.0 += 20_000_000_000;
    let refusal = refused(late, &telemetry());
    assert_eq!(refusal.verdict(), Some(Verdict::Invalid));
    assert_eq!(refusal.problem.code, "datapack.window_not_covered");
    assert_eq!(refusal.problem.place.as_deref(), Some("abnormal window"));
}

#[test]
fn too_few_root_spans_are_refused() {
    let mut few = rows(Window::Normal);
    let mut roots = 0;
    few.retain(|row| {
        row.parent != 0 || {
            roots += 1;
            roots <= 9
        }
    });
    let problem = refused(input(1), &with(Window::Normal, Signal::Traces, vec![traces(&few)])).problem;
    assert_eq!(problem.code, "datapack.too_few_root_spans");
    assert_eq!(problem.found.as_deref(), Some("9 root spans"));
}

#[test]
fn wrong_types_are_refused_and_other_layouts_of_text_are_not() {
    let code = |name: &str, array: ArrayRef| {
        let problem = refused(input(1), &with_column(name, array)).problem;
        assert_eq!(problem.place, Some(format!("normal_traces.parquet: {name}")));
        problem.code
    };
    let good = traces(&rows(Window::Normal));
    let n = good.num_rows();
    let column = |name: &str| good.column_by_name(name).unwrap();
    assert_eq!(code("Duration", Arc::new(Int64Array::from(vec![1; n]))), "datapack.column_type");
    assert_eq!(code("Duration", Arc::new(Float32Array::from(vec![1.0; n]))), "datapack.column_type");
    assert_eq!(code("Timestamp", cast(column("Timestamp"), &DataType::Int64).unwrap()), "datapack.column_type");
    let zone = Arc::new(TimestampNanosecondArray::from(vec![1; n]).with_timezone("Asia/Shanghai"));
    assert_eq!(code("Timestamp", zone), "datapack.column_type");
    assert_eq!(code("SpanName", Arc::new(StringArray::from(vec![None::<&str>; n]))), "datapack.null_value");
    assert_eq!(code("SpanId", Arc::new(StringArray::from(vec!["7"; n]))), "datapack.id_malformed");
    assert_eq!(code("SpanKind", Arc::new(StringArray::from(vec!["SERVER"; n]))), "datapack.value_unknown");
    assert_eq!(code("SpanAttributes", Arc::new(StringArray::from(vec!["none"; n]))), "datapack.attributes_malformed");

    let (one, two) = (tempdir().unwrap(), tempdir().unwrap());
    let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let source = with_column("ServiceName", cast(column("ServiceName"), &text).unwrap());
    let build = |packs: &std::path::Path, source: &InMemory| {
        Builder::new(packs, input(1)).unwrap().build(source).unwrap().manifest().content.clone()
    };
    assert_eq!(build(one.path(), &source), build(two.path(), &telemetry()));
}

#[test]
fn a_missing_column_and_a_record_of_another_window_are_refused() {
    let batch = traces(&rows(Window::Normal));
    let without: Vec<usize> =
        (0..batch.num_columns()).filter(|&at| batch.schema().field(at).name() != "SpanKind").collect();
    let problem =
        refused(input(1), &with(Window::Normal, Signal::Traces, vec![batch.project(&without).unwrap()])).problem;
    assert_eq!(problem.code, "datapack.column_missing");
    assert_eq!(problem.place.as_deref(), Some("normal_traces.parquet: SpanKind"));

    // The boundary belongs to the abnormal window alone.
    let mut boundary = log_rows(Window::Normal);
    boundary.push((windows().abnormal_start.0, "cart", "late".into()));
    let problem = refused(input(1), &with(Window::Normal, Signal::Logs, vec![logs(&boundary)])).problem;
    assert_eq!(problem.code, "datapack.row_outside_window");
    assert_eq!(problem.place.as_deref(), Some("normal_logs.parquet"));
}
