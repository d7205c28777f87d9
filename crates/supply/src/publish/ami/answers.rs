//! XML answers of EC2 about images and imports. (Amazon EC2: API Reference, data types)

use roxmltree::{Document, Node};

use super::super::xml::{find_children, read_text};
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ec2Image {
    pub id: String,
    pub state: Ec2ImageState,
    pub snapshots: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ec2ImageState {
    Pending,
    Available,
    /// Any other: EC2's name of it, with its reason.
    Other(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportTask {
    pub id: String,
    pub state: ImportTaskState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportTaskState {
    /// Its progress and message.
    Active(String),
    /// ID of the imported image.
    Completed(String),
    /// It failed or was cancelled; AWS' message.
    Ended(String),
}

/// Parses `DescribeImages`.
pub fn parse_images(text: &str) -> Result<Vec<Ec2Image>> {
    let document = read(text)?;
    Ok(find_items(document.root_element(), "imagesSet")
        .filter_map(parse_ami)
        .collect())
}

fn parse_ami(node: Node<'_, '_>) -> Option<Ec2Image> {
    let id = read_text(node, "imageId")?.to_owned();
    let state = match read_text(node, "imageState")? {
        "pending" => Ec2ImageState::Pending,
        "available" => Ec2ImageState::Available,
        other => {
            let reason = find_children(node, "stateReason").next();
            let reason = reason.and_then(|reason| read_text(reason, "message"));
            Ec2ImageState::Other(display_text::sanitize_line(&format!(
                "{other} {}",
                reason.unwrap_or_default()
            )))
        }
    };
    let devices = find_items(node, "blockDeviceMapping");
    let snapshots = devices
        .filter_map(|device| read_text(find_children(device, "ebs").next()?, "snapshotId"))
        .map(str::to_owned)
        .collect();
    Some(Ec2Image {
        id,
        state,
        snapshots,
    })
}

/// Parses `DescribeImportImageTasks`.
pub fn parse_tasks(text: &str) -> Result<Vec<ImportTask>> {
    let document = read(text)?;
    Ok(find_items(document.root_element(), "importImageTaskSet")
        .filter_map(parse_task)
        .collect())
}

/// Parses `ImportImage`.
pub fn parse_import(text: &str) -> Result<ImportTask> {
    let document = read(text)?;
    parse_task(document.root_element()).ok_or_else(|| report_unexpected("a new import has no ID"))
}

/// Parses `CopyImage`: the ID of the copy.
pub fn parse_copy(text: &str) -> Result<String> {
    let document = read(text)?;
    let id = read_text(document.root_element(), "imageId");
    id.map(str::to_owned)
        .ok_or_else(|| report_unexpected("a new copy has no ID"))
}

/// Parses `DescribeImageAttribute` of `launchPermission`: the accounts.
pub fn parse_accounts(text: &str) -> Result<Vec<String>> {
    let document = read(text)?;
    let accounts = find_items(document.root_element(), "launchPermission");
    Ok(accounts
        .filter_map(|item| read_text(item, "userId"))
        .map(str::to_owned)
        .collect())
}

fn parse_task(node: Node<'_, '_>) -> Option<ImportTask> {
    let said = display_text::sanitize_line(read_text(node, "statusMessage").unwrap_or_default());
    let status = read_text(node, "status").unwrap_or_default();
    let state = match (status, read_text(node, "imageId")) {
        ("completed", Some(image)) => ImportTaskState::Completed(image.to_owned()),
        ("active" | "pending", _) => match read_text(node, "progress").unwrap_or_default() {
            "" => ImportTaskState::Active(said),
            progress => ImportTaskState::Active(format!(
                "{} %: {said}",
                display_text::sanitize_line(progress)
            )),
        },
        (status, _) => ImportTaskState::Ended(if said.is_empty() {
            display_text::sanitize_line(status)
        } else {
            said
        }),
    };
    let id = read_text(node, "importTaskId")?.to_owned();
    Some(ImportTask { id, state })
}

fn find_items<'a, 'i: 'a>(
    node: Node<'a, 'i>,
    name: &'a str,
) -> impl Iterator<Item = Node<'a, 'i>> + 'a {
    find_children(node, name).flat_map(|set| find_children(set, "item"))
}

fn read(text: &str) -> Result<Document<'_>> {
    Document::parse(text).map_err(|e| report_unexpected(&e.to_string()))
}

fn report_unexpected(words: &str) -> Error {
    Error::new(Kind::Publish, "EC2 sent an answer that is not EC2's").found(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_is_active_completed_or_ended_with_its_words() {
        let text = |inner: &str| {
            format!(
                "<DescribeImportImageTasksResponse><importImageTaskSet><item><importTaskId>import-ami-1</importTaskId>\
                 {inner}</item></importImageTaskSet></DescribeImportImageTasksResponse>"
            )
        };
        for (inner, state) in [
            (
                "<status>active</status><progress>28</progress><statusMessage>converting</statusMessage>",
                ImportTaskState::Active("28 %: converting".into()),
            ),
            (
                "<status>completed</status><imageId>ami-1</imageId>",
                ImportTaskState::Completed("ami-1".into()),
            ),
            (
                "<status>deleted</status><statusMessage>ClientError: No valid partitions.</statusMessage>",
                ImportTaskState::Ended("ClientError: No valid partitions.".into()),
            ),
            (
                "<status>deleting</status>",
                ImportTaskState::Ended("deleting".into()),
            ),
        ] {
            assert_eq!(
                parse_tasks(&text(inner)).unwrap()[0].state,
                state,
                "{inner}"
            );
        }
    }

    #[test]
    fn an_image_that_failed_says_why() {
        let text = "<DescribeImagesResponse><imagesSet><item><imageId>ami-1</imageId><imageState>failed</imageState>\
            <stateReason><code>x</code><message>Copy image failed</message></stateReason><blockDeviceMapping><item><ebs>\
            <snapshotId>snap-1</snapshotId></ebs></item></blockDeviceMapping></item></imagesSet></DescribeImagesResponse>";
        let expected = Ec2Image {
            id: "ami-1".into(),
            state: Ec2ImageState::Other("failed Copy image failed".into()),
            snapshots: vec!["snap-1".into()],
        };
        assert_eq!(parse_images(text).unwrap(), [expected]);
    }
}
