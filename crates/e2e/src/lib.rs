//! Whole-product tests: the real programs, on the simulated cluster, from the outside. All of it is in `tests/it`.
