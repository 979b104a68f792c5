//! Counters at the mechanisms: how much passed while a condition was set, and how much of it was touched.

use cluster::Witness;

/// The number of one counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meter(u32);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    pub passed: u64,
    pub touched: u64,
}

/// All counters of a simulation, one per fault.
#[derive(Debug, Default)]
pub struct Meters {
    readings: Vec<Reading>,
}

impl Meters {
    #[expect(clippy::cast_possible_truncation, reason = "a run has a handful of faults")]
    pub fn add(&mut self) -> Meter {
        self.readings.push(Reading::default());
        Meter(self.readings.len() as u32 - 1)
    }

    pub fn count(&mut self, meter: Meter, touched: bool) {
        self.count_many(meter, 1, u64::from(touched));
    }

    pub fn count_many(&mut self, meter: Meter, passed: u64, touched: u64) {
        let reading = &mut self.readings[meter.0 as usize];
        reading.passed += passed;
        reading.touched += touched;
    }

    pub fn read(&self, meter: Meter) -> Reading {
        self.readings[meter.0 as usize]
    }
}

/// The decision about one fault: touched at least `count` units and at least `share` of what passed.
pub fn judge(fault: &str, unit: &str, reading: Reading, share: f64, count: u64) -> Witness {
    let Reading { passed, touched } = reading;
    let enough = touched >= count;
    let wide = passed > 0 && touched as f64 >= share * passed as f64;
    let reason = if passed == 0 {
        format!("no {unit} passed the mechanism while the fault was on")
    } else {
        let found = touched as f64 / passed as f64;
        let verdict = match (enough, wide) {
            (true, true) => "enough",
            (false, _) => "too few",
            (true, false) => "too small a share",
        };
        format!(
            "{touched} of {passed} {unit} were touched ({:.1} %); needed {count} and {:.1} %: {verdict}",
            100.0 * found,
            100.0 * share
        )
    };
    Witness {
        fault: fault.to_owned(),
        exposed: enough && wide,
        unit: unit.to_owned(),
        passed,
        touched,
        threshold_share: share,
        threshold_count: count,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_thresholds_decide() {
        let exposed = |passed, touched| judge("f", "requests", Reading { passed, touched }, 0.1, 5).exposed;
        assert!(exposed(50, 5));
        assert!(!exposed(51, 5), "the share is too small");
        assert!(!exposed(10, 4), "the count is too small");
        assert!(!exposed(0, 0));
    }
}
