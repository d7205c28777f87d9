//! The disc that Azure puts into a machine's drive until it is provisioned.
//!
//! `ovf-env.xml` is what cloudbase-init 1.1.9 reads (azureservice.py), in the schemas of Azure/WALinuxAgent (protocol/ovfenv.py) and
//! cloud-init (sources/azure). Azure's own answer file and the agent that it starts are not published: those here do what is known
//! of them (matt.kotsenas.com: Running post setup commands on Azure VMs with SetupComplete2; Microsoft: Custom data and cloud-init on
//! Azure virtual machines). Reports nothing to the wire server, and installs no guest agent.

use winimg_base::markup::{ascii_xml, escape_xml};
use winimg_base::text::crlf;
use winimg_formats::iso::{Source, Tree};

use super::super::Identity;
use super::machine;

/// By this file an agent knows the disc.
const TAG: &str = "E6DA6616-8EC4-48E0-BE93-58CE6ACE3CFB.tag";
/// The user's name is a word: it stands in a batch file's arguments.
const PROVISION: &str = include_str!("provision.cmd");
const SETUP_COMPLETE: &str = include_str!("SetupComplete.cmd");

pub fn disc(identity: &Identity) -> Tree {
    let text = |text: String| Source::Bytes(text.into_bytes());
    let mut tree = Tree::new("AZURE_PROVISION")
        .file(TAG, Source::Bytes(Vec::new()))
        .file("Unattend.xml", text(answer_file(identity)))
        .file("ovf-env.xml", text(environment(identity)))
        .file("winimg/provision.cmd", text(crlf(PROVISION)))
        .file("winimg/SetupComplete.cmd", text(crlf(SETUP_COMPLETE)));
    if !identity.user_data.is_empty() {
        let data = identity.user_data.expose().to_vec();
        tree.add("CustomData.bin", Source::Bytes(data));
    }
    tree
}

/// A component of the passes below has this identity.
const COMPONENT: &str = r#"processorArchitecture="amd64" publicKeyToken="31bf3856ad364e35" language="neutral" versionScope="nonSxS""#;

/// For Setup of an image that brings none of its own. Microsoft: Unattended Windows Setup Reference.
fn answer_file(identity: &Identity) -> String {
    let text = format!(
        r#"<?xml version="1.0" encoding="utf-8"?>
<unattend xmlns="urn:schemas-microsoft-com:unattend" xmlns:wcm="http://schemas.microsoft.com/WMIConfig/2002/State">
  <settings pass="specialize">
    <component name="Microsoft-Windows-Shell-Setup" {COMPONENT}>
      <ComputerName>{host}</ComputerName>
      <TimeZone>UTC</TimeZone>
    </component>
    <component name="Microsoft-Windows-Deployment" {COMPONENT}>
      <RunSynchronous>
        <RunSynchronousCommand wcm:action="add">
          <Order>1</Order>
          <Path>cmd.exe /c for %i in (D E F G H) do if exist %i:\winimg\provision.cmd call %i:\winimg\provision.cmd {id} {user}</Path>
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
        id = machine(identity).to_string().to_uppercase(),
        user = escape_xml(&identity.user),
        password = escape_xml(identity.password.expose()),
    );
    ascii_xml(&text)
}

fn environment(identity: &Identity) -> String {
    // Where it is named, cloudbase-init wants the file.
    let custom_data = match identity.user_data.is_empty() {
        true => "",
        false => "      <CustomData>CustomData.bin</CustomData>\r\n",
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\r\n\
         <Environment xmlns=\"http://schemas.dmtf.org/ovf/environment/1\" \
         xmlns:oe=\"http://schemas.dmtf.org/ovf/environment/1\" \
         xmlns:wa=\"http://schemas.microsoft.com/windowsazure\" \
         xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\">\r\n\
         \x20 <wa:ProvisioningSection>\r\n\
         \x20   <wa:Version>1.0</wa:Version>\r\n\
         \x20   <WindowsProvisioningConfigurationSet xmlns=\"http://schemas.microsoft.com/windowsazure\">\r\n\
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
