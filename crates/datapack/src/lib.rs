//! datapack
