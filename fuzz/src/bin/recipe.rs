//! A checksum file is read to the end or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = winimg::trust::checksum::find(bytes, "kubelet.exe");
});
