//! PageRank by power iteration.

/// `(from, to, weight)`.
pub type Arc = (usize, usize, f64);

/// PageRank (Page, Brin, Motwani, Winograd 1999) of `size` nodes with the given arcs of positive weight: the walk follows an
/// arc with probability `damping` and else, or from a node without arcs, restarts by `restart`, which sums to one.
/// Iterated until the sum of changes is below 1e-12, at most 200 times. The result sums to one. O(iterations · arcs).
pub fn pagerank(size: usize, arcs: &[Arc], damping: f64, restart: &[f64]) -> Vec<f64> {
    const ITERATIONS: usize = 200;
    const TOLERANCE: f64 = 1e-12;
    let out = weights_out(size, arcs);
    let mut scores = restart.to_vec();
    for _ in 0..ITERATIONS {
        let leaving = |node: usize| scores[node] * if out[node] > 0.0 { 1.0 - damping } else { 1.0 };
        let restarted: f64 = (0..size).map(leaving).sum();
        let mut next: Vec<f64> = restart.iter().map(|share| share * restarted).collect();
        for (from, to, weight) in arcs {
            next[*to] += damping * weight / out[*from] * scores[*from];
        }
        let change: f64 = scores.iter().zip(&next).map(|(a, b)| (a - b).abs()).sum();
        scores = next;
        if change < TOLERANCE {
            break;
        }
    }
    scores
}

/// The weight of all arcs that leave each node.
pub fn weights_out(size: usize, arcs: &[Arc]) -> Vec<f64> {
    let mut out = vec![0.0; size];
    arcs.iter().for_each(|(from, _, weight)| out[*from] += weight);
    out
}

/// Restart anywhere.
pub fn uniform(size: usize) -> Vec<f64> {
    vec![1.0 / size as f64; size]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_known_in_closed_form() {
        // Node 0 only gets half of what restarts, node 1 as much and the share `damping` of node 0: 1 to 1 + damping.
        let scores = pagerank(2, &[(0, 1, 1.0)], 0.5, &uniform(2));
        assert!((scores[1] / scores[0] - 1.5).abs() < 1e-9, "{scores:?}");
        assert!((scores[0] + scores[1] - 1.0).abs() < 1e-12);
    }
}
