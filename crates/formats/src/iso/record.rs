//! The structures of ISO 9660 and Joliet as bytes (ECMA-119 8.4, 9.1, 9.4).

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

pub(super) const SECTOR: usize = 2048;

/// One of the two directory trees of a disc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiscView {
    Primary,
    Joliet,
}

/// Encodes a 32-bit number in both byte orders.
fn encode_both32(n: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&n.to_le_bytes());
    out[4..].copy_from_slice(&n.to_be_bytes());
    out
}

fn encode_both16(n: u16) -> [u8; 4] {
    let mut out = [0; 4];
    out[..2].copy_from_slice(&n.to_le_bytes());
    out[2..].copy_from_slice(&n.to_be_bytes());
    out
}

/// Converts a timestamp to civil time, clamped to the range of ISO 9660.
fn to_civil(stamp: i64) -> DateTime {
    let limits = (-2_208_988_800, 5_869_583_999);
    Timestamp::from_second(stamp.clamp(limits.0, limits.1))
        .unwrap_or(Timestamp::UNIX_EPOCH)
        .to_zoned(TimeZone::UTC)
        .datetime()
}

/// Encodes the 7 bytes of a directory record's time.
fn short_time(stamp: i64) -> [u8; 7] {
    let t = to_civil(stamp);
    let since_1900 = (t.year() - 1900).clamp(0, 255) as u8;
    let [month, day, hour, minute, second] =
        [t.month(), t.day(), t.hour(), t.minute(), t.second()].map(i8::unsigned_abs);
    [since_1900, month, day, hour, minute, second, 0]
}

/// Encodes the 17 bytes of a volume descriptor's time.
fn long_time(stamp: i64) -> [u8; 17] {
    let text = to_civil(stamp).strftime("%Y%m%d%H%M%S00").to_string();
    let mut out = [0; 17];
    out[..16].copy_from_slice(&text.as_bytes()[..16]);
    out
}

/// Encodes text as UTF-16BE.
pub(super) fn encode_ucs2(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

/// Encodes a directory record. `name` is already encoded for its view.
pub(super) fn directory_record(
    name: &[u8],
    sector: u32,
    length: u32,
    is_dir: bool,
    stamp: i64,
) -> Vec<u8> {
    let size = (33 + name.len()).next_multiple_of(2);
    let mut out = vec![0; size];
    out[0] = size as u8;
    out[2..10].copy_from_slice(&encode_both32(sector));
    out[10..18].copy_from_slice(&encode_both32(length));
    out[18..25].copy_from_slice(&short_time(stamp));
    out[25] = if is_dir { 2 } else { 0 };
    out[28..32].copy_from_slice(&encode_both16(1));
    out[32] = name.len() as u8;
    out[33..33 + name.len()].copy_from_slice(name);
    out
}

/// Encodes a path table record; `big` selects big-endian.
pub(super) fn path_record(name: &[u8], sector: u32, parent: u16, big: bool) -> Vec<u8> {
    let mut out = vec![name.len() as u8, 0];
    if big {
        out.extend(sector.to_be_bytes());
        out.extend(parent.to_be_bytes());
    } else {
        out.extend(sector.to_le_bytes());
        out.extend(parent.to_le_bytes());
    }
    out.extend(name);
    if !name.len().is_multiple_of(2) {
        out.push(0);
    }
    out
}

/// Fields of a volume descriptor.
pub(super) struct VolumeDescriptor<'a> {
    pub view: DiscView,
    pub label: &'a str,
    pub sectors: u32,
    pub path_table_length: u32,
    pub path_table_le: u32,
    pub path_table_be: u32,
    pub root: Vec<u8>,
    pub stamp: i64,
}

impl VolumeDescriptor<'_> {
    pub fn to_bytes(&self) -> [u8; SECTOR] {
        let mut out = [0; SECTOR];
        let joliet = self.view == DiscView::Joliet;
        out[0] = if joliet { 2 } else { 1 };
        out[1..6].copy_from_slice(b"CD001");
        out[6] = 1;
        put(&mut out[8..40], "", joliet);
        put(&mut out[40..72], self.label, joliet);
        out[80..88].copy_from_slice(&encode_both32(self.sectors));
        if joliet {
            out[88..91].copy_from_slice(b"%/E");
        }
        out[120..124].copy_from_slice(&encode_both16(1));
        out[124..128].copy_from_slice(&encode_both16(1));
        out[128..132].copy_from_slice(&encode_both16(SECTOR as u16));
        out[132..140].copy_from_slice(&encode_both32(self.path_table_length));
        out[140..144].copy_from_slice(&self.path_table_le.to_le_bytes());
        out[148..152].copy_from_slice(&self.path_table_be.to_be_bytes());
        out[156..190].copy_from_slice(&self.root);
        put(&mut out[190..318], "", joliet);
        put(&mut out[318..446], "", joliet);
        put(&mut out[446..574], "WINIMG", joliet);
        put(&mut out[574..702], "WINIMG", joliet);
        put(&mut out[702..739], "", joliet);
        put(&mut out[739..776], "", joliet);
        put(&mut out[776..813], "", joliet);
        out[813..830].copy_from_slice(&long_time(self.stamp));
        out[830..847].copy_from_slice(&long_time(self.stamp));
        // No expiry and no effective date: sixteen zeros as digits.
        out[847..863].fill(b'0');
        out[864..880].fill(b'0');
        out[881] = 1;
        out
    }
}

/// Fills a text field, padded with spaces.
fn put(field: &mut [u8], text: &str, joliet: bool) {
    if joliet {
        for pair in field.chunks_exact_mut(2) {
            pair.copy_from_slice(&[0, b' ']);
        }
        let text = encode_ucs2(text);
        let n = text.len().min(field.len() & !1);
        field[..n].copy_from_slice(&text[..n]);
    } else {
        field.fill(b' ');
        let n = text.len().min(field.len());
        field[..n].copy_from_slice(&text.as_bytes()[..n]);
    }
}

/// Builds the volume descriptor set terminator.
pub(super) fn build_terminator() -> [u8; SECTOR] {
    let mut out = [0; SECTOR];
    out[0] = 255;
    out[1..6].copy_from_slice(b"CD001");
    out[6] = 1;
    out
}
