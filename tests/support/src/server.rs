//! An HTTP server that misbehaves on cue and keeps a log of what it was asked.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// One request, with lower-case header names.
pub struct Asked {
    /// Counted from 0 over the server's life.
    pub number: usize,
    pub method: String,
    pub path: String,
    pub body: Vec<u8>,
    headers: Vec<(String, String)>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    /// `GET /a bytes=5- if "tag"`
    fn line(&self) -> String {
        let mut line = format!("{} {}", self.method, self.path);
        if let Some(range) = self.header("range") {
            line += &format!(" {range}");
        }
        for name in ["if-range", "if-none-match"] {
            if let Some(tag) = self.header(name) {
                line += &format!(" {name} {tag}");
            }
        }
        line
    }
}

/// What the server sends, byte by byte.
pub struct Answer {
    head: String,
    body: Vec<u8>,
    /// Bytes of the body after which nothing more comes.
    cut: Option<(usize, Cut)>,
}

#[derive(Clone, Copy)]
pub enum Cut {
    Close,
    /// The connection stays open and silent.
    Hang,
    /// The same bytes for ever, in pieces of many of them.
    Endless(&'static [u8]),
    /// The same bytes for ever, with this wait between.
    Drip(&'static [u8], Duration),
}

impl Answer {
    pub fn new(status: &str, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let mut head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        Self {
            head: head + "connection: close\r\n\r\n",
            body,
            cut: None,
        }
    }

    /// A file with a strong tag, as a good server gives it: whole, the rest, or not modified.
    pub fn file(asked: &Asked, bytes: &[u8], tag: &str) -> Self {
        let tagged = ("etag", tag);
        if asked.header("if-none-match") == Some(tag) {
            return Self::new("304 Not Modified", &[tagged], "");
        }
        let start = asked
            .header("range")
            .filter(|_| asked.header("if-range") == Some(tag))
            .and_then(|r| r.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
        match start {
            None => Self::new("200 OK", &[tagged], bytes),
            Some(start) if start < bytes.len() => {
                let range = format!("bytes {start}-{}/{}", bytes.len() - 1, bytes.len());
                let headers = [tagged, ("content-range", &range)];
                Self::new("206 Partial Content", &headers, &bytes[start..])
            }
            Some(_) => Self::new("416 Range Not Satisfiable", &[], ""),
        }
    }

    pub fn redirect(to: &str) -> Self {
        Self::new("302 Found", &[("location", to)], "")
    }

    /// Bytes whose number is said nowhere beforehand (RFC 9112, 7.1).
    pub fn chunked(bytes: &[u8]) -> Self {
        let chunk =
            |bytes: &[u8]| [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        let mut body: Vec<u8> = bytes.chunks(64 << 10).flat_map(chunk).collect();
        body.extend_from_slice(b"0\r\n\r\n");
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\netag: \"1\"\r\n";
        Self {
            head: format!("{head}connection: close\r\n\r\n"),
            body,
            cut: None,
        }
    }

    /// As it is on the wire, from the first line on.
    pub fn raw(head: impl Into<String>) -> Self {
        Self {
            head: head.into(),
            body: Vec::new(),
            cut: None,
        }
    }

    /// What comes behind a body that is whole.
    pub fn then(self, cut: Cut) -> Self {
        let after = self.body.len();
        self.cut(after, cut)
    }

    /// The same under another status.
    pub fn status(mut self, status: &str) -> Self {
        self.head = self.head.replacen("200 OK", status, 1);
        self
    }

    /// A `Content-Length` that the body does not have.
    pub fn claims(mut self, length: u64) -> Self {
        let own = format!("content-length: {}\r\n", self.body.len());
        self.head = self
            .head
            .replace(&own, &format!("content-length: {length}\r\n"));
        self
    }

    pub fn cut(mut self, after: usize, cut: Cut) -> Self {
        self.cut = Some((after, cut));
        self
    }
}

pub struct Server {
    scheme: &'static str,
    address: SocketAddr,
    log: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub fn start(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        Self::listen("http", |stream| Some(Box::new(stream)), answer)
    }

    /// With TLS, and a certificate of its own for 127.0.0.1. The second value is that certificate as PEM.
    pub fn start_tls(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> (Self, String) {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::SeqCst);
        let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
        // Two of one name would be taken for one authority.
        let name = format!("winimg test {number}");
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let key = rcgen::KeyPair::generate().unwrap();
        let cert = params.self_signed(&key).unwrap();
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(
            rustls::crypto::aws_lc_rs::default_provider(),
        ))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key.into())
        .unwrap();
        let config = Arc::new(config);
        let wrap = move |stream| -> Option<Box<dyn Stream>> {
            let session = rustls::ServerConnection::new(Arc::clone(&config)).ok()?;
            Some(Box::new(rustls::StreamOwned::new(session, stream)))
        };
        (Self::listen("https", wrap, answer), cert.pem())
    }

    fn listen(
        scheme: &'static str,
        wrap: impl Fn(TcpStream) -> Option<Box<dyn Stream>> + Send + Sync + 'static,
        answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            scheme,
            address: listener.local_addr().unwrap(),
            log: Arc::default(),
        };
        let log = Arc::clone(&server.log);
        let (wrap, answer) = (Arc::new(wrap), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let log = Arc::clone(&log);
                let (wrap, answer) = (Arc::clone(&wrap), Arc::clone(&answer));
                thread::spawn(move || {
                    if let Some(stream) = wrap(stream) {
                        serve(stream, &log, &*answer);
                    }
                });
            }
        });
        server
    }

    /// Serves one file well.
    pub fn of(bytes: &'static [u8]) -> Self {
        Self::start(move |asked| Answer::file(asked, bytes, "\"v1\""))
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    pub fn host(&self) -> String {
        self.address.to_string()
    }

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

/// The files of a publisher by their paths, which a test changes while the server runs. All else is not found.
#[derive(Clone, Default)]
pub struct Files(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl Files {
    pub fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.0.lock().unwrap().insert(path.into(), bytes.into());
    }

    pub fn remove(&self, path: &str) {
        self.0.lock().unwrap().remove(path);
    }

    pub fn answer(&self, asked: &Asked) -> Answer {
        match self.0.lock().unwrap().get(&asked.path) {
            Some(bytes) => Answer::new("200 OK", &[], bytes.clone()),
            None => Answer::new("404 Not Found", &[], ""),
        }
    }
}

trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

fn serve(mut stream: Box<dyn Stream>, log: &Mutex<Vec<String>>, answer: &dyn Fn(&Asked) -> Answer) {
    let Some(asked) = read(&mut stream, log) else {
        return;
    };
    let answer = answer(&asked);
    let (upto, cut) = answer.cut.unwrap_or((answer.body.len(), Cut::Close));
    let _ = stream.write_all(answer.head.as_bytes());
    let _ = stream.write_all(&answer.body[..upto]);
    let _ = stream.flush();
    // Until the client goes.
    match cut {
        Cut::Close => {}
        Cut::Hang => drop(stream.read(&mut [0])),
        Cut::Endless(bytes) => {
            let many = bytes.repeat((64 << 10) / bytes.len());
            while stream.write_all(&many).is_ok() {}
        }
        Cut::Drip(bytes, wait) => {
            while stream
                .write_all(bytes)
                .and_then(|()| stream.flush())
                .is_ok()
            {
                thread::sleep(wait);
            }
        }
    }
}

fn read(stream: &mut impl Read, log: &Mutex<Vec<String>>) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ').map(str::to_string);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_string()));
    }
    // An answer before its end would break the connection.
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok());
    let mut body = Vec::new();
    let mut rest = reader.take(length.unwrap_or(0));
    rest.read_to_end(&mut body).ok()?;
    let mut log = log.lock().unwrap();
    let asked = Asked {
        number: log.len(),
        method,
        path,
        body,
        headers,
    };
    log.push(asked.line());
    Some(asked)
}
