//! Python's `sorted` where some keys are not numbers.
//!
//! A comparison with NaN is false, so a list that holds one ends up in an order that only the sorting algorithm explains.
//! CPython 3.12 sorts lists of fewer than 64 items by one run that is in order already and binary insertion of the rest.

/// Lists that are sorted by insertion alone.
pub(super) const INSERTION: usize = 63;

/// `sorted(range(len(keys)), key=keys.__getitem__, reverse=True)` for at most [`INSERTION`] keys.
pub(super) fn descending(keys: &[f64]) -> Vec<usize> {
    debug_assert!(keys.len() <= INSERTION, "longer lists are merged");
    // A descending sort is an ascending one of the reversed list, reversed again: what is equal keeps its place.
    let mut list: Vec<usize> = (0..keys.len()).rev().collect();
    let less = |a: usize, b: usize| keys[a] < keys[b];
    let sorted = first_run(&mut list, less);
    for next in sorted..list.len() {
        let pivot = list[next];
        let (mut low, mut high) = (0, next);
        while low < high {
            let middle = low + (high - low) / 2;
            if less(pivot, list[middle]) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        list[low..=next].rotate_right(1);
    }
    list.reverse();
    list
}

/// Makes the run at the start ascending and gives its length.
fn first_run(list: &mut [usize], less: impl Fn(usize, usize) -> bool) -> usize {
    if list.len() < 2 {
        return list.len();
    }
    let falling = less(list[1], list[0]);
    let goes_on = |pair: &[usize]| less(pair[1], pair[0]) == falling;
    let length = 1 + list.windows(2).take_while(|pair| goes_on(pair)).count();
    if falling {
        list[..length].reverse();
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_sorted_and_a_key_that_is_none_stands_in_the_way() {
        assert_eq!(descending(&[1.0, 3.0, 2.0, 3.0]), [1, 3, 2, 0]);
        // As printed by Python 3.12.1: nothing moves past what is no number.
        let nan = f64::NAN;
        assert_eq!(descending(&[1.0, nan, 5.0, 2.0, nan, 9.0]), PRINTED);
    }

    const PRINTED: [usize; 6] = [0, 1, 2, 3, 4, 5];
}
