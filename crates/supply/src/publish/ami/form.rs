//! Forms of EC2 actions. Pure. (Amazon EC2: API Reference)

use serde::Deserialize;

use super::ec2::Ec2Form;

/// The export's request to VM Import, without its bucket: `import-image.json`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ImportRequest {
    architecture: String,
    boot_mode: String,
    description: String,
    disk_containers: [DiskContainer; 1],
    license_type: String,
    platform: String,
    role_name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DiskContainer {
    description: String,
    format: String,
}

/// Identity of an image and its snapshots in an account.
#[derive(Clone, Debug)]
pub struct AmiIdentity {
    pub name: String,
    /// Windows version.
    pub build: String,
    /// SHA-256 of the disk, hex: two imports of one disk are one image.
    pub sha256: String,
}

const OURS: &str = "winimg:sha256";

impl AmiIdentity {
    fn list_tags(&self) -> [(&str, &str); 3] {
        [
            ("Name", &self.name),
            ("winimg:build", &self.build),
            (OURS, &self.sha256),
        ]
    }

    /// Renders the filter for `DescribeImages` and `DescribeImportImageTasks`.
    fn filter(&self, word: &str) -> Ec2Form {
        vec![
            (format!("{word}.1.Name"), format!("tag:{OURS}")),
            (format!("{word}.1.Value.1"), self.sha256.clone()),
        ]
    }

    pub fn find_images(&self) -> Ec2Form {
        let mut form = self.filter("Filter");
        form.push(("Owner.1".into(), "self".into()));
        form
    }

    pub fn find_tasks(&self) -> Ec2Form {
        self.filter("Filters")
    }

    /// Renders `ImportImage` of an object in a bucket. A second request with the same `token`
    /// starts nothing.
    pub fn import(&self, import: &ImportRequest, bucket: &str, key: &str, token: &str) -> Ec2Form {
        let [disk] = &import.disk_containers;
        let mut form = make_form(&[
            ("Architecture", import.architecture.as_str()),
            ("BootMode", &import.boot_mode),
            ("ClientToken", token),
            ("Description", &import.description),
            ("DiskContainer.1.Description", &disk.description),
            ("DiskContainer.1.Format", &disk.format),
            ("DiskContainer.1.UserBucket.S3Bucket", bucket),
            ("DiskContainer.1.UserBucket.S3Key", key),
            ("LicenseType", &import.license_type),
            ("Platform", &import.platform),
            ("RoleName", &import.role_name),
        ]);
        form.extend(self.render_specification(1, "import-image-task"));
        form
    }

    /// Renders `CopyImage`, with tags on the copy and its snapshots from the start.
    pub fn copy(&self, image: &str, from: &str, token: &str) -> Ec2Form {
        let mut form = make_form(&[
            ("ClientToken", token),
            ("Name", &format!("{}-{}", self.name, &self.sha256[..12])),
            ("SourceImageId", image),
            ("SourceRegion", from),
        ]);
        form.extend(self.render_specification(1, "image"));
        form.extend(self.render_specification(2, "snapshot"));
        form
    }

    /// Renders `CreateTags` on an image and its snapshots.
    pub fn create_tags<'i>(&self, resources: impl Iterator<Item = &'i str>) -> Ec2Form {
        let mut form: Ec2Form = resources
            .zip(1..)
            .map(|(id, n)| (format!("ResourceId.{n}"), id.to_owned()))
            .collect();
        form.extend(self.render_tags("Tag"));
        form
    }

    fn render_specification(&self, n: usize, kind: &str) -> Ec2Form {
        let mut form = vec![(
            format!("TagSpecification.{n}.ResourceType"),
            kind.to_owned(),
        )];
        form.extend(self.render_tags(&format!("TagSpecification.{n}.Tag")));
        form
    }

    fn render_tags(&self, word: &str) -> Ec2Form {
        let tags = self.list_tags().into_iter().zip(1..);
        tags.flat_map(|((key, value), n)| {
            [
                (format!("{word}.{n}.Key"), key.to_owned()),
                (format!("{word}.{n}.Value"), value.to_owned()),
            ]
        })
        .collect()
    }
}

pub fn make_form(pairs: &[(&str, &str)]) -> Ec2Form {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Renders `DescribeImageAttribute` for the accounts that may launch an image.
pub fn describe_permissions(image: &str) -> Ec2Form {
    make_form(&[("ImageId", image), ("Attribute", "launchPermission")])
}

/// Renders `ModifyImageAttribute` that lets another account launch an image.
pub fn allow_launch(image: &str, account: &str) -> Ec2Form {
    make_form(&[
        ("ImageId", image),
        ("LaunchPermission.Add.1.UserId", account),
    ])
}

/// Renders `ModifySnapshotAttribute` that lets another account copy a snapshot.
pub fn allow_copy(snapshot: &str, account: &str) -> Ec2Form {
    make_form(&[
        ("SnapshotId", snapshot),
        ("CreateVolumePermission.Add.1.UserId", account),
    ])
}
