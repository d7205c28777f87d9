//! What the Windows volume of an image holds: the record, the tree for people, the page's drawing.

mod command;
mod page;
pub mod record;
