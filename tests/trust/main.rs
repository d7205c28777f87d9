//! Signatures by the field's own tools, judged.

mod real;
mod told;
