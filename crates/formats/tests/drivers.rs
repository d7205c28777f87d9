//! Driver packages: which files of a folder belong to them, and every folder that is refused.

use std::path::Path;

use support::media::put;
use winimg_formats::driver::{self, DriverSelection, is_here};

const VERSION: &str = "[Version]\r\nSignature=\"$WINDOWS NT$\"\r\nCatalogFile=net.cat\r\n";
const NET: &str = "[SourceDisksNames]\r\n1 = %Disk%,,,\r\n[SourceDisksFiles]\r\nnet.sys = 1,,\r\n\
    netp.exe = 1,,\r\n[Strings]\r\nDisk = \"a disk\"\r\n";

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        put(folder.path(), path, text.as_bytes());
    }
    folder
}

fn chosen(folder: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<DriverSelection, String> {
    let chosen = driver::in_folder(folder, is_wanted).unwrap();
    chosen.map_err(|faults| {
        let problem = driver::merge_faults(faults);
        let mut lines = vec![problem.in_one_line()];
        lines.extend(problem.lines);
        lines.extend(problem.cures.iter().map(|cure| format!("cure: {cure}")));
        lines.join("\n")
    })
}

/// The files that are taken and those that are left out; one INF with these lines and the files
/// beside it.
fn taken(lines: &str, others: &[&str]) -> Result<(Vec<String>, Vec<String>), String> {
    let text = format!("{VERSION}{lines}");
    let mut files = vec![("net.inf", text.as_str())];
    files.extend(others.iter().map(|path| (*path, "MZ")));
    let folder = folder(&files);
    let chosen = chosen(folder.path(), is_here)?;
    let paths = chosen.paths().into_iter().map(str::to_owned).collect();
    Ok((paths, chosen.left_out))
}

fn owned(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|&path| path.to_owned()).collect()
}

/// NetKVM's folder of virtio-win: the INF and the catalog know netkvmp.exe, neither knows
/// netkvmco.exe.
#[test]
fn what_no_inf_names_is_left_out() {
    let beside = [
        "net.cat",
        "net.sys",
        "netp.exe",
        "netco.exe",
        "net.pdb",
        "netp.pdb",
        "Readme.md",
    ];
    let (paths, left_out) = taken(NET, &beside).unwrap();
    assert_eq!(paths, ["net.cat", "net.inf", "net.sys", "netp.exe"]);
    assert_eq!(left_out, ["Readme.md", "net.pdb", "netco.exe", "netp.pdb"]);
    assert_eq!(
        driver::left_out_in_words(&left_out).unwrap(),
        "4 files not referenced by any INF are left out: Readme.md, net.pdb, netco.exe, netp.pdb"
    );
}

#[test]
fn what_is_left_out_is_one_line() {
    let words = |count: usize| {
        let paths: Vec<String> = (0..count).map(|n| format!("{n}.pdb")).collect();
        driver::left_out_in_words(&paths)
    };
    assert_eq!(words(0), None);
    assert_eq!(
        words(1).unwrap(),
        "1 file not referenced by any INF is left out: 0.pdb"
    );
    assert_eq!(
        words(13).unwrap(),
        "13 files not referenced by any INF are left out: 0.pdb, 1.pdb, 2.pdb, 3.pdb and 9 more"
    );
}

