//! Signatures by the field's own tools, judged.

mod sigstore;
