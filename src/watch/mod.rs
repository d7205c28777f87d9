//! Serves the pages of builds on the loopback interface and updates them while the builds run.
//!
//! `board` stores the pages, `server` serves them, `frame` renders the page around the parts,
//! with `live.js`. It knows nothing about builds: `winimg watch` (`src/cmd/watch.rs`) fills the
//! board.

mod board;
mod frame;
mod server;

pub use board::{Board, PagePart};
pub use server::WatchServer;
