//! `winimg publish` against the programs that images go to: docker-registry, moto's S3, Azurite, fake-gcs-server, a WebDAV server, vcsim, Keystone and Glance or a stand-in of them; each also over a line that
//! fails every third request, and killed in the middle.

mod ami;
mod azblob;
mod azure;
mod azurite;
mod bucket;
mod cloud;
mod gcs;
mod glance;
mod openstack;
mod place;
mod pushed;
mod registry;
mod server;
mod vsphere;
mod vsphere_template;
