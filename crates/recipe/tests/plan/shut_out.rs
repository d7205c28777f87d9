//! Steps that shut a build out of its own machine.

use winimg_recipe::Verb;
use winimg_recipe::plan;
use winimg_recipe::verbs::{UserPassword, UserSpec, UserState};

use crate::plan::recipe::Maker;
use crate::plan::said;

fn user(m: &Maker, name: &str, state: UserState, password: UserPassword) -> Verb {
    Verb::User(UserSpec {
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
    let known = || UserPassword::Published("Known-1".into());
    let recipe = Maker::new()
        .step("off", |m| {
            user(
                m,
                "administrator",
                UserState::Disabled,
                UserPassword::Random,
            )
        })
        .step("gone", |m| {
            user(m, "Administrator", UserState::Absent, UserPassword::Random)
        })
        .step("known", |m| {
            user(m, "Administrator", UserState::Present, known())
        })
        .step("kept", |m| {
            user(m, "Administrator", UserState::Present, UserPassword::Random)
        })
        .step("another", |m| {
            user(m, "Guest", UserState::Disabled, UserPassword::Random)
        })
        .step("not now", |m| {
            user(
                m,
                "Administrator",
                UserState::Disabled,
                UserPassword::Random,
            )
        })
        .but(|step| step.skipped = Some("false".into()))
        .made();
    let rendered = said(&plan::shut_out(&recipe));
    let found: Vec<&str> = rendered
        .lines()
        .map(|l| l.split(" [").next().unwrap())
        .collect();
    assert_eq!(
        found,
        [
            "recipe.toml:11:1 error: step `off` disables the Administrator account, which winimg uses to connect to Hyper-V guests",
            "recipe.toml:12:1 error: step `gone` removes the Administrator account, which winimg uses to connect to Hyper-V guests",
            "recipe.toml:13:1 error: step `known` changes the password of the Administrator account, which winimg uses to connect to Hyper-V guests",
        ]
    );
}
