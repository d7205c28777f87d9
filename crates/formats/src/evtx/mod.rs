//! Parses Windows event logs (`.evtx`) into providers, event ids and event data.
//!
//! Reads complete records of intact chunks. Records that cannot be parsed are counted, not
//! guessed.
//!
//! Sources: libevtx, "Windows XML Event Log (EVTX)"; Microsoft, [MS-EVEN6] 2.2.12 "BinXml".

mod binxml;

use winimg_base::error::{Error, Result};

use crate::bytes::{u32_le, u64_le};
use binxml::{BinXmlElement, EventLogChunk};

const FILE_MAGIC: &[u8] = b"ElfFile\0";
const HEADER_SIZE: usize = 4096;
const CHUNK_SIZE: usize = 65_536;
/// Offset of the first record in a chunk.
const FIRST_RECORD: usize = 512;
const RECORD_MAGIC: u32 = 0x0000_2a2a;
/// Size of a record's header in bytes.
const RECORD_HEAD: usize = 24;
/// Size of the length that is repeated after a record's content.
const RECORD_TAIL: usize = 4;

/// The events of a log, in the order of their records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventLog {
    pub events: Vec<LogEvent>,
    /// Number of invalid records and unreadable chunks.
    pub damaged: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEvent {
    /// The record's number, ascending from 1.
    pub record: u64,
    pub provider: String,
    pub id: u32,
    /// Each `Data` of `EventData`, in order.
    pub data: Vec<String>,
}

impl EventLog {
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        if !bytes.starts_with(FILE_MAGIC) || bytes.len() < HEADER_SIZE {
            return Err(Error::failed("this is not an event log")
                .expected("a 4096-byte header that starts with ElfFile"));
        }
        let mut log = Self::default();
        for chunk in bytes[HEADER_SIZE..].chunks(CHUNK_SIZE) {
            if chunk.starts_with(b"ElfChnk\0") {
                log.parse_chunk(chunk);
            }
        }
        log.events.sort_by_key(|event| event.record);
        Ok(log)
    }

    fn parse_chunk(&mut self, chunk: &[u8]) {
        let free = u32_le(chunk, 48) as usize;
        if free > chunk.len() {
            self.damaged += 1;
            return;
        }
        let mut at = FIRST_RECORD;
        while at < free {
            let len = u32_le(chunk, at + 4) as usize;
            let fits = len >= RECORD_HEAD + RECORD_TAIL && len <= free - at;
            if u32_le(chunk, at) != RECORD_MAGIC || !fits {
                self.damaged += 1;
                return;
            }
            let content =
                EventLogChunk::new(chunk).parse_element(at + RECORD_HEAD..at + len - RECORD_TAIL);
            match content.and_then(|element| parse_event(u64_le(chunk, at + 8), &element)) {
                Some(event) => self.events.push(event),
                None => self.damaged += 1,
            }
            at += len;
        }
    }
}

fn parse_event(record: u64, event: &BinXmlElement) -> Option<LogEvent> {
    let system = event.find_child("System")?;
    let data = event.find_child("EventData");
    Some(LogEvent {
        record,
        provider: system
            .find_child("Provider")?
            .find_attribute("Name")?
            .to_owned(),
        id: system.find_child("EventID")?.text.trim().parse().ok()?,
        data: data
            .into_iter()
            .flat_map(|data| &data.children)
            .filter(|child| child.name == "Data")
            .map(|child| child.text.clone())
            .collect(),
    })
}
