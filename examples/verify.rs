//! Checks of a large image without a build around it, for `benches/verify.sh`:
//! `verify make IMAGE GIB MIB CHECKS` makes one with Windows on it and a list of what it holds; `verify judge IMAGE facts|all` judges
//! it by that list, without the files' digests or with them, and prints what was found, the seconds and the peak memory.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::Instant;

use support::windows_disk::{REG_DWORD, WindowsDisk, dword};
use winimg::verify;
use winimg_base::digest::Digest;
use winimg_base::event::Cancel;
use winimg_formats::disk;
use winimg_recipe::plan::check::FileDigest;
use winimg_recipe::plan::{ImageCheck, StepChecks};
use winimg_recipe::{RegistryKey, RegistryValueData};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

const MIB: usize = 1 << 20;
/// Files in one folder, and values in one key.
const TOGETHER: usize = 50;
/// One file holds nothing but zeros, of which the image has nothing.
const ZEROS: usize = 512 * MIB;

fn file_name(n: usize) -> String {
    format!(r"C:\k\{:03}\{n}.bin", n / TOGETHER)
}

fn key(n: usize, root: &str) -> String {
    format!(
        r"HKLM\SYSTEM\{root}\Services\bench{:03}\Parameters",
        n / TOGETHER
    )
}

/// Bytes of file `n` of `files`, which have `all` together: many small ones, a few large ones.
fn size(n: usize, files: usize, all: usize) -> usize {
    let large = files / 100;
    if n < large {
        all / 2 / large
    } else {
        all / 2 / (files - large)
    }
}

/// Bytes that differ from file to file.
fn content(n: usize, len: usize) -> Vec<u8> {
    let mut state = (n as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Of the checks two in five are files, two values of the registry, one a file that has to be there or not.
fn files_of(checks: usize) -> usize {
    checks / 5 * 2
}

fn make(image: &Path, gib: u64, mib: usize, checks: usize) -> Fallible<()> {
    let files = files_of(checks);
    let mut windows = WindowsDisk::sound();
    windows.windows_mib = (gib << 10) - 64;
    for n in 0..files {
        let value = format!("v{}", n % TOGETHER);
        windows.value(
            &key(n, "ControlSet001"),
            &value,
            REG_DWORD,
            &dword(n as u32),
        );
    }
    let mut list = BufWriter::new(File::create(image.with_extension("list"))?);
    windows.write_with(image, |root| {
        let place = |path: &str| root.join(path.trim_start_matches(r"C:\").replace('\\', "/"));
        let mut put = |name: String, bytes: &[u8]| {
            let path = place(&name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, bytes).expect("a file");
            let digest = Digest::sha256_of(bytes).hex();
            writeln!(list, "{name}\t{}\t{digest}", bytes.len()).expect("a line");
        };
        for n in 1..files {
            put(file_name(n), &content(n, size(n, files, mib * MIB)));
        }
        put(file_name(0), &vec![0; ZEROS]);
    });
    list.flush()?;
    Ok(())
}

fn expected(image: &Path, digests: bool) -> Fallible<StepChecks> {
    let list = fs::read_to_string(image.with_extension("list"))?;
    let mut checks = Vec::new();
    for (n, line) in list.lines().enumerate() {
        let mut fields = line.split('\t');
        let mut field = || fields.next().ok_or("a short line");
        let (path, size, sha256) = (field()?.parse()?, field()?.parse()?, field()?.to_owned());
        checks.push(if digests {
            ImageCheck::File {
                path,
                content: FileDigest { size, sha256 },
            }
        } else {
            ImageCheck::Exists { path }
        });
        let n = n as u32;
        checks.push(ImageCheck::Registry {
            key: RegistryKey::from_static(key(n as usize, "CurrentControlSet").leak()),
            value: Some(format!("v{}", n as usize % TOGETHER)),
            data: RegistryValueData::Dword(n),
        });
        if n.is_multiple_of(2) {
            let path = format!(r"C:\k\{:03}\{n}.gone", n as usize / TOGETHER).parse()?;
            checks.push(ImageCheck::Missing { path });
        }
    }
    Ok(StepChecks {
        step: "bench".into(),
        place: "bench.toml:1:1".into(),
        checks,
    })
}

fn judge(image: &Path, digests: bool) -> Fallible<()> {
    let expected = [expected(image, digests)?];
    let cancel = Cancel::default();
    let started = Instant::now();
    let disk = disk::open(image, &cancel)?;
    let report = verify::check(disk.as_ref(), Some(&expected[..]), &[], &cancel)?;
    let seconds = started.elapsed().as_secs_f64();
    println!("{}", report.summarize());
    for finding in &report.findings {
        println!("{finding:?}");
    }
    println!("seconds: {seconds:.3}");
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|l| l.starts_with("VmHWM"));
    println!("{}", peak.unwrap_or("VmHWM: unknown"));
    if report.is_good() {
        Ok(())
    } else {
        Err("the image is not what it should be".into())
    }
}

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["make", image, gib, mib, checks] => make(
            Path::new(image),
            gib.parse()?,
            mib.parse()?,
            checks.parse()?,
        ),
        ["judge", image, "facts"] => judge(Path::new(image), false),
        ["judge", image, "all"] => judge(Path::new(image), true),
        _ => Err("usage: verify make IMAGE GIB MIB CHECKS | verify judge IMAGE facts|all".into()),
    }
}
