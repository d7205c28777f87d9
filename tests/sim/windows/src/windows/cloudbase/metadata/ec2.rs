//! EC2's metadata (`ec2service.py`). It asks for no token: an instance that insists on IMDSv2 answers 401 to all of it.

use super::{Context, Endpoint, Found, Service, failed};

const VERSION: &str = "2009-04-04";

pub struct Ec2<'a>(Endpoint<'a>);

impl<'a> Ec2<'a> {
    pub fn new(c: Context<'a>) -> Self {
        Ec2(Endpoint {
            c,
            base: c.settings.ec2_url.clone(),
            headers: Vec::new(),
        })
    }

    fn text(&self, below: &str) -> Found<String> {
        self.0.text(&format!("{VERSION}/{below}"))
    }
}

impl Service for Ec2<'_> {
    fn name(&self) -> &'static str {
        "EC2Service"
    }

    fn load(&mut self) -> Found<bool> {
        let found = self.host_name();
        if found.is_err() {
            self.0.c.log.debug(
                "metadata.services.ec2service",
                &format!("Metadata not found at URL '{}'", self.0.base),
            );
        }
        Ok(found.is_ok())
    }

    fn instance_id(&self) -> Found<Option<String>> {
        self.text("meta-data/instance-id").map(Some)
    }

    fn host_name(&self) -> Found<Option<String>> {
        self.text("meta-data/local-hostname").map(Some)
    }

    fn public_keys(&self) -> Found<Vec<String>> {
        let list = self.text("meta-data/public-keys")?;
        let mut keys = Vec::new();
        for line in list.lines() {
            let parts: Vec<&str> = line.split('=').collect();
            let [index, _] = parts[..] else {
                return Err(failed(format!(
                    "not enough or too many values to unpack: {line}"
                )));
            };
            let key = self.text(&format!("meta-data/public-keys/{index}/openssh-key"))?;
            keys.push(key.trim().to_owned());
        }
        Ok(keys)
    }

    fn user_data(&self) -> Found<Option<Vec<u8>>> {
        self.0.get(&format!("{VERSION}/user-data")).map(Some)
    }
}
