//! Publishes a file of an image as a blob: a fixed VHD as a page blob, of which only pages with
//! data are sent; other files in blocks.
//!
//! An interrupted upload is continued: a page blob lists its written pages, and the names of blocks
//! contain the digests of their bytes.

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

use super::super::{KnownBy, ObjectStatus, PublishedObject, check_unchanged};
use super::answers;
use super::pages::{PageSet, with_data};
use super::storage::{BlobStatus, BlobStorage, BlobType, begun, completed, whole};
use crate::runtime;
use crate::store::ProgressWatch;
use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::{Error, Result};
use winimg_base::io::{PositionedIo as _, find_data};

/// Maximum size of a write to a page blob in bytes (Azure Storage: Put Page).
const RANGE: u64 = 4 << 20;
/// Size of a block in bytes, and the maximum size of a file sent in one request.
const BLOCK: u64 = 16 << 20;
/// Maximum number of blocks (Azure Storage: Put Block List).
const BLOCKS: u64 = 50_000;
const AT_ONCE: usize = 4;

pub struct AzureBlob {
    pub storage: Arc<BlobStorage>,
    pub kept: BlobType,
    pub name: String,
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    pub sha256: Digest,
    pub media_type: &'static str,
}

/// A range of the file, with its bytes unless it is a hole.
struct BlobPiece {
    range: Range<u64>,
    /// `None`: a hole.
    bytes: Option<Bytes>,
    /// Name of the block, in a block blob.
    block: String,
}

impl AzureBlob {
    pub async fn check_status(&self, watch: &ProgressWatch) -> Result<ObjectStatus> {
        Ok(match self.check_blob(watch).await? {
            BlobStatus::Nothing | BlobStatus::Begun => ObjectStatus::Absent,
            BlobStatus::Whole => ObjectStatus::Same(None),
            BlobStatus::Other(words) => ObjectStatus::Other(words),
        })
    }

    pub async fn send(&self, watch: &ProgressWatch) -> Result<PublishedObject> {
        match self.kept {
            BlobType::Pages => self.send_pages(watch).await?,
            BlobType::Blocks if self.size <= BLOCK => self.send_at_once(watch).await?,
            BlobType::Blocks => self.send_blocks(watch).await?,
        }
        Ok(KnownBy::Size.into())
    }

    async fn check_blob(&self, watch: &ProgressWatch) -> Result<BlobStatus> {
        let about = (self.kept, self.size, &self.sha256);
        self.storage.check_blob(&self.name, about, watch).await
    }

    fn url(&self) -> Url {
        self.storage.url(&self.name)
    }

    /// Returns the blob's address with a query.
    fn part(&self, pairs: &[(&str, &str)]) -> Url {
        let mut url = self.url();
        url.query_pairs_mut().extend_pairs(pairs);
        url
    }

