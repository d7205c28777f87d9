//! `dir`.

use super::Shell;
use super::files::{pattern_matches, text};
use crate::windows::attribute;
use crate::windows::error::*;
use crate::windows::volume::{Located, list};

pub(super) fn directory(
    shell: &mut Shell,
    names: &[String],
    has: &dyn Fn(&str) -> bool,
) -> Result<(), String> {
    let p = &shell.p;
    let target = names.first().map_or(".", String::as_str);
    let top = p.locate(target.split(['*', '?']).next().unwrap_or("."));
    if !target.contains(['*', '?']) {
        top.map_err(text)?.existing().map_err(|error| {
            if error == FILE_NOT_FOUND {
                "File Not Found".into()
            } else {
                error.text()
            }
        })?;
    }
    let dir = p.locate(target).is_ok_and(|found| found.is_dir());
    let pattern = if dir {
        format!("{}\\*", target.trim_end_matches(['\\', '/']))
    } else {
        target.to_owned()
    };
    let (dirs_only, files_only) = (has("/ad") || has("/a:d"), has("/a-d") || has("/a:-d"));
    // Any `/a` shows hidden and system files too.
    let all = dirs_only || files_only || has("/a");
    let wanted = |found: &Located| {
        if !all && attribute::is_hidden(found) {
            false
        } else if dirs_only {
            found.is_dir()
        } else {
            !files_only || !found.is_dir()
        }
    };
    let mut found = pattern_matches(p, &pattern);
    if has("/s") {
        let mut queue: Vec<String> = vec![pattern];
        found.clear();
        while let Some(pattern) = queue.pop() {
            found.extend(pattern_matches(p, &pattern));
            let (dir, last) = pattern.rsplit_once('\\').unwrap_or((".", &pattern));
            let subs = p.locate(dir).map(|dir| list(&dir.host)).unwrap_or_default();
            queue.extend(
                subs.iter()
                    .rev()
                    .filter(|(_, m)| m.is_dir())
                    .map(|(sub, _)| format!("{dir}\\{sub}\\{last}")),
            );
        }
    }
    found.retain(wanted);
    for item in &found {
        let line = match (has("/b"), has("/s")) {
            (true, true) => item.name.clone(),
            (true, false) => item.file_name().to_owned(),
            _ if item.is_dir() => format!("    <DIR>          {}", item.file_name()),
            _ => format!(
                "{:>18} {}",
                item.meta.as_ref().map_or(0, |meta| meta.len()),
                item.file_name()
            ),
        };
        p.print(&format!("{line}\n"));
    }
    if found.is_empty() && (!dir || has("/b")) {
        Err("File Not Found".into())
    } else {
        Ok(())
    }
}
