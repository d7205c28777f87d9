//! Who each clone is told to be.

use uuid::Uuid;
use winimg_base::error::Result;

use super::metadata::Identity;
use crate::answer;

/// The account that platforms ask the agent to make.
const USER: &str = "winimg";
/// A public key of RSA whose other half nobody has. cloudbase-init encrypts passwords for it, and takes no other kind.
const SSH_KEY: &str = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQCh9eLbFcjzQI1h08b3ueP9cMvNZR6T/8Fur2YszEV6AIvdIc4dQN7+th2qlruiyydi2d7vBVWJ2vKBu6gKHi/uVfhvUm0RsNq8mb/1+R4X3pL9qZlJmRbDq2ZpplK73vIrrmaMBZlZllchPA4l8CPBSvuduyrhTHoPkeDkfWSYyP52vRg33gQeYmukh2mbdXoStekFnwabZ1PcpI5w/srcHwjPeUGOfpfvxgf2WCyTPgJD9AixQl5lDaCOrHuSLFzOhRTErrMQp2vQ6bBMmH6voYqQUjyuGCzEn2eGous+428walnWCnuluwVYfd8jciEEpLbi6SkWaBeG8HAU+y3mi8mSmI+pvFgPtFI6XaryVjnHr+30GqWLP2k2EMQoaTHh+UXmTbWlvQqmZu3nxeccqFRWUq9bFsu+e+GA913zdGbD7ZybCcXtAJPvbW9XlbqJsc/cL03dTVBgIuDXZT3mQRofHUD7iZMT1+VeYp88Jw9mWLROc/4k7xp+JW8jOFk= winimg-try";

/// Of clone 1 or 2. Names of Windows computers have at most 15 characters.
pub fn of(number: usize) -> Result<Identity> {
    Ok(Identity {
        instance: Uuid::new_v4().to_string(),
        host_name: format!("winimg-try-{number}"),
        user: USER.into(),
        ssh_keys: vec![SSH_KEY.into()],
        user_data: Vec::new(),
        password: answer::generate_password()?,
    })
}
