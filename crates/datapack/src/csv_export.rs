//! A pack as files that any program reads: one CSV file for each parquet file, the JSON files of the public form, and the
//! truth with roles.

use std::fs;
use std::path::Path;

use model::{Result, Window};
use serde_json::json;

use crate::csv_file::Csv;
use crate::disk::{corrupt, create_folder, failed, write_durably};
use crate::manifest::canonical;
use crate::pack::{Bytes, Pack, TRUTH_FILE};
use crate::schema::Signal;
use crate::shown;

impl Pack {
    /// Writes `<to>/<name>/`. Absent values are empty cells; instants are RFC 3339 with nanoseconds, lists are JSON-like.
    ///
    /// # Errors
    /// `datapack.file_missing`, `datapack.file_corrupt`, `datapack.column_type`, and those of the disk.
    pub fn export_csv(&self, to: &Path) -> Result<()> {
        let folder = to.join(self.name());
        create_folder(&folder)?;
        for (window, signal) in crate::schema::files() {
            let path = folder.join(signal.file(window)).with_extension("csv");
            let names: Vec<&str> = signal.table().columns.iter().map(|column| column.name).collect();
            let mut csv = Csv::create(&path, &names)?;
            self.rows(window, signal, |cells| csv.write(cells))?;
            csv.finish()?;
        }
        for name in ["env.json", "k8s.json", "injection.json", "manifest.json"] {
            let to = folder.join(name);
            if let Bytes::File(from) = self.file(name)? {
                fs::copy(&from, &to).map_err(failed(&from))?;
            }
        }
        // The public truth has no roles; whoever imports this again needs them.
        write_durably(&folder.join(TRUTH_FILE), canonical(&json!(self.truth()?)).as_bytes())?;
        Ok(())
    }

    fn rows(&self, window: Window, signal: Signal, mut each: impl FnMut(&[&str]) -> Result<()>) -> Result<()> {
        let path = self.open_part().join(signal.file(window));
        self.batches(window, signal, |batch| {
            let options = shown::options("");
            let column = |name: &str| batch.column_by_name(name).expect("the columns were checked");
            let plain = signal.table().columns.iter().map(|known| shown::plain(column(known.name)));
            let plain = plain.collect::<Result<Vec<_>, _>>().map_err(|error| corrupt(&path, error))?;
            let columns = plain.iter().map(|array| shown::cells(array, &options));
            let columns = columns.collect::<Result<Vec<_>, _>>().map_err(|error| corrupt(&path, error))?;
            for row in 0..batch.num_rows() {
                let cells: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
                each(&cells.iter().map(String::as_str).collect::<Vec<_>>())?;
            }
            Ok(())
        })
    }
}
