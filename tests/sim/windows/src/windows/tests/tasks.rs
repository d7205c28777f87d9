use super::guest::Guest;
use super::program::codes;
use crate::windows::Data;

const CACHE: &str = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion\Schedule\TaskCache";

fn task(triggers: &str, principal: &str, settings: &str, actions: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-16\"?>\r\n<Task version=\"1.2\" xmlns=\"http://schemas.microsoft.com/windows/2004/02/mit/task\"><RegistrationInfo/><Triggers>{triggers}</Triggers><Principals><Principal id=\"Author\">{principal}</Principal></Principals><Settings>{settings}</Settings>{actions}</Task>"
    )
}

const SYSTEM: &str = "<UserId>S-1-5-18</UserId><RunLevel>HighestAvailable</RunLevel>";
const ACTION: &str = "<Actions Context=\"Author\"><Exec><Command>C:\\k\\x.exe</Command><Arguments>a</Arguments></Exec></Actions>";

fn wide(text: &str) -> Vec<u8> {
    [0xff, 0xfe]
        .into_iter()
        .chain(text.encode_utf16().flat_map(u16::to_le_bytes))
        .collect()
}

#[test]
fn a_task_is_a_file_and_an_entry_of_the_cache() {
    let guest = Guest::new();
    let boot = "<BootTrigger><Enabled>true</Enabled><Delay>PT30S</Delay></BootTrigger>";
    let limit = "<ExecutionTimeLimit>PT0S</ExecutionTimeLimit><Priority>7</Priority>";
    guest.put(r"C:\t.xml", &wide(&task(boot, SYSTEM, limit, ACTION)));
    codes(
        &guest,
        &[
            (r"schtasks /create /tn \Example\clean /xml C:\t.xml /f", 0),
            (r"schtasks /create /tn \Example\clean /xml C:\t.xml", 1),
            (r"schtasks /query /tn \Example\clean", 0),
        ],
    );
    let kept = guest.get(r"C:\Windows\System32\Tasks\Example\clean");
    assert_eq!(kept, guest.get(r"C:\t.xml"));
    let tree = format!(r"{CACHE}\Tree\Example\clean");
    assert_eq!(guest.windows.value(&tree, "Index"), Some(Data::Dword(1)));
    let Some(Data::Text(id)) = guest.windows.value(&tree, "Id") else {
        panic!("no Id")
    };
    let path = guest.windows.value(&format!(r"{CACHE}\Tasks\{id}"), "Path");
    assert_eq!(path, Some(Data::Text(r"\Example\clean".into())));
    codes(&guest, &[(r"schtasks /delete /tn \Example\clean /f", 0)]);
    assert!(guest.windows.value_names(&tree).is_empty());
    assert!(
        !guest
            .host(r"C:\Windows\System32\Tasks\Example\clean")
            .exists()
    );
}

#[test]
fn definitions_that_the_scheduler_refuses() {
    let guest = Guest::new();
    let daily = "<CalendarTrigger><StartBoundary>2020-01-01T03:00:00</StartBoundary><ScheduleByDay><DaysInterval>1</DaysInterval></ScheduleByDay></CalendarTrigger>";
    let refused = [
        ("no actions", task(daily, SYSTEM, "", "")),
        (
            "no command",
            task("", SYSTEM, "", "<Actions><Exec/></Actions>"),
        ),
        (
            "an unknown principal",
            task(
                "",
                SYSTEM,
                "",
                &ACTION.replace("\"Author\"", "\"Somebody\""),
            ),
        ),
        (
            "an unknown account",
            task("", "<UserId>nobody</UserId>", "", ACTION),
        ),
        (
            "a level",
            task("", &SYSTEM.replace("Highest", "Very"), "", ACTION),
        ),
        (
            "an order",
            task(
                "<BootTrigger><Delay>PT1S</Delay><Enabled>true</Enabled></BootTrigger>",
                SYSTEM,
                "",
                ACTION,
            ),
        ),
        (
            "no start",
            task(
                "<TimeTrigger><Enabled>true</Enabled></TimeTrigger>",
                SYSTEM,
                "",
                ACTION,
            ),
        ),
        (
            "a delay of a calendar",
            task(
                &daily.replace("</Cal", "<Delay>PT1S</Delay></Cal"),
                SYSTEM,
                "",
                ACTION,
            ),
        ),
        (
            "a duration",
            task(
                "",
                SYSTEM,
                "<ExecutionTimeLimit>1h</ExecutionTimeLimit>",
                ACTION,
            ),
        ),
        (
            "a duration without parts",
            task(
                "",
                SYSTEM,
                "<ExecutionTimeLimit>PT</ExecutionTimeLimit>",
                ACTION,
            ),
        ),
        (
            "a priority",
            task("", SYSTEM, "<Priority>11</Priority>", ACTION),
        ),
        (
            "a setting",
            task("", SYSTEM, "<Colour>red</Colour>", ACTION),
        ),
        (
            "a setting twice",
            task(
                "",
                SYSTEM,
                "<Hidden>true</Hidden><Hidden>true</Hidden>",
                ACTION,
            ),
        ),
    ];
    for (what, xml) in refused {
        guest.put(r"C:\t.xml", &wide(&xml));
        let (code, said) = guest.run(r"schtasks /create /tn x /xml C:\t.xml /f");
        assert!(code == 1 && said.starts_with("ERROR: "), "{what}: {said}");
    }
    let good = task(daily, SYSTEM, "", ACTION);
    // Declared UTF-16 and written otherwise: as many editors leave it.
    guest.put(r"C:\t.xml", good.as_bytes());
    let (code, said) = guest.run(r"schtasks /create /tn x /xml C:\t.xml");
    assert_eq!(
        (code, said.as_str()),
        (
            1,
            "ERROR: The task XML is malformed.\n(1,40)::ERROR: unable to switch the encoding\n"
        )
    );
    guest.put(r"C:\t.xml", good.replace("UTF-16", "UTF-8").as_bytes());
    codes(&guest, &[(r"schtasks /create /tn x /xml C:\t.xml", 0)]);
    assert_eq!(
        guest.get(r"C:\Windows\System32\Tasks\x"),
        wide(&good),
        "kept in UTF-16"
    );
}
