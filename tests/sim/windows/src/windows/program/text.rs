//! Programs that look at text and files: where, find, findstr, attrib; and the waits timeout and ping.

use std::time::Duration;

use super::Arguments;
use super::small::unknown;
use crate::windows::attribute;
use crate::windows::cmd::pattern_matches;
use crate::windows::process::Process;
use crate::windows::regf::same;

pub fn whereis(p: &mut Process, args: &Arguments) -> u32 {
    let (switches, names): (Vec<&String>, Vec<&String>) =
        args.list.iter().partition(|arg| arg.starts_with('/'));
    if let Some(odd) = switches
        .iter()
        .find(|switch| !switch.eq_ignore_ascii_case("/q"))
    {
        return unknown(p, "where", odd, 2);
    }
    if names.is_empty() {
        return unknown(p, "where", "no pattern", 2);
    }
    let mut dirs = vec![p.cwd.0.clone()];
    dirs.extend(p.path_dirs());
    let mut found = Vec::new();
    for name in names {
        for dir in &dirs {
            let base = format!("{}\\{name}", dir.trim_end_matches('\\'));
            for ext in ["", ".com", ".exe", ".bat", ".cmd"] {
                found.extend(
                    pattern_matches(p, &format!("{base}{ext}"))
                        .into_iter()
                        .filter(|file| file.is_file())
                        .map(|file| file.name),
                );
            }
        }
    }
    found.dedup_by(|a, b| same(a, b));
    if found.is_empty() {
        p.complain("INFO: Could not find files for the given pattern(s).\n");
        return 1;
    }
    if switches.is_empty() {
        p.print(&format!("{}\n", found.join("\n")));
    }
    0
}

/// The texts to search: the files' content, or standard input; each with its name when there are several.
fn sources(p: &Process, files: &[&str]) -> Result<Vec<(String, String)>, String> {
    if files.is_empty() {
        return Ok(vec![(
            String::new(),
            String::from_utf8_lossy(&p.stdin).into_owned(),
        )]);
    }
    let mut found = Vec::new();
    for file in files {
        let matches = pattern_matches(p, file);
        if matches.is_empty() {
            return Err((*file).to_owned());
        }
        for file in matches.iter().filter(|file| file.is_file()) {
            let bytes = std::fs::read(&file.host).map_err(|_| file.name.clone())?;
            found.push((
                file.name.clone(),
                String::from_utf8_lossy(&bytes).into_owned(),
            ));
        }
    }
    Ok(found)
}

pub fn find(p: &mut Process, args: &Arguments) -> u32 {
    // find.exe wants its text in quotes; the quotes are gone from the list, so the raw line is asked.
    let (mut fold, mut invert, mut count) = (false, false, false);
    let mut words = args.list.iter().map(String::as_str).peekable();
    while let Some(switch) = words.next_if(|word| word.starts_with('/')) {
        match switch.to_ascii_lowercase().as_str() {
            "/i" => fold = true,
            "/v" => invert = true,
            "/c" => count = true,
            "/n" => {}
            odd => return unknown(p, "find", odd, 2),
        }
    }
    let quoted = args.tail.trim_start().contains('"');
    let Some(text) = words.next().filter(|_| quoted) else {
        p.complain("FIND: Parameter format not correct\n");
        return 2;
    };
    let files: Vec<&str> = words.collect();
    let sources = match sources(p, &files) {
        Ok(sources) => sources,
        Err(file) => {
            p.complain(&format!("File not found - {}\n", file.to_uppercase()));
            return 1;
        }
    };
    let has = |line: &str| {
        if fold {
            line.to_lowercase().contains(&text.to_lowercase())
        } else {
            line.contains(text)
        }
    };
    // An empty text is in no line.
    let has = |line: &str| !text.is_empty() && has(line);
    let mut hits = 0;
    for (name, content) in sources {
        let lines: Vec<&str> = content.lines().filter(|line| has(line) != invert).collect();
        hits += lines.len();
        let head = if name.is_empty() {
            String::new()
        } else {
            format!("\n---------- {}", name.to_uppercase())
        };
        match (count, name.is_empty()) {
            (true, true) => p.print(&format!("{}\n", lines.len())),
            (true, false) => p.print(&format!("{head}: {}\n", lines.len())),
            (false, true) => lines.iter().for_each(|line| p.print(&format!("{line}\n"))),
            (false, false) => p.print(&format!(
                "{head}\n{}",
                lines
                    .iter()
                    .map(|line| format!("{line}\n"))
                    .collect::<String>()
            )),
        }
    }
    u32::from(hits == 0)
}

