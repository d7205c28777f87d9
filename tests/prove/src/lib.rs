//! What winimg claims about Windows, what shows it here, and what a run on a real medium proved of it.
//!
//! The ledger is `docs/fidelity.toml`; the tables of `docs/fidelity.md` are made of it. `run` builds, verifies and tries images from a medium,
//! `judge` draws a verdict on each claim that has a probe, and `page` shows them. No part of the tool: nobody who builds an image
//! compiles it.

pub mod cluster;
pub mod enter;
pub mod join;
mod joining;
pub mod judge;
pub mod ledger;
pub mod nodes;
pub mod page;
pub mod proof;
mod room;
pub mod rows;
pub mod run;
pub mod seen;
mod site;
mod stages;
pub mod table;
mod work;
