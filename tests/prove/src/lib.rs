//! What winimg claims about Windows, what shows it here, and what a run on a real medium proved of it.
//!
//! The ledger is `docs/fidelity.toml`; the tables of `docs/fidelity.md` are made of it. No part of the tool: nobody who builds an image
//! compiles it.

pub mod ledger;
pub mod table;
