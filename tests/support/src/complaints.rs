//! Reduces rendered complaints about a recipe to their facts, for tables of many complaints. A few
//! other tests compare the complete rendering with its line of TOML.

use regex::Regex;

/// Returns the fact of each rendered complaint, its place with the underlined text and the label,
/// and its cures.
pub fn facts(rendered: &str) -> String {
    let numbered = Regex::new(r"^ *\d+ \| (.*)$").expect("a pattern");
    let underlined = Regex::new(r"^ *\| ( *)([\^-]+) ?(.*)$").expect("a pattern");
    let mut facts: Vec<String> = Vec::new();
    let mut source = String::new();
    for line in rendered.lines() {
        let words = line.trim_start();
        if words.is_empty() || words == "|" {
            continue;
        }
        if let Some(place) = words.strip_prefix("--> ") {
            facts.push(format!("  {place}"));
        } else if let Some(cure) = words.strip_prefix("= help: ") {
            facts.push(format!("  cure: {cure}"));
        } else if let Some(found) = numbered.captures(line) {
            source = found[1].to_owned();
        } else if let Some(found) = underlined.captures(line) {
            let under = source.chars().skip(found[1].len()).take(found[2].len());
            let under: String = under.collect();
            let said = format!(" `{under}` {}", &found[3]);
            match facts.last_mut() {
                Some(place) => place.push_str(said.trim_end()),
                None => facts.push(said),
            }
        } else {
            facts.push(line.to_owned());
        }
    }
    facts.join("\n")
}
