//! The page of a proof. One of no Windows says so on every line.

use prove::page::page;
use prove::proof::Proof;

use crate::judge::{proof, row};
use crate::ledger::read;

/// The lines of the page's tables and lists that could be taken for ones about Windows.
pub fn lines(page: &str) -> Vec<&str> {
    let (_, body) = page.split_once("</nav>").expect("a page");
    let parts = body.split("<tr").flat_map(|part| part.split("<li>"));
    let is_line = |part: &&str| part.contains("</td>") || part.contains("</li>");
    parts.filter(is_line).collect()
}

fn marked(proof: &Proof) -> (usize, usize) {
    let page = page(proof, &read());
    let lines = lines(&page);
    let marked = lines
        .iter()
        .filter(|line| line.to_lowercase().contains("no windows"));
    (lines.len(), marked.count())
}

#[test]
fn every_line_of_a_run_on_no_windows_says_so() {
    let (all, marked) = marked(&proof(None, vec![row("uefi-virtio")]));
    assert!(all > 50, "{all}");
    assert_eq!(all, marked);
}

#[test]
fn a_run_on_windows_is_not_called_none() {
    let (all, marked) = marked(&proof(
        Some("Windows Server 2022"),
        vec![row("uefi-virtio")],
    ));
    assert!(all > 50, "{all}");
    assert_eq!(marked, 0);
}

#[test]
fn what_was_not_done_and_which_winimg_it_was_stand_on_the_page() {
    let mut row = row("uefi-virtio");
    row.missing = vec!["try openstack".into()];
    let page = page(&proof(None, vec![row]), &read());
    for text in [
        "not done: try openstack",
        &"11".repeat(32),
        &"22".repeat(20),
    ] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn text_of_guests_and_media_is_no_markup() {
    let mut row = row("uefi-virtio");
    row.seen
        .answers
        .insert("revision".into(), "<script>alert(1)</script>".into());
    let page = page(&proof(None, vec![row]), &read());
    assert!(!page.contains("<script"));
    assert!(page.contains("&lt;SERVERSTANDARDCORE&gt;"));
}
