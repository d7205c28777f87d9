//! Disk usage of a volume as a treemap and as a table.
//!
//! Pure. Squarified (Bruls, Huizing, van Wijk: "Squarified Treemaps", 2000): tiles are as near to
//! squares as their order allows. Free space is only in the caption: on a new image it would fill
//! most of the drawing.

use std::fmt::Write as _;

use super::{escape_html, render_prose, wrap_tag};
use crate::usage::{DiskUsage, UsageFolder};
use winimg_base::text::{format_difference, format_size};

/// Size of the drawing in its own units; on a page it is as wide as the text.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 560.0;
/// Height of a folder's label.
const LABEL: f64 = 20.0;
const GAP: f64 = 3.0;
/// A narrower or lower tile is neither divided nor labelled.
const MIN_TILE: f64 = 40.0;
/// Levels of nested folders that are drawn.
const MAX_DEPTH: usize = 3;
/// Number of colours in the style sheet.
const COLOURS: usize = 6;

#[derive(Clone, Copy)]
struct TileArea {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

/// A tile and the folders inside of it.
struct TreemapTile<'a> {
    name: &'a str,
    bytes: u64,
    folders: &'a [UsageFolder],
}

/// Renders the drawing, its table, and what each layer added.
pub fn render_treemap(usage: &DiskUsage) -> String {
    let own: u64 = usage.metadata.iter().map(|own| own.bytes).sum();
    let words = format!(
        "{} of {} are used; {} are free.",
        format_size(usage.used()),
        format_size(usage.total),
        format_size(usage.free)
    );
    let mut tiles: Vec<TreemapTile<'_>> = usage
        .root
        .folders
        .iter()
        .map(TreemapTile::from_folder)
        .collect();
    let listed: u64 = tiles.iter().map(|tile| tile.bytes).sum();
    let more = [
        ("NTFS's own files", own),
        ("unclaimed", usage.unclaimed),
        ("other", usage.root.bytes.saturating_sub(listed)),
    ];
    tiles.extend(more.map(|(name, bytes)| TreemapTile {
        name,
        bytes,
        folders: &[],
    }));
    let whole = TileArea {
        x: 0.0,
        y: 0.0,
        width: WIDTH,
        height: HEIGHT,
    };
    let mut svg = String::new();
    render_tiles(&mut svg, "", tiles, whole, 0, None);
    let largest = usage
        .root
        .folders
        .first()
        .map_or_else(String::new, |folder| {
            format!(
                " The largest folder is {}, {}.",
                escape_html(&folder.name),
                format_size(folder.bytes)
            )
        });
    format!(
        "<figure class=\"treemap\">\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-labelledby=\"treemap-title treemap-desc\">\n\
         <title id=\"treemap-title\">Disk usage by folder</title>\n\
         <desc id=\"treemap-desc\">{words}{largest} The table below lists all folders.</desc>\n\
         {svg}</svg>\n\
         <figcaption>{words} Each area is a folder; hard-linked files count once.</figcaption>\n\
         </figure>\n{}{}",
        render_folder_table(usage),
        render_layers(usage)
    )
}

impl<'a> TreemapTile<'a> {
    fn from_folder(folder: &'a UsageFolder) -> Self {
        let (name, bytes) = (&folder.name, folder.bytes);
        Self {
            name,
            bytes,
            folders: &folder.folders,
        }
    }
}

/// Draws tiles into an area. `colour` is the colour of their folder; top-level tiles get one each.
fn render_tiles(
    svg: &mut String,
    path: &str,
    mut tiles: Vec<TreemapTile<'_>>,
    area: TileArea,
    depth: usize,
    colour: Option<usize>,
) {
    tiles.retain(|tile| tile.bytes > 0);
    tiles.sort_by_key(|tile| std::cmp::Reverse(tile.bytes));
    let bytes: Vec<f64> = tiles.iter().map(|tile| tile.bytes as f64).collect();
    for (number, (tile, area)) in tiles.iter().zip(lay_out_tiles(&bytes, area)).enumerate() {
        let colour = colour.unwrap_or(number % COLOURS);
        let path = match path {
            "" => tile.name.to_owned(),
            above => format!("{above}\\{}", tile.name),
        };
        render_tile(svg, &path, tile, area, &format!("t{colour} d{depth}"));
        let TileArea {
            x,
            y,
            width,
            height,
        } = area;
        let inside = TileArea {
            x: x + GAP,
            y: y + LABEL,
            width: width - 2.0 * GAP,
            height: height - LABEL - GAP,
        };
        if depth + 1 < MAX_DEPTH && inside.width >= MIN_TILE && inside.height >= MIN_TILE {
            // Bytes outside of listed folders keep their share of the area: no tile covers it.
            let listed: u64 = tile.folders.iter().map(|folder| folder.bytes).sum();
            let part = (listed as f64 / tile.bytes as f64).min(1.0);
            let inside = if inside.width > inside.height {
                TileArea {
                    width: inside.width * part,
                    ..inside
                }
            } else {
                TileArea {
                    height: inside.height * part,
                    ..inside
                }
            };
            render_tiles(
                svg,
                &path,
                tile.folders.iter().map(TreemapTile::from_folder).collect(),
                inside,
                depth + 1,
                Some(colour),
            );
        }
    }
}

