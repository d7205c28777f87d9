//! The System log: what the event log and the service control manager write at a start, in a real `.evtx` file.
//!
//! Each event is an instance of one template; its data are an instance of another, by their number, as Windows has it.
//!
//! Sources: libevtx, "Windows XML Event Log (EVTX)"; Microsoft, [MS-EVEN6] 2.2.12 "BinXml"; events of the Service Control Manager.

use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Machine, lock};
use crate::disk::crc32;

const LOG: &str = "Windows/System32/winevt/Logs/System.evtx";
pub const MANAGER: &str = "Service Control Manager";
const HEADER: usize = 4096;
const CHUNK: usize = 65_536;
const RECORDS: usize = 512;
/// Where a chunk's templates are, by their numbers.
const TEMPLATES: usize = 0x180;
/// No event here is longer.
const LONGEST: usize = 8192;
/// From 1601 to 1970, in 100 ns.
const EPOCH: u64 = 116_444_736_000_000_000;

const STRING: u8 = 0x01;
const WORD: u8 = 0x06;
const QUAD: u8 = 0x0a;
const FILETIME: u8 = 0x11;
const XML: u8 = 0x21;

impl Machine {
    /// Writes an event. A log that can't be written is no reason to stop, as with Windows.
    pub fn log_event(&self, provider: &str, id: u16, data: &[&str]) {
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = lock(&TURN);
        let file = self.c_root.join(LOG);
        if let Err(fault) = append(&file, provider, id, data) {
            crate::machine::debug(&format!("{}: {fault}", file.display()));
        }
    }
}

/// A log without an event.
pub fn empty() -> Vec<u8> {
    let mut log = vec![0; HEADER];
    log[..8].copy_from_slice(b"ElfFile\0");
    close(&mut log, 1);
    log
}

fn append(file: &Path, provider: &str, id: u16, data: &[&str]) -> std::io::Result<()> {
    let mut log = match std::fs::read(file) {
        Ok(log) if log.len() >= HEADER => log,
        _ => empty(),
    };
    let number = quad(&log, 24);
    let full = |log: &[u8]| word(&log[log.len() - CHUNK..], 48) as usize + LONGEST > CHUNK;
    if log.len() == HEADER || full(&log) {
        log.extend(new_chunk(number));
    }
    let start = log.len() - CHUNK;
    add(&mut log[start..], number, provider, id, data);
    close(&mut log, number + 1);
    std::fs::write(file, log)
}

/// Says in the file's header how many chunks there are and which number the next record has.
fn close(log: &mut [u8], next: u64) {
    let chunks = (log.len() - HEADER) / CHUNK;
    log[16..24].copy_from_slice(&(chunks.saturating_sub(1) as u64).to_le_bytes());
    log[24..32].copy_from_slice(&next.to_le_bytes());
    log[32..36].copy_from_slice(&128_u32.to_le_bytes());
    log[36..40].copy_from_slice(&[1, 0, 3, 0]);
    log[40..42].copy_from_slice(&(HEADER as u16).to_le_bytes());
    log[42..44].copy_from_slice(&(chunks as u16).to_le_bytes());
    let sum = crc32(&log[..120]);
    log[124..128].copy_from_slice(&sum.to_le_bytes());
}

fn new_chunk(first: u64) -> Vec<u8> {
    let mut chunk = vec![0; CHUNK];
    chunk[..8].copy_from_slice(b"ElfChnk\0");
    chunk[8..16].copy_from_slice(&first.to_le_bytes());
    chunk[24..32].copy_from_slice(&first.to_le_bytes());
    chunk[40..44].copy_from_slice(&128_u32.to_le_bytes());
    chunk[48..52].copy_from_slice(&(RECORDS as u32).to_le_bytes());
    chunk
}

fn add(chunk: &mut [u8], number: u64, provider: &str, id: u16, data: &[&str]) {
    let at = word(chunk, 48) as usize;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let now = EPOCH + now.as_nanos() as u64 / 100;
    let mut record = Writer {
        chunk,
        at,
        bytes: Vec::new(),
    };
    record.put(&0x2a2a_u32.to_le_bytes());
    record.put(&[0; 4]);
    record.put(&number.to_le_bytes());
    record.put(&now.to_le_bytes());
    record.event(number, now, provider, id, data);
    let len = record.bytes.len() as u32 + 4;
    record.put(&len.to_le_bytes());
    record.bytes[4..8].copy_from_slice(&len.to_le_bytes());
    let bytes = record.bytes;
    let end = at + bytes.len();
    chunk[at..end].copy_from_slice(&bytes);
    chunk[16..24].copy_from_slice(&number.to_le_bytes());
    chunk[32..40].copy_from_slice(&number.to_le_bytes());
    chunk[44..48].copy_from_slice(&(at as u32).to_le_bytes());
    chunk[48..52].copy_from_slice(&(end as u32).to_le_bytes());
    let sum = crc32(&chunk[RECORDS..end]);
    chunk[52..56].copy_from_slice(&sum.to_le_bytes());
    let sum = crc32(&[&chunk[..120], &chunk[128..RECORDS]].concat());
    chunk[124..128].copy_from_slice(&sum.to_le_bytes());
}

/// A value of a template's instance.
type Value = (u8, Vec<u8>);

/// A name, and what writes its value.
type Attribute<'a> = (&'a str, &'a dyn Fn(&mut Writer<'_>));

