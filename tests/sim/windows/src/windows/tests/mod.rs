//! What the stand-in's Windows does, seen from outside: command lines in; exit codes, output, files and hives out.

mod accounts;
mod agent;
mod attach;
mod azure;
mod clone;
mod cloudbase;
mod cmd;
mod direct;
mod event_log;
mod guest;
mod msi;
mod ntfs;
mod plan;
mod program;
mod real;
mod registry;
mod security;
mod service;
mod servicing;
mod shipped;
mod steps;
mod tasks;
