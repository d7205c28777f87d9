//! Machines as command lines and scripts, the guest agent, and a real QEMU.

mod hyperv_scripts;
mod machine;
mod machine_agent;
mod machine_qemu;
mod machine_screen;
mod over_image;