/// What is written at a place of a chunk.
struct Writer<'c> {
    chunk: &'c mut [u8],
    at: usize,
    bytes: Vec<u8>,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Where the next byte comes to lie in the chunk.
    fn place(&self) -> u32 {
        (self.at + self.bytes.len()) as u32
    }

    fn event(&mut self, number: u64, now: u64, provider: &str, id: u16, data: &[&str]) {
        self.instance(0, Self::system);
        let head: [Value; 4] = [
            (STRING, utf16(provider)),
            (WORD, id.to_le_bytes().into()),
            (FILETIME, now.to_le_bytes().into()),
            (QUAD, number.to_le_bytes().into()),
        ];
        // The data are the fifth value; where they come to lie counts for what is in them.
        let before: usize = head.iter().map(|(_, bytes)| bytes.len()).sum();
        let mut inner = Writer {
            at: self.place() as usize + 4 + 5 * 4 + before,
            chunk: self.chunk,
            bytes: Vec::new(),
        };
        inner.instance(1 + data.len(), |w| w.event_data(data.len()));
        let texts = data.iter().map(|text| (STRING, utf16(text)));
        inner.values(&texts.collect::<Vec<_>>());
        inner.put(&[0]);
        let data = (XML, inner.bytes);
        self.values(&[&head[..], &[data]].concat());
        self.put(&[0]);
    }

    /// A fragment with an instance of the template of this number, below 32, which is defined here unless the chunk has it.
    fn instance(&mut self, template: usize, define: impl FnOnce(&mut Self)) {
        let id = 0x7769_6e00_u32 + template as u32;
        self.put(&[0x0f, 1, 1, 0, 0x0c, 1]);
        self.put(&id.to_le_bytes());
        let slot = TEMPLATES + 4 * template;
        let known = word(self.chunk, slot);
        if known != 0 {
            return self.put(&known.to_le_bytes());
        }
        let place = self.place() + 4;
        self.chunk[slot..slot + 4].copy_from_slice(&place.to_le_bytes());
        self.put(&place.to_le_bytes());
        self.put(&[0; 4]);
        self.put(&id.to_le_bytes());
        self.put(b"winimg-stand");
        let size = self.hole();
        self.put(&[0x0f, 1, 1, 0]);
        define(self);
        self.put(&[0]);
        self.fill(size);
    }

    fn values(&mut self, values: &[Value]) {
        self.put(&(values.len() as u32).to_le_bytes());
        for (kind, bytes) in values {
            self.put(&(bytes.len() as u16).to_le_bytes());
            self.put(&[*kind, 0]);
        }
        for (_, bytes) in values {
            self.put(bytes);
        }
    }

    fn system(&mut self) {
        self.element("Event", None, |w| {
            w.element("System", None, |w| {
                w.element(
                    "Provider",
                    Some(("Name", &|w| w.substitution(0, STRING))),
                    |_| {},
                );
                w.element("EventID", None, |w| w.substitution(1, WORD));
                let time: Attribute<'_> = ("SystemTime", &|w| w.substitution(2, FILETIME));
                w.element("TimeCreated", Some(time), |_| {});
                w.element("EventRecordID", None, |w| w.substitution(3, QUAD));
                w.element("Channel", None, |w| w.text("System"));
            });
            w.substitution(4, XML);
        });
    }

    fn event_data(&mut self, count: usize) {
        self.element("EventData", None, |w| {
            for number in 0..count {
                let name = format!("param{}", number + 1);
                let value = |w: &mut Self| w.substitution(number as u16, STRING);
                w.element("Data", Some(("Name", &|w| w.text(&name))), value);
            }
        });
    }

    fn element(
        &mut self,
        name: &str,
        attribute: Option<Attribute<'_>>,
        content: impl FnOnce(&mut Self),
    ) {
        self.put(&[if attribute.is_none() { 0x01 } else { 0x41 }, 0xff, 0xff]);
        let size = self.hole();
        self.name(name);
        if let Some((name, value)) = attribute {
            let list = self.hole();
            self.put(&[0x06]);
            self.name(name);
            value(self);
            self.fill(list);
        }
        self.put(&[0x02]);
        content(self);
        self.put(&[0x04]);
        self.fill(size);
    }

    /// One that leaves nothing where there is no value.
    fn substitution(&mut self, number: u16, kind: u8) {
        self.put(&[0x0e]);
        self.put(&number.to_le_bytes());
        self.put(&[kind]);
    }

    fn text(&mut self, text: &str) {
        self.put(&[0x05, STRING]);
        self.put(&(text.len() as u16).to_le_bytes());
        self.put(&utf16(text));
    }

    /// A name that lies where it is used.
    fn name(&mut self, name: &str) {
        let place = self.place() + 4;
        self.put(&place.to_le_bytes());
        let hash = name.bytes().fold(0_u32, |hash, letter| {
            hash.wrapping_mul(65_599).wrapping_add(u32::from(letter))
        });
        self.put(&[0; 4]);
        self.put(&(hash as u16).to_le_bytes());
        self.put(&(name.len() as u16).to_le_bytes());
        self.put(&utf16(name));
        self.put(&[0; 2]);
    }

    /// Room for the number of bytes that follow it up to `fill`.
    fn hole(&mut self) -> usize {
        self.put(&[0; 4]);
        self.bytes.len()
    }

    fn fill(&mut self, hole: usize) {
        let size = (self.bytes.len() - hole) as u32;
        self.bytes[hole - 4..hole].copy_from_slice(&size.to_le_bytes());
    }
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn quad(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}
