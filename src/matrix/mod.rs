//! Many builds from one file: their order, their shared layers, when each may start, and a page
//! about all of them.
//!
//! Pure: reads no file and starts nothing; `cmd::matrix` does. The format of a matrix is in
//! `winimg_recipe::matrix`.

mod capacity;
pub mod outline;
pub mod overview;
mod page;
pub mod pipeline;
mod schedule;

pub use capacity::{HostResources, VariantProgress, find_startable};
pub use page::{MatrixRow, PAGE, render_page};
pub use schedule::{
    Schedule, ScheduledInstallation, ScheduledVariant, SharedParts, VariantCandidate,
};
