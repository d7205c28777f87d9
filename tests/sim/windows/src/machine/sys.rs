//! System calls and tools: mounting, kernel modules, block devices, the end of a boot.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

const BLKRRPART: libc::Ioctl = 0x125F;
const CDROM_DRIVE_STATUS: libc::Ioctl = 0x5326;
const CDROM_MEDIA_CHANGED: libc::Ioctl = 0x5325;
const CDS_DISC_OK: i32 = 4;

fn c(text: impl AsRef<OsStr>) -> io::Result<CString> {
    CString::new(text.as_ref().as_bytes()).map_err(io::Error::other)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// mount(2); `target` is made when absent.
pub fn mount(
    source: &str,
    target: &Path,
    kind: &str,
    flags: libc::c_ulong,
    options: &str,
) -> io::Result<()> {
    std::fs::create_dir_all(target)?;
    let (source, target, kind, options) = (c(source)?, c(target)?, c(kind)?, c(options)?);
    // SAFETY: four C strings that outlive the call.
    check(unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            flags,
            options.as_ptr().cast(),
        )
    })
}

pub fn unmount(target: &Path) -> io::Result<()> {
    let target = c(target)?;
    // SAFETY: a C string that outlives the call.
    check(unsafe { libc::umount2(target.as_ptr(), 0) })
}

/// Unmounts as soon as nobody uses it, and from sight at once.
pub fn detach(target: &Path) -> io::Result<()> {
    let target = c(target)?;
    // SAFETY: a C string that outlives the call.
    check(unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) })
}

/// What a freshly started init needs.
pub fn mount_kernel_file_systems() {
    for (kind, target) in [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("devtmpfs", "/dev"),
        ("tmpfs", "/tmp"),
        ("tmpfs", "/run"),
    ] {
        let _ = mount(kind, Path::new(target), kind, 0, "");
    }
}

/// Loads the modules of `/modules/LIST` that are not loaded yet.
pub fn load_modules(list: &str) -> io::Result<()> {
    for name in std::fs::read_to_string(Path::new("/modules").join(list))?.split_whitespace() {
        let file = File::open(format!("/modules/{name}.ko"))?;
        // SAFETY: the descriptor is open, the parameter string is empty and static.
        let result =
            unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) };
        let error = io::Error::last_os_error();
        if result != 0 && error.raw_os_error() != Some(libc::EEXIST) {
            return Err(io::Error::other(format!("{name}.ko: {error}")));
        }
    }
    Ok(())
}

/// Makes the kernel read a disk's partition table again.
pub fn reread_partitions(disk: &File) -> io::Result<()> {
    // SAFETY: no argument.
    check(unsafe { libc::ioctl(disk.as_raw_fd(), BLKRRPART) })
}

/// Keeps CD trays free while a CD is in use, as under Windows. The CD driver has to be loaded.
pub fn leave_trays_unlocked() {
    let _ = std::fs::write("/proc/sys/dev/cdrom/lock", "0");
}

/// Whether a CD drive holds a medium.
pub fn holds_medium(drive: &File) -> bool {
    // SAFETY: the argument is a slot number, not a pointer.
    unsafe { libc::ioctl(drive.as_raw_fd(), CDROM_DRIVE_STATUS, i32::MAX) == CDS_DISC_OK }
}

/// Whether the medium was changed since this was last asked.
pub fn medium_changed(drive: &File) -> bool {
    // SAFETY: the argument is a slot number, not a pointer.
    unsafe { libc::ioctl(drive.as_raw_fd(), CDROM_MEDIA_CHANGED, i32::MAX) == 1 }
}

/// Columns and rows of a console.
pub fn console_size(console: &File) -> Option<(u16, u16)> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the pointer is to a winsize that lives through the call.
    let result = unsafe { libc::ioctl(console.as_raw_fd(), libc::TIOCGWINSZ, &mut size) };
    (result == 0 && size.ws_col > 0).then_some((size.ws_col, size.ws_row))
}

/// Runs a tool of the initrd; its whole output is in the error when it fails.
pub fn tool(name: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(format!("/bin/{name}"))
        .args(arguments)
        .output()
        .map_err(|e| format!("{name}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(format!(
        "{name} {}: {}: {}",
        arguments.join(" "),
        output.status,
        String::from_utf8_lossy(&text).trim()
    ))
}

/// Everything to disk, then a reset or power off. Never comes back.
pub fn end(restart: bool) -> ! {
    // SAFETY: neither takes memory.
    unsafe {
        libc::sync();
        libc::reboot(if restart {
            libc::RB_AUTOBOOT
        } else {
            libc::RB_POWER_OFF
        });
    }
    stay()
}

/// Waits for ever without using the processor.
pub fn stay() -> ! {
    loop {
        std::thread::sleep(std::time::Duration::from_secs(3600));
    }
}
