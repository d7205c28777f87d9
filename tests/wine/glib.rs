//! What glib does to arguments on their way to a Windows process, written from glib's `gspawn-win32.c` and not from
//! winimg's own rule: `protect_argv_string`, as it was and as it is since 2.60 (glib commit 22e875f7).
//!
//! The second pass, `protect_wargv` in the helper program, is in `programs/runner.c`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glib {
    /// Before 2.60: backslashes before the closing quote stay as they are.
    Old,
    New,
}

impl Glib {
    pub fn name(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::New => "new",
        }
    }

    fn protect(self, argument: &str) -> String {
        let blanks = argument.contains([' ', '\t']);
        let mut out = String::new();
        if blanks {
            out.push('"');
        }
        let mut rest = argument;
        while !rest.is_empty() {
            let run = rest.len() - rest.trim_start_matches('\\').len();
            out.push_str(&rest[..run]);
            rest = &rest[run..];
            let double = match rest.chars().next() {
                Some('"') => true,
                None => blanks && self == Self::New,
                Some(_) => false,
            };
            if double {
                out.push_str(&"\\".repeat(run));
            }
            if let Some(c) = rest.chars().next() {
                if c == '"' {
                    out.push('\\');
                }
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        if blanks {
            out.push('"');
        }
        out
    }

    /// The command line of `gspawn-win64-helper.exe` that makes it start `program`.
    pub fn line(self, program: &str, arguments: &[String]) -> String {
        let mut line = String::from("gspawn-win64-helper.exe");
        for argument in std::iter::once(program).chain(arguments.iter().map(String::as_str)) {
            line.push(' ');
            line.push_str(&self.protect(argument));
        }
        line
    }
}

#[test]
fn arguments_are_protected_as_glib_does_it() {
    let both = [
        ("a", "a"),
        ("", ""),
        ("a b", "\"a b\""),
        ("a\tb", "\"a\tb\""),
        (r#"say "x""#, r#""say \"x\"""#),
        (r#"a\"b"#, r#"a\\\"b"#),
        (r"C:\a\", r"C:\a\"),
        (r"C:\a b", r#""C:\a b""#),
        ("%PATH%^&|", "%PATH%^&|"),
    ];
    for (argument, expected) in both {
        assert_eq!(Glib::New.protect(argument), expected);
        assert_eq!(Glib::Old.protect(argument), expected);
    }
    assert_eq!(Glib::New.protect(r"C:\a b\"), r#""C:\a b\\""#);
    assert_eq!(Glib::Old.protect(r"C:\a b\"), r#""C:\a b\""#);
}
