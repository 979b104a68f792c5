//! Control: the same alphabetical list for every pack. Shows how far a data set's balance alone carries.

use model::{Answer, Result};

use super::{About, Algorithm, Input, Minimum, suspects};
use crate::frame::Pack;

pub struct Constant;

impl Algorithm for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn about(&self) -> About {
        About {
            summary: "the candidates in alphabetical order, whatever happened",
            source: "a control without data",
            input: &[Input::Inventory],
            shapes: "the list of candidates",
            units: "score without a unit: there is none but the order",
            complexity: "O(services log services)",
            minimum: Minimum::NONE,
            deviations: &[],
            control: true,
            in_house: false,
        }
    }

    fn rank(&self, pack: &Pack, _seed: u64) -> Result<Vec<Answer>> {
        let mut names: Vec<&str> = pack.candidates.iter().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        Ok(suspects::in_order(names))
    }
}
