//! Stop errors of Windows (bug checks), with their names and likely causes.
//!
//! Pure. Sources: Microsoft: Bug Check Code Reference; QEMU: QMP reference, GUEST_PANICKED. Only
//! codes that occur while images are built have a cause; all others are shown as a number.

use super::fuzzy_text;

/// A crash of the guest's kernel, reported by the hypervisor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelCrash {
    /// Stop code; pvpanic reports none.
    pub code: Option<u64>,
    pub parameters: Vec<u64>,
}

impl KernelCrash {
    /// Returns for example `INACCESSIBLE_BOOT_DEVICE (0x7B)`.
    pub fn describe(&self) -> Option<String> {
        self.code.map(|code| match by_code(code) {
            Some(known) => known.describe(),
            None => format!("{code:#X}").replace("0X", "0x"),
        })
    }
}

/// A stop code and its likely cause during an image build.
#[derive(Debug, PartialEq, Eq)]
pub struct StopCode {
    pub code: u64,
    pub name: &'static str,
    pub cause: &'static str,
}

impl StopCode {
    pub fn describe(&self) -> String {
        format!("{} (0x{:X})", self.name, self.code)
    }
}

const DRIVER: &str = "a driver is faulty, or made for another Windows";
const DISK_READ: &str =
    "Windows could not read its own disk: the disk's driver, or the disk file on the host";
const DAMAGED: &str = "the file system is damaged: the disk was cut off while Windows wrote";
const PROCESSOR: &str = "the virtual processor lacks a feature that this Windows needs \
                         (Server 2025: SSE4.2 and POPCNT)";
const SLOW: &str = "the processor did not run for too long: an overloaded host, or emulation";

const fn stop(code: u64, name: &'static str, cause: &'static str) -> StopCode {
    StopCode { code, name, cause }
}

const KNOWN: &[StopCode] = &[
    stop(0x0A, "IRQL_NOT_LESS_OR_EQUAL", DRIVER),
    stop(
        0x1A,
        "MEMORY_MANAGEMENT",
        "the guest's memory is too small, or the host's is faulty",
    ),
    stop(
        0x1E,
        "KMODE_EXCEPTION_NOT_HANDLED",
        "the processor model has or misses a feature unexpectedly, or a faulty driver",
    ),
    stop(0x24, "NTFS_FILE_SYSTEM", DAMAGED),
    stop(0x3B, "SYSTEM_SERVICE_EXCEPTION", DRIVER),
    stop(0x50, "PAGE_FAULT_IN_NONPAGED_AREA", DRIVER),
    stop(
        0x51,
        "REGISTRY_ERROR",
        "a registry hive is damaged: the disk was cut off while Windows wrote",
    ),
    stop(
        0x5C,
        "HAL_INITIALIZATION_FAILED",
        "the machine's hardware (timers, interrupt controllers) is not what this Windows expects",
    ),
    stop(0x5D, "UNSUPPORTED_PROCESSOR", PROCESSOR),
    stop(
        0x67,
        "CONFIG_INITIALIZATION_FAILED",
        "the registry could not be set up: a damaged SYSTEM hive",
    ),
    stop(
        0x6B,
        "PROCESS1_INITIALIZATION_FAILED",
        "a file that Windows starts with is missing or damaged",
    ),
    stop(
        0x74,
        "BAD_SYSTEM_CONFIG_INFO",
        "the SYSTEM hive or the boot configuration is damaged",
    ),
    stop(0x77, "KERNEL_STACK_INPAGE_ERROR", DISK_READ),
    stop(0x7A, "KERNEL_DATA_INPAGE_ERROR", DISK_READ),
    stop(
        0x7B,
        "INACCESSIBLE_BOOT_DEVICE",
        "no driver for the disk in the image, or the disk is on another bus than \
         when Windows was installed",
    ),
    stop(0x7E, "SYSTEM_THREAD_EXCEPTION_NOT_HANDLED", DRIVER),
    stop(
        0x9F,
        "DRIVER_POWER_STATE_FAILURE",
        "a driver did not finish when Windows shut down or slept",
    ),
    stop(
        0xA5,
        "ACPI_BIOS_ERROR",
        "the firmware's tables do not fit this Windows",
    ),
    stop(
        0xC4,
        "DRIVER_VERIFIER_DETECTED_VIOLATION",
        "a driver breaks the rules that Driver Verifier, which is on, checks",
    ),
    stop(0xC5, "DRIVER_CORRUPTED_EXPOOL", DRIVER),
    stop(0xD1, "DRIVER_IRQL_NOT_LESS_OR_EQUAL", DRIVER),
    stop(0xED, "UNMOUNTABLE_BOOT_VOLUME", DAMAGED),
    stop(
        0xEF,
        "CRITICAL_PROCESS_DIED",
        "a step replaced, stopped or removed a process that Windows cannot do without",
    ),
    stop(
        0xF4,
        "CRITICAL_OBJECT_TERMINATION",
        "a step stopped a process that Windows cannot do without, or the disk went away",
    ),
    stop(0x101, "CLOCK_WATCHDOG_TIMEOUT", SLOW),
    stop(
        0x109,
        "CRITICAL_STRUCTURE_CORRUPTION",
        "something changed the kernel in memory: a driver, or a processor that is badly emulated",
    ),
    stop(0x133, "DPC_WATCHDOG_VIOLATION", SLOW),
    stop(0x139, "KERNEL_SECURITY_CHECK_FAILURE", DRIVER),
    stop(0x154, "UNEXPECTED_STORE_EXCEPTION", DISK_READ),
    stop(
        0xC000_021A,
        "STATUS_SYSTEM_PROCESS_TERMINATED",
        "winlogon or csrss ended: an update that was half applied, or files of another version",
    ),
    stop(
        0xC000_0221,
        "STATUS_IMAGE_CHECKSUM_MISMATCH",
        "a system file or driver is damaged",
    ),
];

