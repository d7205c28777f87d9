//! `winimg watch`: what its server gives and refuses, and what it says of builds that run, end and die.

mod builds;
mod server;
