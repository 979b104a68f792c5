//! The rows of what was received and is in no segment yet, by namespace.

use std::collections::BTreeMap;

use model::{DataTime, Result};

use crate::convert::Route;
use crate::segment;
use crate::store::Inner;
use crate::table::Tables;
use crate::{Signal, Stream};

#[derive(Default)]
pub(super) struct Received {
    namespaces: BTreeMap<String, Part>,
    bytes: usize,
    /// Empty tables with the memory of earlier rows, for the first namespace.
    spare: Tables,
}

#[derive(Default)]
struct Part {
    tables: Tables,
    /// Bytes of the tables when they were last measured.
    bytes: usize,
}

impl Route for Received {
    fn tables(&mut self, namespace: &str) -> &mut Tables {
        if !self.namespaces.contains_key(namespace) {
            let tables = std::mem::take(&mut self.spare);
            self.namespaces.insert(namespace.to_owned(), Part { tables, bytes: 0 });
        }
        &mut self.namespaces.get_mut(namespace).expect("inserted above").tables
    }
}

impl Received {
    /// Nothing yet, with memory for many rows.
    pub fn with(spare: Tables) -> Self {
        Self { spare, ..Self::default() }
    }

    /// Bytes held, as last measured.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Measures the namespaces that have grown.
    pub fn measure<'a>(&mut self, grown: impl Iterator<Item = &'a String>) {
        for namespace in grown {
            if let Some(part) = self.namespaces.get_mut(namespace) {
                let now = part.tables.bytes();
                self.bytes += now - part.bytes;
                part.bytes = now;
            }
        }
    }

    /// The latest timestamp of a namespace.
    pub fn latest(&self, namespace: &str) -> Option<DataTime> {
        let tables = self.namespaces.values().map(|part| &part.tables);
        let extents = tables.flat_map(|tables| Signal::ALL.map(|signal| segment::extents(tables.get(signal))));
        extents.filter_map(|mut extents| extents.remove(namespace)).map(|extent| extent.last).max()
    }

    /// Writes one chunk for each namespace. Chunks that an interrupted attempt had written stay as they are. Gives back the tables of
    /// the largest namespace, empty.
    pub fn write(self, store: &Inner, sequence: u64) -> Result<Tables> {
        let (mut spare, mut most) = (self.spare, 0);
        for (namespace, Part { tables, bytes }) in self.namespaces {
            let stream = Stream { namespace, run: None };
            let mut chunk = store.chunk_writer()?;
            chunk.tables = tables;
            if !chunk.seal(&stream)?.is_empty() {
                if bytes > most {
                    (spare, most) = (std::mem::take(&mut chunk.tables), bytes);
                }
                store.place_received(chunk, &stream, sequence)?;
            }
        }
        Ok(spare)
    }
}
