//! Win32 error codes the stand-in gives, and the text Windows prints for each.

/// A Win32 error code (`winerror.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Win32(pub u32);

pub const FILE_NOT_FOUND: Win32 = Win32(2);
pub const PATH_NOT_FOUND: Win32 = Win32(3);
pub const ACCESS_DENIED: Win32 = Win32(5);
pub const WRITE_PROTECT: Win32 = Win32(19);
pub const BAD_NETPATH: Win32 = Win32(53);
pub const DISK_FULL: Win32 = Win32(112);
pub const INVALID_NAME: Win32 = Win32(123);
pub const DIR_NOT_EMPTY: Win32 = Win32(145);
pub const ALREADY_EXISTS: Win32 = Win32(183);
pub const BAD_EXE_FORMAT: Win32 = Win32(193);
pub const DIRECTORY: Win32 = Win32(267);
pub const CANT_ACCESS_FILE: Win32 = Win32(1920);

impl Win32 {
    pub fn text(self) -> String {
        let known = match self.0 {
            2 => "The system cannot find the file specified.",
            3 => "The system cannot find the path specified.",
            5 => "Access is denied.",
            15 => "The system cannot find the drive specified.",
            19 => "The media is write protected.",
            32 => "The process cannot access the file because it is being used by another process.",
            53 => "The network path was not found.",
            80 => "The file exists.",
            87 => "The parameter is incorrect.",
            112 => "There is not enough space on the disk.",
            123 => "The filename, directory name, or volume label syntax is incorrect.",
            145 => "The directory is not empty.",
            183 => "Cannot create a file when that file already exists.",
            193 => "%1 is not a valid Win32 application.",
            206 => "The filename or extension is too long.",
            267 => "The directory name is invalid.",
            1053 => {
                "The service did not respond to the start or control request in a timely fashion."
            }
            1056 => "An instance of the service is already running.",
            1057 => {
                "The account name is invalid or does not exist, or the password is invalid for the account name specified."
            }
            1058 => {
                "The service cannot be started, either because it is disabled or because it has no enabled devices associated with it."
            }
            1060 => "The specified service does not exist as an installed service.",
            1062 => "The service has not been started.",
            1068 => "The dependency service or group failed to start.",
            1072 => "The specified service has been marked for deletion.",
            1073 => "The specified service already exists.",
            1075 => "The dependency service does not exist or has been marked for deletion.",
            1326 => "The user name or password is incorrect.",
            1327 => {
                "Account restrictions are preventing this user from signing in. For example: blank passwords aren't allowed, sign-in times are limited, or a policy restriction has been enforced."
            }
            1331 => "This user can't sign in because this account is currently disabled.",
            1907 => "The user's password must be changed before signing in.",
            1332 => "No mapping between account names and security IDs was done.",
            1337 => "The security ID structure is invalid.",
            1639 => {
                "Invalid command line argument. Consult the Windows Installer SDK for detailed command line help."
            }
            1920 => "The file cannot be accessed by the system.",
            code => return format!("Error {code}."),
        };
        known.to_owned()
    }

    pub fn from_io(e: &std::io::Error) -> Win32 {
        use std::io::ErrorKind::*;
        match e.kind() {
            NotFound => FILE_NOT_FOUND,
            PermissionDenied => ACCESS_DENIED,
            AlreadyExists => ALREADY_EXISTS,
            DirectoryNotEmpty => DIR_NOT_EMPTY,
            StorageFull => DISK_FULL,
            ReadOnlyFilesystem => WRITE_PROTECT,
            NotADirectory => DIRECTORY,
            InvalidFilename => INVALID_NAME,
            IsADirectory => ACCESS_DENIED,
            _ => Win32(31),
        }
    }
}
