//! Control: a random order. What any method must beat, and a check of the chance level on a board.

use model::{Answer, Result};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use super::{About, Algorithm, Input, Minimum, suspects};
use crate::frame::Pack;

pub struct Random;

impl Algorithm for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn about(&self) -> About {
        About {
            summary: "the candidates in a random order drawn from the seed",
            source: "the dummy baseline of RCAEval (Pham et al., ASE 2024)",
            input: &[Input::Inventory],
            shapes: "the list of candidates",
            units: "score without a unit: there is none but the order",
            complexity: "O(services)",
            minimum: Minimum::NONE,
            deviations: &["orders the candidates rather than the services seen in abnormal traces and logs"],
            control: true,
            in_house: false,
        }
    }

    fn rank(&self, pack: &Pack, seed: u64) -> Result<Vec<Answer>> {
        let mut names: Vec<&str> = pack.candidates.iter().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names.shuffle(&mut Pcg64::seed_from_u64(seed));
        Ok(suspects::in_order(names))
    }
}
