//! Many builds from one file: in which order, what they share, when each may start, and the page about all of them.
//!
//! Pure: reads no file and starts nothing; `cmd::matrix` does. What a matrix says is `winimg_recipe::recipe::matrix`.

pub mod outline;
pub mod overview;
mod page;
pub mod pipeline;
mod schedule;
mod turn;

pub use page::{PAGE, Row, page};
pub use schedule::{Candidate, Installation, Schedule, Shared, Variant};
pub use turn::{Host, State, startable};
