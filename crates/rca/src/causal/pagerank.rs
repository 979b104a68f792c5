//! PageRank by power iteration.

/// `(from, to, weight)`.
pub type Arc = (usize, usize, f64);

/// PageRank (Page et al. 1999) of `size` nodes with the given arcs of positive weight: the walk follows an arc with
/// probability `damping` and else restarts by `restart`, which sums to one; from a node without arcs it always restarts.
/// Ten iterations at most, fewer when the sum of changes is below 1e-6: the defaults of scikit-network. The result sums to
/// one. O(iterations · arcs).
pub fn pagerank(size: usize, arcs: &[Arc], damping: f64, restart: &[f64]) -> Vec<f64> {
    const ITERATIONS: usize = 10;
    const TOLERANCE: f64 = 1e-6;
    let mut out = vec![0.0; size];
    arcs.iter().for_each(|(from, _, weight)| out[*from] += weight);
    let jump = |node: usize| restart[node] * if out[node] > 0.0 { 1.0 - damping } else { 1.0 };
    let base: Vec<f64> = (0..size).map(jump).collect();
    let mut scores = base.clone();
    for _ in 0..ITERATIONS {
        let total: f64 = scores.iter().sum();
        let mut next: Vec<f64> = base.iter().map(|base| base * total).collect();
        for (from, to, weight) in arcs {
            next[*to] += damping * weight / out[*from] * scores[*from];
        }
        normalise(&mut next);
        let change: f64 = scores.iter().zip(&next).map(|(a, b)| (a - b).abs()).sum();
        if change < TOLERANCE {
            break;
        }
        scores = next;
    }
    normalise(&mut scores);
    scores
}

/// Restart anywhere.
pub fn uniform(size: usize) -> Vec<f64> {
    vec![1.0 / size as f64; size]
}

fn normalise(values: &mut [f64]) {
    let total: f64 = values.iter().sum();
    if total > 0.0 {
        values.iter_mut().for_each(|value| *value /= total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_known_in_closed_form() {
        // 0 → 1 with damping d: the stationary shares are 1 : 1 + d, as node 1 has no arc and restarts evenly.
        let scores = pagerank(2, &[(0, 1, 1.0)], 0.5, &uniform(2));
        assert!((scores[1] / scores[0] - 1.5).abs() < 1e-5, "{scores:?}");
    }
}
