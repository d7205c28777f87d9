//! Whatever a recipe says arrives in the guest's registry and services as it was said.
//!
//! The way there is modelled from its sources: glib's `gspawn-win32.c` protects each argument, its
//! helper reads them with CommandLineToArgvW and protects them again, the program reads them with
//! the C runtime's rules. Both the rule of glib 2.60 and the one before it are walked, for every
//! string over an alphabet of the characters that hurt.

use crate::plan::recipe::Maker;
use winimg_recipe::ops::Encoding;
use winimg_recipe::plan::{self, PayloadEntry, PlannedOp, ProgramRun};
use winimg_recipe::verbs::*;
use winimg_recipe::*;

const ALPHABET: [char; 8] = ['a', ' ', '\t', '"', '\\', '%', '/', 'é'];
const LONGEST: usize = 4;

fn all_strings() -> Vec<String> {
    let mut all = vec![String::new()];
    let mut from = 0;
    for _ in 0..LONGEST {
        let upto = all.len();
        for i in from..upto {
            for c in ALPHABET {
                let longer = format!("{}{c}", all[i]);
                all.push(longer);
            }
        }
        from = upto;
    }
    all
}

/// glib's protect_argv_string; `old`: before 2.60, which left the backslashes before the closing
/// quote alone.
fn glib_protect(argument: &str, old: bool) -> String {
    let quote = argument.contains(' ') || argument.contains('\t');
    let mut out = String::new();
    if quote {
        out.push('"');
    }
    let mut pending = 0;
    for c in argument.chars() {
        match c {
            '\\' => pending += 1,
            '"' => {
                out.push_str(&"\\".repeat(pending + 1));
                pending = 0;
            }
            _ => pending = 0,
        }
        out.push(c);
    }
    if quote {
        if !old {
            out.push_str(&"\\".repeat(pending));
        }
        out.push('"');
    }
    out
}

/// CommandLineToArgvW for what follows the program's name: 2n backslashes and a quote are n
/// backslashes, 2n+1 are n and a quote itself; two quotes inside quotes are one.
fn to_argv(line: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut current: Option<String> = None;
    let mut quoted = false;
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        if !quoted && (c == ' ' || c == '\t') {
            out.extend(current.take());
            continue;
        }
        let word = current.get_or_insert_default();
        match c {
            '\\' => {
                let mut run = 1;
                while rest.next_if_eq(&'\\').is_some() {
                    run += 1;
                }
                if rest.peek() == Some(&'"') {
                    word.push_str(&"\\".repeat(run / 2));
                    if run % 2 == 1 {
                        word.push('"');
                        rest.next();
                    }
                } else {
                    word.push_str(&"\\".repeat(run));
                }
            }
            '"' if quoted && rest.next_if_eq(&'"').is_some() => word.push('"'),
            '"' => quoted = !quoted,
            c => word.push(c),
        }
    }
    out.extend(current);
    out
}

fn joined(arguments: &[String], old: bool) -> String {
    let protected: Vec<String> = arguments.iter().map(|a| glib_protect(a, old)).collect();
    protected.join(" ")
}

/// The arguments that the program finds in its argv.
fn arrived(arguments: &[String], old: bool) -> Vec<String> {
    to_argv(&joined(&to_argv(&joined(arguments, old)), old))
}

fn only_run(step: &plan::PlannedStep) -> &ProgramRun {
    let mut runs = step.ops.iter().filter_map(|op| match op {
        PlannedOp::Run(run) => Some(run),
        _ => None,
    });
    runs.next().expect("a run")
}

fn after<'a>(arguments: &'a [String], option: &str) -> &'a str {
    let at = arguments.iter().position(|a| a == option).expect(option);
    &arguments[at + 1]
}

