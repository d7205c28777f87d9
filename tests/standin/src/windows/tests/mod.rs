//! What the stand-in's Windows does, seen from outside: command lines in; exit codes, output, files and hives out.

mod agent;
mod cmd;
mod accounts;
mod guest;
mod security;
mod servicing;
mod tasks;
mod msi;
mod ntfs;
mod program;
mod registry;
mod service;