pub fn by_code(code: u64) -> Option<&'static StopCode> {
    // Some codes are shown with 0x10000000 set (SYSTEM_THREAD_EXCEPTION_NOT_HANDLED_M is
    // 0x1000007E).
    let plain = if code >> 28 == 1 {
        code & 0x0fff_ffff
    } else {
        code
    };
    KNOWN.iter().find(|known| known.code == plain)
}

/// Finds the stop code in a screen's text: `Stop code: CRITICAL PROCESS DIED`, `*** STOP:
/// 0x0000007B`. `text` is normalized.
pub fn on_screen(text: &str) -> Option<&'static StopCode> {
    if let Some((_, after)) = text.split_once("st0p0x") {
        let digits = after
            .bytes()
            .take_while(u8::is_ascii_hexdigit)
            .count()
            .min(8);
        let code = u64::from_str_radix(&after[..digits], 16).ok();
        if let Some(known) = code.and_then(by_code) {
            return Some(known);
        }
    }
    // The longest match wins: one name may contain another.
    let mut found: Vec<&StopCode> = KNOWN
        .iter()
        .filter(|known| fuzzy_text::contains_fuzzy(text, &fuzzy_text::normalize_text(known.name)))
        .collect();
    found.sort_by_key(|known| known.name.len());
    found.pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_one_row_and_is_read_from_a_screen() {
        let mut last = 0;
        for known in KNOWN {
            assert!(known.code > last, "{} in its place", known.name);
            last = known.code;
            let shown = format!("Stop code: {}", known.name.replace('_', " "));
            let squashed = fuzzy_text::normalize_text(&shown);
            assert_eq!(on_screen(&squashed), Some(known));
        }
        let old = fuzzy_text::normalize_text("*** STOP: 0x1000007E (0xFFFFFFFFC0000005)");
        assert_eq!(on_screen(&old).map(|k| k.code), Some(0x7e));
        assert_eq!(
            on_screen(&fuzzy_text::normalize_text("Server Manager")),
            None
        );
    }

    /// docs/troubleshooting.md, between its markers.
    #[test]
    fn the_page_of_messages_has_every_stop_error() {
        let section =
            |known: &StopCode| format!("### {}\n\n{}.\n\n", known.describe(), known.cause);
        let text: String = KNOWN.iter().map(section).collect();
        support::golden::section("docs/troubleshooting.md", "stop errors", &text);
    }
}
