//! Internal commands of cmd.exe that are not about files.

use super::{Flow, Frame, Scope, Shell, arithmetic, clock, cmdline, expand, files, word};
use crate::windows::volume::Cwd;

/// Internal commands that the stand-in has; a name that Windows has and this list has not is refused by name.
const NAMES: [&str; 47] = [
    "assoc", "break", "call", "cd", "chdir", "cls", "color", "copy", "date", "del", "dir", "echo",
    "endlocal", "erase", "exit", "ftype", "goto", "md", "mkdir", "mklink", "move", "path", "pause",
    "popd", "prompt", "pushd", "rd", "ren", "rename", "rmdir", "set", "setlocal", "shift", "start",
    "time", "title", "type", "ver", "verify", "vol", "for", "if", "else", "chcp", "dpath", "keys",
    "rem",
];

/// The internal command at the start of a command's text, and what follows its name.
pub fn split(text: &str) -> Option<(String, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let name = text[..end].to_ascii_lowercase();
    let next = text[end..].chars().next();
    let ends = next.is_none_or(|c| " \t,;=.:\\/+[]()\"".contains(c));
    // `start.exe`, `copy.cmd`: a file, unless it is `echo.` or `cd..`.
    let file = next == Some('.')
        && text[end + 1..].starts_with(|c: char| c.is_ascii_alphabetic())
        && name != "echo";
    (ends && !file && NAMES.contains(&name.as_str())).then(|| (name, &text[end..]))
}

pub fn run(shell: &mut Shell, name: &str, rest: &str) -> Flow {
    match name {
        "echo" => echo(shell, rest),
        "set" => set(shell, rest),
        "call" => return call(shell, rest),
        "goto" => {
            let label = rest.trim_start_matches([' ', '\t', ':']);
            let end = label
                .find([' ', '\t', ':', '+', ',', ';', '='])
                .unwrap_or(label.len());
            let colon = rest.trim_start().starts_with(':');
            let label = label[..end].to_owned();
            if shell.frames.is_empty() {
                return Flow::Next;
            }
            let eof = colon && label.eq_ignore_ascii_case("eof");
            return Flow::Goto(if eof { "eof".into() } else { label });
        }
        "exit" => return exit(shell, rest),
        "shift" => shift(shell, rest),
        "setlocal" => setlocal(shell, rest),
        "endlocal" => {
            if let Some(scope) = shell.frames.last_mut().and_then(|frame| frame.scopes.pop()) {
                shell.restore(scope);
            }
            shell.code = 0;
        }
        "start" => return start(shell, rest),
        "ver" => {
            let version = shell.p.machine.version();
            shell
                .p
                .print(&format!("\nMicrosoft Windows [Version {version}]\n"));
            shell.fail(0);
        }
        "cls" | "title" | "color" | "prompt" | "break" | "verify" => shell.code = 0,
        "chcp" => code_page(shell, rest.trim()),
        "path" => path(shell, rest),
        "pause" => {
            shell.p.complain("pause: nobody is there to press a key\n");
            shell.fail(1);
        }
        "date" | "time" => {
            if rest.trim().eq_ignore_ascii_case("/t") {
                let (date, time) = clock();
                shell
                    .p
                    .print(&format!("{}\n", if name == "date" { date } else { time }));
                shell.fail(0);
            } else {
                refuse(shell, name, rest);
            }
        }
        "cd" | "chdir" | "copy" | "del" | "erase" | "dir" | "md" | "mkdir" | "mklink" | "move"
        | "popd" | "pushd" | "rd" | "ren" | "rename" | "rmdir" | "type" | "vol" => {
            files::run(shell, name, rest)
        }
        _ => refuse(shell, name, rest),
    }
    Flow::Next
}

fn refuse(shell: &mut Shell, name: &str, rest: &str) {
    shell
        .p
        .complain(&format!("the stand-in's cmd.exe can't do: {name}{rest}\n"));
    shell.fail(1);
}

/// `chcp.com` of the real system; here a command of the shell, whose console it changes.
fn code_page(shell: &mut Shell, number: &str) {
    match number.parse() {
        Ok(page @ (437 | 65001)) => shell.p.code_page = page,
        Err(_) if number.is_empty() => {}
        _ => {
            shell.p.complain("Invalid code page\n");
            return shell.fail(1);
        }
    }
    let text = format!("Active code page: {}\n", shell.p.code_page);
    shell.p.print(&text);
    shell.fail(0);
}

