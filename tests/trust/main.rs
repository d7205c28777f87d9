//! Signatures by the field's own tools, judged.

mod authenticode;
mod cms;
mod real;
mod signed;
mod told;
