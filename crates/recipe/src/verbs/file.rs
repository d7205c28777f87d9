//! The verb `file`: writes a text file.

use crate::GuestPath;
use crate::document::value::TomlValue;
use crate::fields::{LoweringContext, TableReader};
use crate::ops::compiler::StepCompiler;
use crate::ops::{Encoding, PayloadEntry};
use crate::verbs::content::put_file;
use winimg_base::text::{Located, to_crlf};

/// Values of `file`.
#[derive(Clone, Debug)]
pub struct FileSpec {
    pub path: Located<GuestPath>,
    pub content: String,
    pub encoding: Encoding,
}

pub fn read(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<FileSpec> {
    let fields = TableReader::open(cx, value, "file")?;
    let path = fields.guest_path("path");
    let content = fields.read_text("content");
    let encoding = fields.read_choice("encoding");
    Some(FileSpec {
        path: path?,
        content: content?,
        encoding: encoding.map_or(Encoding::Utf8, |e| e.value),
    })
}

pub fn compile(site: &mut StepCompiler<'_>, spec: &FileSpec) -> Option<()> {
    let to = &spec.path;
    if to.value.names_folder() {
        site.error(
            &to.place,
            format!("`{}` names a folder", to.value),
            "a file is written here",
        );
        return None;
    }
    // cmd and PowerShell scripts always get CRLF, regardless of the recipe's line ends.
    let text = match to.value.extension().as_str() {
        "cmd" | "bat" | "ps1" | "psm1" | "psd1" => to_crlf(&spec.content),
        _ => spec.content.clone(),
    };
    let file = to.value.file_name().to_owned();
    let entry = PayloadEntry::Text {
        file: file.clone(),
        text,
        encoding: spec.encoding,
    };
    put_file(site, entry, &file, to.clone())
}