fn echo(shell: &mut Shell, rest: &str) {
    let on_off = rest.trim().to_ascii_lowercase();
    let plain = rest.starts_with([' ', '\t']);
    match on_off.as_str() {
        "on" | "off" if plain => shell.echo = on_off == "on",
        "" if plain || rest.is_empty() => {
            shell.p.print(if shell.echo {
                "ECHO is on.\n"
            } else {
                "ECHO is off.\n"
            });
        }
        _ => {
            // One character after the name is the separator.
            let text = rest
                .get(rest.chars().next().map_or(0, char::len_utf8)..)
                .unwrap_or("");
            shell.p.print(&format!("{text}\n"));
        }
    }
    shell.code = 0;
}

/// In a `.cmd` file a successful command of this kind clears ERRORLEVEL, in a `.bat` file it leaves it.
fn clear(shell: &mut Shell) {
    shell.code = 0;
    if shell.frames.last().is_none_or(|frame| frame.is_cmd) {
        shell.errorlevel = 0;
    }
}

fn set(shell: &mut Shell, rest: &str) {
    let text = rest.trim_start();
    let switch = text.get(..2).map(str::to_ascii_lowercase);
    match switch.as_deref() {
        Some("/a") => match arithmetic::evaluate(&text[2..], &mut shell.p.env) {
            Ok(value) => {
                if shell.frames.is_empty() {
                    shell.p.print(&value.to_string());
                }
                clear(shell);
            }
            Err(message) => {
                shell.p.complain(&format!("{message}\n"));
                shell.fail(1073750988);
            }
        },
        Some("/p") => {
            let (name, prompt) = assignment(text[2..].trim_start()).unwrap_or_default();
            shell.p.print(&prompt);
            let line = String::from_utf8_lossy(&shell.p.stdin)
                .lines()
                .next()
                .map(str::to_owned);
            match line.filter(|line| !line.is_empty()) {
                Some(line) => {
                    shell.p.env.set(&name, &line);
                    clear(shell);
                }
                None => shell.fail(1),
            }
        }
        _ => match assignment(text) {
            Some((name, value)) if !name.is_empty() => {
                shell.p.env.set(&name, &value);
                clear(shell);
            }
            Some(_) => {
                shell
                    .p
                    .complain("The syntax of the command is incorrect.\n");
                shell.fail(1);
            }
            None => list(shell, text.trim().trim_matches('"')),
        },
    }
}

/// `NAME=VALUE`, or `"NAME=VALUE"` with everything after the last quote dropped.
fn assignment(text: &str) -> Option<(String, String)> {
    let text = match text.strip_prefix('"') {
        Some(quoted) => quoted.rfind('"').map_or(quoted, |end| &quoted[..end]),
        None => text,
    };
    text.split_once('=')
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
}

fn list(shell: &mut Shell, prefix: &str) {
    let upper = prefix.to_uppercase();
    let found: Vec<String> = shell
        .p
        .env
        .iter()
        .filter(|(name, _)| name.to_uppercase().starts_with(&upper))
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect();
    if found.is_empty() && !prefix.is_empty() {
        shell
            .p
            .complain(&format!("Environment variable {prefix} not defined\n"));
        shell.fail(1);
    } else {
        shell.p.print(&found.concat());
        clear(shell);
    }
}

fn path(shell: &mut Shell, rest: &str) {
    match rest.trim_start_matches([' ', '\t', '=']) {
        "" => {
            let path = shell.p.env.get("Path").unwrap_or("").to_owned();
            shell.p.print(&format!("PATH={path}\n"));
        }
        value => shell
            .p
            .env
            .set("Path", if value == ";" { "" } else { value }),
    }
    clear(shell);
}

fn call(shell: &mut Shell, rest: &str) -> Flow {
    // `call` expands its line once more.
    let text = expand::percent(&shell.context(), rest.trim_start());
    if let Some(label) = text.strip_prefix(':') {
        return subroutine(shell, label);
    }
    if let Some((name, rest)) = split(&text) {
        return run(shell, &name, rest);
    }
    let (name, rest) = word(&text);
    match shell.program(&name) {
        Some(found) => shell.launch(&found, &name, rest, true),
        None if name.is_empty() => Flow::Next,
        None => {
            let flow = shell.unknown(&name);
            shell.fail(1);
            flow
        }
    }
}

fn subroutine(shell: &mut Shell, text: &str) -> Flow {
    let (label, rest) = word(text);
    let Some(frame) = shell.frames.last() else {
        shell
            .p
            .complain("Invalid attempt to call batch label outside of batch script.\n");
        shell.fail(1);
        return Flow::Next;
    };
    let Some(at) = (if label.eq_ignore_ascii_case("eof") {
        Some(frame.lines.len())
    } else {
        shell.label(&label)
    }) else {
        shell.p.complain(&format!(
            "The system cannot find the batch label specified - {label}\n"
        ));
        shell.fail(1);
        return Flow::Next;
    };
    let mut args = vec![format!(":{label}")];
    args.extend(super::arguments(rest));
    let (file, lines, is_cmd) = (frame.file.clone(), frame.lines.clone(), frame.is_cmd);
    shell.code = 0;
    let flow = shell.frame(Frame {
        file,
        lines,
        at,
        args,
        scopes: vec![],
        is_cmd,
    });
    shell.code = shell.errorlevel;
    if flow == Flow::Quit {
        Flow::Quit
    } else {
        Flow::Next
    }
}

