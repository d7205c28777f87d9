//! What an output does not bear of the steps.

use winimg::recipe::verb::Feature;
use winimg::recipe::*;
use winimg::text::Place;

use crate::recipe::Maker;
use crate::{plan_of, refused};

fn feature(m: &Maker, names: &[&str], enabled: bool) -> Verb {
    Verb::Feature(Feature {
        names: names.iter().map(|name| m.at(name)).collect(),
        enabled,
        all: true,
        source: None,
    })
}

/// The recipe with the output `ami`, which stands on line 3.
fn for_aws(mut recipe: Recipe) -> Recipe {
    let source = &recipe.name.place.source;
    recipe.outputs.ami = Some(AmiWish {
        boot_mode: "uefi".into(),
        license_type: "AWS".into(),
        place: Some(Place::new(source, 2..2)),
    });
    recipe
}

#[test]
fn an_ami_with_the_hyper_v_role_is_refused_with_both_places() {
    let both = || {
        let all = ["Containers", "microsoft-hyper-v"];
        Maker::new().step("container features", |m| feature(m, &all, true))
    };
    let sealed = |maker: Maker| maker.step("seal", |m| m.generalize()).made();
    assert_eq!(
        refused(for_aws(sealed(both()))),
        "recipe.toml:11:1 error: step `container features`: AWS' import-image refuses a Windows with the Hyper-V role \
         [enables microsoft-hyper-v] (the output `ami` at recipe.toml:3:1 is made for import-image) (leave the feature \
         out, which containers with process isolation do not need, or remove that output)\n"
    );
    // For other outputs, and where the role is gone in the end, all is well.
    plan_of(sealed(both()));
    let gone = both().step("no role", |m| feature(m, &["Microsoft-Hyper-V"], false));
    plan_of(for_aws(sealed(gone)));
    let tools = ["Containers", "Microsoft-Hyper-V-Management-PowerShell"];
    let tools = Maker::new().step("tools", |m| feature(m, &tools, true));
    plan_of(for_aws(sealed(tools)));
}
