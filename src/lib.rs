//! winimg.