#[test]
fn a_package_is_what_its_inf_names() {
    let net = ["net.cat", "net.inf", "net.sys"];
    let with = |more: &[&str]| {
        let mut paths = owned(&net);
        paths.extend(owned(more));
        paths.sort();
        paths
    };
    let files = "[SourceDisksFiles]\nnet.sys=1\n";
    let cases: [(&str, String, Vec<&str>, Vec<String>); 12] = [
        ("names in another case", files.into(), vec!["NET.CAT", "Net.Sys"],
            owned(&["NET.CAT", "Net.Sys", "net.inf"])),
        ("no files but the catalog", String::new(), vec!["net.cat"], owned(&["net.cat", "net.inf"])),
        ("a name that is a string", "[SourceDisksFiles]\n%Sys%=1\n[Strings]\nSys=\"net.sys\"".into(),
            vec!["net.cat", "net.sys"], with(&[])),
        ("a quoted name", "[SourceDisksFiles]\n\"net.sys\" = 1 ; the driver\n\"a b.dll\"=1".into(),
            vec!["net.cat", "net.sys", "a b.dll"], with(&["a b.dll"])),
        ("a subfolder of the file", "[SourceDisksFiles]\nnet.sys=1\nx.dll=1,lib\\x64".into(),
            vec!["net.cat", "net.sys", "lib/x64/x.dll"], with(&["lib/x64/x.dll"])),
        ("a path of the disk", "[SourceDisksNames]\n1=d,,,\n2=d,,,\\lib\n[SourceDisksFiles]\nnet.sys=1\nx.dll=2,x64".into(),
            vec!["net.cat", "net.sys", "Lib/x64/x.dll"], with(&["Lib/x64/x.dll"])),
        ("files for this processor", "[SourceDisksFiles.amd64]\nnet.sys=1\nx.dll=1\n[SourceDisksFiles.x86]\ny.dll=1".into(),
            vec!["net.cat", "net.sys", "x.dll", "y.dll"], with(&["x.dll"])),
        ("the place for this processor", "[SourceDisksFiles]\nnet.sys=1,x86\n[SourceDisksFiles.AMD64]\nnet.sys=1,x64".into(),
            vec!["net.cat", "x64/net.sys"], owned(&["net.cat", "net.inf", "x64/net.sys"])),
        ("a disk for this processor", "[SourceDisksNames.x86]\n1=d,,,x86\n[SourceDisksNames.amd64]\n1=d,,,x64\n[SourceDisksFiles]\nnet.sys=1".into(),
            vec!["net.cat", "x64/net.sys"], owned(&["net.cat", "net.inf", "x64/net.sys"])),
        ("a line that goes on", "[SourceDisksFiles]\nnet.sys=1, \\\n x64".into(),
            vec!["net.cat", "x64/net.sys"], owned(&["net.cat", "net.inf", "x64/net.sys"])),
        ("a section in two parts", format!("{files}[Other]\nx.dll=1\n{files}y.dll=1"),
            vec!["net.cat", "net.sys", "x.dll", "y.dll"], with(&["y.dll"])),
        ("files in a cabinet", "[SourceDisksNames]\n1=d,net.cab,,\n[SourceDisksFiles]\nnet.sys=1\nx.dll=1".into(),
            vec!["net.cat", "net.cab"], owned(&["net.cab", "net.cat", "net.inf"])),
    ];
    for (title, lines, beside, expected) in cases {
        let found = taken(&lines, &beside).map(|(paths, _)| paths);
        assert_eq!(found, Ok(expected), "{title}");
    }
}

#[test]
fn a_catalog_for_this_processor_goes_before_the_one_for_all() {
    let cases = [
        (
            "CatalogFile=a.cat\nCatalogFile.NTamd64=b.cat\nCatalogFile.NTx86=c.cat",
            "b.cat",
        ),
        ("CatalogFile=a.cat\ncatalogfile.ntx86=c.cat", "a.cat"),
        ("CatalogFile.nt=b.cat\nCatalogFile=a.cat", "b.cat"),
    ];
    for (lines, catalog) in cases {
        let text = format!("[version]\nsignature = \"$Chicago$\"\n{lines}");
        let folder = folder(&[("n.inf", &text), ("a.cat", "MZ"), ("b.cat", "MZ")]);
        let chosen = chosen(folder.path(), is_here).unwrap();
        assert_eq!(chosen.packages[0].catalog, catalog, "{lines}");
    }
}

/// pvpanic has two INFs for one driver, vioprot's INF copies another.
#[test]
fn several_infs_of_a_folder_are_several_packages() {
    let panic = "[Version]\nSignature=$CHICAGO$\nCatalogFile=a.cat\n[SourceDisksFiles]\na.sys=1";
    let pci = panic.replace("=a.cat", "=b.cat");
    let shared = panic.to_owned() + "\nshared.dll=1";
    let files = [
        ("a.inf", panic),
        ("b.inf", &pci),
        ("c.inf", &shared),
        ("autorun.inf", "[autorun]\nopen=setup.exe"),
        ("a.cat", "MZ"),
        ("b.cat", "MZ"),
        ("a.sys", "MZ"),
        ("shared.dll", "MZ"),
        (
            "below/d.inf",
            "[Version]\nSignature=\"$Windows NT$\"\nCatalogFile=d.cat",
        ),
        ("below/d.cat", "MZ"),
    ];
    let folder = folder(&files);
    let here = chosen(folder.path(), is_here).unwrap();
    let packages = here.packages.iter();
    let packages: Vec<String> = packages
        .map(|p| p.paths().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        packages,
        [
            "a.inf a.cat a.sys",
            "b.inf b.cat a.sys",
            "c.inf a.cat a.sys shared.dll"
        ]
    );
    assert_eq!(here.left_out, ["autorun.inf", "below/d.cat", "below/d.inf"]);
    let below = chosen(folder.path(), |_| true).unwrap();
    assert_eq!(below.left_out, ["autorun.inf"]);
    let one = chosen(folder.path(), |path| path == "b.inf").unwrap();
    assert_eq!(
        one.paths().into_iter().collect::<Vec<_>>(),
        ["a.sys", "b.cat", "b.inf"]
    );
}

