//! `contracts/datapack.md`, written from the schema table.

use std::fmt::Write;

use crate::leak::ENV_KEYS;
use crate::schema::{Column, Signal};
use crate::{conclusion, manifest, quality};

/// The text of `contracts/datapack.md`.
pub fn contract_markdown() -> String {
    let mut text = String::new();
    head(&mut text);
    for signal in Signal::ALL {
        let table = signal.table();
        let file = signal.as_str();
        push(
            &mut text,
            &format!("\n### `normal_{file}.parquet`, `abnormal_{file}.parquet`\n\nOne row is {}.\n", table.row),
        );
        push(&mut text, "\n| column | type | may be absent | needed by | meaning |\n|---|---|---|---|---|\n");
        for column in table.columns {
            push(&mut text, &row(column));
        }
        push(&mut text, &format!("\nOrder: {}.\n", table.order.join(", ")));
    }
    tail(&mut text);
    text
}

fn push(text: &mut String, more: &str) {
    text.write_str(more).expect("writing to a string");
}

fn row(column: &Column) -> String {
    let readers: Vec<&str> = column.needed_by.iter().map(|reader| reader.as_str()).collect();
    format!(
        "| {} | {} | {} | {} | {} |\n",
        column.name,
        column.kind.describe(),
        if column.nullable { "yes" } else { "no" },
        if readers.is_empty() { "-".to_owned() } else { readers.join(", ") },
        column.doc
    )
}

fn head(text: &mut String) {
    let env = ENV_KEYS.map(|key| format!("`{key}`")).join(", ");
    push(
        text,
        &format!(
            "# Datapack, format {format}

Written from the code; do not edit.

A datapack is the labelled telemetry of one run in two half-open, contiguous windows: `[normal_start, abnormal_start)` and
`[abnormal_start, abnormal_end)`. Its name is neutral: system code, slot, hyphen, number.

## Layout

| stored as | public form | what |
|---|---|---|
| `open/{{normal,abnormal}}_*.parquet` | the same, flat | twelve tables, below |
| `open/env.json` | `env.json` | {env}; all values are strings, instants in Unix seconds, the zone is `UTC` |
| `open/k8s.json` | `k8s.json` | the cluster's objects, keys sorted; names no fault |
| `open/injection.json` | - | the name only |
| `sealed/injection.json` | `injection.json` | the public injection object, with `ground_truth` |
| `sealed/truth.json` | - | the ground truth with roles |
| `sealed/manifest.json` | `manifest.json` | `format`, `content` (windows, files, quality), `provenance` (ids, times, faults, witness, receipt) |
| `sealed/conclusion.csv` | `conclusion.csv` | attached by the detector, if it ran: {columns} |
| `sha256sum.txt` | `sha256sum.txt` | digest, two spaces, name; by name; of what the form holds |

An algorithm is shown `open/` and nothing else. `converted/`, `conclusion.csv` and hidden files are attachments that no checksum covers.

## Parquet

The same rows give the same bytes: rows in the order given below, zstd, row groups of 131072 rows, no key-value metadata, no
version in the footer. Text is plain UTF-8. All instants are nanoseconds UTC. Readers: `converter` is the public converter to
flat columns, `frames` are the built-in detector and algorithms.
",
            format = manifest::FORMAT,
            columns = conclusion::COLUMNS.join(", "),
        ),
    );
}

fn tail(text: &mut String) {
    push(
        text,
        &format!(
            "
## When a pack is refused

| code | when |
|---|---|
| `datapack.empty_signal` | a signal that the system's profile requires has no row in a window |
| `datapack.window_not_covered` | a window begins or ends without any record for 30 s, or for half of a shorter window |
| `datapack.too_few_root_spans` | the normal window has fewer than {roots} root spans |
| `datapack.row_outside_window` | a record does not belong to its window |
| `datapack.column_missing`, `datapack.column_type`, `datapack.null_value` | a source does not give the columns above |
| `datapack.id_malformed`, `datapack.attributes_malformed`, `datapack.value_unknown` | a value is none that the column may have |
| `datapack.truth_missing` | faults without a root service, or a truth without faults |
| `datapack.leak` | the open part gives the answer away |

Nothing of a refused pack is published.
",
            roots = quality::MIN_ROOT_SPANS
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_contract_is_current() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contracts/datapack.md");
        let committed = std::fs::read_to_string(path).unwrap();
        assert!(committed == contract_markdown(), "contracts/datapack.md is stale: run `cargo xtask codegen`");
    }
}
