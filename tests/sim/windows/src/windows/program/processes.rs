//! taskkill and tasklist. What runs for long are services: there are no other processes.

use super::Arguments;
use super::small::unknown;
use crate::windows::process::Process;
use crate::windows::service;

/// Ends services by the name of their program; there are no other processes.
pub fn taskkill(p: &mut Process, args: &Arguments) -> u32 {
    let (mut image, mut pid) = (None, None);
    let mut words = args.list.iter();
    while let Some(word) = words.next() {
        match word.to_ascii_lowercase().as_str() {
            "/f" | "/t" => {}
            "/im" => image = words.next(),
            "/pid" => pid = words.next().and_then(|number| number.parse::<u32>().ok()),
            _ => return unknown(p, "taskkill", word, 1),
        }
    }
    let names = service::names(&p.machine.registry());
    let hit = names.into_iter().find(|name| {
        let running = service::pid(&p.machine, name);
        let path = service::config(&p.machine.registry(), name)
            .map(|config| config.image_path.to_ascii_lowercase())
            .unwrap_or_default();
        running.is_some()
            && (pid.is_some() && running == pid
                || image.is_some_and(|image| path.contains(&image.to_ascii_lowercase())))
    });
    match hit.map(|name| service::stop(&p.machine, &name)) {
        Some(Ok(())) => {
            p.print("SUCCESS: The process has been terminated.\n");
            0
        }
        _ => {
            p.complain("ERROR: The process not found.\n");
            128
        }
    }
}

/// As a table, of one program's processes: `/fi "imagename eq NAME"`, and `/nh`. The code is 0 whether there are any or none.
pub fn tasklist(p: &mut Process, args: &Arguments) -> u32 {
    let (mut wanted, mut bare) = (None, false);
    let mut words = args.list.iter();
    while let Some(word) = words.next() {
        match word.to_ascii_lowercase().as_str() {
            "/nh" if !bare => bare = true,
            "/fi" if wanted.is_none() => {
                let filter = words
                    .next()
                    .map(|filter| filter.split(' ').collect::<Vec<_>>());
                match filter.as_deref() {
                    Some([what, how, name])
                        if what.eq_ignore_ascii_case("imagename")
                            && how.eq_ignore_ascii_case("eq")
                            && !name.contains('*') =>
                    {
                        wanted = Some((*name).to_owned());
                    }
                    _ => {
                        p.complain("ERROR: The search filter cannot be recognized.\n");
                        return 1;
                    }
                }
            }
            _ => return unknown(p, "tasklist", word, 1),
        }
    }
    let Some(wanted) = wanted else {
        return unknown(p, "tasklist", "no filter", 1);
    };
    let rows: Vec<String> = running(p)
        .into_iter()
        .filter(|(image, _)| image.eq_ignore_ascii_case(&wanted))
        .map(|(image, pid)| {
            // A longer name is cut.
            let image: String = image.chars().take(25).collect();
            format!(
                "{image:25} {pid:>8} {:16} {:>11} {:>12}\n",
                "Services", 0, "8,192 K"
            )
        })
        .collect();
    if rows.is_empty() {
        p.print("INFO: No tasks are running which match the specified criteria.\n");
        return 0;
    }
    p.print("\n");
    if !bare {
        p.print(&format!(
            "{:25} {:>8} {:16} {:>11} {:>12}\n{} {} {} {} {}\n",
            "Image Name",
            "PID",
            "Session Name",
            "Session#",
            "Mem Usage",
            "=".repeat(25),
            "=".repeat(8),
            "=".repeat(16),
            "=".repeat(11),
            "=".repeat(12),
        ));
    }
    rows.iter().for_each(|row| p.print(row));
    0
}

/// The programs of running services by their files' names, with their process ids.
fn running(p: &Process) -> Vec<(String, u32)> {
    let registry = p.machine.registry();
    let names = service::names(&registry);
    let found = names.into_iter().filter_map(|name| {
        let pid = service::pid(&p.machine, &name)?;
        let path = service::config(&registry, &name)?.image_path;
        let path = path.trim_start_matches('"');
        let end = path.to_ascii_lowercase().find(".exe");
        let end = end.map_or(path.len(), |at| at + 4);
        let image = path[..end].rsplit('\\').next()?.to_owned();
        Some((image, pid))
    });
    found.collect()
}
