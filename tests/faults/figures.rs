//! How many cases `docs/faults.md` says that a group has: a table that lost its rows must not pass for one that holds.

pub fn rendered(group: &str) -> usize {
    let start = format!("| `{group}` | ");
    let rows = include_str!("../../docs/faults.md").lines();
    let mut figures = rows.filter_map(|row| row.strip_prefix(&start)?.split(" |").next());
    let figure = figures
        .next()
        .unwrap_or_else(|| panic!("docs/faults.md has no group {group}"));
    figure
        .parse()
        .unwrap_or_else(|e| panic!("the cases of {group}, {figure}: {e}"))
}
