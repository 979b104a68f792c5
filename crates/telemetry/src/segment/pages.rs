//! Pages of a text column. The column has a number for each distinct text already, so its pages are made from the numbers: the
//! general writer would hash and compare every text of every row again.
//!
//! Format: <https://parquet.apache.org/docs/file-format/data-pages/encodings/>, a dictionary page in `PLAIN` and one data page
//! in `RLE_DICTIONARY`. Columns here are required and flat, so there are no levels.

use std::io;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

use crate::column::Text;

/// Equal numbers in a row from which on a run is shorter than packed bits.
const RUN: usize = 16;

/// Makes the text columns of one segment, a row group after the other.
pub(super) struct Pages {
    compressor: Compressor<'static>,
    level: ZstdLevel,
    /// By number of a text: its place in the dictionary of the row group, if it is there.
    places: Vec<u32>,
    plain: Vec<u8>,
    indices: Vec<u32>,
}

const ABSENT: u32 = u32::MAX;

impl Pages {
    pub fn new(level: ZstdLevel) -> io::Result<Self> {
        let compressor = Compressor::new(level.compression_level())?;
        Ok(Self { compressor, level, places: Vec::new(), plain: Vec::new(), indices: Vec::new() })
    }

    /// The rows of a column as the bytes of a column chunk, and what its row group is told of it.
    pub fn chunk(
        &mut self,
        text: &Text,
        rows: &[u32],
        descriptor: ColumnDescPtr,
    ) -> Result<(Bytes, ColumnCloseResult)> {
        let entries = self.look_up(text, rows);
        let mut sink = TrackedWrite::new(Vec::with_capacity(self.plain.len() / 4));
        let mut pages = SerializedPageWriter::new(&mut sink);
        let dictionary = Page::DictionaryPage {
            buf: compressed(&mut self.compressor, &self.plain)?,
            num_values: entries,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        let first = pages.write_page(CompressedPage::new(dictionary, self.plain.len()))?;
        let packed = packed(&self.indices, entries);
        let data = Page::DataPage {
            buf: compressed(&mut self.compressor, &packed)?,
            num_values: count(rows.len())?,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let second = pages.write_page(CompressedPage::new(data, packed.len()))?;
        let bytes = Bytes::from(sink.into_inner()?);
        let metadata = ColumnChunkMetaData::builder(descriptor)
            .set_compression(Compression::ZSTD(self.level))
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
            .set_num_values(rows.len() as i64)
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size((first.uncompressed_size + second.uncompressed_size) as i64)
            .set_dictionary_page_offset(Some(first.offset as i64))
            .set_data_page_offset(second.offset as i64)
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: rows.len() as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((bytes, close))
    }

    /// Fills the dictionary and the rows' places in it; texts come in the order of their first row, whatever their numbers
    /// are. Returns the length of the dictionary.
    fn look_up(&mut self, text: &Text, rows: &[u32]) -> u32 {
        let Self { places, plain, indices, .. } = self;
        places.clear();
        places.resize(text.pool().len(), ABSENT);
        plain.clear();
        indices.clear();
        let mut entries = 0;
        let ids = text.ids();
        indices.extend(rows.iter().map(|&row| {
            let id = ids[row as usize];
            let place = &mut places[id as usize];
            if *place == ABSENT {
                *place = entries;
                entries += 1;
                let value = text.text(id).as_bytes();
                plain.extend_from_slice(&(value.len() as u32).to_le_bytes());
                plain.extend_from_slice(value);
            }
            *place
        }));
        entries
    }
}

fn compressed(compressor: &mut Compressor<'_>, bytes: &[u8]) -> Result<Bytes> {
    Ok(Bytes::from(compressor.compress(bytes)?))
}

fn count(rows: usize) -> Result<u32> {
    u32::try_from(rows).map_err(|_| ParquetError::General(format!("{rows} rows in a page")))
}

/// Places in a dictionary of `entries`: their width in bits, then runs of equal ones and packed ones between them.
fn packed(indices: &[u32], entries: u32) -> Vec<u8> {
    let width = (u32::BITS - entries.saturating_sub(1).leading_zeros()).max(1);
    let mut out = Vec::with_capacity(indices.len() * width as usize / 8 + 16);
    out.push(width as u8);
    // What is packed comes in eights, so a run gives up what the packed ones before it lack.
    let (mut from, mut at) = (0, 0);
    while at < indices.len() {
        let equal = indices[at..].iter().take_while(|&&index| index == indices[at]).count();
        let lacking = (at - from).next_multiple_of(8) - (at - from);
        if equal >= RUN + lacking {
            pack(&indices[from..at + lacking], width, &mut out);
            varint(((equal - lacking) << 1) as u64, &mut out);
            let bytes = width.div_ceil(8) as usize;
            out.extend_from_slice(&indices[at].to_le_bytes()[..bytes]);
            from = at + equal;
        }
        at += equal;
    }
    pack(&indices[from..], width, &mut out);
    out
}

/// One run of packed numbers, lowest bits first; the last eight are filled up with zeros.
fn pack(indices: &[u32], width: u32, out: &mut Vec<u8>) {
    if indices.is_empty() {
        return;
    }
    let groups = indices.len().div_ceil(8);
    varint((groups << 1 | 1) as u64, out);
    let (mut bits, mut held) = (0_u64, 0);
    let padding = groups * 8 - indices.len();
    for &index in indices.iter().chain(std::iter::repeat_n(&0, padding)) {
        bits |= u64::from(index) << held;
        held += width;
        while held >= 8 {
            out.push(bits as u8);
            bits >>= 8;
            held -= 8;
        }
    }
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
