//! BinXml: elements whose names and templates lie anywhere in their chunk.
//!
//! Values that nobody asks for (GUIDs, SIDs, times, binary data, lists but of text) are empty.

use std::ops::Range;

use crate::bytes::{u16_le, u32_le, u64_le, utf16_le};

/// Elements below each other; templates in values count, too.
const DEEPEST: u32 = 32;
/// Elements and values of one record.
const MOST: u32 = 20_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    pub name: String,
    pub attributes: Vec<(String, String)>,
    pub children: Vec<Element>,
    pub text: String,
}

impl Element {
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    pub fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(n, _)| n == name)?;
        Some(&found.1)
    }
}

pub struct Chunk<'c> {
    bytes: &'c [u8],
}

/// A value that is put into a template: its type and where it lies in the chunk.
#[derive(Clone)]
struct Value {
    kind: u8,
    place: Range<usize>,
}

/// Reads on from a place.
struct Reader<'c, 'v> {
    chunk: &'c Chunk<'c>,
    at: usize,
    end: usize,
    values: &'v [Value],
    /// In a value, elements do not say which value they hang on.
    in_value: bool,
    budget: &'v mut u32,
}

/// What stands between elements and in attributes.
enum Content {
    Text(String),
    Element(Element),
}

impl<'c> Chunk<'c> {
    pub fn new(bytes: &'c [u8]) -> Self {
        Self { bytes }
    }

    /// The one element of a fragment at this place. `None`: it can't be read.
    pub fn element(&self, place: Range<usize>) -> Option<Element> {
        self.fragment(place, &[], false, DEEPEST, &mut MOST.clone())
    }

    fn fragment(
        &self,
        place: Range<usize>,
        values: &[Value],
        in_value: bool,
        depth: u32,
        budget: &mut u32,
    ) -> Option<Element> {
        let mut reader = Reader {
            chunk: self,
            at: place.start,
            end: place.end.min(self.bytes.len()),
            values,
            in_value,
            budget,
        };
        reader.fragment(depth.checked_sub(1)?)
    }

    /// A name, and where what follows it begins.
    fn name(&self, at: usize) -> Option<(String, usize)> {
        let len = 2 * usize::from(u16_le(self.bytes, at.checked_add(6)?));
        let start = at + 8;
        let text = self.bytes.get(start..start + len)?;
        Some((String::from_utf16_lossy(&utf16_le(text)), start + len + 2))
    }
}

