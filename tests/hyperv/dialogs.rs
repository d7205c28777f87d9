//! The boxes at which Windows waits for a person: read from Hyper-V's thumbnail, and named within a minute, with their picture.

use std::path::Path;

use crate::hyperv::faults::{Row, row};
use support::screens::{self, SCREENS};

/// During Setup, and as Windows starts.
const SETUP: &str = "call = 'Get-VM', is = '*-Id*', nth = 2";
const SYSPREP: &str = "call = 'guest:start', is = '*schtasks.exe*winimg-seal*'";

/// The pictures are drawn into `folder` by `screens::draw`.
pub fn rows(folder: &Path) -> Vec<Row> {
    vec![
        shown(
            row("Setup says that the product key does not fit"),
            (SETUP, "stands-still", "the product key does not fit"),
            folder,
        )
        .fails(6, "Windows Setup stopped: the product key does not fit"),
        shown(
            row("Setup says that Windows restarted unexpectedly"),
            (SETUP, "stands-still", "an unexpected restart"),
            folder,
        )
        .fails(6, "Windows Setup stopped: an unexpected restart"),
        shown(
            row("a stop error stays on the screen"),
            (
                SETUP,
                "stands-still",
                "stop error INACCESSIBLE_BOOT_DEVICE (0x7B)",
            ),
            folder,
        )
        .fails(
            6,
            "Windows crashed with the stop error INACCESSIBLE_BOOT_DEVICE (0x7B)",
        ),
        shown(
            row("sysprep says that it failed, and Windows goes on behind its box"),
            (SYSPREP, "shows-box", "a fatal error in sysprep"),
            folder,
        )
        .fails(8, "Windows stopped: a fatal error in sysprep"),
    ]
}

fn shown(row: Row, fault: (&str, &str, &str), folder: &Path) -> Row {
    let (at, deed, name) = fault;
    let number = SCREENS.iter().position(|(_, known, _)| *known == name);
    let picture = folder.join(screens::name(number.expect("a known screen")));
    let picture = picture.display();
    row.fault(&format!(
        "[[fault]]\nat = {{{at}}}\ndo = '{deed}'\npicture = '{picture}'"
    ))
    .host("refused = 0", "refused = 0\nstretch_ms = 3000")
    .recipe("timeout = \"20s\"\n", "timeout = \"300s\"\n")
    .pictured()
}
