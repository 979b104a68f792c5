//! The skeleton of the PC algorithm (Spirtes, Glymour, Scheines 2000), in its order-independent form (Colombo and Maathuis,
//! JMLR 2014), with Fisher's z test of partial correlation.

use nalgebra::DMatrix;
use statrs::function::erf::erfc;

use crate::statistics::correlation;

/// Which columns are adjacent, and what separated those that are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skeleton {
    pub size: usize,
    adjacent: Vec<bool>,
    /// For each ordered pair: the members of all sets that separated it.
    separators: Vec<Vec<bool>>,
}

impl Skeleton {
    pub fn is_adjacent(&self, a: usize, b: usize) -> bool {
        self.adjacent[a * self.size + b]
    }

    /// Whether `by` is a member of a set that separated the two.
    pub fn is_separated_by(&self, a: usize, b: usize, by: usize) -> bool {
        self.separators[a * self.size + b].get(by).copied().unwrap_or(false)
    }

    fn neighbours(&self, node: usize) -> Vec<usize> {
        (0..self.size).filter(|other| self.is_adjacent(node, *other)).collect()
    }

    fn separate(&mut self, a: usize, b: usize, members: &[bool]) {
        for place in [a * self.size + b, b * self.size + a] {
            let known = &mut self.separators[place];
            known.resize(self.size, false);
            known.iter_mut().zip(members).for_each(|(known, member)| *known |= member);
        }
    }
}

/// The test of independence: partial correlation with Fisher's z transformation.
pub struct FisherZ {
    correlations: DMatrix<f64>,
    samples: usize,
}

/// A test that cannot be made: the columns determine one another, or there are too few rows for so many conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Untestable;

impl FisherZ {
    /// `columns` of one length, none of them constant. O(rows · columns²).
    pub fn new(columns: &[&[f64]]) -> Self {
        let size = columns.len();
        let mut correlations = DMatrix::identity(size, size);
        for a in 0..size {
            for b in 0..a {
                let r = correlation(columns[a], columns[b]);
                correlations[(a, b)] = r;
                correlations[(b, a)] = r;
            }
        }
        Self { correlations, samples: columns.first().map_or(0, |column| column.len()) }
    }

    pub fn size(&self) -> usize {
        self.correlations.nrows()
    }

    /// The partial correlation of two columns given others, strictly between -1 and 1.
    ///
    /// # Errors
    /// When the correlations of these columns have no inverse.
    pub fn partial(&self, a: usize, b: usize, given: &[usize]) -> Result<f64, Untestable> {
        let (a, b) = (a.min(b), a.max(b));
        let r = if given.is_empty() {
            self.correlations[(a, b)]
        } else {
            let order: Vec<usize> = [a, b].into_iter().chain(given.iter().copied()).collect();
            let part = DMatrix::from_fn(order.len(), order.len(), |row, column| {
                self.correlations[(order[row], order[column])]
            });
            let inverse = part.lu().try_inverse().ok_or(Untestable)?;
            -inverse[(0, 1)] / (inverse[(0, 0)] * inverse[(1, 1)]).abs().sqrt()
        };
        if r.is_nan() {
            return Err(Untestable);
        }
        let most = 1.0 - f64::EPSILON;
        Ok(r.clamp(-most, most))
    }

    /// The p-value of independence.
    ///
    /// # Errors
    /// Besides those of [`FisherZ::partial`], when fewer than four rows are left for the conditions.
    pub fn p(&self, a: usize, b: usize, given: &[usize]) -> Result<f64, Untestable> {
        let r = self.partial(a, b, given)?;
        let freedom = self.samples.checked_sub(given.len() + 3).ok_or(Untestable)?;
        let z = (freedom as f64).sqrt() * (0.5 * ((1.0 + r) / (1.0 - r)).ln()).abs();
        Ok(erfc(z / std::f64::consts::SQRT_2))
    }
}

/// Removes edges between columns that are independent given some of their neighbours, at the level `alpha`, with at most
/// `deepest` conditions. All sets of one size are tried before edges go.
/// O(columns² · subsets of neighbours · conditions³).
///
/// # Errors
/// When a test cannot be made.
pub fn skeleton(test: &FisherZ, alpha: f64, deepest: usize) -> Result<Skeleton, Untestable> {
    let size = test.size();
    let mut found = Skeleton {
        size,
        adjacent: (0..size * size).map(|place| place / size != place % size).collect(),
        separators: vec![Vec::new(); size * size],
    };
    for depth in 0..=deepest {
        let widest = (0..size).map(|node| found.neighbours(node).len()).max().unwrap_or(0);
        if widest < depth + 1 {
            break;
        }
        for (a, b) in level(test, &mut found, alpha, depth)? {
            found.adjacent[a * size + b] = false;
            found.adjacent[b * size + a] = false;
        }
    }
    Ok(found)
}

/// The pairs that sets of one size separate.
fn level(test: &FisherZ, found: &mut Skeleton, alpha: f64, depth: usize) -> Result<Vec<(usize, usize)>, Untestable> {
    let mut removed = Vec::new();
    for a in 0..found.size {
        let neighbours = found.neighbours(a);
        for b in &neighbours {
            let others: Vec<usize> = neighbours.iter().copied().filter(|other| other != b).collect();
            let mut members = vec![false; found.size];
            let mut separated = false;
            let mut subsets = Subsets::new(&others, depth);
            while let Some(given) = subsets.next() {
                if test.p(a, *b, given)? > alpha {
                    separated = true;
                    given.iter().for_each(|member| members[*member] = true);
                }
            }
            if separated {
                found.separate(a, *b, &members);
                removed.push((a, *b));
            }
        }
    }
    Ok(removed)
}

/// The subsets of one size, in lexicographic order.
struct Subsets<'a> {
    of: &'a [usize],
    places: Vec<usize>,
    current: Vec<usize>,
    started: bool,
}

impl<'a> Subsets<'a> {
    fn new(of: &'a [usize], size: usize) -> Self {
        Self { of, places: (0..size).collect(), current: Vec::with_capacity(size), started: false }
    }

    fn next(&mut self) -> Option<&[usize]> {
        let (count, size) = (self.of.len(), self.places.len());
        if !self.started {
            self.started = true;
            if size > count {
                return None;
            }
        } else {
            let place = (0..size).rev().find(|place| self.places[*place] < count - size + place)?;
            self.places[place] += 1;
            for next in place + 1..size {
                self.places[next] = self.places[next - 1] + 1;
            }
        }
        self.current.clear();
        self.current.extend(self.places.iter().map(|place| self.of[*place]));
        Some(&self.current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_come_in_lexicographic_order() {
        let mut subsets = Subsets::new(&[4, 6, 9], 2);
        let mut all = Vec::new();
        while let Some(one) = subsets.next() {
            all.push(one.to_vec());
        }
        assert_eq!(all, [[4, 6], [4, 9], [6, 9]]);
        let mut none = Subsets::new(&[4], 2);
        assert_eq!(none.next(), None);
        let mut empty = Subsets::new(&[4], 0);
        assert_eq!(empty.next(), Some(&[] as &[usize]));
        assert_eq!(empty.next(), None);
    }
}
