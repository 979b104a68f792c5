//! How packs are grouped: a cell is a system and a fault family, a cluster is a point in a cell, and packs of one seed
//! at one point are one sample.

use std::collections::BTreeMap;

use crate::case::Case;
use crate::ranking::{METRICS, Scores, Values};

/// The groups of some cases; indexes refer to the list that they were made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub cells: Vec<Cell>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    pub clusters: Vec<Cluster>,
}

/// The samples of one point, each with the cases that repeat it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    pub samples: Vec<Vec<usize>>,
}

/// What makes two packs one sample: the same seed, or, where there is none, the same name.
type SampleKey<'a> = (Option<u64>, &'a str);
type Samples<'a> = BTreeMap<SampleKey<'a>, Vec<usize>>;
type Points<'a> = BTreeMap<&'a str, Samples<'a>>;

impl Layout {
    pub fn new(cases: &[&Case]) -> Self {
        let mut cells: BTreeMap<(&str, &str), Points<'_>> = BTreeMap::new();
        for (index, case) in cases.iter().enumerate() {
            let key: SampleKey<'_> = if case.seed.is_some() { (case.seed, "") } else { (None, &case.pack) };
            let cell = cells.entry((&case.system, &case.family)).or_default();
            cell.entry(&case.point).or_default().entry(key).or_default().push(index);
        }
        let cluster = |samples: Samples<'_>| Cluster { samples: samples.into_values().collect() };
        let cells = cells.into_values().map(|points| Cell { clusters: points.into_values().map(cluster).collect() });
        Self { cells: cells.collect() }
    }

    /// Distinct packs: repeats of one seed are one.
    pub fn packs(&self) -> usize {
        self.clusters().map(|cluster| cluster.samples.len()).sum()
    }

    pub fn clusters(&self) -> impl Iterator<Item = &Cluster> {
        self.cells.iter().flat_map(|cell| &cell.clusters)
    }

    /// The values of each case, summed up by cluster and cell.
    pub fn sums(&self, values: &[Scores]) -> Sums {
        let cluster = |cluster: &Cluster| {
            let mut sum = ClusterSum { total: [0.0; METRICS], samples: cluster.samples.len() as f64 };
            for sample in &cluster.samples {
                add(&mut sum.total, &mean(sample, values));
            }
            sum
        };
        Sums { cells: self.cells.iter().map(|cell| cell.clusters.iter().map(cluster).collect()).collect() }
    }
}

/// The mean over the repeats of one sample.
pub fn mean(sample: &[usize], values: &[Scores]) -> Values {
    let mut total = [0.0; METRICS];
    for &index in sample {
        add(&mut total, &values[index].array());
    }
    total.map(|value| value / sample.len() as f64)
}

pub fn add(total: &mut Values, more: &Values) {
    total.iter_mut().zip(more).for_each(|(total, more)| *total += more);
}

/// The sum of a cluster's samples and their number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusterSum {
    pub total: Values,
    pub samples: f64,
}

/// Cells of clusters.
#[derive(Debug, Clone, PartialEq)]
pub struct Sums {
    pub cells: Vec<Vec<ClusterSum>>,
}

impl Sums {
    /// The mean over cells of the means over their samples.
    pub fn macro_mean(&self) -> Values {
        let mut total = [0.0; METRICS];
        for cell in &self.cells {
            add(&mut total, &cell_mean(cell));
        }
        total.map(|value| value / self.cells.len().max(1) as f64)
    }

    pub fn clusters(&self) -> usize {
        self.cells.iter().map(Vec::len).sum()
    }
}

pub fn cell_mean<'a>(clusters: impl IntoIterator<Item = &'a ClusterSum>) -> Values {
    let (mut total, mut samples) = ([0.0; METRICS], 0.0);
    for cluster in clusters {
        add(&mut total, &cluster.total);
        samples += cluster.samples;
    }
    total.map(|value| value / samples)
}
