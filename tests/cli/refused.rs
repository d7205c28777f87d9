//! A recipe that is wrong: every complaint at once, status 2, nothing started and nothing made.

use support::complaints::facts;
use support::tree::{self, root};

use crate::cli::site::{SEAL, Site};

/// The complaints as the recipe's own golden text has them.
fn complaints() -> String {
    tree::snapshot("crates/recipe/tests/snapshots/recipe__recipe__twelve-mistakes.snap")
}

#[test]
fn twelve_mistakes_are_twelve_complaints_whatever_the_command() {
    let site = Site::new("");
    let recipe =
        std::fs::read_to_string(root().join("crates/recipe/tests/recipes/twelve-mistakes.toml"));
    site.write("twelve-mistakes.toml", &recipe.expect("the recipe"));
    for arguments in [
        &["validate", "twelve-mistakes.toml"][..],
        &["plan", "twelve-mistakes.toml"],
        &["plan", "twelve-mistakes.toml", "--json"],
        &[
            "build",
            "twelve-mistakes.toml",
            "--hypervisor",
            "fake:machine.toml",
        ],
    ] {
        let outcome = site.run(arguments);
        assert_eq!(outcome.status(), Some(2), "{arguments:?}");
        assert_eq!(outcome.stderr(), complaints(), "{arguments:?}");
        assert_eq!(outcome.stdout(), "", "{arguments:?}");
    }
    assert_eq!(complaints().matches("\nerror: ").count() + 1, 12);
    for made in ["out", "cache", "asked.txt"] {
        assert!(!site.path(made).exists(), "{made} was made");
    }
}

/// A build on Hyper-V goes through the account; under QEMU nobody logs on.
#[test]
fn a_step_that_disables_the_builds_account_is_refused_for_hyper_v() {
    let step =
        "[[steps]]\nname = \"off\"\nuser = { name = \"Administrator\", state = \"disabled\" }\n";
    let site = Site::new(&format!("{step}\n{SEAL}"));
    site.run(&["plan", "recipe.toml"]).ended_well();
    let outcome = site.run(&["plan", "recipe.toml", "--hypervisor", "hyperv"]);
    assert_eq!(outcome.status(), Some(2));
    insta::assert_snapshot!("shut_out", outcome.stderr());
}

#[test]
fn a_build_that_cannot_begin_makes_no_output_directory() {
    let site = Site::new("");
    let refused = |more: &[&str]| {
        let outcome = site.build(more);
        assert!(!site.path("out").exists(), "{more:?} made the directory");
        assert_eq!(outcome.stdout(), "", "{more:?}");
        outcome.whole()
    };
    let mut said = String::new();
    said += &refused(&["--admin-password-file", "no-such-file"]);
    said += &refused(&["--var", "nothing"]);
    said += &refused(&["--var", "tier=gold"]);
    said += &refused(&["--set", "machine.disk_bus=nvm"]);
    site.write("machine.toml", "[install]\noutcom = \"crashes\"\n");
    said += &refused(&[]);
    std::fs::remove_file(site.path("recipe.toml")).expect("the recipe goes");
    said += &refused(&[]);
    insta::assert_snapshot!(facts(&said));
}
