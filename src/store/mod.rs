//! The content-addressed store and its `Blob`s.
//!
//! A `Blob` is a file whose bytes were proved. It has no public constructor: only `Store::admit` makes one.
