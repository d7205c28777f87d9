//! BinXml: elements with names and templates anywhere in their chunk.
//!
//! Values that winimg does not use (GUIDs, SIDs, times, binary data, lists except of text) are
//! empty.

use std::ops::Range;

use crate::bytes::{u16_le, u32_le, u64_le, utf16_le};

/// Maximum depth of nested elements, including templates in values.
const MAX_DEPTH: u32 = 32;
/// Maximum number of elements and values in one record.
const MAX_ITEMS: u32 = 20_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BinXmlElement {
    pub name: String,
    pub attributes: Vec<(String, String)>,
    pub children: Vec<BinXmlElement>,
    pub text: String,
}

impl BinXmlElement {
    pub fn find_child(&self, name: &str) -> Option<&BinXmlElement> {
        self.children.iter().find(|child| child.name == name)
    }

    pub fn find_attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(n, _)| n == name)?;
        Some(&found.1)
    }
}

pub struct EventLogChunk<'c> {
    bytes: &'c [u8],
}

/// A value for a template: its type and its range in the chunk.
#[derive(Clone)]
struct TemplateValue {
    kind: u8,
    place: Range<usize>,
}

/// Reads from a position in a chunk.
struct BinXmlReader<'c, 'v> {
    chunk: &'c EventLogChunk<'c>,
    at: usize,
    end: usize,
    values: &'v [TemplateValue],
    /// True inside a value, where elements have no dependency id.
    in_value: bool,
    budget: &'v mut u32,
}

/// Content between elements and in attributes.
enum BinXmlContent {
    Text(String),
    Element(BinXmlElement),
}

impl<'c> EventLogChunk<'c> {
    pub fn new(bytes: &'c [u8]) -> Self {
        Self { bytes }
    }

    /// Parses the only element of the fragment in this range; `None` if it is invalid.
    pub fn parse_element(&self, place: Range<usize>) -> Option<BinXmlElement> {
        let mut budget = MAX_ITEMS;
        self.parse_fragment(place, &[], false, MAX_DEPTH, &mut budget)
    }

    fn parse_fragment(
        &self,
        place: Range<usize>,
        values: &[TemplateValue],
        in_value: bool,
        depth: u32,
        budget: &mut u32,
    ) -> Option<BinXmlElement> {
        let mut reader = BinXmlReader {
            chunk: self,
            at: place.start,
            end: place.end.min(self.bytes.len()),
            values,
            in_value,
            budget,
        };
        reader.parse_fragment(depth.checked_sub(1)?)
    }

    /// Reads a name, and returns the offset after it.
    fn read_name(&self, at: usize) -> Option<(String, usize)> {
        let len = 2 * usize::from(u16_le(self.bytes, at.checked_add(6)?));
        let start = at + 8;
        let text = self.bytes.get(start..start + len)?;
        Some((String::from_utf16_lossy(&utf16_le(text)), start + len + 2))
    }
}

fn decode_text(bytes: &[u8]) -> String {
    String::from_utf16_lossy(&utf16_le(bytes))
        .trim_end_matches('\0')
        .to_owned()
}

impl BinXmlReader<'_, '_> {
    fn read_u8(&mut self) -> Option<u8> {
        let byte = *self.take_bytes(1)?.first()?;
        Some(byte)
    }

    fn read_u16(&mut self) -> Option<u16> {
        Some(u16_le(self.take_bytes(2)?, 0))
    }

    fn read_u32(&mut self) -> Option<u32> {
        Some(u32_le(self.take_bytes(4)?, 0))
    }

