//! What a test does where something is missing that it needs: it says so and passes by. Where continuous integration says that
//! everything is there, with `WINIMG_NO_SKIP=1`, which `make test` sets, it fails.

use std::fmt::Display;
use std::io::Write as _;

/// For what `tests/install-packages.sh` installs, and for the rights that it needs itself.
pub fn skipped(why: impl Display) {
    let forbidden = std::env::var_os("WINIMG_NO_SKIP").is_some_and(|v| v == "1");
    skipped_unless(forbidden, why);
}

pub fn skipped_unless(forbidden: bool, why: impl Display) {
    assert!(
        !forbidden,
        "skipped: {why}; WINIMG_NO_SKIP=1 forbids it, and tests/install-packages.sh installs what is missing"
    );
    told(&format!("skipped: {why}"));
}

/// For what no package brings, such as KVM: named, and a failure nowhere.
pub fn not_tried(why: impl Display) {
    told(&format!("not tried: {why}"));
}

/// Past the test harness, which keeps what a passing test prints to itself.
fn told(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
