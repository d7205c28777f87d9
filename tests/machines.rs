//! What a user of winimg would notice of builds and clones: machines that start, go wrong and are judged, and the disks they
//! leave. The other program is `main.rs`, which says how both are run.

mod crash;
mod end_to_end;
mod evidence;
mod examples;
mod faults;
mod faults_qemu;
mod hyperv;
mod pages;
mod story;
mod trial;
mod verify;
mod wine;
