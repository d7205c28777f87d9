//! Minimal HTTP/1.1 server side for guest agents (metadata service) and browsers (`winimg watch`):
//! one request per connection.
//!
//! Rejects heads and bodies beyond the limits below, and bodies without Content-Length.

#[cfg(unix)]
pub mod serve;

use std::time::Duration;

use url::form_urlencoded;

/// Bytes of a request's first line and headers.
const MAX_HEAD: usize = 16 << 10;
const MAX_HEADERS: usize = 64;
/// In bytes. The largest known bodies are health reports and encrypted passwords, below 2 KiB.
const MAX_BODY: usize = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// Time of arrival since the service started.
    pub at: Duration,
    pub method: String,
    /// Path as sent, without the query.
    pub path: String,
    /// Decoded parameters; the case of names is as sent.
    query: Vec<(String, String)>,
    /// Names are lower case.
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl HttpRequest {
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
    pub fn with_time(mut self, at: Duration) -> Self {
        self.at = at;
        self
    }

    /// Returns a header; `name` must be lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        find_value(&self.headers, |known| known == name)
    }

    /// Returns a query parameter, ignoring case as Azure does.
    pub fn query(&self, name: &str) -> Option<&str> {
        find_value(&self.query, |known| known.eq_ignore_ascii_case(name))
    }

    /// Returns path and query as they are recorded.
    pub fn target(&self) -> String {
        if self.query.is_empty() {
            return self.path.clone();
        }
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(&self.query);
        format!("{}?{}", self.path, query.finish())
    }
}

fn find_value(pairs: &[(String, String)], is: impl Fn(&str) -> bool) -> Option<&str> {
    pairs
        .iter()
        .find(|(name, _)| is(name))
        .map(|(_, value)| value.as_str())
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    pub status: u16,
    headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl HttpResponse {
    pub fn ok(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self::new(200, content_type, body)
    }

    pub fn new(status: u16, content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("Content-Type", content_type.to_owned())],
            body: body.into(),
        }
    }

    /// Creates a response whose body is the reason phrase.
    pub fn from_status(status: u16) -> Self {
        Self::new(status, "text/plain", reason_phrase(status))
    }

    pub fn not_found() -> Self {
        Self::from_status(404)
    }

    /// Adds a header. `value` must not contain line breaks.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    pub fn find_header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Encodes the whole response, after which the connection is closed.
    pub fn to_bytes(&self) -> Vec<u8> {
        let length = format!("Content-Length: {}\r\n", self.body.len());
        [self.render_head(&length).as_bytes(), &self.body].concat()
    }

    /// Encodes the head of a response whose body ends with the connection.
    pub fn to_stream_head(&self) -> Vec<u8> {
        self.render_head("").into_bytes()
    }

    fn render_head(&self, length: &str) -> String {
        let mut head = format!(
            "HTTP/1.1 {} {}\r\n",
            self.status,
            reason_phrase(self.status)
        );
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head + length + "Connection: close\r\n\r\n"
    }
}

/// Returns the reason phrase of a status (RFC 9110, 15).
fn reason_phrase(status: u16) -> &'static str {
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

/// Head of a request whose body may still be in transit.
#[derive(Debug)]
pub struct RequestHead {
    request: HttpRequest,
    /// Bytes of the head itself.
    length: usize,
    body: usize,
    /// The client waits for `100 Continue` before it sends the body (RFC 9110, 10.1.1), as .NET
    /// does.
    pub waits: bool,
}

impl RequestHead {
    /// Parses a head. Returns `None` while it is incomplete, and the response status as the error
    /// if it is rejected.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, u16> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut parsed = httparse::Request::new(&mut fields);
        let length = match parsed.parse(bytes) {
            Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD => length,
            Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => return Ok(None),
            Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(431),
            Err(_) => return Err(400),
        };
        let (Some(method), Some(target)) = (parsed.method, parsed.path) else {
            return Err(400);
        };
        if !target.starts_with('/') {
            return Err(400);
        }
        let mut request = HttpRequest::new(method, target);
        for field in parsed.headers.iter() {
            let value = std::str::from_utf8(field.value).map_err(|_| 400_u16)?;
            request = request.with_header(field.name, value);
        }
        if request.header("transfer-encoding").is_some() {
            return Err(411);
        }
        let body = match request.header("content-length").map(str::parse::<usize>) {
            None => 0,
            Some(Ok(body)) if body <= MAX_BODY => body,
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

    /// Returns the request once `bytes` contains its whole body.
    pub fn complete_request(&self, bytes: &[u8]) -> Option<HttpRequest> {
        let body = bytes.get(self.length..self.length + self.body)?;
        Some(self.request.clone().with_body(body))
    }
}
