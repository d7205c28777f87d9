//! Reads the command line, carries it out, and turns the outcome into an exit status.

use std::process::ExitCode;

use winimg::cli;
use winimg::cmd;

fn main() -> ExitCode {
    cmd::run(cli::parse())
}
