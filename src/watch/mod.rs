//! The pages of builds on the loopback interface, brought up to date while the builds go on.
//!
//! `board` holds what is shown, `server` gives it to browsers, `served` is the page around it, with `live.js`. Knows no build: what
//! is shown is put on the board by `winimg watch` (`src/cmd/watch.rs`).

mod board;
mod served;
mod server;

pub use board::{Board, Part};
pub use server::Server;