    async fn send_pages(&self, watch: &ProgressWatch) -> Result<()> {
        let there = match self.check_blob(watch).await? {
            BlobStatus::Begun => self.there(watch).await?,
            BlobStatus::Whole => return Ok(()),
            BlobStatus::Nothing | BlobStatus::Other(_) => {
                let made =
                    self.storage
                        .put(&self.name, self.url(), Bytes::new(), watch, |request| {
                            begun(request, self.size, &self.sha256)
                        });
                made.await?;
                PageSet::default()
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
        let put = self
            .storage
            .put(&self.name, url, Bytes::new(), watch, |request| {
                if changed.is_ok() {
                    completed(request, &self.sha256)
                } else {
                    // Without a mark, later runs do not take these pages for the file's.
                    request
                }
            });
        put.await?;
        changed
    }

    /// Lists the pages that an earlier run sent.
    async fn there(&self, watch: &ProgressWatch) -> Result<PageSet> {
        let mut all = Vec::new();
        let mut marker = String::new();
        loop {
            let url = match marker.as_str() {
                "" => self.part(&[("comp", "pagelist")]),
                marker => self.part(&[("comp", "pagelist"), ("marker", marker)]),
            };
            let text = self.storage.text(&self.name, &url, watch).await?;
            let (ranges, next) = match text {
                Some(text) => answers::parse_pages(&text)?,
                None => (Vec::new(), None),
            };
            all.extend(ranges);
            match next.filter(|next| !next.is_empty() && *next != marker) {
                Some(next) => marker = next,
                None => break,
            }
        }
        let there = PageSet::new(all);
        let bytes = there.bytes();
        watch.note(format!(
            "{}: continuing an interrupted upload: {bytes} bytes of its pages are there",
            self.name
        ));
        Ok(there)
    }

    async fn send_range(
        &self,
        range: Range<u64>,
        there: &PageSet,
        watch: &ProgressWatch,
    ) -> Result<BlobPiece> {
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

    async fn send_at_once(&self, watch: &ProgressWatch) -> Result<()> {
        let piece = self.read(0..self.size).await?;
        let bytes = piece.whole();
        self.unchanged(&Digest::sha256_of(&bytes))?;
        let put = self
            .storage
            .put(&self.name, self.url(), bytes, watch, |request| {
                whole(request, BlobType::Blocks, &self.sha256).header(CONTENT_TYPE, self.media_type)
            });
        put.await?;
        watch.report_bytes(self.size, Some(self.size))
    }

    async fn send_blocks(&self, watch: &ProgressWatch) -> Result<()> {
        let list = self.part(&[("comp", "blocklist"), ("blocklisttype", "uncommitted")]);
        let there = match self.storage.text(&self.name, &list, watch).await? {
            Some(text) => answers::parse_blocks(&text)?,
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
                "{}: continued an interrupted upload: {had} of {} blocks were there",
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

    /// Reports the progress; returns the digest of the whole file, and the names of the blocks in
    /// order.
    async fn hashed(
        &self,
        sent: impl stream::Stream<Item = Result<BlobPiece>>,
        watch: &ProgressWatch,
    ) -> Result<(Digest, Vec<String>)> {
        let mut sent = std::pin::pin!(sent);
        let (mut hasher, mut names) = (Hasher::new(Algorithm::Sha256), Vec::new());
        while let Some(piece) = sent.try_next().await? {
            match &piece.bytes {
                Some(bytes) => hasher.update(bytes),
                None => hasher.update_zeros(piece.length() as u64),
            }
            watch.report_bytes(piece.range.end, Some(self.size))?;
            names.push(piece.block);
        }
        Ok((hasher.finish(), names))
    }

    fn unchanged(&self, digest: &Digest) -> Result<()> {
        check_unchanged(&self.name, &self.sha256, digest)
    }

    fn ranges(&self, length: u64) -> impl Iterator<Item = Range<u64>> + use<> {
        let size = self.size;
        let starts = (0..size.div_ceil(length)).map(move |number| number * length);
        starts.map(move |start| start..size.min(start + length))
    }

    async fn read(&self, range: Range<u64>) -> Result<BlobPiece> {
        let path = self.path.clone();
        runtime::run_blocking(move || {
            let file = File::open(&path).map_err(|e| Error::io("read", &path, e))?;
            let data = find_data(&file, range.clone()).map_err(|e| Error::io("read", &path, e))?;
            if data.is_empty() {
                return Ok(BlobPiece {
                    range,
                    bytes: None,
                    block: String::new(),
                });
            }
            let mut bytes = vec![0; (range.end - range.start) as usize];
            file.read_exact_at(&mut bytes, range.start)
                .map_err(|e| Error::io("read", &path, e))?;
            Ok(BlobPiece {
                range,
                bytes: Some(bytes.into()),
                block: String::new(),
            })
        })
        .await
    }
}

impl BlobPiece {
    fn length(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }

    fn whole(&self) -> Bytes {
        let bytes = self.bytes.clone();
        bytes.unwrap_or_else(|| vec![0; self.length()].into())
    }
}

/// Computes the size of the blocks: whole MiB, as small as the number of blocks allows.
fn block_length(size: u64) -> u64 {
    let least = size.div_ceil(BLOCKS).div_ceil(1 << 20) << 20;
    least.max(BLOCK)
}

/// Builds the name of a block from its offset and digest, so that an uncommitted block is
/// recognized. All names of a blob must have the same length.
fn block_name(start: u64, digest: &Digest) -> String {
    let mut name = start.to_be_bytes().to_vec();
    name.extend(digest.bytes());
    STANDARD.encode(name)
}
