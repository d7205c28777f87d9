//! The verb `image`: imports a container image into containerd's store, by containerd's client.

use crate::GuestPath;
use crate::document::value::{TomlData, TomlValue};
use crate::fields::{LoweringContext, TableReader};
use crate::ops::batch::BatchScript;
use crate::ops::check::ContainerImageName;
use crate::ops::compiler::{StepCompiler, on_disc};
use crate::ops::{PayloadEntry, PlannedCheck, batch};
use crate::verbs::items::{RecipeItems, known_image};
use winimg_base::text::Located;

/// `image`: a container image, imported into containerd's store.
#[derive(Clone, Debug)]
pub struct ImageImport {
    /// One of `[images]`.
    pub image: Located<String>,
    pub ctr: Located<GuestPath>,
    /// containerd's `root`.
    pub root: Located<GuestPath>,
    pub namespace: String,
}

/// Reads `image = "pause"`, or a table.
pub fn read(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    items: RecipeItems<'_>,
) -> Option<ImageImport> {
    let empty = Default::default();
    let (fields, name) = match &value.data {
        TomlData::String(name) => {
            let name = Located::new(name.clone(), value.place.clone());
            let what = "`image`".to_owned();
            let fields = TableReader::from_table(cx, &empty, "image", what, &value.place);
            (fields, Some(name))
        }
        _ => {
            let fields = TableReader::open(cx, value, "image")?;
            let name = fields.read_string("image");
            (fields, name)
        }
    };
    let image = name.and_then(|name| known_image(cx, name, items));
    let ctr = fields.guest_path("ctr");
    let root = fields.guest_path("root");
    let namespace = fields.read_text("namespace");
    Some(ImageImport {
        image: image?,
        ctr: ctr?,
        root: root?,
        namespace: namespace?,
    })
}

pub fn compile(site: &mut StepCompiler<'_>, import: &ImageImport) -> Option<()> {
    let recipe = site.recipe;
    let name = &import.image.value;
    let wanted = recipe.images.iter().find(|i| i.name.value == *name)?;
    let place = site.step.place.clone();
    let ctr = site.report_error(
        batch::quoted_twice(import.ctr.value.as_str()),
        &import.ctr.place,
    )?;
    let namespace = site.report_error(batch::quoted_twice(&import.namespace), &place)?;
    let entry = site.add_entry(PayloadEntry::Image {
        image: name.clone(),
    });
    let archive = on_disc(entry, &format!("{name}.tar"));
    let reference = wanted.reference.value.kept_as();
    let reference = site.quote(&reference, &wanted.reference.place)?;
    // `ctr` exits with 0 even if the archive contains no image. Its lines end with LF only, which
    // `for /f` handles but the `/x` of findstr.exe does not. The second cmd strips the outer
    // quotes.
    site.put(BatchScript::from_lines(format!(
        "{ctr} -n {namespace} images import {archive} || exit /b %errorlevel%\n\
         for /f \"delims=\" %%i in ('\"{ctr} -n {namespace} images ls -q\"') do if \
         \"%%i\"=={reference} exit /b 0\n\
         echo containerd does not list {reference}\n\
         exit /b 1"
    )));
    site.expect(PlannedCheck::ContainerImage {
        image: ContainerImageName(name.clone()),
        root: import.root.value.clone(),
    });
    Some(())
}
