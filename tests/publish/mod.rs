//! `winimg publish` against the programs that images go to: docker-registry, moto's S3, Azurite, fake-gcs-server, a WebDAV server, vcsim, a stand-in of OpenStack's Glance; each also over a line that
//! fails every third request, and killed in the middle.

mod ami;
mod azblob;
mod azure;
mod azurite;
mod bucket;
mod gcs;
mod glance;
mod place;
mod registry;
mod server;
mod vsphere;
