//! The ledger is whole, the page is made of it, no doubt is spoken without it, and what a run saw is judged.

mod ci;
mod doubts;
mod enter;
mod judge;
mod ledger;
mod nightly;
mod page;
mod rows;
mod seen;
