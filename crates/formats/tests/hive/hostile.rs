//! Hives that are damaged, by accident or on purpose.

use winimg_formats::hive::{Hive, HiveKey as Read, HiveValueData};

use support::hive::{Key, List, SEGMENT, hive, seal, sz};

fn small() -> Vec<u8> {
    let leaf = |name| Key::new(name).value("v", 1, &sz("text that needs a cell"));
    hive(
        &Key::new("ROOT")
            .value("Segments", 3, &[7; SEGMENT + 1])
            .value("Multi", 7, &[97, 0, 0, 0, 0, 0])
            .keys(
                List::Ri(2),
                [
                    leaf("Aa"),
                    leaf("Bb").keys(List::Li, [leaf("Below")]),
                    leaf("Żó").keys(List::Lf, [leaf("One"), leaf("Two")]),
                ],
            ),
    )
}

/// Asks for everything there is; gives the number of keys, and complaints.
fn walk(key: &Read<'_>, complaints: &mut Vec<String>) -> usize {
    let mut note = |e: winimg_base::error::Error| complaints.push(e.to_string());
    if let Err(e) = key.read_values() {
        note(e);
    }
    if let Err(e) = key.find_value("MULTI") {
        note(e);
    }
    let children = key.read_keys().unwrap_or_else(|e| {
        note(e);
        Vec::new()
    });
    1 + children.iter().map(|k| walk(k, complaints)).sum::<usize>()
}

fn walk_bytes(bytes: Vec<u8>) -> (usize, Vec<String>) {
    let mut complaints = Vec::new();
    let found = Hive::parse(bytes).and_then(|hive| Ok(walk(&hive.open_root()?, &mut complaints)));
    match found {
        Ok(keys) => (keys, complaints),
        Err(e) => (0, vec![e.to_string()]),
    }
}

fn put(file: &mut [u8], at: usize, word: u32) {
    file[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

fn word(file: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(file[at..at + 4].try_into().unwrap())
}

/// Where in the file a key's cell content starts.
fn key_at(file: &[u8], name: &[u8]) -> usize {
    let at = file.windows(name.len()).rposition(|w| w == name).unwrap();
    assert_eq!(&file[at - 76..at - 74], b"nk");
    at - 76
}

#[test]
fn damage_anywhere_is_an_error_and_never_a_panic() {
    let whole = small();
    assert_eq!(walk_bytes(whole.clone()), (7, Vec::new()));
    // What means something: neither the bulk of the large value nor the room that nothing uses.
    let used: Vec<usize> = (0..whole.len())
        .filter(|at| ![0, 7].contains(&whole[*at]))
        .collect();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let (mut refused, mut short) = (0, 0);
    for round in 0..6000 {
        let mut bytes = whole.clone();
        for _ in 0..1 + random(4) {
            let at = used[random(used.len())];
            match random(3) {
                0 => bytes[at] = random(256) as u8,
                1 => bytes[at] ^= 1 << random(8),
                _ => put(
                    &mut bytes,
                    at & !3,
                    [0, 32, u32::MAX, 0x8000_0000][random(4)],
                ),
            }
        }
        if round % 8 != 0 {
            seal(&mut bytes);
        }
        let (keys, complaints) = walk_bytes(bytes);
        refused += usize::from(!complaints.is_empty());
        short += usize::from(keys < 7);
        for rendered in complaints {
            assert!(rendered.contains("of the hive"), "no place: {rendered}");
        }
    }
    // The damage was of the kind that can be seen.
    assert!(refused > 2000 && short > 1000, "{refused} {short}");
}

#[test]
fn every_length_that_a_file_can_be_cut_to_is_refused() {
    let whole = small();
    for len in (0..whole.len()).step_by(37) {
        assert!(Hive::parse(whole[..len].to_vec()).is_err(), "{len} bytes");
    }
}

#[test]
fn a_circle_of_keys_ends_at_the_first_wrong_parent() {
    let mut bytes = small();
    let (one, bb) = (key_at(&bytes, b"Below"), key_at(&bytes, b"Bb"));
    // Below gets the children of Bb, which is itself.
    let list = word(&bytes, bb + 28);
    put(&mut bytes, one + 20, 1);
    put(&mut bytes, one + 28, list);
    let (keys, complaints) = walk_bytes(bytes.clone());
    assert_eq!(keys, 7);
    let place = format!("offset {:#x} of the hive", one + 16);
    assert_eq!(complaints.len(), 1);
    assert!(complaints[0].contains(&place), "{complaints:?}");
    assert!(
        complaints[0].starts_with("a key of the hive is listed under a key that is not its parent")
    );
    // It names itself as its parent too.
    put(&mut bytes, one + 16, (one - 4 - 4096) as u32);
    let (keys, complaints) = walk_bytes(bytes);
    assert!(keys < 20 && complaints.len() == 1, "{keys} {complaints:?}");
}

#[test]
fn a_list_that_repeats_its_cells_can_not_fill_the_memory() {
    let values = (0..500).map(|_| ("", 3, vec![1; 60_000]));
    let mut root = Key::new("ROOT");
    root.values.extend(values.take(2));
    root.values
        .extend((0..20_000).map(|_| ("x", 4, vec![1; 4])));
    let mut bytes = hive(&root);
    let at = key_at(&bytes, b"ROOT");
    let list = 4096 + 4 + word(&bytes, at + 40) as usize;
    let first = word(&bytes, list);
    for i in 1..20_002 {
        put(&mut bytes, list + 4 * i, first);
    }
    let (_, complaints) = walk_bytes(bytes);
    assert!(
        complaints[0].contains("its cells are used twice"),
        "{complaints:?}"
    );
}

#[test]
fn a_hive_that_was_not_closed_is_called_dirty() {
    let mut bytes = small();
    put(&mut bytes, 4, 9);
    seal(&mut bytes);
    assert!(Hive::parse(bytes.clone()).unwrap().is_dirty());
    put(&mut bytes, 8, 9);
    seal(&mut bytes);
    assert!(!Hive::parse(bytes.clone()).unwrap().is_dirty());
    bytes[8] = 8;
    assert_eq!(
        Hive::parse(bytes).err().unwrap().fact(),
        "the header of the hive is damaged"
    );
}

#[test]
fn values_of_the_wrong_length_do_not_look_right() {
    let root = Key::new("ROOT").value("Start", 4, &[2, 0]).value(
        "Path",
        1,
        &sz("C:\\good.exe\0 & bad.exe"),
    );
    let hive = Hive::parse(hive(&root)).unwrap();
    let root = hive.open_root().unwrap();
    let bytes = vec![2, 0];
    let start = root.find_value("start").unwrap().unwrap();
    assert_eq!(start, HiveValueData::Other { kind: 4, bytes });
    let path = root.find_value("path").unwrap().unwrap();
    assert!(
        matches!(path, HiveValueData::Other { kind: 1, .. }),
        "{path}"
    );
}
