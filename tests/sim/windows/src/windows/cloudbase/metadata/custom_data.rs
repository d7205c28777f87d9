//! What Azure's agent leaves of a machine's metadata: `recipes/packs/azure/azure_custom_data.py`, a service that a pack adds to
//! cloudbase-init. The stand-in has no Python: it knows the file word for word.

use super::{Context, Fault, Found, Service, disc, failed};
use crate::windows::TCPIP;

/// The module's name is that of a file in here.
const PACKAGES: &str =
    r"C:\Program Files\Cloudbase Solutions\Cloudbase-Init\Python\Lib\site-packages";
const KNOWN: &str = include_str!("../../../../../../../recipes/packs/azure/azure_custom_data.py");
const CUSTOM_DATA: &str = r"C:\AzureData\CustomData.bin";
const IDENTIFIER: &str = r"HKLM\SOFTWARE\Microsoft\Virtual Machine\Guest\Parameters";

pub struct CustomData<'a> {
    c: Context<'a>,
}

impl<'a> CustomData<'a> {
    /// The class of this name, where somebody added its module.
    pub fn import(c: Context<'a>, path: &str) -> Found<Self> {
        let import_error = || failed(format!("Import error: {path}"));
        let (module, class) = path.rsplit_once('.').ok_or_else(import_error)?;
        let file = format!(r"{}.py", module.replace('.', r"\"));
        let bytes = disc::read(c, PACKAGES, &file).map_err(|fault| match fault {
            Fault::Missing => import_error(),
            fault => fault,
        })?;
        let plain = |text: &str| text.replace("\r\n", "\n");
        if plain(&String::from_utf8_lossy(&bytes)) != plain(KNOWN) {
            return Err(Fault::NotModelled(format!("the Python module {module}")));
        }
        match class {
            "CustomDataService" => Ok(Self { c }),
            _ => Err(failed(format!(
                "module '{module}' has no attribute '{class}'"
            ))),
        }
    }
}

impl Service for CustomData<'_> {
    fn name(&self) -> &'static str {
        "CustomDataService"
    }

    fn load(&mut self) -> Found<bool> {
        Ok(disc::exists(self.c, CUSTOM_DATA))
    }

    fn instance_id(&self) -> Found<Option<String>> {
        let id = self
            .c
            .p
            .machine
            .registry()
            .text(IDENTIFIER, "VirtualMachineId");
        let missing = || failed("[WinError 2] The system cannot find the file specified");
        id.ok_or_else(missing).map(Some)
    }

    fn host_name(&self) -> Found<Option<String>> {
        Ok(self.c.p.machine.registry().text(TCPIP, "Hostname"))
    }

    fn public_keys(&self) -> Found<Vec<String>> {
        Ok(Vec::new())
    }

    fn user_data(&self) -> Found<Option<Vec<u8>>> {
        let (folder, file) = CUSTOM_DATA.rsplit_once('\\').unwrap_or_default();
        disc::read(self.c, folder, file).map(Some)
    }
}
