//! Signatures by the field's own tools, judged.

mod containers;
mod real;
mod told;
