//! QEMU itself: killed, silent, stopped; firmware and Setup that come to nothing; accelerators that do not work.

use crate::faults::case::Case;
use crate::faults::site::Site;

/// What the canary said.
const VERDICTS: &str = "cache/accelerator.json";

fn case(name: &'static str) -> Case {
    Case::new("machine", name)
}

pub fn cases() -> Vec<Case> {
    let mut all = ends();
    all.extend(stops());
    all.extend(setup());
    all.extend(hosts());
    all
}

/// The process goes.
fn ends() -> Vec<Case> {
    let killed = "QEMU died: signal 9 (SIGKILL)";
    vec![
        case("QEMU refuses to start")
            .fault("at = 'start'\ndo = 'exit'\nnumber = 1\nwords = 'qemu-system-x86_64: cannot set up guest memory: Cannot allocate memory'")
            .fails(8, "QEMU did not start: it ended with exit status 1")
            .says("Cannot allocate memory"),
        case("QEMU killed at power-on").fault("at = 'power-on'\ndo = 'signal'\nnumber = 9").fails(8, killed),
        case("QEMU killed as Setup starts").fault("at = 'setup'\ndo = 'signal'\nnumber = 9").fails(8, killed),
        case("QEMU killed after the image was applied").fault("at = 'applied'\ndo = 'signal'\nnumber = 9").fails(8, killed),
        case("QEMU killed at Setup's second start").fault("at = 'boot'\nnth = 2\ndo = 'signal'\nnumber = 9").fails(8, killed),
        case("QEMU killed while a step runs")
            .fault("at = 'command'\nis = '*\\steps\\001.cmd'\ndo = 'signal'\nnumber = 9")
            .fails(8, killed),
        case("QEMU killed as the guest restarts")
            .with(&["--layers", "none"]).fault("at = 'restart'\ndo = 'signal'\nnumber = 9").fails(8, killed),
        case("QEMU crashes as Windows powers off")
            .fault("at = 'off'\ndo = 'signal'\nnumber = 11\nwords = 'qemu: fatal: Trying to execute code outside RAM'")
            .fails(8, "QEMU died: signal 11 (SIGSEGV)")
            .says("Trying to execute code outside RAM"),
        case("the guest trips an assertion of the emulator")
            .fault(
                "at = 'setup'\ndo = 'signal'\nnumber = 6\nwords = \"translator.c:175: translator_access: Assertion `phys_page != -1' failed.\"",
            )
            .fails(8, "QEMU died: signal 6 (SIGABRT)")
            .says("translator_access"),
        case("QEMU ends by itself with status 1")
            .fault("at = 'setup'\ndo = 'exit'\nnumber = 1\nwords = 'qemu: hardware error'")
            .fails(8, "QEMU died: exit status 1"),
        case("the monitor closes its connection").fault("at = 'setup'\ndo = 'qmp-closes'").fails(8, "QEMU"),
        case("the monitor says what is no JSON").fault("at = 'setup'\ndo = 'qmp-garbage'"),
        case("QEMU stands still (SIGSTOP)").fault("at = 'setup'\ndo = 'signal'\nnumber = 19").fails(8, "QEMU did not answer"),
        case("the monitor falls silent").fault("at = 'setup'\ndo = 'qmp-silent'").fails(8, "QEMU did not answer"),
    ]
}

/// QEMU stops the guest.
fn stops() -> Vec<Case> {
    vec![
        case("KVM fails under Setup")
            .fault("at = 'setup'\ndo = 'internal-error'")
            .fails(8, "the machine stopped: internal-error")
            .says("KVM internal error")
            .judged(|site, _| is_believed_no_more(site)),
        case("KVM fails under a step")
            .fault("at = 'command'\nis = '*\\steps\\001.cmd'\ndo = 'internal-error'")
            .fails(8, "the machine stopped: internal-error"),
        case("the host's disk fails under Setup")
            .fault("at = 'setup'\ndo = 'io-error'")
            .fails(8, "the machine stopped: io-error")
            .says("Input/output error"),
        case("the host's disk fails under a step")
            .fault("at = 'command'\nis = '*\\steps\\001.cmd'\ndo = 'io-error'")
            .fails(8, "the machine stopped: io-error"),
        case("Windows stops with a bug check in Setup's first start")
            .fault("at = 'boot'\nnth = 2\ndo = 'panic'\nnumber = 123")
            .fails(6, "Windows crashed with a stop error"),
    ]
}