    fn take_bytes(&mut self, len: usize) -> Option<&[u8]> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.end)?;
        let bytes = self.chunk.bytes.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    fn consume_budget(&mut self) -> Option<()> {
        *self.budget = self.budget.checked_sub(1)?;
        Some(())
    }

    fn parse_fragment(&mut self, depth: u32) -> Option<BinXmlElement> {
        loop {
            match self.read_u8()? {
                0x0f => _ = self.take_bytes(3)?,
                0x0c => return self.expand_template(depth),
                token @ (0x01 | 0x41) => return self.parse_element(token, depth),
                _ => return None,
            }
        }
    }

    /// Reads a name, which is stored here if it is used for the first time, otherwise elsewhere.
    fn read_name(&mut self) -> Option<String> {
        let place = self.read_u32()? as usize;
        let (name, after) = self.chunk.read_name(place)?;
        if place == self.at {
            self.at = after;
        }
        Some(name)
    }

    fn parse_element(&mut self, token: u8, depth: u32) -> Option<BinXmlElement> {
        self.consume_budget()?;
        let depth = depth.checked_sub(1)?;
        if !self.in_value {
            self.read_u16()?;
        }
        self.read_u32()?;
        let mut element = BinXmlElement {
            name: self.read_name()?,
            ..BinXmlElement::default()
        };
        if token & 0x40 != 0 {
            let len = self.read_u32()? as usize;
            let end = self.at.checked_add(len).filter(|end| *end <= self.end)?;
            while self.at < end {
                let (0x06 | 0x46) = self.read_u8()? else {
                    return None;
                };
                let name = self.read_name()?;
                let mut text = String::new();
                while self.at < end && !matches!(self.chunk.bytes.get(self.at)?, 0x06 | 0x46) {
                    let token = self.read_u8()?;
                    if let BinXmlContent::Text(part) = self.parse_content(token, depth)? {
                        text += &part;
                    }
                }
                element.attributes.push((name, text));
            }
        }
        match self.read_u8()? {
            0x03 => return Some(element),
            0x02 => {}
            _ => return None,
        }
        loop {
            match self.read_u8()? {
                0x04 => return Some(element),
                token => match self.parse_content(token, depth)? {
                    BinXmlContent::Text(part) => element.text += &part,
                    BinXmlContent::Element(child) => element.children.push(child),
                },
            }
        }
    }

    fn parse_content(&mut self, token: u8, depth: u32) -> Option<BinXmlContent> {
        self.consume_budget()?;
        let text = match token {
            0x01 | 0x41 => return self.parse_element(token, depth).map(BinXmlContent::Element),
            0x0c => return self.expand_template(depth).map(BinXmlContent::Element),
            0x05 | 0x45 => {
                let 0x01 = self.read_u8()? else { return None };
                self.read_text()?
            }
            0x07 | 0x47 => self.read_text()?,
            0x08 | 0x48 => char::from_u32(u32::from(self.read_u16()?))?.to_string(),
            0x09 | 0x49 => match self.read_name()?.as_str() {
                "amp" => "&".to_owned(),
                "lt" => "<".to_owned(),
                "gt" => ">".to_owned(),
                "quot" => "\"".to_owned(),
                "apos" => "'".to_owned(),
                _ => return None,
            },
            0x0d | 0x0e => {
                let number = usize::from(self.read_u16()?);
                self.read_u8()?;
                let value = self.values.get(number)?.clone();
                return self.render_value(&value, depth);
            }
            _ => return None,
        };
        Some(BinXmlContent::Text(text))
    }

    fn read_text(&mut self) -> Option<String> {
        let len = 2 * usize::from(self.read_u16()?);
        Some(String::from_utf16_lossy(&utf16_le(self.take_bytes(len)?)))
    }

    fn render_value(&mut self, value: &TemplateValue, depth: u32) -> Option<BinXmlContent> {
        if value.kind == 0x21 {
            let place = value.place.clone();
            let found = self
                .chunk
                .parse_fragment(place, &[], true, depth, self.budget)?;
            return Some(BinXmlContent::Element(found));
        }
        let bytes = self.chunk.bytes.get(value.place.clone())?;
        Some(BinXmlContent::Text(match (value.kind, bytes.len()) {
            (0x01, _) => decode_text(bytes),
            // A list of zero-terminated texts.
            (0x81, _) => decode_text(bytes).replace('\0', ", "),
            (0x04, 1) => bytes[0].to_string(),
            (0x06, 2) => u16_le(bytes, 0).to_string(),
            (0x07, 4) => (u32_le(bytes, 0) as i32).to_string(),
            (0x08, 4) => u32_le(bytes, 0).to_string(),
            (0x0a, 8) => u64_le(bytes, 0).to_string(),
            (0x14, 4) => format!("{:#x}", u32_le(bytes, 0)),
            (0x15, 8) => format!("{:#x}", u64_le(bytes, 0)),
            _ => String::new(),
        }))
    }

    fn expand_template(&mut self, depth: u32) -> Option<BinXmlElement> {
        self.consume_budget()?;
        self.take_bytes(5)?;
        let place = self.read_u32()? as usize;
        // Next template, GUID, length.
        let head = place.checked_add(24)?;
        let len = u32_le(self.chunk.bytes.get(head - 4..head)?, 0) as usize;
        let body = head..head.checked_add(len)?;
        if place == self.at {
            self.take_bytes(24)?;
            self.take_bytes(len)?;
        }
        let count = self.read_u32()? as usize;
        let list = self.take_bytes(count.checked_mul(4)?)?;
        let sizes: Vec<(usize, u8)> = list
            .chunks_exact(4)
            .map(|entry| (usize::from(u16_le(entry, 0)), entry[2]))
            .collect();
        let mut values = Vec::with_capacity(sizes.len());
        for (len, kind) in sizes {
            let start = self.at;
            self.take_bytes(len)?;
            values.push(TemplateValue {
                kind,
                place: start..self.at,
            });
        }
        self.chunk
            .parse_fragment(body, &values, false, depth, self.budget)
    }
}
