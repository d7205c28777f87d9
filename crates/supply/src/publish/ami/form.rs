//! What EC2 is asked with: forms, whole and without a network. (Amazon EC2: API Reference)

use serde::Deserialize;

use super::ec2::Form;

/// The export's request to VM Import, without its bucket: `import-image.json`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Import {
    architecture: String,
    boot_mode: String,
    description: String,
    disk_containers: [Container; 1],
    license_type: String,
    platform: String,
    role_name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Container {
    description: String,
    format: String,
}

/// What an image and its snapshots are known by in an account.
#[derive(Clone, Debug)]
pub struct About {
    pub name: String,
    /// Of Windows.
    pub build: String,
    /// Of the disk, hex: two imports of one disk are one image.
    pub sha256: String,
}

const OURS: &str = "winimg:sha256";

impl About {
    fn tags(&self) -> [(&str, &str); 3] {
        [
            ("Name", &self.name),
            ("winimg:build", &self.build),
            (OURS, &self.sha256),
        ]
    }

    /// As `DescribeImages` and `DescribeImportImageTasks` find it again.
    fn filter(&self, word: &str) -> Form {
        vec![
            (format!("{word}.1.Name"), format!("tag:{OURS}")),
            (format!("{word}.1.Value.1"), self.sha256.clone()),
        ]
    }

    pub fn images(&self) -> Form {
        let mut form = self.filter("Filter");
        form.push(("Owner.1".into(), "self".into()));
        form
    }

    pub fn tasks(&self) -> Form {
        self.filter("Filters")
    }

    /// `ImportImage` of an object in a bucket. `token`: a second request with the same one begins nothing.
    pub fn import(&self, import: &Import, bucket: &str, key: &str, token: &str) -> Form {
        let [disk] = &import.disk_containers;
        let mut form: Form = [
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
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        form.extend(self.specified(1, "import-image-task"));
        form
    }

    /// `CopyImage`, with the tags on the copy and its snapshots from the beginning.
    pub fn copy(&self, image: &str, from: &str, token: &str) -> Form {
        let mut form: Form = [
            ("ClientToken", token),
            ("Name", &format!("{}-{}", self.name, &self.sha256[..12])),
            ("SourceImageId", image),
            ("SourceRegion", from),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        form.extend(self.specified(1, "image"));
        form.extend(self.specified(2, "snapshot"));
        form
    }

    /// `CreateTags` on an image and its snapshots.
    pub fn tag<'i>(&self, resources: impl Iterator<Item = &'i str>) -> Form {
        let mut form: Form = resources
            .zip(1..)
            .map(|(id, n)| (format!("ResourceId.{n}"), id.to_owned()))
            .collect();
        form.extend(self.numbered("Tag"));
        form
    }

    fn specified(&self, n: usize, kind: &str) -> Form {
        let mut form = vec![(
            format!("TagSpecification.{n}.ResourceType"),
            kind.to_owned(),
        )];
        form.extend(self.numbered(&format!("TagSpecification.{n}.Tag")));
        form
    }

    fn numbered(&self, word: &str) -> Form {
        let tags = self.tags().into_iter().zip(1..);
        tags.flat_map(|((key, value), n)| {
            [
                (format!("{word}.{n}.Key"), key.to_owned()),
                (format!("{word}.{n}.Value"), value.to_owned()),
            ]
        })
        .collect()
    }
}

/// One value.
pub fn one(name: &str, value: &str) -> Form {
    vec![(name.to_owned(), value.to_owned())]
}

/// `DescribeImageAttribute`: who may start it.
pub fn permissions(image: &str) -> Form {
    let mut form = one("ImageId", image);
    form.extend(one("Attribute", "launchPermission"));
    form
}

/// `ModifyImageAttribute`: another account may start it.
pub fn launch(image: &str, account: &str) -> Form {
    let mut form = one("ImageId", image);
    form.extend(one("LaunchPermission.Add.1.UserId", account));
    form
}

/// `ModifySnapshotAttribute`: another account may copy it.
pub fn volume(snapshot: &str, account: &str) -> Form {
    let mut form = one("SnapshotId", snapshot);
    form.extend(one("CreateVolumePermission.Add.1.UserId", account));
    form
}
