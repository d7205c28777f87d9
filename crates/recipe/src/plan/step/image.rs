//! `image`: a container image, imported by containerd's own `ctr.exe` from the payload disc.
//!
//! containerd has to run: a `service` step with `state = "running"` before. Importing again changes nothing.

use super::super::batch::{self, Script};
use super::super::check::ImageName;
use super::super::site::{Site, on_disc};
use super::super::{Entry, Planned};
use crate::recipe::verb::ImageImport;

pub(super) fn image(site: &mut Site<'_>, import: &ImageImport) -> Option<()> {
    let recipe = site.recipe;
    let name = &import.image.value;
    let wanted = recipe.images.iter().find(|i| i.name.value == *name)?;
    let place = site.step.place.clone();
    let ctr = site.judged(
        batch::quoted_twice(import.ctr.value.as_str()),
        &import.ctr.place,
    )?;
    let namespace = site.judged(batch::quoted_twice(&import.namespace), &place)?;
    let entry = site.entry(Entry::Image {
        image: name.clone(),
    });
    let archive = on_disc(entry, &format!("{name}.tar"));
    let reference = wanted.reference.value.kept_as();
    let reference = site.quoted(&reference, &wanted.reference.place)?;
    // `ctr` ends with 0 for an archive in which it found no image. Its lines end with LF alone, at which `for /f` parts
    // them and the `/x` of findstr.exe does not. The outer quotes are those that the second cmd takes away.
    site.put(Script::of(format!(
        "{ctr} -n {namespace} images import {archive} || exit /b %errorlevel%\n\
         for /f \"delims=\" %%i in ('\"{ctr} -n {namespace} images ls -q\"') do if \"%%i\"=={reference} exit /b 0\n\
         echo containerd does not list {reference}\n\
         exit /b 1"
    )));
    site.expect(Planned::ContainerImage {
        image: ImageName(name.clone()),
        root: import.root.value.clone(),
    });
    Some(())
}
