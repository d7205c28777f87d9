//! The recipe: read, lowered, merged, locked and planned.
//!
//! Pure: knows no network and no machine.

pub mod lock;
pub mod plan;
pub mod recipe;
