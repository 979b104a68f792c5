//! Directions of a skeleton's edges: unshielded colliders first, then the rules of Meek (UAI 1995).
//!
//! Conflicts are decided by order, as causal-learn does with its default priority: a collider that contradicts one found
//! earlier is left out, and a rule that would close a cycle is not applied. Its record of ancestors, which is not complete
//! because descendants of a new edge's head do not learn of the tail's ancestors, is kept as it is.

use super::skeleton::Skeleton;

/// A graph whose edges are directed or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mixed {
    pub size: usize,
    /// `marks[a * size + b]`: how the edge of a and b ends at a.
    marks: Vec<Mark>,
    /// `ancestors[a * size + b]`: b is known to be an ancestor of a.
    ancestors: Vec<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    None,
    Tail,
    Arrow,
}

type Triple = (usize, usize, usize);

impl Mixed {
    /// The equivalence class of a skeleton.
    pub fn orient(skeleton: &Skeleton) -> Self {
        let size = skeleton.size;
        let mark = |place: usize| {
            if skeleton.is_adjacent(place / size, place % size) { Mark::Tail } else { Mark::None }
        };
        let mut graph = Self { size, marks: (0..size * size).map(mark).collect(), ancestors: Vec::new() };
        graph.forget_ancestors();
        graph.colliders(skeleton);
        graph.meek();
        graph
    }

    pub fn is_directed(&self, from: usize, to: usize) -> bool {
        self.mark(from, to) == Mark::Tail && self.mark(to, from) == Mark::Arrow
    }

    pub fn is_undirected(&self, a: usize, b: usize) -> bool {
        self.mark(a, b) == Mark::Tail && self.mark(b, a) == Mark::Tail
    }

    /// Cause and effect of each edge; an undirected one counts both ways.
    pub fn arcs(&self) -> Vec<(usize, usize)> {
        let pairs = (0..self.size).flat_map(|from| (0..self.size).map(move |to| (from, to)));
        pairs.filter(|(from, to)| self.is_directed(*from, *to) || self.is_undirected(*from, *to)).collect()
    }

    fn mark(&self, at: usize, of: usize) -> Mark {
        self.marks[at * self.size + of]
    }

    fn forget_ancestors(&mut self) {
        self.ancestors = (0..self.size * self.size).map(|place| place / self.size == place % self.size).collect();
    }

    fn learn_ancestor(&mut self, from: usize, to: usize) {
        let size = self.size;
        self.ancestors[to * size + from] = true;
        for other in 0..size {
            if self.ancestors[from * size + other] {
                self.ancestors[to * size + other] = true;
            }
            if self.ancestors[other * size + to] {
                self.ancestors[other * size + from] = true;
            }
        }
    }

    /// Takes an edge away; one that was directed makes the record of ancestors anew, from the last edge to the first.
    fn remove(&mut self, a: usize, b: usize) {
        let directed = self.is_directed(a, b) || self.is_directed(b, a);
        self.marks[a * self.size + b] = Mark::None;
        self.marks[b * self.size + a] = Mark::None;
        if directed {
            self.forget_ancestors();
            for low in (0..self.size).rev() {
                for high in (low + 1..self.size).rev() {
                    if self.is_directed(low, high) {
                        self.learn_ancestor(low, high);
                    } else if self.is_directed(high, low) {
                        self.learn_ancestor(high, low);
                    }
                }
            }
        }
    }

    fn direct(&mut self, from: usize, to: usize) {
        self.remove(from, to);
        self.marks[from * self.size + to] = Mark::Tail;
        self.marks[to * self.size + from] = Mark::Arrow;
        self.learn_ancestor(from, to);
    }

    /// Directs an undirected edge unless that closes a known cycle.
    fn direct_acyclic(&mut self, from: usize, to: usize) -> bool {
        if self.ancestors[from * self.size + to] {
            return false;
        }
        self.direct(from, to);
        true
    }

    /// Adjacent pairs, tails before arrows, each by the row that the mark stands in.
    fn adjacent(&self) -> Vec<(usize, usize)> {
        let of = |wanted: Mark| {
            let pairs = (0..self.size).flat_map(|row| (0..self.size).map(move |column| (row, column)));
            pairs.filter(move |(row, column)| self.mark(*row, *column) == wanted).map(|(row, column)| (column, row))
        };
        of(Mark::Tail).chain(of(Mark::Arrow)).collect()
    }

    /// Paths of two edges whose ends are adjacent or not.
    fn paths(&self, closed: bool) -> Vec<Triple> {
        let adjacent = self.adjacent();
        let mut after: Vec<Vec<usize>> = vec![Vec::new(); self.size];
        adjacent.iter().for_each(|(from, to)| after[*from].push(*to));
        let mut paths = Vec::new();
        for (a, b) in adjacent {
            let ends = after[b].iter().filter(|c| **c != a && (self.mark(a, **c) != Mark::None) == closed);
            paths.extend(ends.map(|c| (a, b, *c)));
        }
        paths
    }

    fn colliders(&mut self, skeleton: &Skeleton) {
        for (x, y, z) in self.paths(false).into_iter().filter(|(x, _, z)| x < z) {
            let free = !self.is_directed(y, x) && !self.is_directed(y, z);
            if free && !skeleton.is_separated_by(x, z, y) {
                self.direct(x, y);
                self.direct(z, y);
            }
        }
    }

    fn meek(&mut self) {
        let (open, triangles) = (self.paths(false), self.paths(true));
        let kites = self.kites(&triangles);
        loop {
            let mut changed = false;
            for &(i, j, k) in &open {
                if self.is_directed(i, j) && self.is_undirected(j, k) {
                    changed |= self.direct_acyclic(j, k);
                }
            }
            for &(i, j, k) in &triangles {
                if self.is_directed(i, j) && self.is_directed(j, k) && self.is_undirected(i, k) {
                    changed |= self.direct_acyclic(i, k);
                }
            }
            for &(i, j, k, l) in &kites {
                let sides = self.is_undirected(i, j) && self.is_undirected(i, k);
                if sides && self.is_directed(j, l) && self.is_directed(k, l) && self.is_undirected(i, l) {
                    changed |= self.direct_acyclic(i, l);
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// Two triangles on one edge (i, l) whose other corners j < k are not adjacent.
    fn kites(&self, triangles: &[Triple]) -> Vec<(usize, usize, usize, usize)> {
        let mut corners: Vec<Vec<usize>> = vec![Vec::new(); self.size * self.size];
        triangles.iter().for_each(|(i, j, l)| corners[i * self.size + l].push(*j));
        let mut kites = Vec::new();
        for (i, j, l) in triangles {
            let others = corners[i * self.size + l].iter();
            let others = others.filter(|k| *j < **k && self.mark(*j, **k) == Mark::None);
            kites.extend(others.map(|k| (*i, *j, *k, *l)));
        }
        kites
    }
}
