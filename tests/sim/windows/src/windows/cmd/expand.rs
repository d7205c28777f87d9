//! The three expansions of cmd.exe: percent signs when a line is read, `for` variables and `!VAR!` when it runs.

use crate::windows::process::{Env, Process};
use crate::windows::volume::{Cwd, absolute};

/// What percent expansion looks at.
pub struct Context<'a> {
    pub env: &'a Env,
    pub cwd: &'a str,
    pub errorlevel: i32,
    /// `%0` and the arguments; None at the command line, where `%1` and `%%` are plain text.
    pub args: Option<&'a [String]>,
    /// The full path of the batch file, for `%~dp0`.
    pub file: &'a str,
}

impl Context<'_> {
    pub fn variable(&self, name: &str) -> Option<String> {
        if let Some(value) = self.env.get(name) {
            return Some(value.to_owned());
        }
        match name.to_ascii_uppercase().as_str() {
            "ERRORLEVEL" => Some(self.errorlevel.to_string()),
            "CD" => Some(self.cwd.to_owned()),
            "CMDEXTVERSION" => Some("2".into()),
            "DATE" => Some(clock().0),
            "TIME" => Some(clock().1),
            "RANDOM" => Some((clock_nanos() % 32768).to_string()),
            _ => None,
        }
    }
}

fn clock_nanos() -> u32 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.subsec_nanos())
}

/// Date and time as en-US Windows prints them, in UTC.
pub fn clock() -> (String, String) {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let (days, secs) = ((now.as_secs() / 86400) as i64, now.as_secs() % 86400);
    let (year, month, day) = civil(days);
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][days.rem_euclid(7) as usize];
    (
        format!("{weekday} {month:02}/{day:02}/{year}"),
        format!(
            "{:2}:{:02}:{:02}.{:02}",
            secs / 3600,
            secs / 60 % 60,
            secs % 60,
            now.subsec_millis() / 10
        ),
    )
}

/// The civil date of a day number since 1970 (proleptic Gregorian).
pub fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (
        year_of_era + era * 400 + i64::from(month <= 2),
        month,
        day_of_year - (153 * shifted + 2) / 5 + 1,
    )
}

/// `%NAME%`, `%1`, `%*`, `%~dp0`, `%%`.
pub fn percent(context: &Context, line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('%') {
        out.push_str(&rest[..start]);
        let after = &rest[start + 1..];
        if let Some(args) = context.args {
            if let Some(tail) = after.strip_prefix('%') {
                out.push('%');
                rest = tail;
                continue;
            }
            if let Some((text, tail)) = argument(context, args, after) {
                out.push_str(&text);
                rest = tail;
                continue;
            }
        }
        match variable(context, after, '%') {
            Some((text, tail)) => {
                out.push_str(&text);
                rest = tail;
            }
            // A lone percent sign goes in a batch file and stays at the command line.
            None => {
                if context.args.is_none() {
                    out.push('%');
                }
                rest = after;
            }
        }
    }
    out + rest
}

fn argument<'t>(context: &Context, args: &[String], after: &'t str) -> Option<(String, &'t str)> {
    if let Some(tail) = after.strip_prefix('*') {
        return Some((args.get(1..).unwrap_or_default().join(" "), tail));
    }
    let get = |digit: u32| args.get(digit as usize).cloned().unwrap_or_default();
    let first = after.chars().next()?;
    if let Some(digit) = first.to_digit(10) {
        return Some((get(digit), &after[1..]));
    }
    let body = after.strip_prefix('~')?;
    let end = body.find(|c: char| !c.is_ascii_alphabetic())?;
    let digit = body[end..].chars().next()?.to_digit(10)?;
    let full = if digit == 0 {
        context.file.to_owned()
    } else {
        get(digit)
    };
    Some((
        modified(&full, &body[..end], context.cwd)?,
        &body[end + 1..],
    ))
}

/// `NAME%` or `NAME:…%` at the start of `after`, ended by `mark`.
fn variable<'t>(context: &Context, after: &'t str, mark: char) -> Option<(String, &'t str)> {
    let end = after.find(mark)?;
    let inside = &after[..end];
    if inside.is_empty() {
        return None;
    }
    let tail = &after[end + 1..];
    let (name, edit) = match inside.split_once(':') {
        Some((name, edit)) if !edit.is_empty() => (name, Some(edit)),
        _ => (inside, None),
    };
    let value = context.variable(name);
    match (value, edit) {
        (Some(value), None) => Some((value, tail)),
        (Some(value), Some(edit)) => Some((edited(&value, edit)?, tail)),
        (None, None) if context.args.is_some() => Some((String::new(), tail)),
        // Undefined with an edit: cmd drops the name and keeps the edit's text.
        (None, Some(edit)) if context.args.is_some() => Some((edit.to_owned(), tail)),
        (None, _) => None,
    }
}

