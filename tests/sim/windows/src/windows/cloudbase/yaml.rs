//! The part of YAML that metadata and cloud-config are written in: block mappings and sequences, plain and quoted
//! scalars, block scalars, flow values that are JSON. Anything else (anchors, tags, several documents, plain scalars
//! over more than one line) is refused with its line.
//!
//! JSON is tried first, as cloudbase-init does (`utils/serialization.py`).

use serde_json::{Map, Value};

/// Parses JSON, or else YAML.
pub fn parse(text: &str) -> Result<Value, String> {
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    let mut lines: Vec<Line> = Vec::new();
    for (number, raw) in text.lines().enumerate() {
        if number == 0 && raw.trim_end() == "---" {
            lines.push(Line::blank(number));
            continue;
        }
        let indent = raw.len() - raw.trim_start_matches(' ').len();
        lines.push(Line {
            number: number + 1,
            indent,
            text: raw[indent..].trim_end(),
        });
    }
    let mut reader = Reader { lines, at: 0 };
    let value = match reader.peek() {
        None => Value::Null,
        Some(line) => reader.node(line.indent)?,
    };
    match reader.peek() {
        None => Ok(value),
        Some(line) => Err(line.fault("is not indented as what stands above it")),
    }
}

#[derive(Clone, Copy)]
struct Line<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

impl Line<'_> {
    fn blank(number: usize) -> Line<'static> {
        Line {
            number: number + 1,
            indent: 0,
            text: "",
        }
    }

    fn fault(&self, what: &str) -> String {
        format!("line {} ({}) {what}", self.number, self.text)
    }
}

struct Reader<'a> {
    lines: Vec<Line<'a>>,
    at: usize,
}

impl<'a> Reader<'a> {
    /// The next line that says something.
    fn peek(&mut self) -> Option<Line<'a>> {
        while let Some(line) = self.lines.get(self.at) {
            if !line.text.is_empty() && !line.text.starts_with('#') {
                return Some(*line);
            }
            self.at += 1;
        }
        None
    }

    fn node(&mut self, indent: usize) -> Result<Value, String> {
        let Some(line) = self.peek() else {
            return Ok(Value::Null);
        };
        if line.text == "-" || line.text.starts_with("- ") {
            self.sequence(indent)
        } else if key(line.text).is_some() {
            self.mapping(indent)
        } else {
            self.at += 1;
            scalar(&line, line.text)
        }
    }

    fn sequence(&mut self, indent: usize) -> Result<Value, String> {
        let mut items = Vec::new();
        while let Some(line) = self.peek().filter(|line| line.indent == indent) {
            let Some(rest) = line
                .text
                .strip_prefix('-')
                .filter(|rest| rest.is_empty() || rest.starts_with(' '))
            else {
                break;
            };
            let inner = rest.trim_start();
            if inner.is_empty() || inner.starts_with('#') {
                self.at += 1;
                items.push(self.below(indent, false)?);
            } else if inner.starts_with(['|', '>']) {
                self.at += 1;
                items.push(self.block(&line, inner, indent)?);
            } else {
                // What follows the dash is a node of its own, indented by where it stands.
                let moved = indent + line.text.len() - inner.len();
                self.lines[self.at] = Line {
                    indent: moved,
                    text: inner,
                    ..line
                };
                items.push(self.node(moved)?);
            }
        }
        Ok(Value::Array(items))
    }

    fn mapping(&mut self, indent: usize) -> Result<Value, String> {
        let mut map = Map::new();
        while let Some(line) = self.peek().filter(|line| line.indent == indent) {
            let Some((name, rest)) = key(line.text) else {
                break;
            };
            self.at += 1;
            let value = if rest.is_empty() || rest.starts_with('#') {
                self.below(indent, true)?
            } else if rest.starts_with(['|', '>']) {
                self.block(&line, rest, indent)?
            } else {
                scalar(&line, rest)?
            };
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }

    /// What a key or dash without a value of its own holds. A sequence may stand as far left as its key.
    fn below(&mut self, indent: usize, of_key: bool) -> Result<Value, String> {
        match self.peek() {
            Some(line) if line.indent > indent => self.node(line.indent),
            Some(line) if of_key && line.indent == indent && line.text.starts_with('-') => {
                self.sequence(indent)
            }
            _ => Ok(Value::Null),
        }
    }

    /// `|` and `>` with `-` or `+`.
    fn block(&mut self, head: &Line<'_>, style: &str, indent: usize) -> Result<Value, String> {
        let (folded, chomp) = match style {
            "|" => (false, ' '),
            "|-" => (false, '-'),
            "|+" => (false, '+'),
            ">" => (true, ' '),
            ">-" => (true, '-'),
            _ => return Err(head.fault("has a block style that is not modelled")),
        };
        let mut found: Vec<String> = Vec::new();
        let mut depth = None;
        while let Some(line) = self.lines.get(self.at) {
            if line.text.is_empty() {
                found.push(String::new());
            } else if line.indent > indent {
                let depth = *depth.get_or_insert(line.indent);
                if line.indent < depth {
                    return Err(line.fault("is indented less than the first line of its block"));
                }
                found.push(format!("{}{}", " ".repeat(line.indent - depth), line.text));
            } else {
                break;
            }
            self.at += 1;
        }
        let kept = found
            .iter()
            .rposition(|line| !line.is_empty())
            .map_or(0, |last| last + 1);
        let blank = found.len() - kept;
        found.truncate(kept);
        let mut text = found.join(if folded { " " } else { "\n" });
        if !text.is_empty() && chomp != '-' {
            text.push('\n');
        }
        if chomp == '+' {
            text.push_str(&"\n".repeat(blank));
        }
        Ok(Value::String(text))
    }
}

