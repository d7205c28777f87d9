//! Tests of winimg's commands, files and pages, by subject. Tests that start machines or read their
//! disks are in `machines.rs`, a separate program, so that two programs link at a time. Slow tests
//! are ignored, each with its reason; the Makefile selects them by path. Code that both programs
//! share is in `tests/support`.

mod book;
mod cli;
mod dependencies;
mod diff;
mod doctor;
mod export;
mod export_record;
mod house;
mod media_answer;
mod packs;
mod parity;
mod pipelines;
mod publish;
mod record;
mod release;
mod release_profile;
mod shipped;
mod upgrade;
mod usage;
mod watch;
mod windows;
