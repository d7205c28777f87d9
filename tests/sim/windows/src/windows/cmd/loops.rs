//! `for` in its five forms.

use super::parse::{ForKind, Node};
use super::{Flow, Shell, files};
use crate::windows::codepage;
use crate::windows::error::Win32;
use crate::windows::process::{buffer, taken};
use crate::windows::volume::list;

pub fn run(shell: &mut Shell, kind: &ForKind, var: char, set: &str, body: &Node) -> Flow {
    let set = shell.text(set);
    let values: Result<Vec<Vec<String>>, String> = match kind {
        ForKind::Files => Ok(words(&set)
            .iter()
            .flat_map(|item| expand(shell, item, false))
            .map(one)
            .collect()),
        ForKind::Directories => Ok(words(&set)
            .iter()
            .flat_map(|item| expand(shell, item, true))
            .map(one)
            .collect()),
        ForKind::Tree(root) => {
            let root = root.as_ref().map_or(shell.p.cwd.0.clone(), |root| {
                shell.text(root).replace('"', "")
            });
            tree(shell, &root, &words(&set)).map(|found| found.into_iter().map(one).collect())
        }
        ForKind::Numbers => return numbers(shell, var, &set, body),
        ForKind::Lines(options) => lines(shell, options, &set),
    };
    let values = match values {
        Ok(values) => values,
        Err(message) => {
            shell.p.complain(&format!("{message}\n"));
            shell.fail(1);
            return Flow::Next;
        }
    };
    for value in values {
        let flow = once(shell, var, value, body);
        if flow != Flow::Next {
            return flow;
        }
    }
    Flow::Next
}

fn one(value: String) -> Vec<String> {
    vec![value]
}

/// Runs the body with the variable and the letters after it set.
fn once(shell: &mut Shell, var: char, values: Vec<String>, body: &Node) -> Flow {
    let depth = shell.vars.len();
    for (i, value) in values.into_iter().enumerate() {
        shell
            .vars
            .push((char::from_u32(var as u32 + i as u32).unwrap_or(var), value));
    }
    let flow = shell.node(body);
    shell.vars.truncate(depth);
    flow
}

fn words(set: &str) -> Vec<String> {
    super::arguments(&set.replace('\n', " "))
}

/// An item without wildcards stands for itself; with them, for the files (or directories) that fit.
fn expand(shell: &Shell, item: &str, dirs: bool) -> Vec<String> {
    if !item.contains(['*', '?']) {
        return vec![item.to_owned()];
    }
    let pattern = item.replace('"', "");
    let prefix = pattern
        .rfind(['\\', '/', ':'])
        .map_or("", |at| &pattern[..=at]);
    let fit = files::pattern_matches(&shell.p, &pattern);
    fit.iter()
        .filter(|found| found.is_dir() == dirs)
        .map(|found| format!("{prefix}{}", found.file_name()))
        .collect()
}

fn tree(shell: &Shell, root: &str, items: &[String]) -> Result<Vec<String>, String> {
    let root = shell
        .p
        .locate(root)
        .and_then(|found| found.existing())
        .map_err(Win32::text)?;
    let mut dirs = vec![root];
    let mut found = Vec::new();
    while let Some(dir) = dirs.pop() {
        for item in items {
            let path = format!(
                "{}\\{}",
                dir.name.trim_end_matches('\\'),
                item.replace('"', "")
            );
            if item.contains(['*', '?']) {
                found.extend(
                    files::pattern_matches(&shell.p, &path)
                        .iter()
                        .filter(|f| f.is_file())
                        .map(|f| f.name.clone()),
                )
            } else {
                found.push(path)
            }
        }
        let below = list(&dir.host)
            .into_iter()
            .rev()
            .filter(|(_, meta)| meta.is_dir());
        for (name, _) in below {
            let path = format!("{}\\{name}", dir.name.trim_end_matches('\\'));
            dirs.extend(shell.p.locate(&path).ok());
        }
    }
    Ok(found)
}

fn numbers(shell: &mut Shell, var: char, set: &str, body: &Node) -> Flow {
    let parts: Vec<i32> = words(set)
        .iter()
        .map(|word| super::arithmetic::number(word).unwrap_or(0))
        .chain([0; 3])
        .take(3)
        .collect();
    let (mut at, step, end) = (parts[0], parts[1], parts[2]);
    while if step < 0 { at >= end } else { at <= end } {
        let flow = once(shell, var, one(at.to_string()), body);
        if flow != Flow::Next {
            return flow;
        }
        at = at.saturating_add(step);
        if step == 0 {
            shell
                .p
                .complain("for /l with step 0 never ends: the stand-in stops it\n");
            shell.fail(1);
            return Flow::Next;
        }
    }
    Flow::Next
}

