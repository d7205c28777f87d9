//! A file of an image as a blob: the fixed VHD as pages, of which those that hold data are sent; the others in blocks.
//!
//! What a killed run left is gone on with: of pages, the blob's own list of those that were written; of blocks, their names, which
//! hold the digests of their bytes.

use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use reqwest::header::CONTENT_TYPE;
use url::Url;

use super::super::{Standing, unchanged};
use super::answers;
use super::pages::{There, with_data};
use super::storage::{Found, Kept, Storage, begun, completed, whole};
use crate::fetch;
use crate::store::Watch;
use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::{Error, Result};
use winimg_base::io::{Positioned as _, data_within};

/// Bytes of the most that one request writes of a blob of pages (Azure Storage: Put Page).
const RANGE: u64 = 4 << 20;
/// Bytes of a block, and of a file that is sent in one request.
const BLOCK: u64 = 16 << 20;
/// A blob has no more blocks (Azure Storage: Put Block List).
const BLOCKS: u64 = 50_000;
const AT_ONCE: usize = 4;

pub struct Blob {
    pub storage: Arc<Storage>,
    pub kept: Kept,
    pub name: String,
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    pub sha256: Digest,
    pub media_type: &'static str,
}

/// Bytes of the file, where they are not zeros alone.
struct Piece {
    range: Range<u64>,
    /// `None`: a hole.
    bytes: Option<Bytes>,
    /// Of a blob in blocks, this one's name.
    block: String,
}

impl Blob {
    pub async fn standing(&self, watch: &Watch) -> Result<Standing> {
        Ok(match self.look(watch).await? {
            Found::Nothing | Found::Begun => Standing::Absent,
            Found::Whole => Standing::Same(None),
            Found::Other(words) => Standing::Other(words),
        })
    }

    pub async fn send(&self, watch: &Watch) -> Result<()> {
        match self.kept {
            Kept::Pages => self.send_pages(watch).await,
            Kept::Blocks if self.size <= BLOCK => self.send_at_once(watch).await,
            Kept::Blocks => self.send_blocks(watch).await,
        }
    }

    async fn look(&self, watch: &Watch) -> Result<Found> {
        let about = (self.kept, self.size, &self.sha256);
        self.storage.look(&self.name, about, watch).await
    }

    fn url(&self) -> Url {
        self.storage.url(&self.name)
    }

    /// The blob's address for one of its parts.
    fn part(&self, pairs: &[(&str, &str)]) -> Url {
        let mut url = self.url();
        url.query_pairs_mut().extend_pairs(pairs);
        url
    }

    async fn send_pages(&self, watch: &Watch) -> Result<()> {
        let there = match self.look(watch).await? {
            Found::Begun => self.there(watch).await?,
            Found::Whole => return Ok(()),
            Found::Nothing | Found::Other(_) => {
                let made =
                    self.storage
                        .put(&self.name, self.url(), Bytes::new(), watch, |request| {
                            begun(request, self.size, &self.sha256)
                        });
                made.await?;
                There::default()
            }
        };
        let sent = self
            .ranges(RANGE)
            .map(|range| self.send_range(range, &there, watch));
        let (digest, _) = self
            .hashed(stream::iter(sent).buffered(AT_ONCE), watch)
            .await?;
        let changed = self.unchanged(&digest);
        let url = self.part(&[("comp", "metadata")]);
        let marked = |request| match changed.is_ok() {
            true => completed(request, &self.sha256),
            // Without a mark another run does not take these pages for the file's.
            false => request,
        };
        let put = self
            .storage
            .put(&self.name, url, Bytes::new(), watch, marked);
        put.await?;
        changed
    }

    /// The pages that an earlier run sent.
    async fn there(&self, watch: &Watch) -> Result<There> {
        let mut all = Vec::new();
        let mut marker = String::new();
        loop {
            let url = match marker.as_str() {
                "" => self.part(&[("comp", "pagelist")]),
                marker => self.part(&[("comp", "pagelist"), ("marker", marker)]),
            };
            let text = self.storage.text(&self.name, &url, watch).await?;
            let (ranges, next) = match text {
                Some(text) => answers::pages(&text)?,
                None => (Vec::new(), None),
            };
            all.extend(ranges);
            match next.filter(|next| !next.is_empty() && *next != marker) {
                Some(next) => marker = next,
                None => break,
            }
        }
        let there = There::new(all);
        let bytes = there.bytes();
        watch.note(format!(
            "{}: an upload that was interrupted is continued: {bytes} bytes of its pages are there",
            self.name
        ));
        Ok(there)
    }

    async fn send_range(&self, range: Range<u64>, there: &There, watch: &Watch) -> Result<Piece> {
        let piece = self.read(range).await?;
        let Some(bytes) = &piece.bytes else {
            return Ok(piece);
        };
        let start = piece.range.start;
        let url = self.part(&[("comp", "page")]);
        for run in with_data(bytes, start) {
            if there.has(&run) {
                continue;
            }
            let within = (run.start - start) as usize..(run.end - start) as usize;
            let about = format!("bytes={}-{}", run.start, run.end - 1);
            let put = self.storage.put(
                &self.name,
                url.clone(),
                bytes.slice(within),
                watch,
                |request| {
                    request
                        .header("x-ms-page-write", "update")
                        .header("x-ms-range", &about)
                },
            );
            put.await?;
        }
        Ok(piece)
    }

