//! The query of a URL: which parts of it name an input, and which only let somebody download it.
//!
//! Signed addresses (shared access signatures, presigned requests) have another query at each download. What a lock
//! compares leaves those parts out, and so does what it records.

/// Names that a client uses for a credential or its parts, in lower case.
const CREDENTIALS: [&str; 26] = [
    "access_token",
    "accesskeyid",
    "api_key",
    "apikey",
    "auth_token",
    "authorization",
    "awsaccesskeyid",
    "client_secret",
    "googleaccessid",
    "hdnea",
    "hdnts",
    "job_token",
    "jwt",
    "key-pair-id",
    "ossaccesskeyid",
    "passwd",
    "password",
    "private_token",
    "sas",
    "secret",
    "sig",
    "sig2",
    "signature",
    "token",
    "__gda__",
    "__token__",
];

/// How the names begin that Amazon, Google, Alibaba, Huawei and Tencent give the parts of a presigned request.
const PRESIGNED: [&str; 5] = ["x-amz-", "x-goog-", "x-oss-", "x-obs-", "q-"];

/// Beside `sig`: the parts of a shared access signature of Azure.
const SHARED_ACCESS: [&str; 20] = [
    "sv", "ss", "srt", "sp", "se", "st", "spr", "sr", "si", "sip", "skoid", "sktid", "skt", "ske",
    "sks", "skv", "sdd", "saoid", "suoid", "scid",
];

/// Beside `signature`: the parts of the older presigned requests and of CloudFront's.
const SIGNED: [&str; 3] = ["expires", "policy", "hash-algorithm"];

/// Beside `p4`, which is a signature: the parts of Microsoft's addresses of install media.
const MICROSOFT: [&str; 5] = ["t", "p1", "p2", "p3", "p4"];

/// Returns the URL without the parts of its query that are a credential.
pub fn without_credentials(url: &str) -> String {
    let (url, fragment) = match url.split_once('#') {
        Some((url, fragment)) => (url, Some(fragment)),
        None => (url, None),
    };
    let Some((path, query)) = url.split_once('?') else {
        return joined(url, None, fragment);
    };
    let names: Vec<String> = query.split('&').map(name).collect();
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    let is_credential = |name: &str| {
        CREDENTIALS.contains(&name)
            || PRESIGNED.iter().any(|start| name.starts_with(start))
            || has("sig") && SHARED_ACCESS.contains(&name)
            || has("signature") && SIGNED.contains(&name)
            || has("p4") && MICROSOFT.contains(&name)
    };
    let kept: Vec<&str> = query
        .split('&')
        .zip(&names)
        .filter(|(_, name)| !is_credential(name))
        .map(|(part, _)| part)
        .collect();
    let kept = (!kept.is_empty()).then(|| kept.join("&"));
    joined(path, kept.as_deref(), fragment)
}

/// Returns the URL without its query.
pub fn without_query(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    url[..end].to_string()
}

fn name(part: &str) -> String {
    let name = part.split_once('=').map_or(part, |(name, _)| name);
    name.to_ascii_lowercase()
}

fn joined(path: &str, query: Option<&str>, fragment: Option<&str>) -> String {
    let query = query.map_or(String::new(), |query| format!("?{query}"));
    let fragment = fragment.map_or(String::new(), |fragment| format!("#{fragment}"));
    format!("{path}{query}{fragment}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_address_is_the_same_input_at_each_download() {
        let plain = "https://example.com/a/tool.exe";
        for query in [
            "sig=AAA",
            "sv=2024-11-04&ss=b&srt=o&sp=r&se=2026-12-01T00%3A00Z&spr=https&sig=AA%3D",
            "skoid=1&sktid=2&skt=3&ske=4&sks=b&skv=5&sr=b&sig=x",
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=a%2Fb&X-Amz-Signature=f",
            "AWSAccessKeyId=AKIA&Signature=a%3D&Expires=1700000000",
            "X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Expires=900&X-Goog-Signature=f",
            "Expires=1&Signature=a&Key-Pair-Id=K",
            "Policy=a&Signature=b&Key-Pair-Id=K&Hash-Algorithm=SHA256",
            "t=5d2c&P1=1700000000&P2=601&P3=2&P4=abc",
            "private_token=glpat-1",
            "token=1",
        ] {
            let url = format!("{plain}?{query}");
            assert_eq!(without_credentials(&url), plain, "{query}");
        }
    }

    #[test]
    fn what_names_another_file_stays() {
        for (url, kept) in [
            ("https://example.com/a", "https://example.com/a"),
            ("https://example.com/a?", "https://example.com/a?"),
            (
                "https://example.com/get?file=tool&build=7",
                "https://example.com/get?file=tool&build=7",
            ),
            (
                "https://example.com/get?build=7&sv=1&sig=x",
                "https://example.com/get?build=7",
            ),
            (
                "https://example.com/get?sv=1&se=2",
                "https://example.com/get?sv=1&se=2",
            ),
            (
                "https://example.com/get?expires=never",
                "https://example.com/get?expires=never",
            ),
            (
                "https://example.com/get?t=1&p1=2",
                "https://example.com/get?t=1&p1=2",
            ),
            (
                "https://example.com/get?tokens=1",
                "https://example.com/get?tokens=1",
            ),
            (
                "https://example.com/get?sig=x#part",
                "https://example.com/get#part",
            ),
        ] {
            assert_eq!(without_credentials(url), kept);
        }
    }

    #[test]
    fn a_query_is_cut_off() {
        assert_eq!(without_query("https://e.com/a?b=c#d"), "https://e.com/a");
        assert_eq!(without_query("https://e.com/a"), "https://e.com/a");
    }
}
