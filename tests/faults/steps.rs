//! Programs of the recipe that fail, hang or want a restart.

use crate::faults::case::Case;

const STEP: &str = r"command = '*\steps\001.cmd'";

fn case(name: &'static str) -> Case {
    Case::new("steps", name)
}

pub fn cases() -> Vec<Case> {
    let failed = "a step failed in the guest";
    vec![
        case("a program ends with 1603")
            .answer(&format!(
                "{STEP}\nexit = 1603\noutput = 'Fatal error during installation.'"
            ))
            .fails(7, failed)
            .says("Fatal error during installation.")
            .says("recipe.toml:"),
        case("a program crashes")
            .answer(&format!("{STEP}\nexit = -1073741819"))
            .fails(7, failed)
            .says("0xc0000005"),
        case("a program that is not there")
            .script(r"\steps\*.cmd'", r"\steps\none.cmd'")
            .fails(7, failed)
            .says("9009"),
        case("a program hangs")
            .answer(&format!("{STEP}\ndelay_ms = 600000"))
            .fails(7, "the program did not end within"),
        case("a program ends one second before its timeout")
            .answer(&format!("{STEP}\ndelay_ms = 2000")),
        case("another installation is busy at first")
            .answer(&format!("{STEP}\nexit = 1618\ntimes = 1"))
            .fails(7, failed)
            .says("1618"),
        case("the seal's task cannot be started")
            .answer(
                r"command = '*schtasks.exe /run /tn winimg-seal'
exit = 1",
            )
            .fails(7, failed),
        case("the payload disc cannot be read at first")
            .answer("command = '*payload.cmd 000'\nexit = 1\ntimes = 2"),
        case("the last step but one fails")
            .answer("command = '*\\steps\\004.cmd'\nexit = 5")
            .fails(7, failed),
    ]
}
