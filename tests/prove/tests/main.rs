//! The ledger is whole, the page is made of it, no doubt is spoken without it, and what a run saw is judged.

mod ci;
#[cfg(unix)]
mod cluster;
mod doubts;
mod enter;
mod join;
mod judge;
#[cfg(unix)]
mod kept;
mod ledger;
mod nightly;
mod page;
mod rows;
mod said;
mod seen;
