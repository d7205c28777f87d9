//! Windows' event logs (`.evtx`), as far as it takes to say which provider wrote which event with which data.
//!
//! Reads whole records of intact chunks. A record that has another form than is known here is counted, never guessed at.
//!
//! Sources: libevtx, "Windows XML Event Log (EVTX)"; Microsoft, [MS-EVEN6] 2.2.12 "BinXml".

mod binxml;

use winimg_base::error::{Error, Result};

use crate::bytes::{u32_le, u64_le};
use binxml::{Chunk, Element};

const FILE: &[u8] = b"ElfFile\0";
const HEADER: usize = 4096;
const CHUNK: usize = 65_536;
/// Where a chunk's records begin.
const RECORDS: usize = 512;
const RECORD: u32 = 0x0000_2a2a;
/// Bytes of a record before its content, and of its size behind it.
const RECORD_HEAD: usize = 24;
const RECORD_TAIL: usize = 4;

/// What a log holds, in the order of its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    pub events: Vec<Event>,
    /// Records that can't be read, and chunks whose records can't be found.
    pub damaged: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The record's number: they rise, from 1.
    pub record: u64,
    pub provider: String,
    pub id: u32,
    /// Of `EventData`: each `Data`, in its order.
    pub data: Vec<String>,
}

impl Log {
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        if !bytes.starts_with(FILE) || bytes.len() < HEADER {
            return Err(
                Error::failed("this is not an event log").expected("ElfFile and 4096 bytes")
            );
        }
        let mut log = Self::default();
        for chunk in bytes[HEADER..].chunks(CHUNK) {
            if chunk.starts_with(b"ElfChnk\0") {
                log.chunk(chunk);
            }
        }
        log.events.sort_by_key(|event| event.record);
        Ok(log)
    }

    fn chunk(&mut self, chunk: &[u8]) {
        let free = u32_le(chunk, 48) as usize;
        if free > chunk.len() {
            self.damaged += 1;
            return;
        }
        let mut at = RECORDS;
        while at < free {
            let len = u32_le(chunk, at + 4) as usize;
            let fits = len >= RECORD_HEAD + RECORD_TAIL && len <= free - at;
            if u32_le(chunk, at) != RECORD || !fits {
                self.damaged += 1;
                return;
            }
            let content = Chunk::new(chunk).element(at + RECORD_HEAD..at + len - RECORD_TAIL);
            match content.and_then(|element| event(u64_le(chunk, at + 8), &element)) {
                Some(event) => self.events.push(event),
                None => self.damaged += 1,
            }
            at += len;
        }
    }
}

fn event(record: u64, event: &Element) -> Option<Event> {
    let system = event.child("System")?;
    let data = event.child("EventData");
    let data = data.into_iter().flat_map(|data| &data.children);
    Some(Event {
        record,
        provider: system.child("Provider")?.attribute("Name")?.to_owned(),
        id: system.child("EventID")?.text.trim().parse().ok()?,
        data: data
            .filter(|child| child.name == "Data")
            .map(|child| child.text.clone())
            .collect(),
    })
}
