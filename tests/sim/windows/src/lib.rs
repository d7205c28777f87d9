//! A stand-in for Windows Setup and for an installed Windows Server, for winimg's own tests. Not Windows.
//!
//! It keeps the contract between Setup and an answer file: what real Setup would refuse, it refuses, with a screen that
//! stays. `setup` runs from the medium, `os` from the disk that Setup wrote, `windows` is what programs see there.

pub mod answer;
pub mod dialog;
pub mod disk;
pub mod layout;
pub mod machine;
pub mod medium;
pub mod os;
pub mod setup;
pub mod windows;
