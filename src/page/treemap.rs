//! What a volume holds, drawn: a treemap whose areas are bytes, and the same as a table.
//!
//! Pure. Squarified (Bruls, Huizing, van Wijk: "Squarified Treemaps", 2000): tiles are as near to squares as their order allows.
//! Free space is in the words below it, not in the drawing: on a new image it is most of the volume.

use std::fmt::Write as _;

use super::{prose, shown, size, within};
use crate::usage::{DiskUsage, Folder};

/// The drawing's units; on a page it is as wide as the text.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 560.0;
/// Of a folder's name above what is in it.
const LABEL: f64 = 20.0;
const GAP: f64 = 3.0;
/// A tile that is narrower or lower is not divided, nor named.
const SMALLEST: f64 = 40.0;
/// Folders in folders that are drawn.
const DEEPEST: usize = 3;
/// As many colours as the style has.
const COLOURS: usize = 6;

#[derive(Clone, Copy)]
struct Area {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

/// One tile, with those in it.
struct Tile<'a> {
    name: &'a str,
    bytes: u64,
    folders: &'a [Folder],
}

/// The drawing, its table, and what each layer added.
pub fn treemap(usage: &DiskUsage) -> String {
    let own: u64 = usage.metadata.iter().map(|own| own.bytes).sum();
    let words = format!(
        "{} of {} are used; {} are free.",
        size(usage.used()),
        size(usage.total),
        size(usage.free)
    );
    let mut tiles: Vec<Tile<'_>> = usage.root.folders.iter().map(Tile::of).collect();
    let listed: u64 = tiles.iter().map(|tile| tile.bytes).sum();
    let more = [
        ("NTFS's own files", own),
        ("no file's", usage.unclaimed),
        ("all else", usage.root.bytes.saturating_sub(listed)),
    ];
    tiles.extend(more.map(|(name, bytes)| Tile {
        name,
        bytes,
        folders: &[],
    }));
    let whole = Area {
        x: 0.0,
        y: 0.0,
        width: WIDTH,
        height: HEIGHT,
    };
    let mut svg = String::new();
    draw(&mut svg, "", tiles, whole, 0, None);
    let largest = usage
        .root
        .folders
        .first()
        .map_or_else(String::new, |folder| {
            format!(
                " The largest folder is {}, {}.",
                shown(&folder.name),
                size(folder.bytes)
            )
        });
    format!(
        "<figure class=\"treemap\">\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-labelledby=\"treemap-title treemap-desc\">\n\
         <title id=\"treemap-title\">Disk usage by folder</title>\n\
         <desc id=\"treemap-desc\">{words}{largest} The table below has all folders.</desc>\n{svg}</svg>\n\
         <figcaption>{words} Each area is a folder; a file with several names counts once.</figcaption>\n</figure>\n{}{}",
        table(usage),
        layers(usage)
    )
}

impl<'a> Tile<'a> {
    fn of(folder: &'a Folder) -> Self {
        let (name, bytes) = (&folder.name, folder.bytes);
        Self {
            name,
            bytes,
            folders: &folder.folders,
        }
    }
}

/// Draws tiles into an area. `colour`: of the folder that they are in; the outermost ones have one each.
fn draw(
    svg: &mut String,
    path: &str,
    mut tiles: Vec<Tile<'_>>,
    area: Area,
    depth: usize,
    colour: Option<usize>,
) {
    tiles.retain(|tile| tile.bytes > 0);
    tiles.sort_by_key(|tile| std::cmp::Reverse(tile.bytes));
    let bytes: Vec<f64> = tiles.iter().map(|tile| tile.bytes as f64).collect();
    for (number, (tile, area)) in tiles.iter().zip(squarified(&bytes, area)).enumerate() {
        let colour = colour.unwrap_or(number % COLOURS);
        let path = match path {
            "" => tile.name.to_owned(),
            above => format!("{above}\\{}", tile.name),
        };
        frame(svg, &path, tile, area, &format!("t{colour} d{depth}"));
        let Area {
            x,
            y,
            width,
            height,
        } = area;
        let inside = Area {
            x: x + GAP,
            y: y + LABEL,
            width: width - 2.0 * GAP,
            height: height - LABEL - GAP,
        };
        if depth + 1 < DEEPEST && inside.width >= SMALLEST && inside.height >= SMALLEST {
            // What is in no folder that is listed keeps its part of the area: no tile covers it.
            let listed: u64 = tile.folders.iter().map(|folder| folder.bytes).sum();
            let part = (listed as f64 / tile.bytes as f64).min(1.0);
            let inside = match inside.width > inside.height {
                true => Area {
                    width: inside.width * part,
                    ..inside
                },
                false => Area {
                    height: inside.height * part,
                    ..inside
                },
            };
            draw(
                svg,
                &path,
                tile.folders.iter().map(Tile::of).collect(),
                inside,
                depth + 1,
                Some(colour),
            );
        }
    }
}