struct Options {
    usebackq: bool,
    skip: usize,
    eol: Option<char>,
    delims: String,
    tokens: Vec<usize>,
    rest: bool,
}

fn lines(shell: &mut Shell, options: &str, set: &str) -> Result<Vec<Vec<String>>, String> {
    let options = parse_options(&shell.text(options).replace('"', ""))?;
    let set = set.trim();
    let inside = |open: char| {
        set.strip_prefix(open)
            .and_then(|rest| rest.strip_suffix(open))
    };
    let (command, text) = if options.usebackq {
        (inside('`'), inside('\''))
    } else {
        (inside('\''), inside('"'))
    };
    let content = if let Some(command) = command {
        output(shell, command)
    } else if let Some(text) = text {
        text.to_owned()
    } else {
        let mut content = String::new();
        for file in words(set) {
            let found = shell
                .p
                .locate(&file.replace('"', ""))
                .and_then(|found| found.existing());
            let bytes =
                found.and_then(|found| std::fs::read(found.host).map_err(|e| Win32::from_io(&e)));
            let bytes = bytes.map_err(|_| format!("The system cannot find the file {file}."))?;
            content.push_str(&codepage::decode(shell.p.code_page, &bytes));
        }
        content
    };
    let wanted = content
        .lines()
        .skip(options.skip)
        .filter(|line| !line.is_empty());
    Ok(wanted
        .filter(|line| line.chars().next() != options.eol)
        .filter_map(|line| tokens(&options, line))
        .collect())
}

fn parse_options(text: &str) -> Result<Options, String> {
    let mut options = Options {
        usebackq: false,
        skip: 0,
        eol: Some(';'),
        delims: " \t".into(),
        tokens: vec![1],
        rest: false,
    };
    let mut left = text.trim();
    while !left.is_empty() {
        // `delims=` may hold blanks, when it is the last option.
        let end = if left.to_ascii_lowercase().starts_with("delims=") {
            left[7..]
                .find(" tokens=")
                .or(left[7..].find(" eol="))
                .map_or(left.len(), |at| at + 7)
        } else {
            left.find(' ').unwrap_or(left.len())
        };
        let (word, rest) = left.split_at(end);
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name.to_ascii_lowercase().as_str() {
            "usebackq" => options.usebackq = true,
            "skip" => {
                options.skip = value
                    .parse()
                    .map_err(|_| format!("{word} was unexpected at this time."))?
            }
            "eol" => options.eol = value.chars().next(),
            "delims" => options.delims = value.to_owned(),
            "tokens" => (options.tokens, options.rest) = ranges(value)?,
            _ => return Err(format!("{word} was unexpected at this time.")),
        }
        left = rest.trim_start();
    }
    Ok(options)
}

fn ranges(text: &str) -> Result<(Vec<usize>, bool), String> {
    let fault = || format!("tokens={text} was unexpected at this time.");
    let (list, rest) = text
        .strip_suffix('*')
        .map_or((text, false), |list| (list, true));
    let mut tokens = Vec::new();
    for part in list.split(',').filter(|part| !part.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (usize, usize) = (
            from.parse().map_err(|_| fault())?,
            to.parse().map_err(|_| fault())?,
        );
        if from == 0 || to > 31 {
            return Err(fault());
        }
        tokens.extend(from..=to);
    }
    Ok((tokens, rest))
}

/// The chosen tokens of a line; None when it has none of them.
fn tokens(options: &Options, line: &str) -> Option<Vec<String>> {
    let delimiter = |c: char| options.delims.contains(c);
    let mut starts = Vec::new();
    let mut at = 0;
    while let Some(skip) = line[at..].find(|c| !delimiter(c)) {
        let start = at + skip;
        let end = line[start..]
            .find(delimiter)
            .map_or(line.len(), |len| start + len);
        starts.push((start, end));
        at = end;
    }
    let token = |n: &usize| {
        starts
            .get(n - 1)
            .map_or("", |&(start, end)| &line[start..end])
            .to_owned()
    };
    let mut values: Vec<String> = options.tokens.iter().map(token).collect();
    if options.rest {
        let last = options.tokens.last().copied().unwrap_or(0);
        values.push(
            starts
                .get(last)
                .map_or("", |&(start, _)| &line[start..])
                .to_owned(),
        );
    }
    values
        .first()
        .is_some_and(|first| !first.is_empty())
        .then_some(values)
}

/// What a command writes, run in a cmd.exe of its own.
fn output(shell: &mut Shell, command: &str) -> String {
    let between = buffer();
    let mut child = shell.p.clone();
    child.out = between.clone();
    super::run(&child, &format!("cmd.exe /c {command}"));
    codepage::decode(shell.p.code_page, &taken(&between))
}
