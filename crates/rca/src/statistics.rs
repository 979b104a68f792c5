//! The few sample statistics that the detector and the algorithms share.

use statrs::function::erf::erfc;

/// Arithmetic mean; zero for an empty sample.
pub fn mean(sample: &[f64]) -> f64 {
    if sample.is_empty() { 0.0 } else { sample.iter().sum::<f64>() / sample.len() as f64 }
}

/// Standard deviation with divisor `n − ddof`; zero when the divisor is not positive.
pub fn deviation(sample: &[f64], ddof: usize) -> f64 {
    if sample.len() <= ddof {
        return 0.0;
    }
    let centre = mean(sample);
    let squares: f64 = sample.iter().map(|x| (x - centre) * (x - centre)).sum();
    (squares / (sample.len() - ddof) as f64).sqrt()
}

/// The `q`-quantile of an ascending sample, with linear interpolation between order statistics
/// (type 7 of Hyndman and Fan 1996, the default of numpy); zero for an empty sample.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let position = q.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    let share = position - below as f64;
    // This form returns the order statistic itself when both neighbours are equal.
    sorted[below] + (sorted[above] - sorted[below]) * share
}

/// Pearson's correlation of two samples of one length; zero when one of them does not vary.
pub fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let (centre_a, centre_b) = (mean(a), mean(b));
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        let (x, y) = (x - centre_a, y - centre_b);
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    let scale = (aa * bb).sqrt();
    if scale > 0.0 { (ab / scale).clamp(-1.0, 1.0) } else { 0.0 }
}

/// Sorts finite numbers ascending.
pub fn sort(sample: &mut [f64]) {
    sample.sort_unstable_by(f64::total_cmp);
}

/// Rounded to nine significant digits: short to print, and the same number after a way through JSON.
pub fn tidy(value: f64) -> f64 {
    format!("{value:.8e}").parse().expect("a formatted number is a number")
}

/// A two-sided test of equal proportions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProportionTest {
    /// Positive when the first proportion is the larger one.
    pub z: f64,
    pub p: f64,
}

/// Pooled two-proportion z test of `(successes, trials)` pairs; `None` when the pooled variance is zero.
pub fn two_proportions(first: (u64, u64), second: (u64, u64)) -> Option<ProportionTest> {
    let (x1, n1, x2, n2) = (first.0 as f64, first.1 as f64, second.0 as f64, second.1 as f64);
    if n1 <= 0.0 || n2 <= 0.0 {
        return None;
    }
    let pooled = (x1 + x2) / (n1 + n2);
    let error = (pooled * (1.0 - pooled) * (1.0 / n1 + 1.0 / n2)).sqrt();
    if error <= 0.0 {
        return None;
    }
    let z = (x1 / n1 - x2 / n2) / error;
    Some(ProportionTest { z, p: erfc(z.abs() / std::f64::consts::SQRT_2) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expect: f64, tolerance: f64) {
        assert!((found - expect).abs() <= tolerance, "{found} is not {expect}");
    }

    #[test]
    fn proportion_tests_match_the_golden_vectors() {
        let check = |first, second, z, p, tolerance| {
            let test = two_proportions(first, second).unwrap();
            near(test.z, z, 1e-7);
            near(test.p, p, tolerance);
        };
        check((100, 100), (40, 50), 4.629_100_5, 3.67e-6, 1e-8);
        check((98, 100), (46, 50), 1.767_767_0, 0.0771, 5e-5);
        check((198, 200), (190, 200), 2.344_841_5, 0.0190, 5e-5);
        assert_eq!(two_proportions((5, 5), (7, 7)), None);
    }

    #[test]
    fn quantiles_interpolate_linearly() {
        let sample: Vec<f64> = (1..=10).map(f64::from).collect();
        near(quantile(&sample, 0.25), 3.25, 1e-12);
        near(quantile(&sample, 0.5), 5.5, 1e-12);
        near(quantile(&sample, 0.75), 7.75, 1e-12);
        near(quantile(&[7.0], 0.99), 7.0, 0.0);
        near(deviation(&sample, 0), 2.872_281_3, 1e-7);
    }
}
