//! What the stand-in's Windows does, seen from outside: command lines in; exit codes, output, files and hives out.

mod agent;
mod cmd;
mod guest;
mod msi;
mod ntfs;
mod plan;
mod program;
mod registry;
mod service;
