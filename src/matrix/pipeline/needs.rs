//! What an engine needs to be told and `[pipeline]` does not say.

use super::{Engine, Source};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_supply::publish::Destination;

/// Every complaint at once.
pub fn missing(engine: Engine, source: Source<'_>) -> Diagnostics {
    let pipeline = source.pipeline;
    let lacks = match engine {
        Engine::Github | Engine::Gitlab => pipeline.labels.is_empty().then_some((
            "labels",
            "name those of runners with KVM, such as `labels = [\"self-hosted\", \"linux\", \"kvm\"]`",
        )),
        Engine::Buildkite => pipeline.queue.is_none().then_some((
            "queue",
            "name the queue of agents with KVM, such as `queue = \"kvm\"`",
        )),
        Engine::Argo | Engine::Kubernetes => pipeline.image.is_none().then_some((
            "image",
            "name a container image with winimg, QEMU and OVMF, such as `image = \"registry.example.com/team/winimg:1\"`",
        )),
    };
    let mut found = Diagnostics::default();
    if let Some((key, help)) = lacks {
        let fact = format!("[pipeline] has no `{key}`, which {} needs", word(engine));
        found.0.push(error(&fact, &pipeline.place, help));
    }
    let own = pipeline.publish.iter().flat_map(|publish| &publish.secrets);
    for name in pipeline.secrets.iter().chain(own) {
        if engine == Engine::Github && name.starts_with("GITHUB_") {
            // GitHub: "Using secrets in GitHub Actions", naming your secrets.
            let fact = format!("GitHub has no secret called {name}");
            let help = "names of secrets do not begin with `GITHUB_` there";
            found.0.push(error(&fact, &pipeline.place, help));
        }
    }
    let publish = pipeline.publish.iter().map(|publish| &publish.to);
    for target in pipeline.store.iter().chain(publish) {
        let wrong = source.schedule.variants.iter().find_map(|variant| {
            let address = target.of(&variant.name);
            Destination::parse(&address).err().map(|e| (address, e))
        });
        if let Some((address, why)) = wrong {
            let fact = format!("\"{address}\" is no destination of `winimg publish`");
            let why = why.to_string();
            let why = why.lines().next().unwrap_or_default();
            let help = format!("{why}; `winimg publish --help` has all that there are");
            found.0.push(error(&fact, &target.place, &help));
        }
    }
    found
}

fn error(fact: &str, place: &winimg_base::text::Place, help: &str) -> Diagnostic {
    Diagnostic::error(fact.to_owned())
        .at(place, "")
        .help(help.to_owned())
}

fn word(engine: Engine) -> &'static str {
    match engine {
        Engine::Github => "GitHub",
        Engine::Gitlab => "GitLab",
        Engine::Argo => "Argo",
        Engine::Kubernetes => "Kubernetes",
        Engine::Buildkite => "Buildkite",
    }
}
