//! Supply of verified bytes: downloads, registries, the store, layers, the shared cache and
//! bundles; and publishing of finished images.
//!
//! Refuses everything without proof: only `store::Store::admit` makes a `Blob`.

pub mod bundle;
pub mod fetch;
pub mod publish;
mod runtime;
pub mod store;
