//! Wine as a second judge of the command lines: recipes carried out by winimg's own reader, planner, payload disc, agent
//! client and engine against an agent that quotes as glib does and starts programs of Wine. Effects are read from the
//! prefix's files and registry, never taken from exit codes. `make wine` runs them; see README.md here.

#![cfg(unix)]

mod agent;
mod glib;
mod node;
mod prefix;
mod registry;

mod console;
mod files;
mod packages;
mod quoting;
mod real;
mod recorded;
mod restarts;
mod services;
mod values;