/// Setup comes to nothing.
fn setup() -> Vec<Case> {
    vec![
        case("Setup stands at a box")
            .fault("at = 'setup'\ndo = 'stands-still'")
            .fails(6, "Windows Setup is waiting for input"),
        case("Setup stands after its first restart")
            .fault("at = 'boot'\nnth = 2\ndo = 'stands-still'")
            .fails(6, "Windows Setup is waiting for input"),
        case("Windows hangs in a loop as it is loaded")
            .recipe(
                "timeout = \"20s\"\nstill_limit = \"4s\"",
                "timeout = \"2m\"\nstill_limit = \"2s\"",
            )
            .fault("at = 'loaded'\nnth = 2\ndo = 'spins'")
            .fails(8, "Windows Setup hangs before it draws anything")
            .says("no screen output for"),
        case("the agent is never started")
            .fault("at = 'applied'\ndo = 'stays-away'")
            .fails(6, "Windows Setup is waiting for input"),
        case("Setup keeps restarting")
            .fault("at = 'applied'\ndo = 'reset-loop'\nms = 1100")
            .fails(6, "Windows Setup keeps restarting"),
        case("Setup restarts without a pause")
            .fault("at = 'applied'\ndo = 'reset-loop'\nms = 200")
            .fails(6, "Windows Setup keeps restarting"),
        case("Setup powers the machine off")
            .fault("at = 'setup'\ndo = 'powers-off'")
            .fails(6, "the machine powered off"),
        case("the disk does not boot after Setup: firmware shell")
            .fault("at = 'boot'\nnth = 2\ndo = 'shell'")
            .fails(6, "the disk does not boot after Windows Setup's restart"),
        case("the disk does not boot after Setup: no device")
            .fault("at = 'boot'\nnth = 2\ndo = 'nothing-boots'")
            .fails(6, "the disk does not boot after Windows Setup's restart"),
        case("the install disc does not boot")
            .fault("at = 'boot'\ndo = 'shell'")
            .fails(6, "the firmware finds nothing to boot"),
        case("the bootstrap fails")
            .script(r"agent=0\r\nresult=ok", r"agent=1603\r\nresult=failed")
            .fails(6, "the bootstrap inside Windows failed")
            .says("agent=1603"),
        case("the disc asks for a key").recipe("[machine]\n", "[machine]\nfirmware = \"bios\"\n"),
    ]
}

/// The next build asks the accelerator again.
fn is_believed_no_more(site: &Site) -> Vec<String> {
    if site.read(VERDICTS).contains(" Hvf ") {
        vec!["the accelerator is still believed to work".into()]
    } else {
        Vec::new()
    }
}

/// What the host's QEMU can do.
fn hosts() -> Vec<Case> {
    let offers = "accelerators = [\"tcg\", \"hvf\"]";
    let canary = |how: &str| format!("{offers}\ncanary = {{ hvf = \"{how}\" }}");
    let unusable = "--accel hvf does not work on this host";
    let unknown = |name| {
        case(name).before(|site| {
            std::fs::remove_file(site.path(VERDICTS)).expect("what the canary said");
            Box::new(())
        })
    };
    vec![
        unknown("the accelerator crashes under a guest")
            .script(offers, &canary("crashes"))
            .refuses(3, unusable)
            .says("SIGABRT"),
        unknown("the accelerator crawls")
            .script(offers, &canary("crawls"))
            .refuses(3, unusable)
            .says("crawls"),
        unknown("no permission for the accelerator")
            .script(offers, &canary("refused"))
            .refuses(3, unusable)
            .says("Permission denied"),
        unknown("the firmware fails on the accelerator")
            .script(offers, &canary("firmware-stops"))
            .refuses(3, unusable)
            .says("internal-error"),
        case("KVM is broken and emulation is taken")
            .script(
                offers,
                "accelerators = [\"tcg\", \"kvm\"]\ncanary = { kvm = \"crashes\" }",
            )
            .with(&["--accel", "auto"])
            .says("emulating the processor"),
        case("QEMU is too old")
            .script(offers, "version = \"6.2.0\"")
            .refuses(3, "this QEMU is too old"),
        unknown("QEMU has no such accelerator")
            .script(offers, "accelerators = [\"tcg\"]")
            .refuses(3, unusable),
        case("the accelerator that worked is there no more")
            .script(offers, "accelerators = [\"tcg\"]")
            .fails(8, "QEMU did not start")
            .judged(|site, _| is_believed_no_more(site)),
    ]
}
