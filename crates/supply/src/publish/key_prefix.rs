//! Key prefix of objects in a bucket's folder. Pure.

/// Returns the prefix: empty, or with a slash at its end. The error describes the fault and follows
/// "the destination".
pub fn parse_prefix(folder: &str) -> Result<String, &'static str> {
    let prefix = folder.trim_matches('/');
    let is_plain = prefix
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "!-_.*'()/=+,".contains(c));
    if !is_plain || prefix.split('/').any(|word| word == "." || word == "..") {
        return Err("has characters in its folder that object keys should not have");
    }
    Ok(match prefix {
        "" => String::new(),
        prefix => format!("{prefix}/"),
    })
}
