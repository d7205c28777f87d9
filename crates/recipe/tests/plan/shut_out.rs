//! Steps that shut a build out of its own machine.

use winimg_recipe::plan;
use winimg_recipe::recipe::Verb;
use winimg_recipe::recipe::verb::{Password, User, UserState};

use crate::plan::recipe::Maker;
use crate::plan::said;

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
    let rendered = said(&plan::shut_out(&recipe));
    let found: Vec<&str> = rendered
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
