//! HTTP/1.1 as far as agents speak it to a metadata service, and browsers to `winimg watch`: one request for each connection.
//!
//! Refuses heads and bodies beyond the limits below, and bodies whose length is not said beforehand.

#[cfg(unix)]
pub mod serve;

use std::time::Duration;

use url::form_urlencoded;

/// Bytes of a request's first line and headers.
const LONGEST_HEAD: usize = 16 << 10;
const MOST_HEADERS: usize = 64;
/// Bytes. The largest that is known to be sent is a health report or an encrypted password, below 2 KiB.
const LONGEST_BODY: usize = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it came, since the service began.
    pub at: Duration,
    pub method: String,
    /// As it was sent, from its first slash to the query.
    pub path: String,
    /// Names as they were sent, values decoded.
    query: Vec<(String, String)>,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// `target` is a path with or without a query.
    pub fn new(method: &str, target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Self {
            at: Duration::ZERO,
            method: method.to_owned(),
            path: path.to_owned(),
            query: form_urlencoded::parse(query.as_bytes())
                .into_owned()
                .collect(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers
            .push((name.to_ascii_lowercase(), value.trim().to_owned()));
        self
    }

    #[must_use]
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    #[must_use]
    pub fn at(mut self, at: Duration) -> Self {
        self.at = at;
        self
    }

    /// `name` in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        value_of(&self.headers, |known| known == name)
    }

    /// In any case, as Azure takes it.
    pub fn query(&self, name: &str) -> Option<&str> {
        value_of(&self.query, |known| known.eq_ignore_ascii_case(name))
    }

    /// The path and query as they are recorded.
    pub fn target(&self) -> String {
        if self.query.is_empty() {
            return self.path.clone();
        }
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(&self.query);
        format!("{}?{}", self.path, query.finish())
    }
}

fn value_of(pairs: &[(String, String)], is: impl Fn(&str) -> bool) -> Option<&str> {
    pairs
        .iter()
        .find(|(name, _)| is(name))
        .map(|(_, value)| value.as_str())
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn ok(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self::of(200, content_type, body)
    }

    pub fn of(status: u16, content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("Content-Type", content_type.to_owned())],
            body: body.into(),
        }
    }

    /// With the status' own words as its body.
    pub fn status(status: u16) -> Self {
        Self::of(status, "text/plain", reason(status))
    }

    pub fn not_found() -> Self {
        Self::status(404)
    }

    /// `value` must hold no end of line.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    pub fn header_value(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter();
        named
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The whole answer. The connection ends behind it.
    pub fn bytes(&self) -> Vec<u8> {
        let length = format!("Content-Length: {}\r\n", self.body.len());
        [self.head(&length).as_bytes(), &self.body].concat()
    }

    /// What stands before a body that ends with the connection.
    pub fn head_of_stream(&self) -> Vec<u8> {
        self.head("").into_bytes()
    }

    fn head(&self, length: &str) -> String {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head + length + "Connection: close\r\n\r\n"
    }
}

/// RFC 9110, 15.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Error",
    }
}

/// The head of a request whose body may still be on its way.
#[derive(Debug)]
pub struct Head {
    request: Request,
    /// Bytes of the head itself.
    length: usize,
    body: usize,
    /// The client sends the body only once it is asked to (RFC 9110, 10.1.1), as .NET does.
    pub waits: bool,
}

impl Head {
    /// `None` until all of it has come; the status of what refuses it.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, u16> {
        let mut fields = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut parsed = httparse::Request::new(&mut fields);
        let length = match parsed.parse(bytes) {
            Ok(httparse::Status::Complete(length)) if length <= LONGEST_HEAD => length,
            Ok(httparse::Status::Partial) if bytes.len() < LONGEST_HEAD => return Ok(None),
            Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(431),
            Err(_) => return Err(400),
        };
        let (Some(method), Some(target)) = (parsed.method, parsed.path) else {
            return Err(400);
        };
        if !target.starts_with('/') {
            return Err(400);
        }
        let mut request = Request::new(method, target);
        for field in parsed.headers.iter() {
            let value = std::str::from_utf8(field.value).map_err(|_| 400_u16)?;
            request = request.with_header(field.name, value);
        }
        if request.header("transfer-encoding").is_some() {
            return Err(411);
        }
        let body = match request.header("content-length").map(str::parse::<usize>) {
            None => 0,
            Some(Ok(body)) if body <= LONGEST_BODY => body,
            Some(Ok(_)) => return Err(413),
            Some(Err(_)) => return Err(400),
        };
        let waits = request
            .header("expect")
            .is_some_and(|what| what.eq_ignore_ascii_case("100-continue"));
        Ok(Some(Self {
            request,
            length,
            body,
            waits,
        }))
    }

    /// The whole request, once `bytes` hold all of it.
    pub fn request(&self, bytes: &[u8]) -> Option<Request> {
        let body = bytes.get(self.length..self.length + self.body)?;
        Some(self.request.clone().with_body(body))
    }
}
