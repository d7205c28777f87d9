//! The answer file as Windows Setup reads it: the document, its schema, and what Setup decides from it.
//!
//! Everything here is pure. It refuses what Setup refuses and never repairs: a file that a real Setup would stop on
//! must not pass here.

pub mod document;
pub mod password;
pub mod plan;
pub mod product_key;
pub mod schema;
pub mod search;
#[cfg(test)]
mod tests;

pub use document::{Answer, Element, Pass};
