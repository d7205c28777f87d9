//! Signatures by the field's own tools, judged.

mod checksum;
mod cosign;
mod minisign;
mod openpgp;
mod signify;
mod sigstore;
mod workshop;
