//! Tables of text on the terminal.

use winimg_base::text::column_width;

/// Renders rows under their titles; the columns listed in `right` are right-aligned.
pub fn render_table(titles: &[&str], rows: &[Vec<String>], right: &[usize]) -> String {
    let titles: Vec<String> = titles.iter().map(|t| t.to_string()).collect();
    let rows: Vec<&Vec<String>> = std::iter::once(&titles).chain(rows).collect();
    let widths: Vec<usize> = (0..titles.len())
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            column_width(cells.map(|c| c.chars().count()))
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(n, (cell, &width))| {
                if right.contains(&n) {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:width$}")
                }
            })
            .collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}