    async fn send_at_once(&self, watch: &Watch) -> Result<()> {
        let piece = self.read(0..self.size).await?;
        let bytes = piece.whole();
        self.unchanged(&Digest::sha256_of(&bytes))?;
        let put = self
            .storage
            .put(&self.name, self.url(), bytes, watch, |request| {
                whole(request, Kept::Blocks, &self.sha256).header(CONTENT_TYPE, self.media_type)
            });
        put.await?;
        watch.bytes(self.size, Some(self.size))
    }

    async fn send_blocks(&self, watch: &Watch) -> Result<()> {
        let list = self.part(&[("comp", "blocklist"), ("blocklisttype", "uncommitted")]);
        let there = match self.storage.text(&self.name, &list, watch).await? {
            Some(text) => answers::blocks(&text)?,
            None => Default::default(),
        };
        let there = &there;
        let sent = self
            .ranges(block_length(self.size))
            .map(|range| async move {
                let mut piece = self.read(range).await?;
                let bytes = piece.whole();
                piece.block = block_name(piece.range.start, &Digest::sha256_of(&bytes));
                if !there.contains(&piece.block) {
                    let url = self.part(&[("comp", "block"), ("blockid", &piece.block)]);
                    let put = self.storage.put(&self.name, url, bytes, watch, |r| r);
                    put.await?;
                }
                Ok(piece)
            });
        let (digest, names) = self
            .hashed(stream::iter(sent).buffered(AT_ONCE), watch)
            .await?;
        self.unchanged(&digest)?;
        let had = names.iter().filter(|name| there.contains(*name)).count();
        if had > 0 {
            watch.note(format!(
                "{}: an upload that was interrupted was continued: {had} of {} blocks were there",
                self.name,
                names.len()
            ));
        }
        let url = self.part(&[("comp", "blocklist")]);
        let body = Bytes::from(answers::block_list(names.iter()));
        let put = self.storage.put(&self.name, url, body, watch, |request| {
            completed(request, &self.sha256)
                .header("x-ms-blob-content-type", self.media_type)
                .header(CONTENT_TYPE, "application/xml")
        });
        put.await
    }

    /// Shows how far it is. The digest of all of it, and the names of the blocks in their order.
    async fn hashed(
        &self,
        sent: impl stream::Stream<Item = Result<Piece>>,
        watch: &Watch,
    ) -> Result<(Digest, Vec<String>)> {
        let mut sent = std::pin::pin!(sent);
        let (mut hasher, mut names) = (Hasher::new(Algorithm::Sha256), Vec::new());
        while let Some(piece) = sent.try_next().await? {
            match &piece.bytes {
                Some(bytes) => hasher.update(bytes),
                None => hasher.zeros(piece.length() as u64),
            }
            watch.bytes(piece.range.end, Some(self.size))?;
            names.push(piece.block);
        }
        Ok((hasher.finish(), names))
    }

    fn unchanged(&self, digest: &Digest) -> Result<()> {
        unchanged(&self.name, &self.sha256, digest)
    }

    fn ranges(&self, length: u64) -> impl Iterator<Item = Range<u64>> + use<> {
        let size = self.size;
        let starts = (0..size.div_ceil(length)).map(move |number| number * length);
        starts.map(move |start| start..size.min(start + length))
    }

    async fn read(&self, range: Range<u64>) -> Result<Piece> {
        let path = self.path.clone();
        fetch::blocking(move || {
            let unread = |e| Error::io("read", &path, e);
            let file = File::open(&path).map_err(unread)?;
            let data = data_within(&file, range.clone()).map_err(unread)?;
            if data.is_empty() {
                return Ok(Piece {
                    range,
                    bytes: None,
                    block: String::new(),
                });
            }
            let mut bytes = vec![0; (range.end - range.start) as usize];
            file.read_exact_at(&mut bytes, range.start)
                .map_err(unread)?;
            Ok(Piece {
                range,
                bytes: Some(bytes.into()),
                block: String::new(),
            })
        })
        .await
    }
}

impl Piece {
    fn length(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }

    fn whole(&self) -> Bytes {
        let bytes = self.bytes.clone();
        bytes.unwrap_or_else(|| vec![0; self.length()].into())
    }
}

/// Whole MiB, as few bytes as the number of blocks allows.
fn block_length(size: u64) -> u64 {
    let least = size.div_ceil(BLOCKS).div_ceil(1 << 20) << 20;
    least.max(BLOCK)
}

/// A block is named by its place and its digest, so that one that waits there is known to be ours. All names of a blob are as long.
fn block_name(start: u64, digest: &Digest) -> String {
    let mut name = start.to_be_bytes().to_vec();
    name.extend(digest.bytes());
    STANDARD.encode(name)
}
