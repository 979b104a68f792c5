//! A column of text: each distinct text is held once, and a row is a number.

use std::cmp::Ordering;
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Int32Array, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Int32Type};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use model::Result;

use super::{Column, Form, corrupt};

/// Text, interned: one long text that holds each distinct one, and a number for each row.
#[derive(Default)]
pub(crate) struct Text {
    hasher: RandomState,
    /// Ids by the hash of their text.
    known: HashTable<u32>,
    hashes: Vec<u64>,
    pool: Pool,
    ids: Vec<u32>,
    /// Position of each pool entry in text order; empty when comparing the texts themselves is cheaper.
    ranks: Vec<u32>,
    values: OnceLock<ArrayRef>,
    longest: usize,
}

/// Distinct texts, one after another.
#[derive(Default)]
struct Pool {
    texts: String,
    ends: Vec<usize>,
}

impl Pool {
    #[inline]
    fn get(&self, id: u32) -> &str {
        let id = id as usize;
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        &self.texts[start..self.ends[id]]
    }

    fn len(&self) -> usize {
        self.ends.len()
    }
}

impl Text {
    #[inline]
    pub fn intern(&mut self, text: &str) -> u32 {
        let hash = self.hasher.hash_one(text.as_bytes());
        match self.known.find(hash, |&id| self.pool.get(id) == text) {
            Some(&id) => id,
            None => self.insert(hash, text),
        }
    }

    fn insert(&mut self, hash: u64, text: &str) -> u32 {
        let id = u32::try_from(self.pool.len()).expect("memory is bounded long before 4 billion distinct texts");
        self.longest = self.longest.max(text.len());
        self.ranks.clear();
        self.values.take();
        self.pool.texts.push_str(text);
        self.pool.ends.push(self.pool.texts.len());
        self.hashes.push(hash);
        self.known.insert_unique(hash, id, |&id| self.hashes[id as usize]);
        id
    }

    #[inline]
    pub fn push(&mut self, text: &str) {
        // Neighbours are often equal, and comparing is quicker than looking up.
        let id = match self.ids.last() {
            Some(&last) if self.pool.get(last) == text => last,
            _ => self.intern(text),
        };
        self.ids.push(id);
    }

    pub fn push_id(&mut self, id: u32) {
        self.ids.push(id);
    }

    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The distinct texts, by id.
    pub fn pool(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.pool.len() as u32).map(|id| self.pool.get(id))
    }

    /// The text of a number.
    pub fn text(&self, id: u32) -> &str {
        self.pool.get(id)
    }

    fn get(&self, row: u32) -> &str {
        self.pool.get(self.ids[row as usize])
    }
}

impl Column for Text {
    fn data_type(&self, form: Form) -> DataType {
        match form {
            Form::Segment => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            Form::Plain => DataType::Utf8,
        }
    }

    fn rank(&mut self) {
        if self.ranks.len() == self.pool.len() || self.pool.len() * 4 > self.ids.len() {
            return;
        }
        let mut by_text: Vec<u32> = (0..self.pool.len() as u32).collect();
        by_text.sort_unstable_by_key(|&id| self.pool.get(id));
        self.ranks = vec![0; by_text.len()];
        for (rank, id) in by_text.into_iter().enumerate() {
            self.ranks[id as usize] = rank as u32;
        }
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        let (a, b) = (self.ids[a], self.ids[b]);
        match (a == b, self.ranks.is_empty()) {
            (true, _) => Ordering::Equal,
            (false, true) => self.pool.get(a).cmp(self.pool.get(b)),
            (false, false) => self.ranks[a as usize].cmp(&self.ranks[b as usize]),
        }
    }

    fn take(&self, rows: &[u32], form: Form) -> ArrayRef {
        if form == Form::Plain {
            let bytes = rows.iter().map(|&row| self.get(row).len()).sum();
            let mut builder = StringBuilder::with_capacity(rows.len(), bytes);
            rows.iter().for_each(|&row| builder.append_value(self.get(row)));
            return Arc::new(builder.finish());
        }
        let values = self.values.get_or_init(|| Arc::new(StringArray::from_iter_values(self.pool())));
        let keys = Int32Array::from_iter_values(rows.iter().map(|&row| self.ids[row as usize] as i32));
        Arc::new(DictionaryArray::new(keys, values.clone()))
    }

    fn append(&mut self, array: &dyn Array, keep: &[u32]) -> Result<()> {
        let array = array.as_dictionary_opt::<Int32Type>().ok_or_else(|| corrupt("text that is not a dictionary"))?;
        let values = array.values().as_string_opt::<i32>().ok_or_else(|| corrupt("a dictionary of other than text"))?;
        let mut known: Vec<Option<u32>> = vec![None; values.len()];
        for &row in keep {
            let key = array.key(row as usize).ok_or_else(|| corrupt("text without a value"))?;
            let id = match known[key] {
                Some(id) => id,
                None => *known[key].insert(self.intern(values.value(key))),
            };
            self.ids.push(id);
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.pool.texts.len() + self.pool.len() * 24 + self.ids.len() * 4
    }

    fn clear(&mut self) {
        let Self { hasher: _, known, hashes, pool: Pool { texts, ends }, ids, ranks, values, longest } = self;
        known.clear();
        hashes.clear();
        texts.clear();
        ends.clear();
        ids.clear();
        ranks.clear();
        values.take();
        *longest = 0;
    }

    fn as_text(&self) -> Option<&Text> {
        Some(self)
    }

    fn longest(&self) -> usize {
        self.longest
    }
}