/// Draws one tile with its name if there is room; a longer name is clipped at the tile's edge.
fn render_tile(svg: &mut String, path: &str, tile: &TreemapTile<'_>, area: TileArea, class: &str) {
    let TileArea {
        x,
        y,
        width,
        height,
    } = area;
    let bytes = format_size(tile.bytes);
    let _ = write!(
        svg,
        "<svg class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" \
         width=\"{width:.1}\" height=\"{height:.1}\">\
         <title>{}: {bytes}</title><rect width=\"100%\" height=\"100%\"/>",
        escape_html(path)
    );
    if width >= MIN_TILE && height >= LABEL {
        let name = escape_html(tile.name);
        let _ = write!(
            svg,
            "<text x=\"5\" y=\"1.15em\">{name} <tspan>{bytes}</tspan></text>"
        );
    }
    svg.push_str("</svg>\n");
}

/// Returns an area for each size. Sizes must be positive, in descending order.
fn lay_out_tiles(sizes: &[f64], area: TileArea) -> Vec<TileArea> {
    let all: f64 = sizes.iter().sum();
    let scale = area.width * area.height / all;
    let mut left = area;
    let mut areas = Vec::with_capacity(sizes.len());
    let mut at = 0;
    while at < sizes.len() {
        let side = left.width.min(left.height);
        let mut end = at + 1;
        while end < sizes.len()
            && compute_worst_ratio(&sizes[at..=end], scale, side)
                <= compute_worst_ratio(&sizes[at..end], scale, side)
        {
            end += 1;
        }
        let row = &sizes[at..end];
        let sum: f64 = row.iter().sum();
        let thick = sum * scale / side;
        let mut along = 0.0;
        for size in row {
            let long = side * size / sum;
            areas.push(if left.width >= left.height {
                TileArea {
                    x: left.x,
                    y: left.y + along,
                    width: thick,
                    height: long,
                }
            } else {
                TileArea {
                    x: left.x + along,
                    y: left.y,
                    width: long,
                    height: thick,
                }
            });
            along += long;
        }
        if left.width >= left.height {
            left.x += thick;
            left.width -= thick;
        } else {
            left.y += thick;
            left.height -= thick;
        }
        at = end;
    }
    areas
}

/// Returns the worst aspect ratio of a row of tiles along `side`; 1 is a square.
fn compute_worst_ratio(row: &[f64], scale: f64, side: f64) -> f64 {
    let sum: f64 = row.iter().sum::<f64>() * scale;
    let (most, least) = (row[0] * scale, row[row.len() - 1] * scale);
    let side = side * side;
    (side * most / (sum * sum)).max(sum * sum / (side * least))
}

fn render_folder_table(usage: &DiskUsage) -> String {
    let mut rows = String::new();
    render_folder(&mut rows, usage, "C:", &usage.root);
    for own in &usage.metadata {
        render_row(&mut rows, usage, &own.name, own.bytes, "");
    }
    if usage.unclaimed > 0 {
        render_row(
            &mut rows,
            usage,
            "allocated, but in no file",
            usage.unclaimed,
            "",
        );
    }
    let head = "<tr><th scope=\"col\">Folder</th><th scope=\"col\">Size</th>\
                <th scope=\"col\">Share</th><th scope=\"col\">Files</th></tr>\n";
    format!(
        "<details>\n<summary>The folders as a table</summary>\n\
         <p class=\"note\">Folders smaller than {} are counted in their parent folder.</p>\n\
         <table class=\"usage\">\n{head}{rows}</table>\n</details>\n",
        format_size(usage.smallest)
    )
}

fn render_folder(rows: &mut String, usage: &DiskUsage, path: &str, folder: &UsageFolder) {
    render_row(rows, usage, path, folder.bytes, &folder.files.to_string());
    for inner in &folder.folders {
        render_folder(rows, usage, &format!("{path}\\{}", inner.name), inner);
    }
}

fn render_row(rows: &mut String, usage: &DiskUsage, name: &str, bytes: u64, files: &str) {
    let share = bytes as f64 * 100.0 / usage.used().max(1) as f64;
    let _ = writeln!(
        rows,
        "<tr><td class=\"files\">{}</td><td>{}</td><td>{share:.1} %</td><td>{files}</td></tr>",
        escape_html(name),
        format_size(bytes)
    );
}

/// Renders a table of the space that each layer added, and where.
fn render_layers(usage: &DiskUsage) -> String {
    let mut rows = String::new();
    let mut before = None;
    for layer in &usage.layers {
        let added = before.map_or_else(
            || format_size(layer.used),
            |before| format_difference(before, layer.used),
        );
        let changes: String = layer
            .changes
            .iter()
            .map(|change| {
                let (before, after) = (change.before.unwrap_or(0), change.after.unwrap_or(0));
                format!(
                    "<li>{} {}</li>",
                    format_difference(before, after),
                    escape_html(&change.path)
                )
            })
            .collect();
        let _ = writeln!(
            rows,
            "<tr><td class=\"files\">{}</td><td>{added}</td><td class=\"files\">{}</td></tr>",
            render_prose(&layer.after),
            wrap_tag("ul", &changes)
        );
        before = Some(layer.used);
    }
    let head = "<tr><th scope=\"col\">Up to</th><th scope=\"col\">Added</th>\
                <th scope=\"col\">Where</th></tr>\n";
    if rows.is_empty() {
        return String::new();
    }
    format!("<h3>Growth by layer</h3>\n<table class=\"usage\">\n{head}{rows}</table>\n")
}
