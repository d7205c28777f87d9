//! `winimg publish` against the programs that images go to: docker-registry, moto's S3, Azurite, a WebDAV server, vcsim; each also over a line that
//! fails every third request, and killed in the middle.

mod ami;
mod azblob;
mod azure;
mod azurite;
mod bucket;
mod place;
mod registry;
mod server;
mod vsphere;