/// `~start,length` or `find=replace` (`*find=` from the start).
fn edited(value: &str, edit: &str) -> Option<String> {
    if let Some(range) = edit.strip_prefix('~') {
        let chars: Vec<char> = value.chars().collect();
        let (start, len) = range
            .split_once(',')
            .map_or((range, None), |(s, l)| (s, Some(l)));
        let place = |text: &str, base: usize| -> Option<usize> {
            let n: i64 = if text.trim().is_empty() {
                0
            } else {
                text.trim().parse().ok()?
            };
            Some(if n < 0 {
                (chars.len() as i64 + n).max(0)
            } else {
                (base as i64 + n).min(chars.len() as i64)
            } as usize)
        };
        let start = place(start, 0)?;
        let end = len.map_or(Some(chars.len()), |len| place(len, start))?;
        return Some(
            chars
                .get(start..end.max(start))
                .unwrap_or_default()
                .iter()
                .collect(),
        );
    }
    let (find, put) = edit.split_once('=')?;
    let lower = value.to_ascii_lowercase();
    if let Some(find) = find.strip_prefix('*') {
        let at = lower.find(&find.to_ascii_lowercase());
        return Some(at.map_or_else(
            || value.to_owned(),
            |at| format!("{put}{}", &value[at + find.len()..]),
        ));
    }
    let find = find.to_ascii_lowercase();
    let (mut out, mut from) = (String::new(), 0);
    while let Some(at) = lower[from..].find(&find) {
        out.push_str(&value[from..from + at]);
        out.push_str(put);
        from += at + find.len();
    }
    Some(out + &value[from..])
}

/// `~fdpnxz` and so on applied to a path; None for letters that mean something else.
fn modified(text: &str, letters: &str, cwd: &str) -> Option<String> {
    let text = text.trim_start_matches('"').trim_end_matches('"');
    if letters.is_empty() {
        return Some(text.to_owned());
    }
    let full = absolute(&Cwd(cwd.to_owned()), text).unwrap_or_else(|_| text.to_owned());
    let (dir, name) = full.rsplit_once('\\').unwrap_or(("", &full));
    let (stem, ext) = name
        .rfind('.')
        .map_or((name, ""), |dot| (&name[..dot], &name[dot..]));
    let letters = letters.to_ascii_lowercase();
    if letters.contains('f') {
        return Some(full);
    }
    let mut out = String::new();
    for letter in ['d', 'p', 'n', 'x'] {
        if letters.contains(letter) {
            match letter {
                'd' => out.push_str(&full[..full.len().min(2)]),
                'p' => out.push_str(&format!("{}\\", dir.get(2..).unwrap_or(""))),
                'n' => out.push_str(stem),
                _ => out.push_str(ext),
            }
        }
    }
    letters.chars().all(|c| "dpnxs".contains(c)).then_some(out)
}

/// `%i`, `%~nxi` for the variables of the `for` loops that run.
pub fn loops(vars: &[(char, String)], text: &str, process: &Process) -> String {
    if vars.is_empty() || !text.contains('%') {
        return text.to_owned();
    }
    let value = |letter: char| {
        vars.iter()
            .rev()
            .find(|(var, _)| *var == letter)
            .map(|(_, value)| value)
    };
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('%') {
        out.push_str(&rest[..start]);
        let after = &rest[start + 1..];
        if let Some(body) = after.strip_prefix('~') {
            // The variable is the last letter that is one; those before it are modifiers.
            let run = body.chars().take_while(char::is_ascii_alphabetic).count();
            let found = (0..run).rev().find_map(|at| {
                let letter = body.as_bytes()[at].into();
                let text = value(letter)?;
                Some((size_or(text, &body[..at], process)?, at + 1))
            });
            if let Some((text, used)) = found {
                out.push_str(&text);
                rest = &body[used..];
                continue;
            }
        } else if let Some(text) = after.chars().next().and_then(value) {
            out.push_str(text);
            rest = &after[after.chars().next().map_or(0, char::len_utf8)..];
            continue;
        }
        out.push('%');
        rest = after;
    }
    out + rest
}

fn size_or(text: &str, letters: &str, process: &Process) -> Option<String> {
    if letters.eq_ignore_ascii_case("z") {
        let size = process
            .locate(text.trim_matches('"'))
            .ok()
            .and_then(|found| found.meta)
            .map(|meta| meta.len());
        return Some(size.map_or_else(String::new, |size| size.to_string()));
    }
    modified(text, letters, &process.cwd.0)
}

/// `!NAME!`, after `setlocal enabledelayedexpansion`; carets are taken away once more when there is a `!`.
pub fn delayed(context: &Context, text: &str) -> String {
    if !text.contains('!') {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['!', '^']) {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if rest[at..].starts_with('^') {
            let mut chars = after.chars();
            out.extend(chars.next());
            rest = chars.as_str();
            continue;
        }
        match variable(context, after, '!') {
            Some((text, tail)) => {
                out.push_str(&text);
                rest = tail;
            }
            None => rest = after,
        }
    }
    out + rest
}
