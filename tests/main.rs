//! What a user of winimg would notice, by what it is about. The slow ones are ignored, each with its reason; the Makefile runs
//! them by their paths. What these modules and the tests of the other crates share stands in `tests/support`.

mod book;
mod cli;
mod crash;
mod dependencies;
mod diff;
mod doctor;
mod end_to_end;
mod evidence;
mod examples;
mod export;
mod export_record;
mod faults;
mod faults_qemu;
mod house;
mod hyperv;
mod media_answer;
mod packs;
mod pages;
mod parity;
mod pipelines;
mod publish;
mod record;
mod release;
mod release_profile;
mod shipped;
mod story;
mod trial;
mod upgrade;
mod usage;
mod verify;
mod watch;
mod windows;
mod wine;
