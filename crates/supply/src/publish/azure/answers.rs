//! What blob storage says in XML, and the one thing that is said to it so. (Azure Storage: Blob service REST API)

use std::collections::BTreeSet;
use std::ops::Range;

use roxmltree::{Document, Node};

use super::super::xml::{named, value};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::markup::escape_xml;
use winimg_base::unseen;

/// `Get Page Ranges`: the pages that were written, and where the list goes on.
pub fn pages(text: &str) -> Result<(Vec<Range<u64>>, Option<String>)> {
    let document = read(text)?;
    let root = document.root_element();
    let range = |node: Node<'_, '_>| {
        let number = |name| value(node, name)?.parse::<u64>().ok();
        let (start, last) = (number("Start")?, number("End")?);
        Some(start..last.checked_add(1)?)
    };
    let ranges: Option<Vec<_>> = named(root, "PageRange").map(range).collect();
    let ranges = ranges.ok_or_else(|| unexpected("it lists a range without its bytes"))?;
    Ok((ranges, value(root, "NextMarker").map(str::to_owned)))
}

/// `Get Block List`: the blocks that wait for being named.
pub fn blocks(text: &str) -> Result<BTreeSet<String>> {
    let document = read(text)?;
    let lists = named(document.root_element(), "UncommittedBlocks");
    let blocks = lists.flat_map(|list| list.children());
    Ok(blocks
        .filter_map(|block| value(block, "Name"))
        .map(str::to_owned)
        .collect())
}

/// What `Put Block List` is asked with. `Latest`: a request whose answer was lost is made again, when the blocks no longer wait.
pub fn block_list<'n>(names: impl Iterator<Item = &'n String>) -> String {
    let latest = names.map(|name| format!("<Latest>{}</Latest>", escape_xml(name)));
    let all: String = latest.collect();
    format!("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>{all}</BlockList>")
}

/// `Error`: its words, the first line of them. The others name the request.
pub fn words(text: &str) -> Option<String> {
    let document = Document::parse(text.trim_start_matches('\u{feff}')).ok()?;
    let words = value(document.root_element(), "Message")?;
    words.lines().next().map(unseen::line)
}

fn unexpected(words: &str) -> Error {
    let fact = "the storage account sent an answer that is not blob storage's";
    Error::new(Kind::Publish, fact).found(unseen::line(words))
}

fn read(text: &str) -> Result<Document<'_>> {
    // Blob storage begins its documents with a mark of their byte order.
    Document::parse(text.trim_start_matches('\u{feff}')).map_err(|e| unexpected(&e.to_string()))
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
        let (ranges, next) = pages(text).unwrap();
        assert_eq!(ranges, [0..512, 1024..2048]);
        assert_eq!(next.as_deref(), Some("2!8"));
        let broken = "<PageList><PageRange><Start>0</Start></PageRange></PageList>";
        assert!(pages(broken).is_err());
    }

    #[test]
    fn blocks_that_wait_are_listed_without_those_of_the_blob() {
        let text = "<BlockList><CommittedBlocks><Block><Name>YQ==</Name><Size>1</Size></Block></CommittedBlocks>\
            <UncommittedBlocks><Block><Name>Yg==</Name><Size>2</Size></Block></UncommittedBlocks></BlockList>";
        assert_eq!(blocks(text).unwrap(), ["Yg==".to_owned()].into());
    }
}
