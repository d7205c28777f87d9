//! How proved bytes get here and stay: fetch, registries, the store, layers, the shared cache, bundles; and how a finished image
//! gets away.
//!
//! Refuses whatever has no proof: only `store::Store::admit` makes a `Blob`.

pub mod bundle;
pub mod fetch;
pub mod publish;
pub mod store;
