//! The disc in an Azure VM's drive until it is provisioned.
//!
//! `ovf-env.xml` is for cloudbase-init 1.1.9 (azureservice.py), with the schemas of
//! Azure/WALinuxAgent (protocol/ovfenv.py) and cloud-init (sources/azure). Azure's own answer file
//! and the agent that it starts are not public; the files here reproduce their known behaviour
//! (matt.kotsenas.com: Running post setup commands on Azure VMs with SetupComplete2; Microsoft:
//! Custom data and cloud-init on Azure virtual machines). They report nothing to the wire server,
//! and install no guest agent.

use winimg_base::markup::{escape_xml, to_ascii_xml};
use winimg_base::text::to_crlf;
use winimg_formats::iso::{DiscSource, DiscTree};

use super::super::CloneIdentity;
use super::derive_vm_id;

/// The file by which an agent recognizes the disc.
const TAG: &str = "E6DA6616-8EC4-48E0-BE93-58CE6ACE3CFB.tag";
/// Gets the user name as a batch argument, so it must be a single word.
const PROVISION: &str = include_str!("provision.cmd");
const SETUP_COMPLETE: &str = include_str!("SetupComplete.cmd");

pub fn create_disc(identity: &CloneIdentity) -> DiscTree {
    let mut tree = DiscTree::new("AZURE_PROVISION").with_file(TAG, DiscSource::Bytes(Vec::new()));
    for (name, text) in [
        ("Unattend.xml", answer_file(identity)),
        ("ovf-env.xml", render_environment(identity)),
        ("winimg/provision.cmd", to_crlf(PROVISION)),
        ("winimg/SetupComplete.cmd", to_crlf(SETUP_COMPLETE)),
    ] {
        tree.add(name, DiscSource::Bytes(text.into_bytes()));
    }
    if !identity.user_data.is_empty() {
        let data = identity.user_data.expose().to_vec();
        tree.add("CustomData.bin", DiscSource::Bytes(data));
    }
    tree
}

/// Attributes that identify a component of the passes below.
const COMPONENT: &str = "processorArchitecture=\"amd64\" publicKeyToken=\"31bf3856ad364e35\" \
                         language=\"neutral\" versionScope=\"nonSxS\"";

/// Runs `provision.cmd` of the disc, whatever its drive letter is.
const RUN_PROVISION: &str = "cmd.exe /c for %i in (D E F G H) do \
                             if exist %i:\\winimg\\provision.cmd \
                             call %i:\\winimg\\provision.cmd";

/// Renders the answer file for an image without its own. Microsoft: Unattended Windows Setup
/// Reference.
fn answer_file(identity: &CloneIdentity) -> String {
    let text = format!(
        r#"<?xml version="1.0" encoding="utf-8"?>
<unattend xmlns="urn:schemas-microsoft-com:unattend"
  xmlns:wcm="http://schemas.microsoft.com/WMIConfig/2002/State">
  <settings pass="specialize">
    <component name="Microsoft-Windows-Shell-Setup" {COMPONENT}>
      <ComputerName>{host}</ComputerName>
      <TimeZone>UTC</TimeZone>
    </component>
    <component name="Microsoft-Windows-Deployment" {COMPONENT}>
      <RunSynchronous>
        <RunSynchronousCommand wcm:action="add">
          <Order>1</Order>
          <Path>{RUN_PROVISION} {id} {user}</Path>
          <Description>winimg: in place of Azure's provisioning agent</Description>
          <WillReboot>Never</WillReboot>
        </RunSynchronousCommand>
      </RunSynchronous>
    </component>
  </settings>
  <settings pass="oobeSystem">
    <component name="Microsoft-Windows-International-Core" {COMPONENT}>
      <InputLocale>en-US</InputLocale>
      <SystemLocale>en-US</SystemLocale>
      <UILanguage>en-US</UILanguage>
      <UserLocale>en-US</UserLocale>
    </component>
    <component name="Microsoft-Windows-Shell-Setup" {COMPONENT}>
      <OOBE>
        <HideEULAPage>true</HideEULAPage>
        <HideLocalAccountScreen>true</HideLocalAccountScreen>
        <HideOEMRegistrationScreen>true</HideOEMRegistrationScreen>
        <HideOnlineAccountScreens>true</HideOnlineAccountScreens>
        <HideWirelessSetupInOOBE>true</HideWirelessSetupInOOBE>
        <ProtectYourPC>3</ProtectYourPC>
      </OOBE>
      <UserAccounts>
        <AdministratorPassword>
          <Value>{password}</Value>
          <PlainText>true</PlainText>
        </AdministratorPassword>
      </UserAccounts>
    </component>
  </settings>
</unattend>
"#,
        host = escape_xml(&identity.host_name),
        id = derive_vm_id(identity).to_string().to_uppercase(),
        user = escape_xml(&identity.user),
        password = escape_xml(identity.password.expose()),
    );
    to_ascii_xml(&text)
}

fn render_environment(identity: &CloneIdentity) -> String {
    // Only if there is a file: cloudbase-init requires it if it is named here.
    let custom_data = if identity.user_data.is_empty() {
        ""
    } else {
        "      <CustomData>CustomData.bin</CustomData>\r\n"
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\r\n\
         <Environment xmlns=\"http://schemas.dmtf.org/ovf/environment/1\" \
         xmlns:oe=\"http://schemas.dmtf.org/ovf/environment/1\" \
         xmlns:wa=\"http://schemas.microsoft.com/windowsazure\" \
         xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\">\r\n\
         \x20 <wa:ProvisioningSection>\r\n\
         \x20   <wa:Version>1.0</wa:Version>\r\n\
         \x20   <WindowsProvisioningConfigurationSet \
         xmlns=\"http://schemas.microsoft.com/windowsazure\">\r\n\
         \x20     <ConfigurationSetType>WindowsProvisioningConfiguration</ConfigurationSetType>\r\n\
         \x20     <ComputerName>{host}</ComputerName>\r\n\
         \x20     <AdminUsername>{user}</AdminUsername>\r\n\
         \x20     <AdminPassword>{password}</AdminPassword>\r\n\
         {custom_data}\
         \x20     <EnableAutomaticUpdates>false</EnableAutomaticUpdates>\r\n\
         \x20     <ResetPasswordOnFirstLogon>false</ResetPasswordOnFirstLogon>\r\n\
         \x20   </WindowsProvisioningConfigurationSet>\r\n\
         \x20 </wa:ProvisioningSection>\r\n\
         \x20 <wa:PlatformSettingsSection>\r\n\
         \x20   <wa:Version>1.0</wa:Version>\r\n\
         \x20   <PlatformSettings xmlns=\"http://schemas.microsoft.com/windowsazure\">\r\n\
         \x20     <KmsServerHostname>kms.core.windows.net</KmsServerHostname>\r\n\
         \x20     <ProvisionGuestAgent>false</ProvisionGuestAgent>\r\n\
         \x20     <GuestAgentPackageName i:nil=\"true\"/>\r\n\
         \x20   </PlatformSettings>\r\n\
         \x20 </wa:PlatformSettingsSection>\r\n\
         </Environment>\r\n",
        host = escape_xml(&identity.host_name),
        user = escape_xml(&identity.user),
        password = escape_xml(identity.password.expose()),
    )
}