impl Reader<'_, '_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes(1)?.first()?;
        Some(byte)
    }

    fn half(&mut self) -> Option<u16> {
        Some(u16_le(self.bytes(2)?, 0))
    }

    fn word(&mut self) -> Option<u32> {
        Some(u32_le(self.bytes(4)?, 0))
    }

    fn bytes(&mut self, len: usize) -> Option<&[u8]> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.end)?;
        let bytes = self.chunk.bytes.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    fn spend(&mut self) -> Option<()> {
        *self.budget = self.budget.checked_sub(1)?;
        Some(())
    }

    fn fragment(&mut self, depth: u32) -> Option<Element> {
        loop {
            match self.byte()? {
                0x0f => _ = self.bytes(3)?,
                0x0c => return self.template(depth),
                token @ (0x01 | 0x41) => return self.element(token, depth),
                _ => return None,
            }
        }
    }

    /// A name that lies here when it is used first, and elsewhere later.
    fn name(&mut self) -> Option<String> {
        let place = self.word()? as usize;
        let (name, after) = self.chunk.name(place)?;
        if place == self.at {
            self.at = after;
        }
        Some(name)
    }

    fn element(&mut self, token: u8, depth: u32) -> Option<Element> {
        self.spend()?;
        let depth = depth.checked_sub(1)?;
        if !self.in_value {
            self.half()?;
        }
        self.word()?;
        let mut element = Element {
            name: self.name()?,
            ..Element::default()
        };
        if token & 0x40 != 0 {
            let len = self.word()? as usize;
            let end = self.at.checked_add(len).filter(|end| *end <= self.end)?;
            while self.at < end {
                let (0x06 | 0x46) = self.byte()? else {
                    return None;
                };
                let name = self.name()?;
                let mut text = String::new();
                while self.at < end && !matches!(self.chunk.bytes.get(self.at)?, 0x06 | 0x46) {
                    let token = self.byte()?;
                    if let Content::Text(part) = self.content(token, depth)? {
                        text += &part;
                    }
                }
                element.attributes.push((name, text));
            }
        }
        match self.byte()? {
            0x03 => return Some(element),
            0x02 => {}
            _ => return None,
        }
        loop {
            match self.byte()? {
                0x04 => return Some(element),
                token => match self.content(token, depth)? {
                    Content::Text(part) => element.text += &part,
                    Content::Element(child) => element.children.push(child),
                },
            }
        }
    }

    fn content(&mut self, token: u8, depth: u32) -> Option<Content> {
        self.spend()?;
        let text = match token {
            0x01 | 0x41 => return self.element(token, depth).map(Content::Element),
            0x0c => return self.template(depth).map(Content::Element),
            0x05 | 0x45 => {
                let 0x01 = self.byte()? else { return None };
                self.text()?
            }
            0x07 | 0x47 => self.text()?,
            0x08 | 0x48 => char::from_u32(u32::from(self.half()?))?.to_string(),
            0x09 | 0x49 => match self.name()?.as_str() {
                "amp" => "&".to_owned(),
                "lt" => "<".to_owned(),
                "gt" => ">".to_owned(),
                "quot" => "\"".to_owned(),
                "apos" => "'".to_owned(),
                _ => return None,
            },
            0x0d | 0x0e => {
                let number = usize::from(self.half()?);
                self.byte()?;
                let value = self.values.get(number)?.clone();
                return self.value(&value, depth);
            }
            _ => return None,
        };
        Some(Content::Text(text))
    }

    fn text(&mut self) -> Option<String> {
        let len = 2 * usize::from(self.half()?);
        Some(String::from_utf16_lossy(&utf16_le(self.bytes(len)?)))
    }

    fn value(&mut self, value: &Value, depth: u32) -> Option<Content> {
        if value.kind == 0x21 {
            let place = value.place.clone();
            let found = self.chunk.fragment(place, &[], true, depth, self.budget)?;
            return Some(Content::Element(found));
        }
        let bytes = self.chunk.bytes.get(value.place.clone())?;
        let utf16 = |bytes: &[u8]| {
            let text = String::from_utf16_lossy(&utf16_le(bytes));
            text.trim_end_matches('\0').to_owned()
        };
        Some(Content::Text(match (value.kind, bytes.len()) {
            (0x01, _) => utf16(bytes),
            // A list of texts, each with its end.
            (0x81, _) => utf16(bytes).replace('\0', ", "),
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

    fn template(&mut self, depth: u32) -> Option<Element> {
        self.spend()?;
        self.bytes(5)?;
        let place = self.word()? as usize;
        // Next template, GUID, length.
        let head = place.checked_add(24)?;
        let len = u32_le(self.chunk.bytes.get(head - 4..head)?, 0) as usize;
        let body = head..head.checked_add(len)?;
        if place == self.at {
            self.bytes(24)?;
            self.bytes(len)?;
        }
        let count = self.word()? as usize;
        let list = self.bytes(count.checked_mul(4)?)?;
        let sizes: Vec<(usize, u8)> = list
            .chunks_exact(4)
            .map(|one| (usize::from(u16_le(one, 0)), one[2]))
            .collect();
        let mut values = Vec::with_capacity(sizes.len());
        for (len, kind) in sizes {
            let start = self.at;
            self.bytes(len)?;
            values.push(Value {
                kind,
                place: start..self.at,
            });
        }
        self.chunk
            .fragment(body, &values, false, depth, self.budget)
    }
}
