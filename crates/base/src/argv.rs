//! Arguments of Windows programs: checks that they pass through the guest agent, and quoting.
//!
//! A Windows process gets one string, which it splits into arguments itself. The agent's glib
//! builds that string (glib `gspawn-win32.c`: every argument is quoted twice, once for its helper
//! process and once for the program), so arguments are sent raw, and `check` refuses those that
//! would arrive changed. Nothing here runs a program.

/// Longest command line that CreateProcess accepts, in UTF-16 units (Microsoft: CreateProcessW,
/// lpCommandLine).
const MAX_COMMAND_LINE: usize = 32_766;

/// Refuses arguments that would reach `program` changed. The error is one sentence that quotes the
/// argument.
///
/// - An empty argument is dropped (glib quotes only arguments with a blank or a tab).
/// - Before glib 2.60 a trailing backslash of a quoted argument escapes the closing quote.
/// - `cmd.exe` and `msiexec.exe` do not support `\"`, which is how glib escapes `"`.
pub fn check(program: &str, arguments: &[String]) -> Result<(), String> {
    let mut length = 0;
    for (index, text) in std::iter::once(program)
        .chain(arguments.iter().map(String::as_str))
        .enumerate()
    {
        let what = match index {
            0 => "the program's name".to_owned(),
            n => format!("argument {n}"),
        };
        if text.is_empty() {
            return Err(format!("{what} is empty, and QEMU's guest agent drops it"));
        }
        if let Some(c) = text.chars().find(|c| c.is_control() && *c != '\t') {
            return Err(format!(
                "{what} contains the control character U+{:04X}",
                c as u32
            ));
        }
        if has_blank(text) && text.ends_with('\\') {
            return Err(format!(
                "{what}, `{text}`, has a blank and ends in a backslash, which older QEMU guest \
                 agents treat as an escaped quote"
            ));
        }
        if text.contains('"') && !supports_escaped_quotes(program) {
            return Err(format!(
                "{what}, `{text}`, contains a double quote, which QEMU's guest agent escapes in a \
                 way that {} does not support",
                base_name(program)
            ));
        }
        length += quote_if_needed(&quote_if_needed(text))
            .encode_utf16()
            .count()
            + 1;
    }
    if length > MAX_COMMAND_LINE {
        return Err(format!(
            "the command line is {length} characters long, and Windows allows {MAX_COMMAND_LINE}"
        ));
    }
    Ok(())
}

/// Renders a command line for plans, logs and the registration of a service, quoted for the C
/// runtime (Microsoft: Parsing C command-line arguments).
pub fn render_command_line(program: &str, arguments: &[String]) -> String {
    let mut line = quote_argument(program);
    for argument in arguments {
        line.push(' ');
        line.push_str(&quote_argument(argument));
    }
    line
}

/// Quotes a word for a POSIX shell: in single quotes unless it has only plain characters.
pub fn quote_posix(word: &str) -> String {
    let is_plain = word
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c));
    if is_plain && !word.is_empty() {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Puts an argument in double quotes if necessary.
pub fn quote_argument(argument: &str) -> String {
    if argument.is_empty() {
        return r#""""#.to_owned();
    }
    quote_if_needed(argument)
}

/// Implements `protect_argv_string` of glib 2.60 and later, which is also the C runtime's rule. An
/// empty argument stays empty.
fn quote_if_needed(argument: &str) -> String {
    let quote = has_blank(argument);
    if !quote && !argument.contains('"') {
        return argument.to_owned();
    }
    let mut out = String::with_capacity(argument.len() + 2);
    if quote {
        out.push('"');
    }
    let mut backslashes = 0;
    for c in argument.chars() {
        if c == '"' {
            out.extend(std::iter::repeat_n('\\', backslashes + 1));
        }
        backslashes = if c == '\\' { backslashes + 1 } else { 0 };
        out.push(c);
    }
    if quote {
        out.extend(std::iter::repeat_n('\\', backslashes));
        out.push('"');
    }
    out
}

pub fn has_blank(text: &str) -> bool {
    text.contains([' ', '\t'])
}

/// Returns `reg.exe` for `C:\Windows\System32\reg.exe`.
pub fn base_name(program: &str) -> &str {
    program.rsplit(['\\', '/']).next().unwrap_or(program)
}

fn supports_escaped_quotes(program: &str) -> bool {
    let name = base_name(program).to_ascii_lowercase();
    !matches!(
        name.strip_suffix(".exe").unwrap_or(&name),
        "cmd" | "msiexec"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(list: &[&str]) -> Vec<String> {
        list.iter().map(|s| (*s).to_owned()).collect()
    }

    #[test]
    fn arguments_that_would_arrive_changed_are_refused() {
        let sc = r"C:\Windows\System32\sc.exe";
        let cmd = r"C:\Windows\System32\cmd.exe";
        assert_eq!(
            check(sc, &args(&["create", r#""C:\a b\c.exe" -x"#])),
            Ok(())
        );
        assert_eq!(check(sc, &args(&[r"C:\x\"])), Ok(()));
        let refusals = [
            (sc, args(&["a", ""])),
            (sc, args(&[r"C:\a b\"])),
            (cmd, args(&["/c", r#""x""#])),
            ("MSIEXEC", args(&[r#"P="a b""#])),
            (sc, args(&["a\nb"])),
            (sc, args(&[&"x".repeat(40_000)])),
            ("", args(&[])),
        ];
        let messages: Vec<String> = refusals
            .iter()
            .map(|(program, arguments)| check(program, arguments).expect_err("must be refused"))
            .collect();
        assert_eq!(
            messages,
            [
                "argument 2 is empty, and QEMU's guest agent drops it",
                "argument 1, `C:\\a b\\`, has a blank and ends in a backslash, which older QEMU guest \
                 agents treat as an escaped quote",
                "argument 2, `\"x\"`, contains a double quote, which QEMU's guest agent escapes in a \
                 way that cmd.exe does not support",
                "argument 1, `P=\"a b\"`, contains a double quote, which QEMU's guest agent escapes in a \
                 way that MSIEXEC does not support",
                "argument 1 contains the control character U+000A",
                &format!(
                    "the command line is {} characters long, and Windows allows 32766",
                    sc.len() + 40_002
                ),
                "the program's name is empty, and QEMU's guest agent drops it",
            ]
        );
    }

    #[test]
    fn a_line_shows_arguments_as_the_c_runtime_reads_them() {
        assert_eq!(
            render_command_line(
                r"C:\a b\c.exe",
                &args(&["plain", "", "two words", r#"say "x""#, r"C:\d e\", r"C:\f\"])
            ),
            r#""C:\a b\c.exe" plain "" "two words" "say \"x\"" "C:\d e\\" C:\f\"#
        );
    }
}
