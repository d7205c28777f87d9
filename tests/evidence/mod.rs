//! What a failed build leaves: the reading of disks in every state, the page, and that no secret is in any of it.

mod agent;
mod disks;
pub mod page;
mod reading;
mod scene;
