//! What an output or a hypervisor does not bear of the steps.

use winimg_base::text::Place;
use winimg_recipe::plan;
use winimg_recipe::recipe::verb::{Feature, Password, User, UserState};
use winimg_recipe::recipe::*;

use crate::plan::recipe::Maker;
use crate::plan::{plan_of, refused, said};

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

fn user(m: &Maker, name: &str, state: UserState, password: Password) -> Verb {
    Verb::User(User {
        name: m.at(name),
        state,
        password,
        full_name: None,
        description: None,
        groups: vec![],
        expires: false,
    })
}

#[test]
fn a_step_that_shuts_powershell_direct_out_is_refused() {
    let known = || Password::Published("Known-1".into());
    let recipe = Maker::new()
        .step("off", |m| {
            user(m, "administrator", UserState::Disabled, Password::Random)
        })
        .step("gone", |m| {
            user(m, "Administrator", UserState::Absent, Password::Random)
        })
        .step("known", |m| {
            user(m, "Administrator", UserState::Present, known())
        })
        .step("kept", |m| {
            user(m, "Administrator", UserState::Present, Password::Random)
        })
        .step("another", |m| {
            user(m, "Guest", UserState::Disabled, Password::Random)
        })
        .step("not now", |m| {
            user(m, "Administrator", UserState::Disabled, Password::Random)
        })
        .but(|step| step.skipped = Some("false".into()))
        .made();
    let told = said(&plan::shut_out(&recipe));
    let found: Vec<&str> = told
        .lines()
        .map(|l| l.split(" [").next().unwrap())
        .collect();
    assert_eq!(
        found,
        [
            "recipe.toml:11:1 error: step `off`: Hyper-V's guests are reached as Administrator, and this step disables the account",
            "recipe.toml:12:1 error: step `gone`: Hyper-V's guests are reached as Administrator, and this step removes the account",
            "recipe.toml:13:1 error: step `known`: Hyper-V's guests are reached as Administrator, and this step changes its password",
        ]
    );
}
