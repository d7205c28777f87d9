//! Signatures by the field's own tools, judged.

mod attacks;
mod authenticode;
mod checksum;
mod cms;
mod containers;
mod cosign;
mod folders;
mod kept;
mod minisign;
mod openpgp;
mod places;
mod policies;
mod real;
mod render;
mod revocation;
mod schemes;
mod signed;
mod signify;
mod sigstore;
mod workshop;