/// `"name"="data"` of a `.reg` file, or `hex(1):`.
fn imported(text: &str) -> (String, String) {
    let line = text.split("\r\n").nth(3).expect("the value's line");
    let text = text.replace(",\\\r\n  ", ",");
    let line = if line.ends_with('\\') {
        text.split("\r\n").nth(3).expect("it")
    } else {
        line
    };
    let (name, rest) = reg_string(line);
    let data = rest.strip_prefix('=').expect("an equals sign");
    match data.strip_prefix("hex(1):") {
        Some(hex) => {
            let bytes: Vec<u16> = hex
                .split(',')
                .map(|b| u16::from_str_radix(b, 16).expect("hex"))
                .collect();
            let units: Vec<u16> = bytes.chunks(2).map(|b| b[0] | b[1] << 8).collect();
            let text = String::from_utf16(&units).expect("UTF-16");
            (name, text.strip_suffix('\0').expect("a NUL").to_owned())
        }
        None => (name, reg_string(data).0),
    }
}

fn reg_string(text: &str) -> (String, &str) {
    let mut out = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => out.push(chars.next().expect("an escaped character").1),
            '"' => return (out, &text[at + 1..]),
            c => out.push(c),
        }
    }
    panic!("no closing quote in {text}");
}

#[test]
fn every_string_reaches_the_registry() {
    let (mut direct, mut by_file) = (0, 0);
    for text in all_strings() {
        // A value's name cannot hold a tab; the data is what is tried with one.
        let name = format!("n{}", text.replace('\t', ""));
        let recipe = Maker::new()
            .step("value", |m| {
                m.registry(
                    r"HKLM\SOFTWARE\X Y",
                    Some(&name),
                    RegistryValueData::Sz(text.clone()),
                )
            })
            .made();
        let plan = plan::make(&recipe).expect("a plan");
        let run = only_run(&plan.steps[0]);
        if run.arguments[0] == "import" {
            by_file += 1;
            let Some(PayloadEntry::Text {
                text: file,
                encoding: Encoding::Utf16,
                ..
            }) = plan.payload.first()
            else {
                panic!("no .reg file for {text:?}");
            };
            assert_eq!(imported(file), (name, text));
            continue;
        }
        direct += 1;
        for old in [false, true] {
            let found = arrived(&run.arguments, old);
            assert_eq!(found, run.arguments, "{text:?}, old glib: {old}");
            assert_eq!(
                (after(&found, "/v"), after(&found, "/d")),
                (name.as_str(), text.as_str())
            );
        }
    }
    assert!(
        direct > 1000 && by_file > 100,
        "{direct} direct, {by_file} by file"
    );
}

#[test]
fn every_argument_reaches_the_program_of_a_service() {
    for text in all_strings() {
        let recipe = Maker::new()
            .step("service", |m| {
                let mut service = m.service("x");
                service.program = Some(m.path(r"C:\Program Files\x.exe"));
                service.arguments = vec!["-a".into(), text.clone(), "-z".into()];
                Verb::Service(service)
            })
            .made();
        let plan = plan::make(&recipe).expect("a plan");
        let run = only_run(&plan.steps[0]);
        for old in [false, true] {
            let found = arrived(&run.arguments, old);
            assert_eq!(found, run.arguments, "{text:?}, old glib: {old}");
            assert_eq!(
                to_argv(after(&found, "binPath=")),
                [r"C:\Program Files\x.exe", "-a", &text, "-z"]
            );
        }
    }
}

#[test]
fn what_the_check_lets_through_arrives() {
    let mut broken = 0;
    for text in all_strings() {
        let arguments = vec!["one".to_owned(), text.clone(), "three".to_owned()];
        let whole = [false, true]
            .iter()
            .all(|&old| arrived(&arguments, old) == arguments);
        let checked = winimg_base::argv::check(r"C:\Windows\System32\reg.exe", &arguments);
        assert!(
            whole || checked.is_err(),
            "{text:?} is let through and breaks"
        );
        broken += usize::from(!whole);
    }
    assert!(broken > 50, "the model breaks nothing: {broken}");
}
