//! Tests of builds and clones: machines that start, fail and are judged, and the disks they leave.
//! The module comment of `main.rs`, the other program, says how both are run.

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
