//! An event log written from nothing: one chunk whose records share a template, as Windows writes them.

use crate::hive::sz;

/// Provider, event and its data.
pub type Event<'e> = (&'e str, u16, &'e [&'e str]);

const RECORDS: usize = 512;
const CHUNK: usize = 65_536;

/// A log of one chunk.
pub fn log(events: &[Event]) -> Vec<u8> {
    let mut chunk = vec![0; RECORDS];
    let mut template = None;
    for (number, event) in (1_u64..).zip(events) {
        let record = chunk.len();
        chunk.extend(0x2a2a_u32.to_le_bytes());
        chunk.extend([0; 4]);
        chunk.extend(number.to_le_bytes());
        chunk.extend([0; 8]);
        instance(&mut chunk, &mut template, event);
        let len = (chunk.len() - record + 4) as u32;
        chunk.extend(len.to_le_bytes());
        chunk[record + 4..record + 8].copy_from_slice(&len.to_le_bytes());
    }
    let free = (chunk.len() as u32).to_le_bytes();
    chunk.resize(CHUNK, 0);
    chunk[..8].copy_from_slice(b"ElfChnk\0");
    chunk[40..44].copy_from_slice(&128_u32.to_le_bytes());
    chunk[48..52].copy_from_slice(&free);
    let mut file = b"ElfFile\0".to_vec();
    file.resize(4096, 0);
    file[32..36].copy_from_slice(&128_u32.to_le_bytes());
    file[36..40].copy_from_slice(&[1, 0, 3, 0]);
    file[40..44].copy_from_slice(&[0, 16, 1, 0]);
    file.extend(chunk);
    file
}

/// `<Event><System><Provider Name="{0}"/><EventID>{1}</EventID></System>{2}</Event>`
fn instance(chunk: &mut Vec<u8>, template: &mut Option<u32>, (provider, id, data): &Event) {
    chunk.extend([0x0f, 1, 1, 0, 0x0c, 1, 7, 0, 0, 0]);
    match *template {
        Some(place) => chunk.extend(place.to_le_bytes()),
        None => {
            let place = chunk.len() + 4;
            *template = Some(place as u32);
            chunk.extend((place as u32).to_le_bytes());
            chunk.extend([0; 20]);
            let len = chunk.len();
            chunk.extend([0; 4]);
            definition(chunk);
            let written = (chunk.len() - len - 4) as u32;
            chunk[len..len + 4].copy_from_slice(&written.to_le_bytes());
        }
    }
    let provider = sz(provider);
    // The descriptors come first, so the place of what follows is known.
    let before = chunk.len() + 4 + 3 * 4 + provider.len() + 2;
    let data = event_data(before, data);
    chunk.extend(3_u32.to_le_bytes());
    for (len, kind) in [(provider.len(), 1), (2, 6), (data.len(), 0x21)] {
        chunk.extend((len as u16).to_le_bytes());
        chunk.extend([kind, 0]);
    }
    chunk.extend(provider);
    chunk.extend(id.to_le_bytes());
    chunk.extend(data);
}

fn definition(chunk: &mut Vec<u8>) {
    chunk.extend([0x0f, 1, 1, 0]);
    open(chunk, 0x01, true, "Event");
    chunk.push(0x02);
    open(chunk, 0x01, true, "System");
    chunk.push(0x02);
    open(chunk, 0x41, true, "Provider");
    let len = chunk.len();
    chunk.extend([0; 4]);
    chunk.push(0x06);
    name(chunk, 0, "Name");
    chunk.extend([0x0d, 0, 0, 1]);
    let written = (chunk.len() - len - 4) as u32;
    chunk[len..len + 4].copy_from_slice(&written.to_le_bytes());
    chunk.push(0x03);
    open(chunk, 0x01, true, "EventID");
    chunk.extend([0x02, 0x0d, 1, 0, 6, 0x04, 0x04]);
    // An optional value, which a list of data is.
    chunk.extend([0x0e, 2, 0, 0x21, 0x04, 0x00]);
}

/// A value of BinXml at `before`: places in it count from the chunk, and its elements name no value.
fn event_data(before: usize, data: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend([0x0f, 1, 1, 0, 0x01]);
    bytes.extend([0; 4]);
    name(&mut bytes, before, "EventData");
    bytes.push(0x02);
    for text in data {
        bytes.push(0x01);
        bytes.extend([0; 4]);
        name(&mut bytes, before, "Data");
        bytes.extend([0x02, 0x05, 0x01]);
        let units: Vec<u16> = text.encode_utf16().collect();
        bytes.extend((units.len() as u16).to_le_bytes());
        bytes.extend(units.iter().flat_map(|u| u.to_le_bytes()));
        bytes.push(0x04);
    }
    bytes.extend([0x04, 0x00]);
    bytes
}

fn open(chunk: &mut Vec<u8>, token: u8, depends: bool, of: &str) {
    chunk.push(token);
    if depends {
        chunk.extend([0xff; 2]);
    }
    chunk.extend([0; 4]);
    name(chunk, 0, of);
}

/// A name that lies where it is used.
fn name(bytes: &mut Vec<u8>, before: usize, text: &str) {
    let place = (before + bytes.len() + 4) as u32;
    bytes.extend(place.to_le_bytes());
    bytes.extend([0; 6]);
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(sz(text));
}
