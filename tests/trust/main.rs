//! Signatures by the field's own tools, judged.

mod authenticode;
mod cms;
mod containers;
mod real;
mod signed;
mod told;
