//! The ledger is whole, the page is made of it, what names a line of it finds it, and what a run saw is judged.

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
