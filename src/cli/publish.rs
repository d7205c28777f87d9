//! `winimg publish`: its own flags, and those that the destinations declare.

use std::path::PathBuf;

use clap::builder::{TypedValueParser as _, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};

use winimg_supply::publish::{Destination, DestinationFlag, FlagArity, FlagValues};

#[derive(Debug, Args)]
pub struct PublishArgs {
    /// A build's output folder, or its manifest.json
    pub image: PathBuf,
    /// Destination: s3://, ami://, azblob://, azure://, gs://, glance://, vsphere://, https://,
    /// oci:// or containerdisk://
    ///
    /// s3://BUCKET/FOLDER, gs://BUCKET/FOLDER (Google Cloud Storage),
    /// azblob://ACCOUNT/CONTAINER/FOLDER and https://HOST/FOLDER store the files under their names.
    /// oci://REGISTRY/REPOSITORY:TAG stores all of them as one OCI artifact,
    /// containerdisk://REGISTRY/REPOSITORY:TAG the image's containerDisk; records are attached to
    /// both. ami://BUCKET/FOLDER uploads the disk of the output `ami` to the bucket and imports it
    /// as an AMI. azure://SUBSCRIPTION/GROUP/ACCOUNT/CONTAINER[/FOLDER] uploads the VHD to the
    /// container and creates a managed image from it, or a version in a gallery (--gallery).
    /// glance://[NAME] creates an image in OpenStack from the output `qcow2`, otherwise from `raw`.
    /// vsphere://VCENTER/LIBRARY[/ITEM] uploads the OVA to a content library, and creates a
    /// template from it (--template).
    #[arg(long, value_name = "URL")]
    pub to: String,
    /// Outputs to upload, separated by commas [default: all]
    #[arg(long, value_name = "OUTPUT", value_delimiter = ',')]
    pub only: Vec<String>,
    #[command(flatten)]
    pub flags: DestinationFlags,
    /// Show what would be uploaded; upload nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Replace files that differ, or a different image with the same tag
    #[arg(long)]
    pub replace: bool,
}

/// The flags that only some destinations accept.
#[derive(Debug)]
pub struct DestinationFlags(pub FlagValues);

impl Args for DestinationFlags {
    fn augment_args(command: Command) -> Command {
        command.args(Destination::flags().map(to_arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for DestinationFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = FlagValues::default();
        for flag in Destination::flags() {
            if let Some(values) = matches.get_many::<String>(flag.name) {
                given.add(flag, values.cloned().collect());
            }
        }
        Ok(Self(given))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn to_arg(flag: &'static DestinationFlag) -> Arg {
    let arg = Arg::new(flag.name)
        .long(flag.name)
        .value_name(flag.value_name)
        .help(flag.help);
    let arg = if flag.details.is_empty() {
        arg
    } else {
        arg.long_help(format!("{}\n\n{}", flag.help, flag.details))
    };
    match &flag.values {
        FlagArity::One => arg,
        FlagArity::Number(range) => {
            let number = value_parser!(i64).range(range.clone());
            arg.value_parser(ValueParser::new(number.map(|number| number.to_string())))
        }
        FlagArity::Separated => arg.action(ArgAction::Append).value_delimiter(','),
        FlagArity::Repeated => arg.action(ArgAction::Append),
    }
}
