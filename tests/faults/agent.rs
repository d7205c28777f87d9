//! The guest's agent: late, silent, lying, cut; and a guest that goes down at a bad moment.

use crate::faults::case::Case;

const STEP: &str = r"is = '*\steps\001.cmd'";

fn case(name: &'static str) -> Case {
    Case::new("agent", name)
}

pub fn cases() -> Vec<Case> {
    let mut all = bears();
    all.extend(fails());
    all.extend(goes_down());
    all.extend(comes_to_rest());
    all
}

/// What the channel has to bear.
fn bears() -> Vec<Case> {
    vec![
        case("replies come byte by byte").fault("at = 'agent'\ndo = 'agent-splits'\nnumber = 1"),
        case("replies come in pieces of seven bytes")
            .fault("at = 'agent'\ndo = 'agent-splits'\nnumber = 7"),
        case("rubbish before the first reply")
            .fault("at = 'agent'\nis = 'guest-sync'\ndo = 'agent-garbage'"),
        case("an old reply before the first one")
            .fault("at = 'agent'\nis = 'guest-sync'\ndo = 'agent-old-reply'"),
        case("an old reply before the news of a step's end")
            .fault(&format!("at = 'status'\n{STEP}\ndo = 'agent-old-reply'")),
        case("the first reply is three seconds late")
            .fault("at = 'agent'\nis = 'guest-sync'\ndo = 'agent-late'\nms = 3000"),
        case("the first reply never comes")
            .fault("at = 'agent'\nis = 'guest-sync'\ndo = 'agent-drops'"),
        case("the port opens, closes and opens again")
            .fault("at = 'agent'\nis = 'guest-sync'\ndo = 'port-closes'\nms = 300"),
        case("the guest restarts as the agent first answers")
            .fault("at = 'agent'\nis = 'guest-sync'\ndo = 'resets'"),
        case("the answer to a step's start is a second late").fault(&format!(
            "at = 'command'\n{STEP}\ndo = 'agent-late'\nms = 1000"
        )),
    ]
}

/// Windows after a feature: it answers, works on, and may restart by itself.
fn comes_to_rest() -> Vec<Case> {
    let serviced = |name| {
        case(name)
            .recipe(
                "still_limit = \"4s\"",
                "still_limit = \"4s\"\nsettle_time = \"2s\"",
            )
            .recipe(
                "cmd = \"echo hello\"\ntimeout = \"3s\"",
                "feature = \"Containers\"",
            )
            .answer("command = '*\\dism.exe *'\nexit = 3010")
    };
    let question = "is = '*payload.cmd 000-2'";
    vec![
        serviced("Windows restarts by itself after a feature")
            .fault(&format!("at = 'command'\n{question}\ndo = 'resets'")),
        serviced("the port closes while Windows comes to rest")
            .fault(&format!("at = 'status'\n{question}\ndo = 'port-closes'\nms = 300")),
        serviced("the port closes whenever Windows is asked whether it is at rest")
            .faults((1..=6).map(|nth| {
                format!("at = 'command'\n{question}\ndo = 'port-closes'\nms = 300\nnth = {nth}")
            }))
            .fails(7, "Windows does not stay up after servicing"),
        case("servicing does not end")
            .recipe("reboot = {}", "checkpoint = {}")
            .recipe("generalize = {}", "generalize = {}\ntimeout = \"3s\"")
            .answer("command = '*payload.cmd 000-2'\nexit = 1618\noutput = \"servicing is at work: process TiWorker.exe\\r\\n\"")
            .fails(7, "Windows was still busy after")
            .says("servicing is at work: process TiWorker.exe"),
    ]
}

/// What it can't bear.
fn fails() -> Vec<Case> {
    let late = "the program did not end within";
    vec![
        case("silent from a step on").fault(&format!("at = 'command'\n{STEP}\ndo = 'agent-silent'")).fails(7, late),
        case("the answer to a step's start never comes").fault(&format!("at = 'command'\n{STEP}\ndo = 'agent-drops'")).fails(7, late),
        case("the news of a step's end is lost").fault(&format!("at = 'status'\n{STEP}\ndo = 'agent-drops'")).fails(7, late),
        case("the news of a step's end comes after its timeout")
            .fault(&format!("at = 'status'\n{STEP}\ndo = 'agent-late'\nms = 4000"))
            .fails(7, late),
        case("rubbish instead of a reply in a step")
            .fault(&format!("at = 'command'\n{STEP}\ndo = 'agent-garbage'"))
            .fails(8, "invalid reply of the guest agent"),
        case("it refuses to start a program")
            .fault(&format!("at = 'command'\n{STEP}\ndo = 'refuses'\nwords = 'Guest agent command failed, error was Access is denied.'"))
            .fails(7, "the guest cannot start the program")
            .says("Access is denied"),
        case("it forgets the program").fault(&format!("at = 'status'\n{STEP}\ndo = 'forgets'")).fails(8, "lost the program it ran"),
        case("it does not tell the exit code")
            .fault(&format!("at = 'status'\n{STEP}\ndo = 'no-code'"))
            .fails(8, "did not report how the program ended"),
    ]
}

/// The guest goes down.
fn goes_down() -> Vec<Case> {
    let down = "the guest went down while the step ran";
    vec![
        case("the guest restarts under a step")
            .fault(&format!("at = 'command'\n{STEP}\ndo = 'resets'"))
            .fails(7, down),
        case("the guest restarts as a step's end is asked for")
            .fault(&format!("at = 'status'\n{STEP}\ndo = 'resets'"))
            .fails(7, down),
        case("the guest restarts in the middle of a put")
            .fault("at = 'command'\nis = '*payload.cmd 002'\ndo = 'resets'")
            .fails(7, down),
        case("the port closes in the middle of a reply")
            .fault(&format!(
                "at = 'status'\n{STEP}\ndo = 'port-closes'\nms = 300"
            ))
            .fails(7, down),
        case("the guest powers off under a step")
            .fault(&format!("at = 'command'\n{STEP}\ndo = 'powers-off'"))
            .fails(7, down),
        case("the guest powers off instead of restarting")
            .with(&["--layers", "none"])
            .fault("at = 'restart'\ndo = 'powers-off'")
            .fails(8, "the guest powered off instead of restarting"),
        case("Windows stops with a bug check under a step")
            .fault(&format!(
                "at = 'command'\n{STEP}\ndo = 'panic'\nnumber = 239"
            ))
            .fails(8, "Windows crashed with a stop error"),
    ]
}
