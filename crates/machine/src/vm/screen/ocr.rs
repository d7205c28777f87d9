//! Reads the text of a screenshot with `tesseract`, if it is installed.
//!
//! Only helps readers of an error: without the program, or if it takes too long, there is no text.
//! `dialog` interprets the text.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::split_ppm;
use winimg_base::io::{remove_secrets, spawn};

/// Limit for reading a screen: about the rest of a minute after `setup.still_limit`. An idle host
/// needs 1 to 2 s.
pub const PATIENCE: Duration = Duration::from_secs(13);
/// Maximum length of a side in pixels, for tesseract.
const MAX_SIDE: usize = 4096;
/// Maximum number of lines, and of characters per line, in an error.
const LINES: usize = 16;
const LINE: usize = 160;

/// Finds `tesseract` in `PATH`.
pub fn find_tesseract() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let name = format!("tesseract{}", std::env::consts::EXE_SUFFIX);
    let mut found = std::env::split_paths(&folders).map(|folder| folder.join(&name));
    found.find(|file| file.is_file())
}

/// Returns the first line of `tesseract --version`; `None` if it is not installed.
pub fn read_version() -> Option<String> {
    let mut command = Command::new(find_tesseract()?);
    remove_secrets(&mut command);
    let output = command.arg("--version").output().ok()?;
    // Versions before 4 print it on stderr.
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    text.lines().next().map(|line| line.trim().to_string())
}

/// Reads the text of a PPM from QEMU's `screendump`. Temporary files go into the private `folder`.
/// Reading ends early once `stop` returns true.
pub fn read(ppm: &[u8], folder: &Path, patience: Duration, stop: &dyn Fn() -> bool) -> Vec<String> {
    let deadline = Instant::now() + patience;
    let (Some(program), Some(grey)) = (find_tesseract(), scale_for_ocr(ppm)) else {
        return Vec::new();
    };
    let (picture, text) = (folder.join("last.pgm"), folder.join("last.txt"));
    let found = std::fs::write(&picture, grey)
        .and_then(|()| {
            run(&program, &picture, &folder.join("last"), &|| {
                Instant::now() >= deadline || stop()
            })
        })
        .and_then(|()| read_start(&text))
        .unwrap_or_default();
    let _ = std::fs::remove_file(picture);
    let _ = std::fs::remove_file(text);
    filter_lines(&found)
}

/// Reads at most the first 64 KiB of a text file.
fn read_start(file: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    File::open(file)?.take(64 << 10).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
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
        // Leave the other processors to the build.
        .env("OMP_THREAD_LIMIT", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    remove_secrets(&mut command);
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

/// Converts to a grey PGM of two or three times the size: tesseract expects scanned paper, where
/// letters have many more pixels. Dark screens are inverted, so that most letters are dark on
/// light.
fn scale_for_ocr(ppm: &[u8]) -> Option<Vec<u8>> {
    let (width, height, pixels) = split_ppm(ppm)?;
    let times = (1..=3).rev().find(|n| width.max(height) * n <= MAX_SIDE)?;
    let grey: Vec<u8> = pixels
        .as_chunks::<3>()
        .0
        .iter()
        .map(compute_brightness)
        .collect();
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

fn compute_brightness([r, g, b]: &[u8; 3]) -> u8 {
    let sum = 299 * u32::from(*r) + 587 * u32::from(*g) + 114 * u32::from(*b);
    u8::try_from(sum / 1000).unwrap_or(u8::MAX)
}

/// Returns the lines that contain words, without control characters.
fn filter_lines(text: &str) -> Vec<String> {
    text.lines().filter_map(clean_line).take(LINES).collect()
}

fn clean_line(line: &str) -> Option<String> {
    let plain: String = line
        .chars()
        .filter(|c| !c.is_control())
        .take(LINE)
        .collect();
    let letters = plain.chars().filter(|c| c.is_ascii_alphanumeric()).count();
    (letters >= 3).then(|| plain.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_becomes_grey_light_and_three_times_as_large() {
        let ppm = b"P6\n2 1\n255\n\xff\xff\xff\0\0\0";
        let pgm = scale_for_ocr(ppm).expect("a picture");
        let (head, pixels) = pgm.split_at(pgm.len() - 18);
        assert_eq!(head, b"P5\n6 3\n255\n");
        assert_eq!(pixels, [255, 255, 255, 0, 0, 0].repeat(3));
        let dark = scale_for_ocr(b"P6\n3 1\n255\n\xff\xff\xff\0\0\0\0\0\0").expect("a picture");
        assert_eq!(
            dark[dark.len() - 9..],
            [0, 0, 0, 255, 255, 255, 255, 255, 255]
        );
        assert_eq!(scale_for_ocr(b"P6\n9 9\n255\n"), None);
    }

    #[test]
    fn only_lines_with_words_are_reported() {
        let text = format!(
            "Install Windows\n\n| _ |\n\x1b[2J {}\x0c\n",
            "x".repeat(500)
        );
        let read = filter_lines(&text);
        assert_eq!(read.len(), 2);
        assert_eq!(read[0], "Install Windows");
        assert!(read[1].starts_with("[2J xxx") && read[1].len() <= LINE);
        assert_eq!(filter_lines(&"abc\n".repeat(99)).len(), LINES);
    }
}
