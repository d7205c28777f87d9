//! What EC2 says of images and of imports in XML. (Amazon EC2: API Reference, data types)

use roxmltree::{Document, Node};

use super::super::xml::{named, value};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::unseen;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ami {
    pub id: String,
    pub state: State,
    pub snapshots: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Pending,
    Available,
    /// Any other, by EC2's word for it, with its reason.
    Other(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub id: String,
    pub state: TaskState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// With its progress and words.
    Active(String),
    /// The image that it made.
    Completed(String),
    /// It failed or was cancelled, with AWS' words.
    Ended(String),
}

/// `DescribeImages`
pub fn amis(text: &str) -> Result<Vec<Ami>> {
    let document = read(text)?;
    let ami = |node: Node<'_, '_>| {
        let id = value(node, "imageId")?.to_owned();
        let state = match value(node, "imageState")? {
            "pending" => State::Pending,
            "available" => State::Available,
            other => {
                let reason = named(node, "stateReason").next();
                let reason = reason.and_then(|reason| value(reason, "message"));
                State::Other(unseen::line(&format!(
                    "{other} {}",
                    reason.unwrap_or_default()
                )))
            }
        };
        let devices = items(node, "blockDeviceMapping");
        let snapshots = devices
            .filter_map(|device| value(named(device, "ebs").next()?, "snapshotId"))
            .map(str::to_owned)
            .collect();
        Some(Ami {
            id,
            state,
            snapshots,
        })
    };
    Ok(items(document.root_element(), "imagesSet")
        .filter_map(ami)
        .collect())
}

/// `DescribeImportImageTasks`
pub fn tasks(text: &str) -> Result<Vec<Task>> {
    let document = read(text)?;
    Ok(items(document.root_element(), "importImageTaskSet")
        .filter_map(task)
        .collect())
}

/// `ImportImage`
pub fn begun(text: &str) -> Result<Task> {
    let document = read(text)?;
    task(document.root_element()).ok_or_else(|| unexpected("it begins an import without a name"))
}

/// `CopyImage`: the copy.
pub fn copied(text: &str) -> Result<String> {
    let document = read(text)?;
    let id = value(document.root_element(), "imageId");
    id.map(str::to_owned)
        .ok_or_else(|| unexpected("it begins a copy without a name"))
}

/// `DescribeImageAttribute` of `launchPermission`: the accounts.
pub fn accounts(text: &str) -> Result<Vec<String>> {
    let document = read(text)?;
    let accounts = items(document.root_element(), "launchPermission");
    Ok(accounts
        .filter_map(|item| value(item, "userId"))
        .map(str::to_owned)
        .collect())
}

fn task(node: Node<'_, '_>) -> Option<Task> {
    let words = |name| value(node, name).unwrap_or_default();
    let said = unseen::line(words("statusMessage"));
    let state = match (words("status"), value(node, "imageId")) {
        ("completed", Some(image)) => TaskState::Completed(image.to_owned()),
        ("active" | "pending", _) => match words("progress") {
            "" => TaskState::Active(said),
            progress => TaskState::Active(format!("{} %: {said}", unseen::line(progress))),
        },
        (status, _) => TaskState::Ended(match said.is_empty() {
            true => unseen::line(status),
            false => said,
        }),
    };
    let id = value(node, "importTaskId")?.to_owned();
    Some(Task { id, state })
}

fn items<'a, 'i: 'a>(node: Node<'a, 'i>, name: &'a str) -> impl Iterator<Item = Node<'a, 'i>> + 'a {
    named(node, name).flat_map(|set| named(set, "item"))
}

fn read(text: &str) -> Result<Document<'_>> {
    Document::parse(text).map_err(|e| unexpected(&e.to_string()))
}

fn unexpected(words: &str) -> Error {
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
                TaskState::Active("28 %: converting".into()),
            ),
            (
                "<status>completed</status><imageId>ami-1</imageId>",
                TaskState::Completed("ami-1".into()),
            ),
            (
                "<status>deleted</status><statusMessage>ClientError: No valid partitions.</statusMessage>",
                TaskState::Ended("ClientError: No valid partitions.".into()),
            ),
            (
                "<status>deleting</status>",
                TaskState::Ended("deleting".into()),
            ),
        ] {
            assert_eq!(tasks(&text(inner)).unwrap()[0].state, state, "{inner}");
        }
    }

    #[test]
    fn an_image_that_failed_says_why() {
        let text = "<DescribeImagesResponse><imagesSet><item><imageId>ami-1</imageId><imageState>failed</imageState>\
            <stateReason><code>x</code><message>Copy image failed</message></stateReason><blockDeviceMapping><item><ebs>\
            <snapshotId>snap-1</snapshotId></ebs></item></blockDeviceMapping></item></imagesSet></DescribeImagesResponse>";
        let expected = Ami {
            id: "ami-1".into(),
            state: State::Other("failed Copy image failed".into()),
            snapshots: vec!["snap-1".into()],
        };
        assert_eq!(amis(text).unwrap(), [expected]);
    }
}
