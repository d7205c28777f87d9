//! Chains that are not whole, or that lead to where they may not.

use std::fs;
use std::os::unix::fs::FileExt;

use uuid::Uuid;
use winimg_base::event::Cancel;
use winimg_formats::disk::{DiskImage, open};

use crate::disk_vhdx::Layers;
use crate::disk_vhdx::MIB;
use crate::disk_vhdx::dense;
use crate::disk_vhdx::text;
use crate::disk_vhdx::three;
use support::vhdx::Writer;

/// A base and a child over it with one block in part.
fn two(layers: &Layers) -> Writer {
    let mut base = Writer::new(4 * MIB, MIB);
    base.write(0, &dense(1, 4 * MIB));
    layers.save("aa", &base);
    let mut child = Writer::over(4 * MIB, MIB, base.data_write, r"..\aa\disk.vhdx");
    child.write(MIB, &dense(2, 512));
    child
}

#[test]
fn a_differencing_disk_from_elsewhere_is_refused() {
    let layers = Layers::new();
    let (top, _) = three(&layers);
    let error = DiskImage::from_file(&top)
        .open(&Cancel::default())
        .err()
        .unwrap();
    assert_eq!(
        error.to_string().replace(text(layers.folder()), "LAYERS"),
        "LAYERS/.new-1/disk.vhdx is a differencing VHDX: part of the disk is in its parent\n  cure: merge it first: Merge-VHD"
    );
    assert!(open(&top, &Cancel::default()).is_err());
}

#[test]
fn only_plain_files_below_the_folder_are_followed() {
    let layers = Layers::new();
    let child = two(&layers);
    let outside = Layers::new();
    let (secret, _) = three(&outside);
    std::os::unix::fs::symlink(&secret, layers.folder().join("link")).unwrap();
    nix::unistd::mkfifo(&layers.folder().join("pipe"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    fs::write(layers.folder().join("disk.raw"), [5; 4096]).unwrap();
    let mut rendered = String::new();
    for (key, value) in [
        ("relative_path", text(&secret)),
        ("relative_path", r"..\link"),
        ("relative_path", r"..\pipe"),
        ("relative_path", r"..\aa"),
        ("relative_path", r"..\disk.raw"),
        ("relative_path", r"..\..\..\..\..\..\..\..\etc\passwd"),
        ("relative_path", r"..\gone\disk.vhdx"),
        ("relative_path", r"d:\layers\aa\disk.vhdx"),
        ("absolute_win32_path", text(&secret)),
        ("absolute_win32_path", r"\\?\d:\layers\aa\disk.vhdx"),
        ("absolute_win32_path", r"\\server\share\disk.vhdx"),
    ] {
        let mut child = child.clone();
        child.locator.retain(|(key, _)| key != "relative_path");
        child.set(key, value);
        let path = layers.save("bb", &child);
        rendered += &layers.refusal(&path);
        rendered += "\n";
    }
    let folder = fs::canonicalize(outside.folder()).unwrap();
    insta::assert_snapshot!(rendered.replace(text(&folder), "OUTSIDE"));
}

#[test]
fn a_parent_that_is_not_what_it_was_is_refused() {
    let layers = Layers::new();
    let child = two(&layers);
    let path = layers.save("bb", &child);
    layers.open(&path);
    let mut rendered = String::new();
    let mut base = Writer::new(4 * MIB, MIB);
    base.data_write = Uuid::from_u128(0x5001);
    layers.save("aa", &base);
    rendered += &layers.refusal(&path);
    rendered += "\n";
    // Nobody's id is not the id of a file that has none.
    base.data_write = Uuid::nil();
    layers.save("aa", &base);
    let mut nobody = child.clone();
    nobody.set("parent_linkage2", &format!("{{{}}}", Uuid::nil()));
    rendered += &layers.refusal(&layers.save("bb", &nobody));
    rendered += "\n";
    let id = Uuid::parse_str(&child.locator[0].1).unwrap();
    base.data_write = id;
    base.sector = 4096;
    layers.save("aa", &base);
    rendered += &layers.refusal(&path);
    rendered += "\n";
    base.sector = 512;
    base.log = Uuid::from_u128(1);
    layers.save("aa", &base);
    rendered += &layers.refusal(&path);
    let rendered = rendered.replace(&id.to_string(), "THE-ID-OF-THE-PARENT");
    insta::assert_snapshot!(rendered);
}

#[test]
fn a_chain_has_an_end() {
    let layers = Layers::new();
    let mut a = Writer::new(MIB, MIB);
    let mut b = Writer::over(MIB, MIB, a.data_write, r"..\aa\disk.vhdx");
    let data_write = a.data_write;
    a = Writer::over(MIB, MIB, b.data_write, r"..\bb\disk.vhdx");
    a.data_write = data_write;
    let path = layers.save("aa", &a);
    layers.save("bb", &b);
    let mut rendered = layers.refusal(&path);
    b.set("relative_path", "disk.vhdx");
    rendered += "\n";
    rendered += &layers.refusal(&layers.save("bb", &b));
    insta::assert_snapshot!(rendered);
}

#[test]
fn a_damaged_locator_is_refused() {
    let layers = Layers::new();
    let child = two(&layers);
    let mut rendered = String::new();
    let mut note = |child: &Writer| {
        rendered += &layers.refusal(&layers.save("bb", child));
        rendered += "\n";
    };
    let with = |change: &dyn Fn(&mut Writer)| {
        let mut child = child.clone();
        change(&mut child);
        child
    };
    note(&with(&|c| c.locator_kind = Uuid::from_u128(0x1234)));
    note(&with(&|c| c.locator.retain(|(k, _)| k != "parent_linkage")));
    note(&with(&|c| c.locator.retain(|(k, _)| k != "relative_path")));
    note(&with(&|c| c.set("parent_linkage", "a parent")));
    note(&with(&|c| c.set("relative_path", "")));
    note(&with(&|c| c.set("relative_path", "disk\0.vhdx")));
    note(&with(&|c| {
        c.locator
            .push(("relative_path".into(), "other.vhdx".into()));
    }));
    note(&with(&|c| c.bitmaps = false));
    note(&with(&|c| c.state(2, 5, 9)));
    note(&with(&|c| c.state(2, 6, 4000)));
    insta::assert_snapshot!(rendered);
}

#[test]
fn damage_anywhere_is_an_error_or_other_bytes_but_never_a_panic() {
    let layers = Layers::new();
    let path = layers.save("bb", &two(&layers));
    let bytes = fs::read(&path).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    // The metadata's table, its items with the locator, and the block table.
    let metadata = 2 << 20;
    let places = (metadata..metadata + 32 * 7)
        .chain(metadata + 65_536..metadata + 65_536 + 300)
        .chain((3 << 20)..(3 << 20) + 40);
    let mut refused = 0;
    for at in places {
        for value in [0, 1, 0x7f, 0xff] {
            file.write_all_at(&[value], at as u64).unwrap();
            match layers.image(&path).open(&Cancel::default()) {
                Ok(disk) => {
                    let mut buffer = vec![0; 70_000];
                    for range in disk.data().unwrap().into_iter().take(9) {
                        let len = (range.end - range.start).min(70_000) as usize;
                        let _ = disk.read_at(range.start, &mut buffer[..len]);
                    }
                }
                Err(_) => refused += 1,
            }
            file.write_all_at(&bytes[at..=at], at as u64).unwrap();
        }
    }
    assert!(refused > 400, "{refused}");
    layers.open(&path);
}