/// One tile with its name, as far as that has room: what is longer is cut off at the tile's edge.
fn frame(svg: &mut String, path: &str, tile: &Tile<'_>, area: Area, class: &str) {
    let Area {
        x,
        y,
        width,
        height,
    } = area;
    let bytes = size(tile.bytes);
    let _ = write!(
        svg,
        "<svg class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\">\
         <title>{}: {bytes}</title><rect width=\"100%\" height=\"100%\"/>",
        shown(path)
    );
    if width >= SMALLEST && height >= LABEL {
        let name = shown(tile.name);
        let _ = write!(
            svg,
            "<text x=\"5\" y=\"1.15em\">{name} <tspan>{bytes}</tspan></text>"
        );
    }
    svg.push_str("</svg>\n");
}

/// An area for each size; the sizes are descending and above zero.
fn squarified(sizes: &[f64], area: Area) -> Vec<Area> {
    let all: f64 = sizes.iter().sum();
    let scale = area.width * area.height / all;
    let mut left = area;
    let mut areas = Vec::with_capacity(sizes.len());
    let mut at = 0;
    while at < sizes.len() {
        let side = left.width.min(left.height);
        let mut end = at + 1;
        while end < sizes.len()
            && worst(&sizes[at..=end], scale, side) <= worst(&sizes[at..end], scale, side)
        {
            end += 1;
        }
        let row = &sizes[at..end];
        let sum: f64 = row.iter().sum();
        let thick = sum * scale / side;
        let mut along = 0.0;
        for size in row {
            let long = side * size / sum;
            areas.push(match left.width >= left.height {
                true => Area {
                    x: left.x,
                    y: left.y + along,
                    width: thick,
                    height: long,
                },
                false => Area {
                    x: left.x + along,
                    y: left.y,
                    width: long,
                    height: thick,
                },
            });
            along += long;
        }
        match left.width >= left.height {
            true => {
                left.x += thick;
                left.width -= thick;
            }
            false => {
                left.y += thick;
                left.height -= thick;
            }
        }
        at = end;
    }
    areas
}

/// How far the worst tile of a row along `side` is from a square: 1 is one.
fn worst(row: &[f64], scale: f64, side: f64) -> f64 {
    let sum: f64 = row.iter().sum::<f64>() * scale;
    let (most, least) = (row[0] * scale, row[row.len() - 1] * scale);
    let side = side * side;
    (side * most / (sum * sum)).max(sum * sum / (side * least))
}

fn table(usage: &DiskUsage) -> String {
    let mut rows = String::new();
    list(&mut rows, usage, "C:", &usage.root);
    for own in &usage.metadata {
        row(&mut rows, usage, &own.name, own.bytes, "");
    }
    if usage.unclaimed > 0 {
        row(
            &mut rows,
            usage,
            "marked as used, but no file's",
            usage.unclaimed,
            "",
        );
    }
    let head = "<tr><th scope=\"col\">Folder</th><th scope=\"col\">Size</th><th scope=\"col\">Of what is used</th><th scope=\"col\">Files</th></tr>\n";
    format!(
        "<details>\n<summary>The folders as a table</summary>\n<p class=\"note\">Folders with less than {} count in those that they lie in.</p>\n\
         <table class=\"usage\">\n{head}{rows}</table>\n</details>\n",
        size(usage.smallest)
    )
}

fn list(rows: &mut String, usage: &DiskUsage, path: &str, folder: &Folder) {
    row(rows, usage, path, folder.bytes, &folder.files.to_string());
    for inner in &folder.folders {
        list(rows, usage, &format!("{path}\\{}", inner.name), inner);
    }
}

fn row(rows: &mut String, usage: &DiskUsage, name: &str, bytes: u64, files: &str) {
    let share = bytes as f64 * 100.0 / usage.used().max(1) as f64;
    let _ = writeln!(
        rows,
        "<tr><td class=\"files\">{}</td><td>{}</td><td>{share:.1} %</td><td>{files}</td></tr>",
        shown(name),
        size(bytes)
    );
}

/// What each layer added, and where.
fn layers(usage: &DiskUsage) -> String {
    let mut rows = String::new();
    let mut before = None;
    for layer in &usage.layers {
        let added =
            before.map_or_else(|| size(layer.used), |before| difference(before, layer.used));
        let changes = layer.changes.iter().map(|change| {
            let (before, after) = (change.before.unwrap_or(0), change.after.unwrap_or(0));
            format!(
                "<li>{} {}</li>",
                difference(before, after),
                shown(&change.path)
            )
        });
        let changes: String = changes.collect();
        let _ = writeln!(
            rows,
            "<tr><td class=\"files\">{}</td><td>{added}</td><td class=\"files\">{}</td></tr>",
            prose(&layer.after),
            within("ul", &changes)
        );
        before = Some(layer.used);
    }
    let head = "<tr><th scope=\"col\">Up to</th><th scope=\"col\">Added</th><th scope=\"col\">Where</th></tr>\n";
    match rows.is_empty() {
        true => String::new(),
        false => format!(
            "<h3>What was added, layer by layer</h3>\n<table class=\"usage\">\n{head}{rows}</table>\n"
        ),
    }
}

/// `+1.2 GiB`, `−3.0 MiB`
pub fn difference(before: u64, after: u64) -> String {
    let sign = if after < before { '−' } else { '+' };
    format!("{sign}{}", size(after.abs_diff(before)))
}
