//! Setup information files (`.inf`).

use crate::windows::regf::same;

/// A setup information file: sections with their `key = value` lines in order, strings filled in.
pub struct Inf(Vec<(String, Vec<(String, String)>)>);

impl Inf {
    pub fn parse(bytes: &[u8]) -> Inf {
        let text = match bytes.strip_prefix(&[0xff, 0xfe]) {
            Some(wide) => {
                let units: Vec<u16> = wide
                    .chunks_exact(2)
                    .map(|b| u16::from_le_bytes([b[0], b[1]]))
                    .collect();
                String::from_utf16_lossy(&units)
            }
            None => {
                String::from_utf8_lossy(bytes.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(bytes))
                    .into_owned()
            }
        };
        let mut sections: Vec<(String, Vec<(String, String)>)> = Vec::new();
        for line in text.lines() {
            let line = uncommented(line).trim();
            if let Some(name) = line
                .strip_prefix('[')
                .and_then(|rest| rest.split(']').next())
            {
                sections.push((name.trim().to_owned(), Vec::new()));
            } else if let Some((_, entries)) = sections.last_mut().filter(|_| !line.is_empty()) {
                let (key, value) = line.split_once('=').unwrap_or((line, ""));
                entries.push((
                    key.trim().trim_matches('"').to_owned(),
                    value.trim().to_owned(),
                ));
            }
        }
        Inf(sections)
    }

    /// Lines of all sections of this name, strings filled in and single quoted values unquoted.
    pub fn entries(&self, section: &str) -> Vec<(String, String)> {
        let all = self
            .0
            .iter()
            .filter(|(name, _)| same(name, section))
            .flat_map(|(_, entries)| entries);
        all.map(|(key, value)| (self.filled(key), self.filled(value)))
            .collect()
    }

    pub fn keys(&self, section: &str) -> Vec<String> {
        self.entries(section)
            .into_iter()
            .map(|(key, _)| key)
            .collect()
    }

    pub fn get(&self, section: &str, key: &str) -> Option<String> {
        self.entries(section)
            .into_iter()
            .find(|(name, _)| same(name, key))
            .map(|(_, value)| value)
    }

    fn filled(&self, text: &str) -> String {
        let mut out = text.to_owned();
        if out.contains('%') {
            let strings = self
                .0
                .iter()
                .filter(|(name, _)| same(name, "Strings"))
                .flat_map(|(_, entries)| entries);
            for (key, value) in strings {
                out = out.replace(&format!("%{key}%"), value.trim_matches('"'));
            }
        }
        let inner = out
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        inner
            .filter(|inner| !inner.contains('"'))
            .map(str::to_owned)
            .unwrap_or(out)
    }
}

fn uncommented(line: &str) -> &str {
    let mut quoted = false;
    let end = line.find(|c| {
        quoted ^= c == '"';
        c == ';' && !quoted
    });
    end.map_or(line, |end| &line[..end])
}
