//! The group of each row by its texts.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewArray, StringViewBuilder};
use foldhash::fast::RandomState;

/// Numbers of groups, in the order of their first rows.
pub struct Keys {
    texts: Vec<Texts>,
    /// For each column after the first: the groups of it and all before it.
    pairs: Vec<Pairs>,
}

impl Keys {
    /// Of that many columns, at least one.
    pub fn new(columns: usize) -> Self {
        let texts = std::iter::repeat_with(Texts::default).take(columns).collect();
        let pairs = std::iter::repeat_with(Pairs::default).take(columns.saturating_sub(1)).collect();
        Self { texts, pairs }
    }

    /// Groups so far.
    pub fn len(&self) -> usize {
        match self.pairs.last() {
            Some(pairs) => pairs.of.len(),
            None => self.texts[0].texts.len(),
        }
    }

    /// Bytes, about.
    pub fn size(&self) -> usize {
        let texts = self.texts.iter().map(|texts| texts.bytes + texts.texts.len() * 64);
        let pairs = self.pairs.iter().map(|pairs| pairs.of.len() * 32);
        texts.sum::<usize>() + pairs.sum::<usize>()
    }

    /// Writes the group of each row to `rows`.
    pub fn group(&mut self, columns: &[&StringViewArray], rows: &mut Vec<usize>) {
        rows.clear();
        let mut columns = self.texts.iter_mut().zip(columns);
        if let Some((texts, column)) = columns.next() {
            texts.number(column, |number| rows.push(number as usize));
        }
        for ((texts, column), pairs) in columns.zip(&mut self.pairs) {
            let mut seen = Seen::default();
            let mut rows = rows.iter_mut();
            texts.number(column, |number| {
                let row = rows.next().expect("columns of a batch have the same length");
                *row = pairs.number((*row as u32, number), &mut seen) as usize;
            });
        }
    }

    /// The texts of all groups, a column each; no group is left.
    pub fn take(&mut self) -> Vec<ArrayRef> {
        let mut groups: Vec<u32> = (0..self.len() as u32).collect();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.texts.len());
        for (texts, pairs) in self.texts[1..].iter().zip(&self.pairs).rev() {
            let parts: Vec<(u32, u32)> = groups.iter().map(|group| pairs.of[*group as usize]).collect();
            columns.push(texts.column(parts.iter().map(|(_, number)| *number)));
            groups = parts.into_iter().map(|(before, _)| before).collect();
        }
        columns.push(self.texts[0].column(groups.into_iter()));
        columns.reverse();
        *self = Self::new(self.texts.len());
        columns
    }
}

/// Numbers of a column's texts.
#[derive(Default)]
struct Texts {
    numbers: HashMap<Arc<str>, u32, RandomState>,
    /// What a missing text is numbered.
    missing: Option<u32>,
    texts: Vec<Option<Arc<str>>>,
    /// Of all texts.
    bytes: usize,
}

impl Texts {
    fn number(&mut self, column: &StringViewArray, mut tell: impl FnMut(u32)) {
        // Equal views of one array show equal texts, so a text is looked up once; views of two arrays say nothing.
        let mut seen = Seen::default();
        let missing = column.nulls().filter(|nulls| nulls.null_count() > 0);
        for (row, view) in column.views().iter().enumerate() {
            let number = match missing.is_some_and(|nulls| nulls.is_null(row)) {
                true => self.missing(),
                false => seen.number(*view, || self.text(column.value(row))),
            };
            tell(number);
        }
    }

    fn missing(&mut self) -> u32 {
        *self.missing.get_or_insert_with(|| {
            self.texts.push(None);
            self.texts.len() as u32 - 1
        })
    }

    fn text(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let (number, text) = (self.texts.len() as u32, Arc::<str>::from(text));
        self.bytes += text.len();
        self.texts.push(Some(text.clone()));
        self.numbers.insert(text, number);
        number
    }

    fn column(&self, numbers: impl ExactSizeIterator<Item = u32>) -> ArrayRef {
        let mut column = StringViewBuilder::with_capacity(numbers.len()).with_deduplicate_strings();
        for number in numbers {
            column.append_option(self.texts[number as usize].as_deref());
        }
        Arc::new(column.finish())
    }
}

/// Numbers of pairs of a group and a further text.
#[derive(Default)]
struct Pairs {
    numbers: HashMap<(u32, u32), u32, RandomState>,
    of: Vec<(u32, u32)>,
}

impl Pairs {
    fn number(&mut self, pair: (u32, u32), seen: &mut Seen) -> u32 {
        seen.number(u128::from(pair.0) << 64 | u128::from(pair.1), || {
            *self.numbers.entry(pair).or_insert_with(|| {
                self.of.push(pair);
                self.of.len() as u32 - 1
            })
        })
    }
}

/// The numbers of a few words seen last: a table in which each word has one place.
struct Seen([(u128, u32); Seen::PLACES]);

impl Default for Seen {
    fn default() -> Self {
        Self([(0, Self::EMPTY); Self::PLACES])
    }
}

impl Seen {
    const PLACES: usize = 256;
    /// No number is as large: there are never more than a batch beyond the limit of groups.
    const EMPTY: u32 = u32::MAX;

    #[inline]
    fn number(&mut self, word: u128, find: impl FnOnce() -> u32) -> u32 {
        // Multiplication by the golden ratio spreads the bits upwards, so the place is in the highest ones.
        let mixed = (word as u64).rotate_left(32) ^ (word >> 64) as u64;
        let place = &mut self.0[(mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize];
        if place.0 != word || place.1 == Self::EMPTY {
            *place = (word, find());
        }
        place.1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow::array::AsArray;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    /// Rows of two columns: short texts and long ones, more than are remembered at once, some missing.
    fn batch(random: &mut Pcg64) -> [StringViewArray; 2] {
        let text = |number: u32| match number % 50 {
            0 => None,
            1..25 => Some(format!("t{number}")),
            _ => Some(format!("a text that does not fit into a view, number {number}")),
        };
        [700, 3].map(|texts| (0..1000).map(|_| text(random.random_range(0..texts))).collect())
    }

    #[test]
    fn rows_are_in_one_group_when_their_texts_are_equal() {
        let mut random = Pcg64::seed_from_u64(7);
        let mut keys = Keys::new(2);
        for _ in 0..2 {
            let mut expected: HashMap<[Option<String>; 2], usize> = HashMap::new();
            let mut rows = Vec::new();
            for _ in 0..5 {
                let batch = batch(&mut random);
                keys.group(&[&batch[0], &batch[1]], &mut rows);
                assert_eq!(rows.len(), 1000);
                for (row, group) in rows.iter().enumerate() {
                    let texts = batch.each_ref().map(|column| column.iter().nth(row).unwrap().map(str::to_owned));
                    let next = expected.len();
                    assert_eq!(*expected.entry(texts).or_insert(next), *group);
                }
            }
            assert_eq!(keys.len(), expected.len());
            let columns = keys.take();
            for (texts, group) in expected {
                let found = [0, 1].map(|at| {
                    let column = columns[at].as_string_view();
                    column.is_valid(group).then(|| column.value(group).to_owned())
                });
                assert_eq!(found, texts);
            }
            assert_eq!(keys.len(), 0);
        }
    }
}
