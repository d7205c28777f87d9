//! What names of objects below a bucket's folder begin with. Pure.

/// Empty, or with a slash at its end. The error is what is wrong with the folder: "the destination …".
pub fn prefix(folder: &str) -> Result<String, &'static str> {
    let prefix = folder.trim_matches('/');
    let plain = |c: char| c.is_ascii_alphanumeric() || "!-_.*'()/=+,".contains(c);
    if !prefix.chars().all(plain) || prefix.split('/').any(|word| word == "." || word == "..") {
        return Err("has characters in its folder that object keys should not have");
    }
    Ok(match prefix {
        "" => String::new(),
        prefix => format!("{prefix}/"),
    })
}