/// Literal search only: `/r` and patterns that mean more than themselves are refused.
pub fn findstr(p: &mut Process, args: &Arguments) -> u32 {
    let (mut fold, mut invert, mut whole, mut quiet, mut begin, mut end) =
        (false, false, false, false, false, false);
    let (mut texts, mut files): (Vec<String>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut literal = false;
    for word in &args.list {
        let lower = word.to_ascii_lowercase();
        if let Some(text) = word
            .get(..3)
            .filter(|head| head.eq_ignore_ascii_case("/c:"))
            .map(|_| &word[3..])
        {
            texts.push(text.to_owned());
            continue;
        }
        match lower.as_str() {
            "/i" => fold = true,
            "/v" => invert = true,
            "/x" => whole = true,
            "/m" => quiet = true,
            "/b" => begin = true,
            "/e" => end = true,
            "/l" => literal = true,
            "/n" | "/p" => {}
            _ if word.starts_with('/') => return unknown(p, "findstr", word, 2),
            _ if texts.is_empty() => {
                texts = word
                    .split(' ')
                    .filter(|text| !text.is_empty())
                    .map(str::to_owned)
                    .collect()
            }
            _ => files.push(word),
        }
    }
    if texts.is_empty() {
        p.complain("FINDSTR: Bad command line\n");
        return 2;
    }
    let pattern = |text: &String| !literal && text.contains(['*', '[', '^', '$', '\\']);
    if let Some(odd) = texts.iter().find(|text| pattern(text)) {
        return unknown(
            p,
            "findstr",
            &format!("the regular expression {odd} (give /l)"),
            2,
        );
    }
    let sources = match sources(p, &files) {
        Ok(sources) => sources,
        Err(file) => {
            p.complain(&format!("FINDSTR: Cannot open {file}\n"));
            return 1;
        }
    };
    let several = sources.len() > 1;
    let hit = |line: &str| {
        texts.iter().any(|text| {
            let (line, text) = if fold {
                (line.to_lowercase(), text.to_lowercase())
            } else {
                (line.to_owned(), text.clone())
            };
            match () {
                () if whole => line == text,
                () if begin => line.starts_with(&text),
                () if end => line.ends_with(&text),
                () => line.contains(&text),
            }
        })
    };
    let mut hits = 0;
    for (name, content) in sources {
        for line in content.lines().filter(|line| hit(line) != invert) {
            hits += 1;
            if quiet {
                p.print(&format!("{name}\n"));
                break;
            }
            p.print(&if several {
                format!("{name}:{line}\n")
            } else {
                format!("{line}\n")
            });
        }
    }
    u32::from(hits == 0)
}

pub fn attrib(p: &mut Process, args: &Arguments) -> u32 {
    let (mut on, mut off, mut names, mut below) = (0, 0, Vec::new(), false);
    for word in &args.list {
        match word.to_ascii_lowercase().as_str() {
            "/s" | "/d" => below = true,
            flag if flag.len() == 2 && flag.starts_with(['+', '-']) => {
                let bit = match &flag[1..] {
                    "r" => attribute::READ_ONLY,
                    "h" => attribute::HIDDEN,
                    "s" => attribute::SYSTEM,
                    "a" => attribute::ARCHIVE,
                    _ => return unknown(p, "attrib", word, 1),
                };
                if flag.starts_with('+') {
                    on |= bit
                } else {
                    off |= bit
                }
            }
            _ if word.starts_with('/') => return unknown(p, "attrib", word, 1),
            _ => names.push(word.as_str()),
        }
    }
    if below {
        return unknown(p, "attrib", "/s and /d", 1);
    }
    for name in names {
        let found = pattern_matches(p, name);
        if found.is_empty() {
            p.complain(&format!("File not found - {name}\n"));
            return 1;
        }
        for file in found {
            let bits = attribute::of(&file);
            if on | off == 0 {
                let letter = |bit: u32, letter: char| if bits & bit != 0 { letter } else { ' ' };
                p.print(&format!(
                    "{}  {}{}{}       {}\n",
                    letter(attribute::ARCHIVE, 'A'),
                    letter(attribute::SYSTEM, 'S'),
                    letter(attribute::HIDDEN, 'H'),
                    letter(attribute::READ_ONLY, 'R'),
                    file.name
                ));
            } else if file.read_only {
                p.complain(&format!("The media is write protected - {}\n", file.name));
                return 1;
            } else if let Err(e) = attribute::set(&file.host, bits & !off | on) {
                p.complain(&format!("{e}\n"));
                return 1;
            }
        }
    }
    0
}

pub fn timeout(p: &mut Process, args: &Arguments) -> u32 {
    let words: Vec<String> = args
        .list
        .iter()
        .map(|word| word.to_ascii_lowercase())
        .filter(|word| word != "/t" && word != "/nobreak")
        .collect();
    match words
        .iter()
        .map(|word| word.parse::<u64>())
        .collect::<Vec<_>>()[..]
    {
        [Ok(seconds @ 0..=99999)] => {
            std::thread::sleep(Duration::from_secs(seconds));
            0
        }
        _ => unknown(p, "timeout", &args.list.join(" "), 1),
    }
}

/// Only the loopback address answers: there is no network.
pub fn ping(p: &mut Process, args: &Arguments) -> u32 {
    let (mut count, mut host) = (4u64, None);
    let mut words = args.list.iter();
    while let Some(word) = words.next() {
        match word
            .to_ascii_lowercase()
            .replacen('/', "-", usize::from(word.starts_with('/')))
            .as_str()
        {
            "-n" | "-w" => {
                let number = words.next().and_then(|number| number.parse::<u64>().ok());
                let Some(number) = number else {
                    return unknown(p, "ping", word, 1);
                };
                if word[1..].eq_ignore_ascii_case("n") {
                    count = number;
                }
            }
            "-4" | "-6" => {}
            odd if odd.starts_with('-') => return unknown(p, "ping", odd, 1),
            _ => host = Some(word.as_str()),
        }
    }
    match host {
        Some("127.0.0.1" | "localhost" | "::1") => {
            std::thread::sleep(Duration::from_secs(count.saturating_sub(1)));
            0
        }
        Some(host) => {
            p.complain(&format!(
                "Ping request could not find host {host}. Please check the name and try again.\n"
            ));
            1
        }
        None => unknown(p, "ping", "no host", 1),
    }
}
