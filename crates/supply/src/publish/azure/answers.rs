//! XML answers of blob storage, and its one XML request. (Azure Storage: Blob service REST API)

use std::collections::BTreeSet;
use std::ops::Range;

use roxmltree::{Document, Node};

use super::super::xml::{find_children, read_text};
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::markup::escape_xml;

/// Parses `Get Page Ranges`: the written pages, and the marker of the next part.
pub fn parse_pages(text: &str) -> Result<(Vec<Range<u64>>, Option<String>)> {
    let document = read(text)?;
    let root = document.root_element();
    let ranges: Option<Vec<_>> = find_children(root, "PageRange").map(parse_range).collect();
    let ranges = ranges.ok_or_else(|| report_unexpected("it lists a range without its bytes"))?;
    Ok((ranges, read_text(root, "NextMarker").map(str::to_owned)))
}

fn parse_range(node: Node<'_, '_>) -> Option<Range<u64>> {
    let start = read_text(node, "Start")?.parse::<u64>().ok()?;
    let last = read_text(node, "End")?.parse::<u64>().ok()?;
    Some(start..last.checked_add(1)?)
}

/// Parses `Get Block List`: the uncommitted blocks.
pub fn parse_blocks(text: &str) -> Result<BTreeSet<String>> {
    let document = read(text)?;
    let lists = find_children(document.root_element(), "UncommittedBlocks");
    let blocks = lists.flat_map(|list| list.children());
    Ok(blocks
        .filter_map(|block| read_text(block, "Name"))
        .map(str::to_owned)
        .collect())
}

/// Renders the body of `Put Block List`. With `Latest` a request can be repeated after a lost
/// answer, when the blocks are already committed.
pub fn block_list<'n>(names: impl Iterator<Item = &'n String>) -> String {
    let latest = names.map(|name| format!("<Latest>{}</Latest>", escape_xml(name)));
    let all: String = latest.collect();
    format!("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>{all}</BlockList>")
}

/// Parses the first line of an `Error` message. The others identify the request.
pub fn parse_error(text: &str) -> Option<String> {
    let document = Document::parse(text.trim_start_matches('\u{feff}')).ok()?;
    let words = read_text(document.root_element(), "Message")?;
    words.lines().next().map(display_text::sanitize_line)
}

fn report_unexpected(words: &str) -> Error {
    let fact = "the storage account sent an answer that is not blob storage's";
    Error::new(Kind::Publish, fact).found(display_text::sanitize_line(words))
}

fn read(text: &str) -> Result<Document<'_>> {
    // Blob storage starts its documents with a byte order mark.
    Document::parse(text.trim_start_matches('\u{feff}'))
        .map_err(|e| report_unexpected(&e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_pages_are_listed_without_those_that_were_cleared() {
        let text = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><PageList>\
            <PageRange><Start>0</Start><End>511</End></PageRange>\
            <ClearRange><Start>512</Start><End>1023</End></ClearRange>\
            <PageRange><Start>1024</Start><End>2047</End></PageRange><NextMarker>2!8</NextMarker></PageList>";
        let (ranges, next) = parse_pages(text).unwrap();
        assert_eq!(ranges, [0..512, 1024..2048]);
        assert_eq!(next.as_deref(), Some("2!8"));
        let broken = "<PageList><PageRange><Start>0</Start></PageRange></PageList>";
        assert!(parse_pages(broken).is_err());
    }

    #[test]
    fn blocks_that_wait_are_listed_without_those_of_the_blob() {
        let text = "<BlockList><CommittedBlocks><Block><Name>YQ==</Name><Size>1</Size></Block></CommittedBlocks>\
            <UncommittedBlocks><Block><Name>Yg==</Name><Size>2</Size></Block></UncommittedBlocks></BlockList>";
        assert_eq!(parse_blocks(text).unwrap(), ["Yg==".to_owned()].into());
    }
}
