//! The page of a failed step with everything on it, and the search for secrets in all that was kept.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use winimg::engine::evidence::ReachedStep;
use winimg_base::error::{Error, Kind};
use winimg_base::event::{Event, Phase};
use winimg_base::text::{Place, Secret, SourceText};

use crate::evidence::scene::Failed;
use support::planted::{PASSWORD, PRODUCT_KEY, Search};
use support::windows_disk::{WindowsDisk, can_make};

/// One grey pixel.
pub const GREY: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==";

const RECIPE: &str = "schema = 1\nname = \"node\"\n\n[[steps]]\nname = \"features\"\nfeature = { name = \"Containers\" }\n\n[[steps]]\n\
                      name = \"seal\"\nurl = \"https://h.example/a?sig=abc\"\n";

/// With the second of each event.
fn events() -> [(i64, Event); 8] {
    let begun = |phase| Event::PhaseStarted {
        phase,
        last_seconds: None,
    };
    [
        (0, begun(Phase::Fetch)),
        (
            4,
            Event::PhaseFinished {
                phase: Phase::Fetch,
                seconds: 4.25,
            },
        ),
        (5, begun(Phase::Install)),
        (300, Event::Restarted { count: 1 }),
        (
            1200,
            Event::PhaseFinished {
                phase: Phase::Install,
                seconds: 1195.0,
            },
        ),
        (1200, begun(Phase::Provision)),
        (
            1201,
            Event::StepStarted {
                step: 1,
                of: 2,
                name: "<features>".into(),
                place: "recipe.toml:4:1".parse().expect("a place"),
            },
        ),
        (
            1202,
            Event::Output {
                step: 1,
                text: "x".into(),
            },
        ),
    ]
}

fn answer_file() -> String {
    let utf16 =
        |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    let encoded = STANDARD.encode(utf16(&format!("{PASSWORD}AdministratorPassword")));
    format!(
        "<?xml version=\"1.0\"?><unattend><AdministratorPassword><Value>{encoded}</Value><PlainText>false</PlainText>\
         </AdministratorPassword><AutoLogon><Password><Value>{PASSWORD}</Value></Password></AutoLogon><Other><Password><Value>\
         another</Value></Password></Other><ProductKey><Key>{PRODUCT_KEY}</Key></ProductKey><ComputerName>*</ComputerName></unattend>"
    )
}

