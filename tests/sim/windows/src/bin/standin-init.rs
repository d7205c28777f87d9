//! Process 1 of the stand-in: Setup from the medium, or the installed system from its disk.

use winimg_standin::{machine, os, setup};

fn main() {
    machine::sys::mount_kernel_file_systems();
    std::panic::set_hook(Box::new(|panic| {
        machine::debug(&format!("panic: {panic}"));
    }));
    // A fault of the stand-in itself must not end process 1: the kernel would panic, and the screen would be lost.
    let ended = std::panic::catch_unwind(|| {
        if machine::asked("standin=os") {
            os::run()
        } else {
            setup::run()
        }
    });
    let Err(_) = ended;
    machine::screen::Screen::open().dialog(&winimg_standin::dialog::stop_code(
        "WINIMG_STAND_IN_FAULT",
        "the stand-in's own program failed; this is not a behaviour of Windows",
    ));
    machine::sys::stay()
}
