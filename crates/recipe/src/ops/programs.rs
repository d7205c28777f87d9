//! Full paths of Windows' programs that several verbs call.

pub(crate) const CMD: &str = r"C:\Windows\System32\cmd.exe";
pub(crate) const DISM: &str = r"C:\Windows\System32\dism.exe";
pub(crate) const FIND: &str = r"C:\Windows\System32\find.exe";
pub(crate) const NET: &str = r"C:\Windows\System32\net.exe";
pub(crate) const POWERSHELL: &str = r"C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe";
pub(crate) const REG: &str = r"C:\Windows\System32\reg.exe";
pub(crate) const SC: &str = r"C:\Windows\System32\sc.exe";
pub(crate) const SCHTASKS: &str = r"C:\Windows\System32\schtasks.exe";

pub(crate) fn to_arguments<const N: usize>(list: [&str; N]) -> Vec<String> {
    list.map(str::to_owned).into()
}
