//! The words on a picture of the screen, read by `tesseract` where it is installed.
//!
//! An aid to people who read the error, never a condition: without the program, or when it takes too long, there are no words. Believes
//! nothing it reads; what a text means is decided in `dialog`.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::split_ppm;
use winimg_base::io::{spawn, without_secrets};

/// How long the reading of one screen may take: about what is left of a minute after `setup.still_limit`. On a host with nothing
/// else to do it is 1 to 2 s.
pub const PATIENCE: Duration = Duration::from_secs(13);
/// Pixels of the longer side that tesseract is given at most.
const LARGEST: usize = 4096;
/// Lines of an error, and their length.
const LINES: usize = 16;
const LINE: usize = 160;

/// `tesseract` in `PATH`.
pub fn program() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let name = format!("tesseract{}", std::env::consts::EXE_SUFFIX);
    let mut found = std::env::split_paths(&folders).map(|folder| folder.join(&name));
    found.find(|file| file.is_file())
}

/// What the first line of `tesseract --version` says; `None` where it is missing.
pub fn version() -> Option<String> {
    let mut command = Command::new(program()?);
    without_secrets(&mut command);
    let output = command.arg("--version").output().ok()?;
    // Versions before 4 print it on stderr.
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    text.lines().next().map(|line| line.trim().to_string())
}

/// Reads a PPM as QEMU's `screendump` writes it. `folder` is private and takes the picture and the text for as long as it lasts.
/// `stop` is asked while it lasts.
pub fn read(ppm: &[u8], folder: &Path, patience: Duration, stop: &dyn Fn() -> bool) -> Vec<String> {
    let deadline = Instant::now() + patience;
    let stop = || Instant::now() >= deadline || stop();
    let (Some(program), Some(grey)) = (program(), enlarged(ppm)) else {
        return Vec::new();
    };
    let (picture, text) = (folder.join("last.pgm"), folder.join("last.txt"));
    let read = || -> std::io::Result<String> {
        std::fs::write(&picture, grey)?;
        run(&program, &picture, &folder.join("last"), &stop)?;
        let mut bytes = Vec::new();
        File::open(&text)?.take(64 << 10).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let found = read().unwrap_or_default();
    let _ = std::fs::remove_file(picture);
    let _ = std::fs::remove_file(text);
    lines(&found)
}

fn run(
    program: &Path,
    picture: &Path,
    base: &Path,
    stop: &dyn Fn() -> bool,
) -> std::io::Result<()> {
    let mut command = Command::new(program);
    command
        .arg(picture)
        .arg(base)
        .args(["-l", "eng", "--psm", "6"])
        // A build has more to do than this.
        .env("OMP_THREAD_LIMIT", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    without_secrets(&mut command);
    let mut child = spawn(&mut command)?;
    tracing::debug!(program = %program.display(), pid = child.id(), "started tesseract");
    loop {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        if stop() {
            let _ = child.kill();
            child.wait()?;
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A grey PGM, two or three times as large: the reader was made for scanned paper, whose letters have many more pixels than a screen's.
/// Dark screens are turned around, so that most letters are dark on light.
fn enlarged(ppm: &[u8]) -> Option<Vec<u8>> {
    let (width, height, pixels) = split_ppm(ppm)?;
    let times = (1..=3).rev().find(|n| width.max(height) * n <= LARGEST)?;
    let grey: Vec<u8> = pixels.as_chunks::<3>().0.iter().map(brightness).collect();
    let sum: u64 = grey.iter().map(|g| u64::from(*g)).sum();
    let dark = sum / (grey.len() as u64) < 100;
    let mut out = format!("P5\n{} {}\n255\n", width * times, height * times).into_bytes();
    for row in grey.chunks_exact(width) {
        let wide: Vec<u8> = row
            .iter()
            .map(|g| if dark { 255 - g } else { *g })
            .flat_map(|g| std::iter::repeat_n(g, times))
            .collect();
        for _ in 0..times {
            out.extend_from_slice(&wide);
        }
    }
    Some(out)
}

fn brightness([r, g, b]: &[u8; 3]) -> u8 {
    let sum = 299 * u32::from(*r) + 587 * u32::from(*g) + 114 * u32::from(*b);
    u8::try_from(sum / 1000).unwrap_or(u8::MAX)
}

/// The lines that hold words, made harmless.
fn lines(text: &str) -> Vec<String> {
    let line = |line: &str| -> Option<String> {
        let plain: String = line
            .chars()
            .filter(|c| !c.is_control())
            .take(LINE)
            .collect();
        let letters = plain.chars().filter(|c| c.is_ascii_alphanumeric()).count();
        (letters >= 3).then(|| plain.trim().to_string())
    };
    text.lines().filter_map(line).take(LINES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_becomes_grey_light_and_three_times_as_large() {
        let ppm = b"P6\n2 1\n255\n\xff\xff\xff\0\0\0";
        let pgm = enlarged(ppm).expect("a picture");
        let (head, pixels) = pgm.split_at(pgm.len() - 18);
        assert_eq!(head, b"P5\n6 3\n255\n");
        assert_eq!(pixels, [255, 255, 255, 0, 0, 0].repeat(3));
        let dark = enlarged(b"P6\n3 1\n255\n\xff\xff\xff\0\0\0\0\0\0").expect("a picture");
        assert_eq!(
            dark[dark.len() - 9..],
            [0, 0, 0, 255, 255, 255, 255, 255, 255]
        );
        assert_eq!(enlarged(b"P6\n9 9\n255\n"), None);
    }

    #[test]
    fn only_lines_with_words_are_reported() {
        let text = format!(
            "Install Windows\n\n| _ |\n\x1b[2J {}\x0c\n",
            "x".repeat(500)
        );
        let read = lines(&text);
        assert_eq!(read.len(), 2);
        assert_eq!(read[0], "Install Windows");
        assert!(read[1].starts_with("[2J xxx") && read[1].len() <= LINE);
        assert_eq!(lines(&"abc\n".repeat(99)).len(), LINES);
    }
}
