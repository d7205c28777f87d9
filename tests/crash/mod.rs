//! Store operations survive a crash at any write: commands are killed at one system call after another by strace's
//! fault injection, looked at, and run again.

mod durable;
mod kill;
mod operations;
mod site;
