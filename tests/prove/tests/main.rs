//! The ledger is whole, the page is made of it, and no doubt is spoken without it.

mod doubts;
mod ledger;
