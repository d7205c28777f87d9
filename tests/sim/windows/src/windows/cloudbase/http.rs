//! The HTTP that metadata services speak: requests as python-requests sends them, over TCP, without TLS.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use flate2::read::GzDecoder;

/// Windows gives up connecting after 21 seconds (three SYNs).
const CONNECT: Duration = Duration::from_secs(21);
/// python-requests has no limit; an answer that takes longer than this never comes.
const ANSWER: Duration = Duration::from_secs(120);
/// Longest answer that is read, in bytes.
const LONGEST: u64 = 64 << 20;

#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server answered with a status that is no success.
    Status(u16),
    /// No answer, or none that is HTTP.
    Connection(String),
}

/// One request to `base`, which is `http://HOST[:PORT]/`; gives the body of a successful answer.
pub fn request(
    base: &str,
    path: &str,
    headers: &[(String, String)],
    body: Option<&[u8]>,
) -> Result<Vec<u8>, Fault> {
    let fault = |why: String| Fault::Connection(why);
    let rest = base
        .strip_prefix("http://")
        .ok_or_else(|| fault(format!("{base}: only http is modelled")))?;
    let host = rest.trim_end_matches('/');
    let address = if host.contains(':') {
        host.to_owned()
    } else {
        format!("{host}:80")
    };
    let io = |e: std::io::Error| fault(format!("{host}: {e}"));
    let target = address
        .to_socket_addrs()
        .map_err(io)?
        .next()
        .ok_or_else(|| fault(format!("{host} has no address")))?;
    let stream = TcpStream::connect_timeout(&target, CONNECT).map_err(io)?;
    stream.set_read_timeout(Some(ANSWER)).map_err(io)?;
    let mut text = format!(
        "{} /{path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: python-requests/2.32.3\r\nAccept-Encoding: gzip, deflate\r\n\
         Accept: */*\r\nConnection: close\r\n",
        if body.is_some() { "POST" } else { "GET" }
    );
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(body) = body {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    let mut out = &stream;
    out.write_all(text.as_bytes()).map_err(io)?;
    out.write_all(body.unwrap_or_default()).map_err(io)?;
    answer(BufReader::new(&stream)).map_err(|e| match e {
        Fault::Connection(why) => fault(format!("{host}: {why}")),
        status => status,
    })
}

/// Reads an answer: its length given, in chunks, or up to the end.
fn answer(mut from: impl BufRead) -> Result<Vec<u8>, Fault> {
    let bad = |what: &str| Fault::Connection(what.to_owned());
    let io = |e: std::io::Error| Fault::Connection(e.to_string());
    let status = line(&mut from)?;
    let code: u16 = status
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split(' ').nth(1))
        .and_then(|code| code.parse().ok())
        .ok_or_else(|| bad("the answer is not HTTP/1.x"))?;
    let (mut length, mut chunked, mut gzip) = (None, false, false);
    loop {
        let header = line(&mut from)?;
        if header.is_empty() {
            break;
        }
        let (name, value) = header
            .split_once(':')
            .ok_or_else(|| bad("a header has no colon"))?;
        let value = value.trim().to_ascii_lowercase();
        match name.trim().to_ascii_lowercase().as_str() {
            "content-length" => {
                length = Some(
                    value
                        .parse::<u64>()
                        .map_err(|_| bad("Content-Length is no number"))?,
                );
            }
            "transfer-encoding" => chunked = value == "chunked",
            "content-encoding" => gzip = value == "gzip",
            _ => {}
        }
    }
    let mut body = Vec::new();
    if chunked {
        loop {
            let size = line(&mut from)?;
            let size = u64::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16)
                .map_err(|_| bad("a chunk has no size"))?;
            if size > LONGEST || body.len() as u64 > LONGEST {
                return Err(bad("the answer is too long"));
            }
            let read = from
                .by_ref()
                .take(size)
                .read_to_end(&mut body)
                .map_err(io)?;
            if read as u64 != size {
                return Err(bad("the answer is cut off"));
            }
            line(&mut from)?;
            if size == 0 {
                break;
            }
        }
    } else {
        let limit = length.unwrap_or(LONGEST);
        if limit > LONGEST {
            return Err(bad("the answer is too long"));
        }
        let read = from.take(limit).read_to_end(&mut body).map_err(io)?;
        if length.is_some_and(|length| read as u64 != length) {
            return Err(bad("the answer is cut off"));
        }
    }
    if !(200..400).contains(&code) {
        return Err(Fault::Status(code));
    }
    if (300..400).contains(&code) {
        return Err(bad("a redirection is not modelled"));
    }
    if gzip {
        gunzip(&body).map_err(io)
    } else {
        Ok(body)
    }
}

fn line(from: &mut impl BufRead) -> Result<String, Fault> {
    let mut line = Vec::new();
    from.take(65536)
        .read_until(b'\n', &mut line)
        .map_err(|e| Fault::Connection(e.to_string()))?;
    if line.pop() != Some(b'\n') {
        return Err(Fault::Connection("the answer is cut off".to_owned()));
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

pub fn gunzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    GzDecoder::new(bytes).take(LONGEST).read_to_end(&mut out)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let cut = |why: &str| Err(Fault::Connection(why.to_owned()));
        for (text, expected) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd",
                Ok(b"abc".to_vec()),
            ),
            ("HTTP/1.0 200 OK\r\n\r\nall", Ok(b"all".to_vec())),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x\r\nd\r\n0\r\n\r\n",
                Ok(b"abcd".to_vec()),
            ),
            (
                "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
                Err(Fault::Status(404)),
            ),
            ("HTTP/1.1 401 Unauthorized\r\n\r\n", Err(Fault::Status(401))),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
                cut("the answer is cut off"),
            ),
            ("SSH-2.0-x\r\n", cut("the answer is not HTTP/1.x")),
            (
                "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
                cut("a redirection is not modelled"),
            ),
        ] {
            assert_eq!(answer(text.as_bytes()), expected, "{text}");
        }
    }
}
