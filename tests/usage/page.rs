//! The drawing of a volume, as text: what people see, and what a screen reader reads.

use winimg::page::{HtmlPage, PageSection, render_treemap};
use winimg::usage::DiskUsage;

use super::record::{folder, node};

#[test]
fn a_node_as_tiles_and_tables() {
    insta::assert_snapshot!(render_treemap(&node()));
}

#[test]
fn a_volume_with_nothing_on_it_is_drawn_all_the_same() {
    let usage = DiskUsage {
        free: 40_000 << 20,
        unclaimed: 0,
        metadata: vec![],
        root: folder("", 0, vec![]),
        layers: vec![],
        ..node()
    };
    insta::assert_snapshot!(render_treemap(&usage));
}

/// Each tile has the part of the area that its folder has of what is used.
#[test]
fn areas_are_bytes() {
    let text = render_treemap(&node());
    let number = |tile: &str, name: &str| -> f64 {
        let from = tile.split(&format!(" {name}=\"")).nth(1).expect("it");
        from.split('"')
            .next()
            .expect("it")
            .parse()
            .expect("a number")
    };
    let outer = text.lines().filter(|line| line.contains(" d0\""));
    let mut all = 0.0;
    for tile in outer {
        let area = number(tile, "width") * number(tile, "height");
        all += area;
        if tile.contains("<title>Windows:") {
            let expected = 1000.0 * 560.0 * 6400.0 / 9000.0;
            assert!((area - expected).abs() < 200.0, "{area} {expected}");
        }
    }
    assert!((all - 560_000.0).abs() < 500.0, "{all}");
}

/// `WINIMG_KEEP_PAGES=DIR` writes it there, to be looked at.
#[test]
fn the_page_has_no_script_and_asks_for_nothing() {
    let usage = PageSection {
        id: "usage",
        title: "Disk usage",
        body: render_treemap(&node()),
    };
    let head = "<h1 class=\"good\">What the disk holds</h1>\n".to_owned();
    let page = HtmlPage::new("What the disk holds".into(), head, [usage]).render();
    if let Some(folder) = std::env::var_os("WINIMG_KEEP_PAGES") {
        std::fs::write(std::path::Path::new(&folder).join("usage.html"), &page).expect("the page");
    }
    for word in [
        "<script", "http://", "https://", "<b>", "\u{1b}", "\u{202e}",
    ] {
        assert!(!page.contains(word), "{word}");
    }
}
