//! Recipes made by hand for the plan's tests, until they are read from TOML: each step stands on a
//! line of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use winimg_base::digest::Digest;
use winimg_base::text::{Located, Place, SourceText};
use winimg_recipe::verbs::*;
use winimg_recipe::*;

/// Steps are on lines 11, 12, … of `recipe.toml`; everything else is on line 1.
pub struct Maker {
    source: Arc<SourceText>,
    recipe: Recipe,
}

impl Maker {
    pub fn new() -> Self {
        let source = Arc::new(SourceText::new("recipe.toml", "\n".repeat(200)));
        let at = |text: &str| Located::new(text.to_owned(), Place::new(&source, 0..0));
        let origin = |url: &str| {
            let digest = Digest::sha256_of(url.as_bytes());
            let digest = Located::new(digest, Place::new(&source, 0..0));
            let url = Located::new(FileAddress::Local(url.into()), Place::new(&source, 0..0));
            DownloadSpec::new(url, ProofSpec::Digest(digest))
        };
        let recipe = Recipe {
            name: at("test"),
            description: None,
            digest: Digest::sha256_of(b"recipe"),
            media: MediaSpec {
                iso: origin("ws2022.iso"),
                virtio: None,
                image: at("datacenter-core"),
                product_key: None,
                language: at("en-US"),
                time_zone: at("UTC"),
            },
            machine: MachineSpec {
                firmware: Firmware::Uefi,
                secure_boot: false,
                disk_bus: DiskBus::Nvme,
                disk_size: 64 << 30,
                cpus: 2,
                memory: 4 << 30,
                network: false,
                tpm: false,
            },
            setup: SetupSpec {
                answer_file: None,
                lint_is_advice: false,
                computer_name: "winimg".into(),
                timeout: Duration::from_secs(3600),
                still_limit: Duration::from_secs(600),
                settle_time: Duration::from_secs(90),
                drivers: vec![],
                own_drivers: None,
            },
            components: vec![],
            lock: LockPolicy::default(),
            mirrors: Mirrors::default(),
            images: Vec::new(),
            steps: vec![],
            clone_checks: vec![],
            outputs: Outputs::default(),
            targets: vec![],
            written: BTreeMap::new(),
            vars: vec![],
            effective: vec![],
            lock_requests: vec![],
            undecided: vec![],
            files: vec![],
            quotable: Default::default(),
            unquotable_scripts: Default::default(),
            is_whole: true,
        };
        Self { source, recipe }
    }

    /// Text at the line of the step that comes next.
    pub fn at(&self, text: &str) -> Located<String> {
        Located::new(text.to_owned(), self.next_place())
    }

    /// A path there.
    pub fn path(&self, text: &str) -> Located<GuestPath> {
        self.at(text).map(|text| text.parse().expect("a path"))
    }

    fn next_place(&self) -> Place {
        let line = 10 + self.recipe.steps.len();
        Place::new(&self.source, line..line)
    }

    pub fn component(mut self, name: &str, file: &str, unpack: Option<ArchiveKind>) -> Self {
        let url = format!("https://example.com/{file}");
        let place = Place::new(&self.source, 0..0);
        self.recipe.components.push(ComponentSpec {
            name: Located::new(name.to_owned(), place.clone()),
            version: Some("1.2.3".into()),
            origin: DownloadSpec::new(
                Located::new(
                    FileAddress::Remote(url.parse().expect("a URL")),
                    place.clone(),
                ),
                ProofSpec::Digest(Located::new(Digest::sha256_of(url.as_bytes()), place)),
            ),
            file: file.to_owned(),
            unpack,
            license: None,
            versions: None,
            version_slot: None,
            digest_slot: None,
            is_used: true,
        });
        self
    }

    pub fn var(mut self, name: &str, value: &str, origin: &str) -> Self {
        self.recipe.vars.push(ResolvedVariable {
            name: name.into(),
            value: value.into(),
            origin: origin.into(),
        });
        self
    }

    pub fn value(mut self, path: &str, value: &str, origin: &str) -> Self {
        self.recipe.effective.push(EffectiveValue {
            path: path.into(),
            value: value.into(),
            origin: origin.into(),
        });
        self
    }

    pub fn language(mut self, language: &str, time_zone: &str) -> Self {
        self.recipe.media.language.value = language.into();
        self.recipe.media.time_zone.value = time_zone.into();
        self
    }

    pub fn step(mut self, name: &str, verb: impl FnOnce(&Self) -> Verb) -> Self {
        let verb = verb(&self);
        let place = self.next_place();
        self.recipe.steps.push(RecipeStep {
            name: name.into(),
            place,
            skipped: None,
            timeout: None,
            verb,
        });
        self
    }

    /// Changes the step that was added last.
    pub fn but(mut self, change: impl FnOnce(&mut RecipeStep)) -> Self {
        change(self.recipe.steps.last_mut().expect("a step"));
        self
    }

    pub fn made(self) -> Recipe {
        self.recipe
    }

    // Verbs, short.

    pub fn copy(&self, component: &str, to: &str) -> Verb {
        Verb::Copy(CopySpec {
            from: StepContent::Component(self.at(component)),
            to: self.path(to),
        })
    }

    pub fn copy_local(&self, from: PathBuf, to: &str) -> Verb {
        let from = self.at("").map(|_| from);
        Verb::Copy(CopySpec {
            from: StepContent::Local(from),
            to: self.path(to),
        })
    }

    pub fn registry(&self, key: &str, value: Option<&str>, data: RegistryValueData) -> Verb {
        Verb::Registry(RegistrySpec {
            key: self.at(key).map(|key| key.parse().expect("a key")),
            value: value.map(str::to_owned),
            data,
        })
    }

    pub fn environment(&self, name: &str, value: Option<&str>) -> Verb {
        Verb::Environment(EnvironmentSpec {
            name: self.at(name),
            value: value.map(str::to_owned),
        })
    }

    pub fn service(&self, name: &str) -> ServiceSpec {
        ServiceSpec {
            name: self.at(name),
            display_name: None,
            description: None,
            program: None,
            arguments: vec![],
            start: None,
            depends: vec![],
            account: None,
            restart_delays: vec![],
            failure_reset: 86_400,
            state: None,
        }
    }

    pub fn msi(&self, component: &str, properties: &[(&str, &str)]) -> Verb {
        let properties: BTreeMap<String, String> = properties
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect();
        Verb::Msi(MsiSpec {
            from: StepContent::Component(self.at(component)),
            properties,
            exit_codes: ExitCodes::default(),
        })
    }

    pub fn cmd(&self, script: &str) -> Verb {
        Verb::Cmd(CmdSpec {
            script: script.into(),
            exit_codes: ExitCodes::default(),
        })
    }

    pub fn generalize(&self) -> Verb {
        Verb::Generalize(GeneralizeSpec {
            answer_file: SealAnswer::BuiltIn,
            mode_vm: false,
        })
    }
}