fn exit(shell: &mut Shell, rest: &str) -> Flow {
    let mut words = rest
        .split([' ', '\t', ',', ';', '='])
        .filter(|word| !word.is_empty())
        .peekable();
    let leave = words
        .next_if(|word| word.eq_ignore_ascii_case("/b"))
        .is_some();
    match words.next().map(arithmetic::number) {
        Some(Some(code)) => shell.fail(code),
        // A word that is no number counts as 0.
        Some(None) => shell.fail(0),
        None => shell.code = shell.errorlevel,
    }
    if leave && !shell.frames.is_empty() {
        Flow::Leave
    } else {
        Flow::Quit
    }
}

fn shift(shell: &mut Shell, rest: &str) {
    let from = rest
        .trim()
        .strip_prefix('/')
        .map_or(Some(0), |n| n.parse::<usize>().ok());
    match (from, shell.frames.last_mut()) {
        (Some(from), Some(frame)) if from < 9 => {
            if from < frame.args.len() {
                frame.args.remove(from);
            }
            shell.code = 0;
        }
        (_, None) => shell.code = 0,
        _ => {
            shell.p.complain("Invalid parameter to SHIFT command\n");
            shell.fail(1);
        }
    }
}

fn setlocal(shell: &mut Shell, rest: &str) {
    let scope = Scope {
        env: shell.p.env.clone(),
        cwd: shell.p.cwd.clone(),
        delayed: shell.delayed,
    };
    let mut delayed = shell.delayed;
    for word in rest.split_whitespace() {
        match word.to_ascii_lowercase().as_str() {
            "enableextensions" => {}
            "enabledelayedexpansion" => delayed = true,
            "disabledelayedexpansion" => delayed = false,
            other => {
                shell
                    .p
                    .complain(&format!("setlocal: {other}: the stand-in can't do that\n"));
                return shell.fail(1);
            }
        }
    }
    if let Some(frame) = shell.frames.last_mut() {
        frame.scopes.push(scope);
        shell.delayed = delayed;
    }
    shell.fail(0);
}

/// `start` runs the program to its end before going on; only without `/wait` is its exit code lost.
fn start(shell: &mut Shell, rest: &str) -> Flow {
    let mut text = rest.trim_start();
    if text.starts_with('"') {
        // The first quoted word is the window's title.
        text = text[1..]
            .split_once('"')
            .map_or("", |(_, after)| after)
            .trim_start();
    }
    let (mut wait, mut dir) = (false, None);
    while text.starts_with('/') {
        let end = text.find([' ', '\t']).unwrap_or(text.len());
        let switch = text[..end].to_ascii_lowercase();
        text = text[end..].trim_start();
        match switch.as_str() {
            "/wait" | "/w" => wait = true,
            "/b" | "/min" | "/max" | "/low" | "/normal" | "/high" | "/belownormal"
            | "/abovenormal" => {}
            "/d" => {
                let (path, after) = word(text);
                dir = Some(path);
                text = after.trim_start();
            }
            _ => {
                refuse(shell, "start ", &switch);
                return Flow::Next;
            }
        }
    }
    let kept = shell.p.cwd.clone();
    if let Some(dir) = dir {
        match shell.p.locate(&dir).and_then(|found| found.existing()) {
            Ok(found) => shell.p.cwd = Cwd(found.name),
            Err(error) => {
                shell.p.complain(&format!("{}\n", error.text()));
                shell.fail(1);
                return Flow::Next;
            }
        }
    }
    let (name, rest) = word(text);
    let code = match shell.program(&name) {
        Some(found) => shell
            .p
            .start(&found, &format!("{}{rest}", cmdline::quote(&name)))
            .map_err(|error| error.text()),
        None if split(text).is_some() => Ok(super::run(&shell.p, &format!("cmd.exe /c {text}"))),
        None => Err(format!("The system cannot find the file {name}.")),
    };
    shell.p.cwd = kept;
    match code {
        Ok(code) => shell.fail(if wait { code as i32 } else { 0 }),
        Err(message) => {
            shell.p.complain(&format!("{message}\n"));
            shell.fail(1);
        }
    }
    Flow::Next
}
