//! Command lines as Windows sees them: one string, cut into arguments by each program's own rules.
//!
//! `split` is CommandLineToArgvW and the C runtime ("Parsing C command-line arguments", Microsoft). `glib_line` is what
//! the guest agent's `guest-exec` hands to CreateProcess: glib's `gspawn-win32.c` (2.60 and later) protects every
//! argument, its helper parses and protects again; an empty argument is lost on the way.

/// The program name at the start of a command line, and the rest after it.
pub fn program(line: &str) -> (String, &str) {
    let line = line.trim_start_matches([' ', '\t']);
    if let Some(quoted) = line.strip_prefix('"') {
        return match quoted.split_once('"') {
            Some((name, rest)) => (name.to_owned(), rest),
            None => (quoted.to_owned(), ""),
        };
    }
    let end = line.find([' ', '\t']).unwrap_or(line.len());
    (line[..end].to_owned(), &line[end..])
}

/// The arguments in what follows the program name.
pub fn split(rest: &str) -> Vec<String> {
    let chars: Vec<char> = rest.chars().collect();
    let mut args = Vec::new();
    let mut at = 0;
    loop {
        while matches!(chars.get(at), Some(' ' | '\t')) {
            at += 1;
        }
        if at >= chars.len() {
            return args;
        }
        let mut arg = String::new();
        let mut quoted = false;
        while let Some(&c) = chars.get(at) {
            match c {
                ' ' | '\t' if !quoted => break,
                '\\' => {
                    let run = chars[at..].iter().take_while(|&&c| c == '\\').count();
                    at += run;
                    if chars.get(at) == Some(&'"') {
                        arg.extend(std::iter::repeat_n('\\', run / 2));
                        if run % 2 == 1 {
                            arg.push('"');
                            at += 1;
                        }
                    } else {
                        arg.extend(std::iter::repeat_n('\\', run));
                    }
                }
                '"' if quoted && chars.get(at + 1) == Some(&'"') => {
                    // Two quotes inside a quoted part give one, and the part goes on.
                    arg.push('"');
                    at += 2;
                }
                '"' => {
                    quoted = !quoted;
                    at += 1;
                }
                c => {
                    arg.push(c);
                    at += 1;
                }
            }
        }
        args.push(arg);
    }
}

/// glib's `protect_argv_string` (2.60 and later).
fn protect(arg: &str) -> String {
    let quotes = arg.contains([' ', '\t']);
    let mut out = String::new();
    if quotes {
        out.push('"');
    }
    let mut backslashes = 0;
    for c in arg.chars() {
        if c == '"' {
            out.extend(std::iter::repeat_n('\\', backslashes + 1));
        }
        backslashes = if c == '\\' { backslashes + 1 } else { 0 };
        out.push(c);
    }
    if quotes {
        out.extend(std::iter::repeat_n('\\', backslashes));
        out.push('"');
    }
    out
}

fn join(args: &[String]) -> String {
    args.iter()
        .map(|arg| protect(arg))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The command line that a program started with this argv by the guest agent gets (argv0 first).
pub fn glib_line(argv: &[String]) -> String {
    let helper = join(argv);
    // The helper's own command line is parsed by CommandLineToArgvW, its arguments are protected once more.
    join(&split(&helper))
}

/// One argument quoted for `split`, as careful programs do.
pub fn quote(arg: &str) -> String {
    if arg.is_empty() {
        "\"\"".into()
    } else {
        protect(arg)
    }
}
