//! Who each clone is told to be.

use uuid::Uuid;
use winimg_base::error::Result;

use winimg_recipe::recipe::target::Form;

use super::HOST_NAMES;
use super::metadata::Identity;
use super::user_data::UserData;
use crate::answer;

/// The account that platforms ask the agent to make.
const USER: &str = "winimg";
/// A public key of RSA whose other half nobody has. cloudbase-init encrypts passwords for it, and takes no other kind.
const SSH_KEY: &str = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQCh9eLbFcjzQI1h08b3ueP9cMvNZR6T/8Fur2YszEV6AIvdIc4dQN7+th2qlruiyydi2d7vBVWJ2vKBu6gKHi/uVfhvUm0RsNq8mb/1+R4X3pL9qZlJmRbDq2ZpplK73vIrrmaMBZlZllchPA4l8CPBSvuduyrhTHoPkeDkfWSYyP52vRg33gQeYmukh2mbdXoStekFnwabZ1PcpI5w/srcHwjPeUGOfpfvxgf2WCyTPgJD9AixQl5lDaCOrHuSLFzOhRTErrMQp2vQ6bBMmH6voYqQUjyuGCzEn2eGous+428walnWCnuluwVYfd8jciEEpLbi6SkWaBeG8HAU+y3mi8mSmI+pvFgPtFI6XaryVjnHr+30GqWLP2k2EMQoaTHh+UXmTbWlvQqmZu3nxeccqFRWUq9bFsu+e+GA913zdGbD7ZybCcXtAJPvbW9XlbqJsc/cL03dTVBgIuDXZT3mQRofHUD7iZMT1+VeYp88Jw9mWLROc/4k7xp+JW8jOFk= winimg-try";

/// Cluster API gives each of Azure's machines a cloud-config. Without custom data packs/azure-custom-data.toml's service is not there.
const CUSTOM_DATA: &str =
    "#cloud-config\nwrite_files:\n- path: 'C:\\AzureData\\winimg-try.txt'\n  content: winimg try\n";

/// Of clone 1 or 2. `given`: user data of a person.
pub fn of(number: usize, form: Form, given: Option<&UserData>) -> Result<Identity> {
    Ok(Identity {
        instance: Uuid::new_v4().to_string(),
        host_name: HOST_NAMES[number - 1].into(),
        user: USER.into(),
        ssh_keys: vec![SSH_KEY.into()],
        user_data: match (given, form) {
            (Some(given), _) => given.clone(),
            (None, Form::Azure) => CUSTOM_DATA.as_bytes().into(),
            (None, _) => UserData::default(),
        },
        password: answer::generate_password()?,
    })
}
