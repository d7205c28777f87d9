//! Reads the command line, carries it out, and turns the outcome into an exit status.

use std::process::ExitCode;

use clap::Parser as _;

use winimg::cli::Cli;
use winimg::cmd;

fn main() -> ExitCode {
    cmd::run(Cli::parse())
}
