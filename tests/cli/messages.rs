//! What users meet who type something slightly wrong: each message names the way on.

use std::io::Write as _;
use std::process::Stdio;

use crate::cli::site::{Outcome, SEAL, Site};

/// The program with `input` on its standard input.
fn piped<'s>(site: &'s Site, arguments: &[&str], input: &str) -> Outcome<'s> {
    let mut child = site
        .command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("winimg starts");
    let mut stdin = child.stdin.take().expect("piped");
    // What is refused before it is read closes the pipe.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    site.ended(child.wait_with_output().expect("winimg ends"))
}

#[test]
fn a_recipe_is_read_from_standard_input() {
    let site = Site::new(SEAL);
    let recipe = site.read("recipe.toml");
    let sound = piped(&site, &["validate", "-"], &recipe).ended_well();
    assert_eq!(sound.stdout(), "<stdin> is valid: 2 components, 1 step\n");
    // Its paths start from the current folder, and no lock lies beside it.
    let plan = piped(&site, &["plan", "-"], &recipe).ended_well();
    assert!(plan.stdout().contains("a local file"), "{}", plan.whole());
    let mistake = recipe.replace("disk_bus", "disk_buss");
    let refused = piped(&site, &["validate", "-"], &mistake);
    let rendered = refused.stderr();
    assert!(rendered.contains(" --> <stdin>:"), "{rendered}");
    assert!(rendered.contains("1 error in <stdin>"), "{rendered}");
    for command in ["build", "lock", "pin"] {
        let refused = piped(&site, &[command, "-"], &recipe);
        assert_eq!(
            refused.failure(),
            format!(
                "exit status: 2\nerror: `winimg {command}` cannot read the recipe from standard input\n  \
                 cure: save it to a file: winimg {command} recipe.toml\n"
            )
        );
    }
}

/// What is not in a file cannot be written into.
#[test]
fn a_piped_recipe_that_lacks_a_proof_is_to_be_pinned_in_a_file() {
    let site = Site::new(SEAL);
    let open = "[components.open]\nurl = \"https://publisher.example/open.exe\"\n";
    let recipe = format!("{}\n{open}", site.read("recipe.toml"));
    let plan = piped(&site, &["plan", "-"], &recipe).ended_well().stdout();
    assert!(
        plan.contains("  `winimg pin recipe.toml` downloads each file"),
        "{plan}"
    );
}

/// A folder in WINIMG_RECIPES may have a recipe under the name of one of winimg's.
#[test]
fn init_takes_a_recipe_of_the_same_name_as_it_stands() {
    let site = Site::empty();
    let recipe = "schema = 1\nname = \"ours\"\n[vars]\niso_url = \"x\"\ndigest = { required = \"the digest of both\" }\n\
                  [media]\nimage = \"datacenter-core\"\n[media.iso]\nurl = \"{{iso_url}}\"\nsha256 = \"{{digest}}\"\n\
                  [components.one]\nurl = \"https://example.com/one\"\nsha256 = \"{{digest}}\"\n\
                  [[steps]]\nname = \"one\"\ncmd = \"echo {{digest}}\"\n[outputs]\nraw = {}\n";
    site.write("ours/capi-ova.toml", recipe);
    let ours = site.path("ours");
    let init = || {
        let mut command = site.command(&["init", "capi-ova"]);
        let ended = command.env("WINIMG_RECIPES", &ours).output();
        site.ended(ended.expect("winimg runs"))
    };
    init().ended_well();
    let written = site.read("my-capi-ova.toml");
    let key = "\ndigest = { required = \"the digest of both\" }\n";
    assert_eq!(written.matches(key).count(), 1, "{written}");
    site.write("ours/capi-ova.toml", "schema = 1\n");
    let failure = init().failure();
    assert!(
        failure.contains("error: cannot read the recipe /site/ours/capi-ova.toml\n"),
        "{failure}"
    );
}

#[test]
fn the_name_of_a_shipped_recipe_leads_to_init() {
    let site = Site::empty();
    for typed in ["capi-ova", "capi-ova.toml"] {
        for command in ["validate", "plan", "build"] {
            assert_eq!(
                site.run(&[command, typed]).failure(),
                format!(
                    "exit status: 2\nerror: there is no file {typed}\n  \
                     cure: capi-ova is a built-in recipe: `winimg init capi-ova` writes my-capi-ova.toml based on it\n"
                )
            );
        }
    }
    // A file of that name is read.
    site.write("capi-ova", "schema = 1\n");
    let rendered = site.run(&["validate", "capi-ova"]).stderr();
    assert!(rendered.contains("the recipe has no `name`"), "{rendered}");
}

#[test]
fn packs_that_come_with_winimg_are_called_so() {
    let site = Site::new(SEAL);
    let recipe = site.read("recipe.toml");
    let include = "schema = 1\ninclude = [\"packs/eula.toml\"]";
    site.write("recipe.toml", &recipe.replacen("schema = 1", include, 1));
    let rendered = site.run(&["validate", "recipe.toml"]).stderr();
    assert!(
        rendered.contains("looked for packs/eula.toml, winimg:packs/eula.toml\n"),
        "{rendered}"
    );
    let include = "schema = 1\ninclude = [\"packs/hardening.toml\"]";
    site.write("recipe.toml", &recipe.replacen("schema = 1", include, 1));
    let plan = site.run(&["plan", "recipe.toml"]).ended_well().stdout();
    assert!(plan.contains("winimg:packs/hardening.toml:"), "{plan}");
    assert!(!plan.contains("../"), "{plan}");
}

#[test]
fn an_output_folder_that_cannot_be_made_has_a_cure() {
    let site = Site::new(SEAL);
    let refused = site
        .run(&["build", "recipe.toml", "--output", "tool.exe/out"])
        .failure();
    assert_eq!(
        refused,
        "exit status: 1\nerror: cannot create the output folder /site/tool.exe/out: Not a directory (os error 20)\n  \
         cure: give another folder with --output, one that you may write to\n"
    );
    site.build(&[]).ended_well();
    let refused = site
        .run(&[
            "export",
            "out/node.raw",
            "--to",
            "raw",
            "--output",
            "tool.exe/out",
        ])
        .failure();
    assert!(
        refused.ends_with("cure: choose a writable folder with --output\n"),
        "{refused}"
    );
}

#[test]
fn words_of_other_programs_lead_somewhere() {
    let site = Site::empty();
    for (arguments, tip) in [
        (&["cache", "clean"][..], "winimg cache prune"),
        (&["list"], "winimg cache ls"),
    ] {
        let outcome = site.run(arguments);
        assert_eq!(outcome.status(), Some(2));
        let rendered = outcome.stderr();
        let tips: Vec<&str> = rendered.lines().filter(|l| l.contains("tip:")).collect();
        assert!(tips.len() == 1 && tips[0].contains(tip), "{rendered}");
    }
}

#[test]
fn a_local_file_that_is_not_there_is_not_said_to_be_fetched() {
    let site = Site::new(SEAL);
    std::fs::remove_file(site.path("tool.exe")).expect("the tool");
    let plan = site.run(&["plan", "recipe.toml"]).stdout();
    let mut lines = plan.lines().filter(|l| l.starts_with("  tool "));
    let inputs = lines.next_back().unwrap_or_else(|| panic!("{plan}"));
    assert!(inputs.ends_with("there is no file tool.exe"), "{inputs}");
}
