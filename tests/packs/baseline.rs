//! `packs/baseline.toml` beside the table of docs/packs.md: each setting has its row, and each is looked at on the finished disk.

use std::collections::BTreeSet;
use std::fs;

use winimg_recipe::plan::{self, PlannedCheck};

use super::of_packs;
use super::proofs::table;

#[test]
fn each_setting_of_the_baseline_is_documented_and_verified() {
    let text = fs::read_to_string("recipes/packs/baseline.toml").expect("the pack");
    let pack: toml::Table = text.parse().expect("TOML");
    let steps = pack["steps"].as_array().expect("steps");
    let mut set: Vec<Vec<String>> = Vec::new();
    for step in steps {
        let value = &step["registry"];
        let text = |key: &str| value[key].as_str().expect(key).to_owned();
        let data = match &value["data"] {
            toml::Value::String(text) => text.clone(),
            number => number.to_string(),
        };
        set.push(vec![text("key"), text("name"), data]);
    }
    assert_eq!(table("| key | value | data |"), set);
    let places: BTreeSet<(String, String)> = set
        .iter()
        .map(|row| (row[0].to_lowercase(), row[1].to_lowercase()))
        .collect();
    assert_eq!(places.len(), set.len(), "no value is set twice");

    // The whole of it stays with the packs of a node beside it.
    let recipe = of_packs(&["capi.toml", "baseline.toml", "windows-server-2022.toml"]);
    let plan = plan::make(&recipe).expect("a plan");
    let expected: BTreeSet<(String, String)> = plan
        .steps
        .iter()
        .flat_map(|step| &step.expects)
        .filter_map(|check| match check {
            PlannedCheck::Registry {
                key,
                value: Some(value),
                ..
            } => Some((key.to_string().to_lowercase(), value.to_lowercase())),
            _ => None,
        })
        .collect();
    let missing: Vec<_> = places.difference(&expected).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
