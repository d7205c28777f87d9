//! Signatures by the field's own tools, judged.

mod checksum;
mod containers;
mod cosign;
mod minisign;
mod openpgp;
mod real;
mod signify;
mod sigstore;
mod told;
mod workshop;
