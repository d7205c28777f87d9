//! A person at a terminal: the live line is there while something is under way, and nothing of it stays.

use std::process::{Command, Stdio};

use crate::cli::site::{SEAL, Site, program};

/// The screen after the bytes, as a terminal without an end shows it: carriage returns, cursor up, erased lines.
pub fn screen(bytes: &str) -> Vec<String> {
    let mut lines: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0usize, 0usize);
    let mut rest = bytes.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' => column = 0,
            '\n' => {
                row += 1;
                column = 0;
            }
            '\u{1b}' => {
                assert_eq!(rest.next(), Some('['), "only control sequences are known");
                let mut number = String::new();
                let end = loop {
                    match rest.next().expect("a whole sequence") {
                        c if c.is_ascii_alphabetic() => break c,
                        c => number.push(c),
                    }
                };
                let count: usize = number.parse().unwrap_or(1);
                match end {
                    'A' => row = row.saturating_sub(count),
                    'B' => row += count,
                    'K' => {
                        let from = if number == "2" { 0 } else { column };
                        lines[row].truncate(from);
                    }
                    'm' | 'h' | 'l' => {}
                    other => panic!("an unknown control sequence: {number}{other}"),
                }
            }
            c => {
                let line = &mut lines[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = c;
                column += 1;
            }
        }
        while lines.len() <= row {
            lines.push(Vec::new());
        }
    }
    lines
        .iter()
        .map(|line| line.iter().collect::<String>().trim_end().to_string())
        .collect()
}

/// The program on a pseudo-terminal of `script` (util-linux).
pub fn terminal(site: &Site, arguments: &str) -> Command {
    let words: Vec<&str> = arguments.split(' ').collect();
    let program = program(&words).display().to_string();
    let environment = site.command(&[]);
    let mut command = Command::new("script");
    command
        .args(["--quiet", "--return", "--command"])
        .arg(format!("stty cols 200; exec {program} {arguments}"))
        .arg("/dev/null")
        .current_dir(site.path(""))
        .env_clear()
        .stdin(Stdio::null());
    for (name, value) in environment.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command.env("TERM", "xterm");
    command
}

/// All that was written there, and the status.
fn on_a_terminal(site: &Site, arguments: &str) -> (String, Option<i32>) {
    let output = terminal(site, arguments).output().expect("script starts");
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        output.status.code(),
    )
}

const BUILD: &str =
    "build recipe.toml --hypervisor fake:machine.toml --output out --no-verify --layers none";
const STEP: &str = "[[steps]]\nname = \"hello\"\ncmd = \"echo hello\"\n";

fn same_as_in_a_log(answer: &str) -> String {
    let site = Site::new(&format!("{STEP}\n{SEAL}"));
    site.machine("", answer);
    let (raw, status) = on_a_terminal(&site, BUILD);
    let mut shown = screen(&raw);
    // The one line that only a person can use.
    let screens = |line: &String| line.contains("the machine's screen: winimg screen ");
    assert_eq!(shown.iter().filter(|line| screens(line)).count(), 1);
    shown.retain(|line| !screens(line));
    let shown = shown.join("\n");
    let log = site.build(&["--layers", "none"]);
    assert_eq!(status, log.status(), "{shown}");
    let plain = log.stderr() + &log.stdout();
    // The console's own line end after the last line.
    assert_eq!(site.filtered(&shown).trim_end(), plain.trim_end());
    raw
}

#[test]
fn a_good_build_leaves_on_the_screen_what_a_log_would_hold() {
    let raw = same_as_in_a_log(
        "[[run]]\ncommand = '*\\steps\\001.cmd'\noutput = \"hello\\u001b[31m\\r\\n\"\ndelay_ms = 400\n",
    );
    // While the command ran, the live line turned below it.
    let spinner = ['⠋', '⠙', '⠹', '⠸', '⠁', '⠉', '⠙', '⠚', '⠒'];
    let live = raw.chars().filter(|c| spinner.contains(c)).count();
    assert!(live > 1, "no live line: {raw:?}");
    assert!(
        !raw.contains("\u{1b}[31m"),
        "the guest colours the host's terminal: {raw:?}"
    );
}

/// What the live line said, one after the other; its clock is left out.
fn live_lines(site: &Site, raw: &str) -> String {
    let spinner = |c: char| ('\u{2800}'..='\u{28ff}').contains(&c);
    let control = regex::Regex::new(r"\x1b\[[0-9?]*[a-zA-Z]").expect("a pattern");
    let clock = regex::Regex::new(r"\b\d+:\d\d\b").expect("a pattern");
    let plain = control.replace_all(raw, "");
    let frames = plain.split(['\r', '\n']);
    let lines = frames.filter_map(|frame| frame.strip_prefix(spinner));
    let lines = lines.map(|line| clock.replace_all(line.trim(), "[clock]").into_owned());
    // Of what passes at once a frame may be drawn or not.
    let slow = |line: &String| {
        let phase = line.starts_with("install ") || line.starts_with("provision ");
        phase && !line.ends_with(':') && !line.contains("the guest agent answers")
    };
    let mut lines: Vec<String> = lines.filter(slow).collect();
    lines.dedup();
    site.filtered(&lines.join("\n"))
}

#[test]
fn the_live_line_of_a_build_and_of_the_next() {
    let site = Site::new(&format!("{STEP}\n{SEAL}"));
    site.machine(
        "[install]\ndelay_ms = 700\nprogress = [\"Windows Setup\", \"specialize\"]\nrestarts = 1\n",
        &format!(
            "[[run]]\ncommand = '*\\payload.cmd 001'\noutput = \"one\\r\\ntwo {}\\r\\n\"\ndelay_ms = 700\n\
             [[run]]\ncommand = '*\\steps\\001.cmd'\ndelay_ms = 700\n\
             [[run]]\ncommand = '*\\payload.cmd 002'\ndelay_ms = 700\n",
            "and more ".repeat(20)
        ),
    );
    for name in ["first", "next"] {
        let (raw, status) = on_a_terminal(&site, BUILD);
        assert_eq!(status, Some(0), "{raw}");
        insta::assert_snapshot!(format!("live_{name}"), live_lines(&site, &raw));
    }
}

#[test]
fn a_failing_build_ends_with_its_error() {
    same_as_in_a_log(
        "[[run]]\ncommand = '*\\steps\\001.cmd'\nexit = 5\ndelay_ms = 400\noutput = \"no\"\n",
    );
}

#[test]
fn complaints_are_coloured_on_a_terminal_only() {
    let site = Site::new("[[steps]]\nname = \"later\"\nfirewal = { port = 10250 }\n");
    let (raw, status) = on_a_terminal(&site, "validate recipe.toml");
    assert_eq!(status, Some(2));
    assert!(raw.contains("\u{1b}[1m"), "{raw:?}");
    let log = site.run(&["validate", "recipe.toml"]);
    assert_eq!(
        site.filtered(&screen(&raw).join("\n")).trim_end(),
        log.stderr().trim_end()
    );
}