/// `name: rest` or `name:`; a quoted name may hold colons.
fn key(text: &str) -> Option<(String, &str)> {
    for quote in ['"', '\''] {
        if let Some(rest) = text.strip_prefix(quote) {
            let (name, after) = rest.split_once(quote)?;
            let after = after.strip_prefix(':')?;
            return (after.is_empty() || after.starts_with(' '))
                .then(|| (name.to_owned(), after.trim()));
        }
    }
    if text.starts_with(['{', '[', '&', '*', '!', '|', '>', '%', '@']) {
        return None;
    }
    if let Some(name) = text.strip_suffix(':').filter(|name| !name.contains(": ")) {
        return Some((name.trim().to_owned(), ""));
    }
    let (name, rest) = text.split_once(": ")?;
    Some((name.trim().to_owned(), rest.trim()))
}

fn scalar(line: &Line<'_>, text: &str) -> Result<Value, String> {
    if text.starts_with(['{', '[']) {
        return serde_json::from_str(text)
            .or_else(|_| plain_list(text).ok_or(()))
            .map_err(|()| line.fault("is a flow value that is not JSON"));
    }
    if let Some(rest) = text.strip_prefix('\'') {
        let inner = rest
            .strip_suffix('\'')
            .ok_or_else(|| line.fault("has no closing quote"))?;
        return Ok(Value::String(inner.replace("''", "'")));
    }
    if text.starts_with('"') {
        return serde_json::from_str(text).map_err(|_| line.fault("is no quoted string of JSON"));
    }
    if text.starts_with(['&', '*', '!', '%', '@', '`']) {
        return Err(line.fault("uses a part of YAML that is not modelled"));
    }
    let text = text.split(" #").next().unwrap_or_default().trim_end();
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "on" | "On" => Value::Bool(true),
        "false" | "False" | "FALSE" | "no" | "No" | "off" | "Off" => Value::Bool(false),
        _ => text
            .parse::<i64>()
            .map_or_else(|_| Value::String(text.to_owned()), Value::from),
    })
}

/// `[a, b]` of plain words.
fn plain_list(text: &str) -> Option<Value> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    let item = |item: &str| {
        let item = item.trim().trim_matches(['"', '\'']);
        (!item.contains(['[', ']', '{', '}', ':'])).then(|| Value::String(item.to_owned()))
    };
    inner
        .split(',')
        .map(item)
        .collect::<Option<Vec<_>>>()
        .map(Value::Array)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_metadata_is_written_in() {
        for (text, expected) in [
            (
                "instance-id: iid-1\nlocal-hostname: node-1\n",
                json!({"instance-id": "iid-1", "local-hostname": "node-1"}),
            ),
            ("{\"a\": 1}", json!({"a": 1})),
            (
                "public-keys:\n- ssh-ed25519 AAAA me@x\n- two\n",
                json!({"public-keys": ["ssh-ed25519 AAAA me@x", "two"]}),
            ),
            (
                "public-keys:\n  - one # not this\nx: 'a: b'\n",
                json!({"public-keys": ["one"], "x": "a: b"}),
            ),
            (
                "public-keys:\n  0:\n    openssh-key: k\n",
                json!({"public-keys": {"0": {"openssh-key": "k"}}}),
            ),
            (
                "#cloud-config\nwrite_files:\n  - path: C:\\x\n    content: |\n      one\n\n        two\n    permissions: '0644'\n",
                json!({"write_files": [{"path": "C:\\x", "content": "one\n\n  two\n", "permissions": "0644"}]}),
            ),
            (
                "a: [x, y]\nb: \"q\\n\"\nc: yes\nd:\n",
                json!({"a": ["x", "y"], "b": "q\n", "c": true, "d": null}),
            ),
            (
                "runcmd:\n- - cmd\n  - /c\n- dir\n",
                json!({"runcmd": [["cmd", "/c"], "dir"]}),
            ),
            ("---\na: >-\n  b\n  c\n", json!({"a": "b c"})),
            ("", Value::Null),
            ("word", json!("word")),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_modelled_names_its_line() {
        for (text, line) in [
            ("a: &x 1\n", "line 1"),
            ("a: 1\n  b: 2\n", "line 2"),
            ("a: 'b\n", "line 1"),
            ("a: |2\n  b\n", "line 1"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.starts_with(line), "{text:?}: {why}");
        }
    }
}
