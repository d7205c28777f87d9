//! What no pipeline of a whole matrix shows: names that clash, and texts that YAML would take for
//! something else.

use super::jobs::to_dns_label;
use super::quote_text;
use crate::doctor;
use winimg_recipe::{keys, quantity};

#[test]
fn a_text_stays_one_whatever_is_in_it() {
    assert_eq!(quote_text("a: b # c"), r#""a: b # c""#);
    assert_eq!(quote_text("\"\\\n\t\u{85}"), r#""\"\\\u000a\u0009\u0085""#);
    assert_eq!(
        quote_text("é 節 \u{2028} 😀"),
        r#""é 節 \u2028 \U0001f600""#
    );
}

#[test]
fn an_identifier_has_small_letters_digits_and_dashes() {
    assert_eq!(to_dns_label("Node_1.35"), "node-1-35");
}

#[test]
fn a_pod_asks_for_the_room_that_doctor_wants_to_see() {
    let table = keys::find_table("matrix.pipeline.kubernetes");
    let storage = table.keys.iter().find(|spec| spec.name == "storage");
    let default = storage.and_then(|spec| spec.default.as_deref());
    let default = quantity::size(default.expect("a default"));
    assert_eq!(default, Ok(doctor::FIRST_BUILD));
}
