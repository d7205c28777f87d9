//! What is read out of a guest's disk: registry hives, event logs, security descriptors.

use winimg_formats::disk::security::SecurityDescriptor;
use winimg_formats::evtx::EventLog;
use winimg_formats::hive::{Hive, HiveKey};

use crate::seal;

/// Keys that are looked at.
const MOST: usize = 2000;

pub fn hive(bytes: &[u8]) -> bool {
    let mut sealed = bytes.to_vec();
    seal::hive(&mut sealed);
    let Ok(hive) = Hive::parse(sealed) else {
        return false;
    };
    let _ = (
        hive.is_dirty(),
        hive.find_key(r"ControlSet001\Services\kubelet"),
    );
    let Ok(root) = hive.open_root() else {
        return false;
    };
    let (mut left, mut whole) = (MOST, true);
    walk(&root, &mut left, &mut whole, 0);
    whole
}

fn walk(key: &HiveKey<'_>, left: &mut usize, whole: &mut bool, depth: usize) {
    let values = key.read_values();
    *whole &= values.is_ok();
    for (name, data) in values.unwrap_or_default() {
        let _ = (key.find_value(&name), data.to_string());
    }
    let Ok(keys) = key.read_keys() else {
        *whole = false;
        return;
    };
    for child in keys {
        if *left == 0 || depth > 600 {
            return;
        }
        *left -= 1;
        let _ = key.find_key(&child.name());
        walk(&child, left, whole, depth + 1);
    }
}

pub fn security(bytes: &[u8]) -> bool {
    match SecurityDescriptor::parse(bytes) {
        Ok(descriptor) => !descriptor.to_string().is_empty(),
        Err(_) => false,
    }
}

pub fn evtx(bytes: &[u8]) -> bool {
    EventLog::parse(bytes).is_ok_and(|log| log.damaged == 0 && !log.events.is_empty())
}
