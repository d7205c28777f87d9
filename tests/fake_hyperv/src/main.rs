//! A Windows PowerShell without Windows: it takes the command line that runs `host.ps1`, speaks its lines, and has a Hyper-V whose guests follow a script.
//!
//! Strict where Hyper-V is: unknown cmdlets and parameters, wrong types, files in use and machines in the wrong state are refused.

mod calls;
mod config;
mod engine;
mod qemu;
mod vhdx;

fn main() {
    let config = config::Config::of_environment();
    let engine = config.and_then(|c| engine::open(&c, &c.state));
    if let Err(why) = engine {
        eprintln!("powershell.exe: {why}");
        std::process::exit(1);
    }
}