fn failed_step() -> (Failed, Error) {
    let mut failed = Failed::new();
    failed.secrets = vec![Secret::new(PASSWORD), Secret::new(PRODUCT_KEY)];
    failed.phase = Phase::Provision;
    failed.step = Some(ReachedStep {
        number: 1,
        name: "<features>".into(),
        is_running: true,
    });
    failed.events = events().into();
    failed.next =
        "the next build resumes from the layer after the installation: 1 of 3 parts are done";
    let output = format!(
        "> dism.exe /online /enable-feature\n\x1b[31mError: 0x800f081f\x1b[0m\n</pre><script>alert(1)</script>\nnet user \
         Administrator {PASSWORD}\n"
    );
    failed.write("out/logs/01-features.log", &output);
    failed.write("out/logs/02-seal.log", "not begun\n");
    failed.write(
        "run/qemu.log",
        "qemu-system-x86_64: warning: <host doesn't support it>\n",
    );
    failed.write(
        "run/serial.log",
        "\x1b[2J\x1b[01;01HBdsDxe: starting Boot0004 \"Windows Boot Manager\"\r\n",
    );
    failed.write(
        "run/agent.log",
        format!("> 2026-01-02T03:04:05.000Z {{\"x\":\"{PASSWORD}\"}}\n"),
    );
    failed.write("run/uefi-vars.fd", "variables");
    let png = STANDARD.decode(GREY).expect("base64");
    let mut times = String::new();
    for n in 1..=8 {
        failed.write(&format!("run/screens/{n:04}.png"), &png);
        times += &format!(
            "{{\"file\":\"{n:04}.png\",\"time\":\"2026-01-02T03:0{n}:00Z\",\"after\":{},\"stage\":\"Windows <{n}>\"}}\n",
            n * 40
        );
    }
    failed.write("run/screens/times.jsonl", times);
    let mut disk = WindowsDisk::sound();
    disk.not_sealed();
    disk.no_file(r"C:\Windows\System32\Sysprep\Sysprep_succeeded.tag");
    disk.image_state("IMAGE_STATE_COMPLETE");
    disk.file(r"C:\Windows\Panther\unattend.xml", answer_file().as_bytes());
    disk.file(r"C:\Unattend.xml", b"<unattend><Password>broken");
    let log = format!(
        "2026-01-02 03:04:05, Error  DISM  {PASSWORD} and {PRODUCT_KEY} [0x800f081f] <!--\r\n"
    );
    let wide: Vec<u8> = log.encode_utf16().flat_map(u16::to_le_bytes).collect();
    disk.file(r"C:\Windows\Logs\DISM\dism.log", &wide);
    disk.write(&failed.disk());
    let source = Arc::new(SourceText::new("recipe.toml", RECIPE));
    let error = Error::new(Kind::Step, "a step failed in the guest")
        .at(format!(
            "full log: {}",
            failed.path("out/logs/01-features.log").display()
        ))
        .or_place(&Place::new(&source, 26..35))
        .expected("exit 0")
        .found("exit code -2146498529")
        .lines(["> dism.exe /online /enable-feature", "Error: 0x800f081f"]);
    (failed, error)
}

#[test]
fn the_page_shows_everything_that_is_known() {
    if !can_make() {
        return;
    }
    let (failed, error) = failed_step();
    let error = failed.keep(error).to_string();
    assert_eq!(failed.warned(), Vec::<String>::new());
    assert_eq!(failed.read("out/failure/error.txt"), format!("{error}\n"));
    insta::assert_snapshot!("error", failed.filtered(&error));
    insta::assert_snapshot!("files", failed.files().join("\n"));
    let page = failed.read("out/report.html");
    insta::assert_snapshot!("page", failed.filtered(&page).replace(GREY, "[picture]"));
    let kept = failed.read("out/failure/logs-of-windows/Windows/Panther/unattend.xml");
    insta::assert_snapshot!("answer_file", kept);
    // A tab's title and the heading name the step.
    let named = |step: &str| format!("Step 1, {step}: a step failed in the guest");
    let (title, heading) = (
        named("`&lt;features&gt;`"),
        named("<code>&lt;features&gt;</code>"),
    );
    assert!(page.contains(&format!("<title>node: {title}</title>")));
    assert!(page.contains(&format!("<h1 class=\"bad\">{heading}</h1>")));
    if let Ok(place) = std::env::var("WINIMG_TEST_PAGE") {
        std::fs::write(place, page).expect("the page");
    }
}

#[test]
fn no_secret_is_in_any_file_that_is_kept() {
    if !can_make() {
        return;
    }
    let (failed, error) = failed_step();
    let search = Search::default();
    // The search finds them where they are.
    assert!(!search.in_bytes(answer_file().as_bytes()).is_empty());
    failed.keep(error);
    let mut found = Vec::new();
    let files = failed.files().into_iter();
    let files = files.map(|file| format!("failure/{file}"));
    for file in files.chain(["report.html".into()]) {
        let bytes = std::fs::read(failed.path(&format!("out/{file}"))).expect("a file");
        let finds = search.in_bytes(&bytes);
        found.extend(finds.into_iter().map(|what| format!("{file}: {what}")));
    }
    assert_eq!(found, Vec::<String>::new());
    // Foreign ones, too.
    let kept = failed.read("out/failure/logs-of-windows/Windows/Panther/unattend.xml");
    assert!(!kept.contains("another"), "{kept}");
}
