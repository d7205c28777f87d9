//! Compiles `image`: a container image that containerd's `ctr.exe` imports from the payload disc.
//!
//! containerd must be running, so a `service` step with `state = "running"` must come first.
//! Importing again changes nothing.

use super::super::batch::{self, BatchScript};
use super::super::check::ContainerImageName;
use super::super::step_compiler::{StepCompiler, on_disc};
use super::super::{PayloadEntry, PlannedCheck};
use crate::recipe::verb::ImageImport;

pub(super) fn compile_image(site: &mut StepCompiler<'_>, import: &ImageImport) -> Option<()> {
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
