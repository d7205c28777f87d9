//! Tests of the ledger, the page that is made of it, references to its lines, and the judgement of
//! what a run recorded.

mod ci;
#[cfg(unix)]
mod cluster;
mod enter;
mod join;
mod judge;
#[cfg(unix)]
mod kept;
mod ledger;
mod named;
mod nightly;
mod page;
mod rows;
mod seen;
