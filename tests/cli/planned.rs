//! What `winimg plan` shows beside the steps.

use crate::cli::site::{SEAL, Site};

/// From its heading to the next.
fn before_the_steps(plan: &str) -> String {
    let (_, rest) = plan
        .split_once("\nBefore the steps\n")
        .expect("the section");
    let (section, _) = rest.split_once("\nInputs\n").expect("the next section");
    section.to_owned()
}

#[test]
fn the_bootstraps_commands_are_shown() {
    let site = Site::new(SEAL);
    let plan = |more: &[&str]| {
        let arguments = [&["plan", "recipe.toml"], more].concat();
        site.run(&arguments).ended_well().stdout()
    };
    let shown = before_the_steps(&plan(&[]));
    insta::assert_snapshot!("before_the_steps", shown);
    // Windows has Hyper-V's drivers.
    let on_hyperv = before_the_steps(&plan(&["--hypervisor", "hyperv"]));
    let other: Vec<&str> = shown
        .lines()
        .filter(|line| !on_hyperv.contains(line))
        .collect();
    assert_eq!(
        other,
        [
            "      | for %%d in (viostor vioscsi NetKVM vioserial) do call C:\\winimg\\driver.cmd %%d"
        ]
    );

    let json: serde_json::Value = serde_json::from_str(&plan(&["--json"])).expect("JSON");
    let bootstrap = &json["bootstrap"];
    let mut files = String::new();
    for file in bootstrap["files"].as_array().expect("files") {
        let (path, text) = (file["path"].as_str(), file["text"].as_str());
        files += &format!("  {}\n", path.expect("a path"));
        for line in text.expect("a text").lines() {
            files += format!("      | {line}").trim_end();
            files += "\n";
        }
    }
    assert!(shown.contains(&files), "{files}");
    assert_eq!(bootstrap["setup"][0]["pass"], "specialize");
    assert_eq!(bootstrap["commands"].as_array().map(Vec::len), Some(7));
}
