//! The table that people read: one line a case, and what went wrong below it.

/// How a case ended.
pub struct Row {
    pub name: &'static str,
    /// What the build said of the fault.
    pub cause: String,
    pub seconds: u64,
    pub rerun: &'static str,
    pub reused: String,
    /// Why the case does not hold.
    pub wrong: Option<String>,
}

const WIDTH: usize = 66;

impl Row {
    pub fn line(&self, number: usize) -> String {
        let mut cause: String = self.cause.chars().take(WIDTH).collect();
        if self.cause.chars().count() > WIDTH {
            cause.pop();
            cause.push('…');
        }
        let line = format!(
            "{number:>3} | {:<58} | {cause:<WIDTH$} | {:>5} | {:<10} | {}",
            self.name, self.seconds, self.rerun, self.reused
        );
        match &self.wrong {
            None => line,
            Some(wrong) => format!("{line}\n     WRONG: {}", wrong.replace('\n', "\n     ")),
        }
    }
}

pub fn whole(rows: &[Row]) -> String {
    let head = format!(
        "  n | {:<58} | {:<WIDTH$} | {:>5} | {:<10} | reused",
        "case", "cause named", "s", "rerun"
    );
    let lines = rows.iter().enumerate().map(|(at, row)| row.line(at + 1));
    std::iter::once(head)
        .chain(lines)
        .collect::<Vec<_>>()
        .join("\n")
}
