//! The identity of each clone in its metadata.

use uuid::Uuid;
use winimg_base::error::Result;

use winimg_recipe::target::MetadataForm;

use super::HOST_NAMES;
use super::metadata::CloneIdentity;
use super::user_data::UserData;
use crate::answer;

/// The account that the agent is to create.
const USER: &str = "winimg";
/// An RSA public key without a known private key. cloudbase-init encrypts passwords for it, and
/// accepts no other type.
const SSH_KEY: &str = concat!(
    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQCh9eLbFcjzQI1h08b3ueP9cMvNZR6T/8Fur2YszEV6AIvd",
    "Ic4dQN7+th2qlruiyydi2d7vBVWJ2vKBu6gKHi/uVfhvUm0RsNq8mb/1+R4X3pL9qZlJmRbDq2ZpplK73vIr",
    "rmaMBZlZllchPA4l8CPBSvuduyrhTHoPkeDkfWSYyP52vRg33gQeYmukh2mbdXoStekFnwabZ1PcpI5w/src",
    "HwjPeUGOfpfvxgf2WCyTPgJD9AixQl5lDaCOrHuSLFzOhRTErrMQp2vQ6bBMmH6voYqQUjyuGCzEn2eGous+",
    "428walnWCnuluwVYfd8jciEEpLbi6SkWaBeG8HAU+y3mi8mSmI+pvFgPtFI6XaryVjnHr+30GqWLP2k2EMQo",
    "aTHh+UXmTbWlvQqmZu3nxeccqFRWUq9bFsu+e+GA913zdGbD7ZybCcXtAJPvbW9XlbqJsc/cL03dTVBgIuDX",
    "ZT3mQRofHUD7iZMT1+VeYp88Jw9mWLROc/4k7xp+JW8jOFk= winimg-try",
);

/// Cluster API gives each Azure VM a cloud-config. Without custom data, the service of
/// packs/azure-custom-data.toml is not there.
const CUSTOM_DATA: &str =
    "#cloud-config\nwrite_files:\n- path: 'C:\\AzureData\\winimg-try.txt'\n  content: winimg try\n";

/// Creates the identity of clone 1 or 2. `given`: the user's own user data.
pub fn create_identity(
    number: usize,
    form: MetadataForm,
    given: Option<&UserData>,
) -> Result<CloneIdentity> {
    Ok(CloneIdentity {
        instance: Uuid::new_v4().to_string(),
        host_name: HOST_NAMES[number - 1].into(),
        user: USER.into(),
        ssh_keys: vec![SSH_KEY.into()],
        user_data: match (given, form) {
            (Some(given), _) => given.clone(),
            (None, MetadataForm::Azure) => CUSTOM_DATA.as_bytes().into(),
            (None, _) => UserData::default(),
        },
        password: answer::generate_password()?,
    })
}
