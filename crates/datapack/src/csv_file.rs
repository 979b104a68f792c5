//! Writing one CSV file.

use std::fs::File;
use std::path::Path;

use model::Result;

use crate::disk::{failed, failed_within};

/// A CSV file that is being written.
pub(crate) struct Csv<'a> {
    path: &'a Path,
    writer: csv::Writer<File>,
}

impl<'a> Csv<'a> {
    pub fn create(path: &'a Path, header: &[&str]) -> Result<Self> {
        let file = File::create(path).map_err(failed(path))?;
        let writer = csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(file);
        let mut csv = Self { path, writer };
        csv.write(header)?;
        Ok(csv)
    }

    pub fn write(&mut self, cells: &[&str]) -> Result<()> {
        self.writer.write_record(cells).map_err(failed_within(self.path))
    }

    pub fn finish(mut self) -> Result<()> {
        self.writer.flush().map_err(failed(self.path))
    }
}
