//! The table of schemes, which the compiler cannot keep complete.

use winimg_trust::Scheme;

#[test]
fn every_scheme_is_listed_once() {
    let schema = serde_json::to_value(schemars::schema_for!(Scheme)).unwrap();
    let names: Vec<String> = Scheme::ALL.iter().map(Scheme::to_string).collect();
    assert_eq!(schema["enum"], serde_json::json!(names));
}
