//! What a user of winimg would notice of its commands, files and pages, by what it is about. What starts machines or judges
//! their disks is in `machines.rs`, a program of its own, so that two link at a time. The slow ones are ignored, each with its
//! reason; the Makefile runs them by their paths. What both programs share stands in `tests/support`.

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
