//! Files of the source tree that the code makes: compared, and written anew with `INSTA_UPDATE=always`.

use std::fs;
use std::sync::{Mutex, PoisonError};

use crate::tree;

/// Tests of one program make several sections of one file.
static WRITING: Mutex<()> = Mutex::new(());

/// The file is this text.
pub fn whole(path: &str, text: &str) {
    let file = tree::root().join(path);
    let was = fs::read_to_string(&file).unwrap_or_default();
    if was == text {
        return;
    }
    let update = std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always");
    let mut pairs = was.lines().zip(text.lines());
    let first = pairs.find(|(was, now)| was != now);
    assert!(
        update,
        "{path} is not what the code makes of it: run this test with INSTA_UPDATE=always\n{first:#?}"
    );
    fs::write(&file, text).expect("a file");
}

/// Running text in which `<` begins no HTML.
pub fn plain(text: &str) -> String {
    text.replace('<', "&lt;")
}

/// What stands between `<!-- NAME -->` and the next `<!-- end -->` is this text.
pub fn section(path: &str, name: &str, text: &str) {
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let was = fs::read_to_string(tree::root().join(path)).expect("the file");
    let marker = format!("<!-- {name} -->\n");
    let (before, rest) = was.split_once(&marker).expect("a marker");
    let (_, after) = rest.split_once("<!-- end -->").expect("an end");
    whole(path, &format!("{before}{marker}{text}<!-- end -->{after}"));
}

/// Compares the file with the schema as it is now; writes it first where that is asked for.
pub fn schema_is_current(file: &str, now: &str) {
    if std::env::var_os("WINIMG_WRITE_SCHEMA").is_some() {
        fs::write(file, now).unwrap();
    }
    assert_eq!(fs::read_to_string(file).unwrap(), now);
}
