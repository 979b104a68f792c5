//! What can be known of a datapack without reading what its abnormal window measured.
//!
//! Of the normal window: every file's size, rows, row groups and compressed columns, and the records of each service. Of the
//! abnormal window only names, schemas, footers and the order of columns: sizes and counts there are symptoms. Besides, all
//! of `env.json`, the key sets and names in `k8s.json` and `injection.json`, the file set, and the pack's name. Its number is drawn, and looked at by itself.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use datapack::{Pack, schema};
use model::Window;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Features of one pack, by name. Equal texts are equal values; numbers are compared as numbers.
pub type Metadata = BTreeMap<String, Feature>;

#[derive(Debug, Clone, PartialEq)]
pub enum Feature {
    Text(String),
    Number(f64),
}

/// The metadata of the pack in `folder`.
pub fn of(folder: &Path) -> Metadata {
    let mut features = Metadata::new();
    let open = folder.join("open");
    let name = folder.file_name().unwrap().to_str().unwrap();
    let digits = name.rsplit('-').next().unwrap();
    text(&mut features, "name: before the number", name.strip_suffix(digits).unwrap());
    let mut names: Vec<String> =
        std::fs::read_dir(&open).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    text(&mut features, "files", &names.join(" "));
    for (window, signal) in schema::files() {
        file(&mut features, &open.join(signal.file(window)), window);
    }
    services(&mut features, folder);
    for document in ["env.json", "k8s.json", "injection.json"] {
        let bytes = std::fs::read(open.join(document)).unwrap();
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        let mut keys = Vec::new();
        walk(&value, String::new(), &mut keys, &mut Vec::new());
        text(&mut features, &format!("{document}: keys"), &keys.join(" "));
        if document != "injection.json" {
            number_of(&mut features, &format!("{document}: size"), bytes.len());
        }
    }
    let env: Value = serde_json::from_slice(&std::fs::read(open.join("env.json")).unwrap()).unwrap();
    for (key, value) in env.as_object().unwrap() {
        text(&mut features, &format!("env.json: {key}"), value.as_str().unwrap());
    }
    let k8s: Value = serde_json::from_slice(&std::fs::read(open.join("k8s.json")).unwrap()).unwrap();
    let mut values = Vec::new();
    walk(&k8s, String::new(), &mut Vec::new(), &mut values);
    // Equal or not is all that counts of a text this long.
    text(&mut features, "k8s.json: values", &hex::encode(Sha256::digest(values.join(" "))));
    features
}

fn text(features: &mut Metadata, name: &str, value: &str) {
    features.insert(name.to_owned(), Feature::Text(value.to_owned()));
}

fn number_of(features: &mut Metadata, name: &str, value: usize) {
    features.insert(name.to_owned(), Feature::Number(value as f64));
}

/// One parquet file by its footer.
fn file(features: &mut Metadata, path: &Path, window: Window) {
    let name = path.file_name().unwrap().to_str().unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let footer = reader.metadata();
    let about = footer.file_metadata();
    text(features, &format!("{name}: schema"), &format!("{:?}", reader.schema().fields()));
    text(features, &format!("{name}: writer"), about.created_by().unwrap_or_default());
    text(features, &format!("{name}: pairs"), &format!("{:?}", about.key_value_metadata()));
    if window == Window::Abnormal {
        return;
    }
    number_of(features, &format!("{name}: rows"), usize::try_from(about.num_rows()).unwrap());
    number_of(features, &format!("{name}: bytes"), usize::try_from(path.metadata().unwrap().len()).unwrap());
    number_of(features, &format!("{name}: groups"), footer.num_row_groups());
    for group in footer.row_groups() {
        for column in group.columns() {
            let name = format!("{name}: bytes of {}", column.column_path());
            number_of(features, &name, usize::try_from(column.compressed_size()).unwrap());
        }
    }
}

/// Records of each service in the normal window.
fn services(features: &mut Metadata, folder: &Path) {
    let frames = Pack::open(folder).unwrap().load(&[]).unwrap();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut count = |what: &str, service: u32| {
        *counts.entry(format!("{what} of {}", frames.names.get(service))).or_default() += 1;
    };
    frames.normal.spans.iter().for_each(|span| count("normal spans", span.service));
    frames.normal.logs.iter().for_each(|log| count("normal logs", log.service));
    for (name, value) in counts {
        number_of(features, &name, value);
    }
}

/// The paths of all keys, and all values that are no numbers.
fn walk(value: &Value, at: String, keys: &mut Vec<String>, values: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let at = format!("{at}/{key}");
                keys.push(at.clone());
                walk(value, at, keys, values);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| walk(value, format!("{at}/*"), keys, values)),
        Value::String(text) => values.push(text.clone()),
        _ => {}
    }
}