#[test]
fn an_inf_that_is_copied_brings_its_package() {
    let text = "[Version]\nSignature=\"$Windows NT$\"\nCatalogFile=a.cat\n";
    let copies = format!(
        "{text}[Net.Install.NTamd64]\nCopyINF = B.INF, c.inf\n[Old.NTx86]\nCopyINF=x86.inf"
    );
    let folder = folder(&[
        ("a.inf", &copies),
        ("b.inf", text),
        ("c.inf", text),
        ("a.cat", "MZ"),
    ]);
    let found = chosen(folder.path(), |path| path == "a.inf").unwrap();
    assert_eq!(found.packages.len(), 3);
    std::fs::remove_file(folder.path().join("c.inf")).unwrap();
    assert_eq!(
        chosen(folder.path(), |path| path == "a.inf").unwrap_err(),
        "a.inf names c.inf, which is not in the folder (expected c.inf)\n\
         cure: provide the complete package, as published"
    );
}

#[test]
fn a_package_that_is_not_complete_is_refused_by_name() {
    let whole = "cure: provide the complete package, as published";
    let cases: [(&str, &[&str], String); 8] = [
        (NET, &["net.cat", "net.sys"],
            format!("net.inf names netp.exe, which is not in the folder (expected netp.exe)\n{whole}")),
        (NET, &["net.sys"],
            format!("2 problems in the driver packages of this folder\n\
                     net.inf names net.cat, which is not in the folder (expected net.cat)\n\
                     net.inf names netp.exe, which is not in the folder (expected netp.exe)\n{whole}")),
        ("[SourceDisksFiles]\nnet.sys=1,x64", &["net.cat", "net.sys"],
            format!("net.inf names net.sys, which is not in the folder (expected x64/net.sys)\n{whole}")),
        ("[SourceDisksFiles]\nnet.sys=1", &["net.cat", "net.sy_"],
            "net.inf names net.sys, which is not in the folder (expected net.sys, found net.sy_, a compressed file)\n\
             cure: unpack it with expand.exe or msexpand".into()),
        ("[SourceDisksFiles]\n%none%=1", &["net.cat"],
            format!("net.inf names %none%, which is not in the folder (expected %none%)\n{whole}")),
        ("[SourceDisksFiles]\n..\\net.sys=1", &["net.cat", "net.sys"],
            "net.inf names a file outside its folder (found ..\\net.sys)\n\
             cure: get the package from the driver's publisher".into()),
        ("[SourceDisksFiles]\nnet.sys=1,x64\\..\\..", &["net.cat", "net.sys"],
            "net.inf names a file outside its folder (found x64\\..\\..\\net.sys)\n\
             cure: get the package from the driver's publisher".into()),
        ("[SourceDisksFiles]\nC:\\Windows\\net.sys=1", &["net.cat"],
            "net.inf names a file outside its folder (found C:\\Windows\\net.sys)\n\
             cure: get the package from the driver's publisher".into()),
    ];
    for (lines, beside, expected) in cases {
        assert_eq!(taken(lines, beside).unwrap_err(), expected, "{lines}");
    }
}

#[test]
fn an_empty_file_of_a_package_is_refused_by_name() {
    let text = format!("{VERSION}{NET}");
    let files = [
        ("net.inf", text.as_str()),
        ("net.cat", "MZ"),
        ("Net.sys", ""),
        ("netp.exe", "MZ"),
        ("other.exe", ""),
    ];
    assert_eq!(
        chosen(folder(&files).path(), is_here).unwrap_err(),
        "net.inf names net.sys, which is empty (found Net.sys, 0 bytes)\n\
         cure: provide the complete package, as published"
    );
}

#[test]
fn a_folder_without_an_inf_of_a_driver_is_refused() {
    let said = |files: &[(&str, &str)]| chosen(folder(files).path(), is_here).unwrap_err();
    let none = "this driver folder has no .inf file\ncure: specify the folder that contains the driver's INF";
    assert_eq!(said(&[]), none);
    assert_eq!(said(&[("net.sys", "MZ"), ("below/net.inf", VERSION)]), none);
    let found = "this driver folder has no driver INF \
        (expected a [Version] section with Signature = \"$Windows NT$\", found a.inf, b.inf)";
    assert_eq!(
        said(&[("a.inf", "MZ"), ("b.inf", "[Version]\nSignature=other")]),
        found
    );
    assert_eq!(
        said(&[(
            "a.inf",
            "[Version]\nSignature=\"$Windows NT$\"\nCatalogFile=\"\""
        )]),
        "a.inf names no catalog (expected CatalogFile in its [Version] section)\n\
         cure: use the driver's signed package; 64-bit Windows rejects others"
    );
}
