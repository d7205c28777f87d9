//! Finding and starting what a command names.

use super::{Flow, Script, Shell, arguments, builtin, word};
use crate::windows::codepage;
use crate::windows::error::Win32;
use crate::windows::volume::Located;

impl Shell {
    /// Runs one simple command, all expansions done.
    pub(super) fn simple(&mut self, text: &str) -> Flow {
        let text = text.trim_start_matches([' ', '\t', ',', ';', '=']);
        if text.is_empty() {
            return Flow::Next;
        }
        if let Some((name, rest)) = builtin::split(text) {
            return builtin::run(self, &name, rest);
        }
        let (name, rest) = word(text);
        match self.program(&name) {
            Some(found) => self.launch(&found, &name, rest, false),
            None => self.unknown(&name),
        }
    }

    pub(super) fn unknown(&mut self, name: &str) -> Flow {
        self.p.complain(&format!(
            "'{name}' is not recognized as an internal or external command,\noperable program or batch file.\n"
        ));
        self.fail(if self.frames.is_empty() { 1 } else { 9009 });
        Flow::Next
    }

    /// The file that a command name means: the current directory first, then PATH, with the extensions of PATHEXT.
    pub(super) fn program(&self, name: &str) -> Option<Located> {
        let mut dirs = vec![self.p.cwd.0.clone()];
        dirs.extend(self.p.path_dirs());
        let pathext = self
            .p
            .env
            .get("PATHEXT")
            .unwrap_or(".COM;.EXE;.BAT;.CMD")
            .to_ascii_lowercase();
        let mut tries: Vec<&str> = pathext.split(';').filter(|ext| !ext.is_empty()).collect();
        let last = name.rsplit(['\\', '/']).next().unwrap_or(name);
        if last.contains('.') {
            tries.insert(0, "");
        }
        self.p.find(name, &dirs, &tries)
    }

    pub(super) fn launch(&mut self, found: &Located, name: &str, rest: &str, called: bool) -> Flow {
        let lower = found.name.to_ascii_lowercase();
        if lower.ends_with(".cmd") || lower.ends_with(".bat") {
            return self.enter(found, rest, called);
        }
        if !lower.ends_with(".exe") && !lower.ends_with(".com") {
            self.p.complain(&format!(
                "{}: the stand-in has no program associated with such files\n",
                found.name
            ));
            self.fail(1);
            return Flow::Next;
        }
        let name = if name.contains([' ', '\t']) {
            format!("\"{name}\"")
        } else {
            name.to_owned()
        };
        let code = self
            .p
            .start(found, &format!("{name}{rest}"))
            .unwrap_or_else(|error| {
                self.p
                    .complain(&format!("{}\n", error.text().replace("%1", &found.name)));
                error.0
            });
        self.fail(code as i32);
        Flow::Next
    }

    /// Runs a batch file: as a subroutine when called, otherwise in place of the one that runs.
    pub(super) fn enter(&mut self, found: &Located, rest: &str, called: bool) -> Flow {
        let bytes = match std::fs::read(&found.host) {
            Ok(bytes) => bytes,
            Err(e) => {
                self.p.complain(&format!("{}\n", Win32::from_io(&e).text()));
                self.fail(1);
                return Flow::Next;
            }
        };
        let script = Script {
            file: found.name.clone(),
            text: codepage::decode(self.p.code_page, &bytes),
        };
        self.code = 0;
        let flow = self.batch(script, arguments(rest));
        self.code = self.errorlevel;
        match flow {
            Flow::Quit => Flow::Quit,
            _ if called || self.frames.is_empty() => Flow::Next,
            _ => Flow::Leave,
        }
    }
}
