//! Reading a chart's archive without trusting it: every byte, entry and path is bounded, and nothing is written.

use std::io::{self, Read};
use std::path::{Component, Path};

use flate2::read::MultiGzDecoder;
use model::{ErrorKind, Problem, Result};
use tar::EntryType;

/// Most bytes of all files together. Helm's own bound (`MaxDecompressedChartSize`).
const LARGEST_CHART: u64 = 100 << 20;
/// Most bytes of one file. Helm's own bound (`MaxDecompressedFileSize`).
const LARGEST_FILE: u64 = 5 << 20;
/// More files than any chart has.
const MOST_ENTRIES: usize = 20_000;
/// What a gzip stream begins with (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// One file: its path below the chart's folder, with `/`, and its bytes.
pub(crate) struct File {
    pub path: String,
    pub bytes: Vec<u8>,
}

/// How much may still be unpacked: one bound for a chart and all the charts in it.
pub(crate) struct Budget(u64);

impl Budget {
    pub fn of_a_chart() -> Self {
        Self(LARGEST_CHART)
    }
}

/// Every file of the archive, in its order.
///
/// # Errors
/// `chart.not_gzip`, `chart.truncated`, `chart.damaged`, `chart.too_large`, `chart.file_too_large`, `chart.too_many_files`,
/// `chart.path_outside`, `chart.path_absolute`, `chart.link`, `chart.special_file`, `chart.no_folder`.
pub(crate) fn files(bytes: &[u8], budget: &mut Budget) -> Result<Vec<File>> {
    if !bytes.starts_with(&GZIP) {
        let first: Vec<String> = bytes.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let found = if first.is_empty() { "no bytes".to_owned() } else { format!("bytes {}", first.join(" ")) };
        return Err(refused("chart.not_gzip", "the chart's archive is not compressed with gzip")
            .found(found)
            .expected("a `.tgz` as `helm package` makes it"));
    }
    // Whatever is in there is read once, and never more of it than a chart may have.
    let mut archive = tar::Archive::new(Bounded { inner: MultiGzDecoder::new(bytes), left: &mut budget.0 });
    let mut files = Vec::new();
    for entry in archive.entries().map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if files.len() == MOST_ENTRIES {
            return Err(refused("chart.too_many_files", "the chart's archive holds too many files")
                .expected(format!("at most {MOST_ENTRIES}")));
        }
        if let Some(file) = file(entry)? {
            files.push(file);
        }
    }
    // The end of the archive is not the end of the stream, which has a checksum there.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(unreadable)?;
    Ok(files)
}

fn file<R: Read>(mut entry: tar::Entry<'_, R>) -> Result<Option<File>> {
    let kind = entry.header().entry_type();
    let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
    match kind {
        EntryType::Regular | EntryType::Continuous => {}
        EntryType::Directory => return inside(&path).map(|_| None),
        // Words about other entries (`git archive`): they hold no file.
        EntryType::XGlobalHeader => return Ok(None),
        EntryType::Symlink | EntryType::Link => {
            let to = entry.link_name_bytes().map(|to| String::from_utf8_lossy(&to).into_owned());
            return Err(refused("chart.link", "the chart's archive holds a link")
                .place(path)
                .found(format!("a link to `{}`", to.unwrap_or_default()))
                .expected("files and folders alone")
                .fix("package the chart with `helm package`, which follows links"));
        }
        other => {
            return Err(refused("chart.special_file", "the chart's archive holds what is neither file nor folder")
                .place(path)
                .found(format!("an entry of type {:?}", char::from(other.as_byte())))
                .expected("files and folders alone"));
        }
    }
    let path = inside(&path)?;
    let size = entry.size();
    if size > LARGEST_FILE {
        return Err(refused("chart.file_too_large", "a file of the chart's archive is too large")
            .place(path)
            .found(format!("{size} bytes"))
            .expected(format!("at most {LARGEST_FILE} bytes, as Helm has it")));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    entry.read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(Some(File { path, bytes }))
}

/// The path below the chart's folder.
fn inside(path: &str) -> Result<String> {
    // Helm reads both kinds of slashes, whatever machine the archive was made on.
    let path = path.replace('\\', "/");
    let drive = path.as_bytes().get(1) == Some(&b':') && path.as_bytes()[0].is_ascii_alphabetic();
    if path.starts_with('/') || drive {
        return Err(refused("chart.path_absolute", "the chart's archive holds an absolute path")
            .found(format!("`{path}`"))
            .expected("paths below one folder, which is named as the chart is"));
    }
    let mut parts = Vec::new();
    for part in Path::new(&path).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::CurDir => {}
            _ => {
                return Err(refused("chart.path_outside", "the chart's archive holds a path that leaves its folder")
                    .found(format!("`{path}`"))
                    .expected("paths below one folder, which is named as the chart is"));
            }
        }
    }
    if parts.len() < 2 && !path.ends_with('/') {
        return Err(refused("chart.no_folder", "the chart's archive holds a file outside of the chart's folder")
            .found(format!("`{path}`"))
            .expected("every file below one folder, which is named as the chart is")
            .fix("package the chart with `helm package`"));
    }
    Ok(parts.get(1..).unwrap_or_default().join("/"))
}

/// A stream that fails once more than its bound came out of it.
struct Bounded<'a, R> {
    inner: R,
    left: &'a mut u64,
}

/// Told apart from what the operating system says.
#[derive(Debug, thiserror::Error)]
#[error("more than {LARGEST_CHART} bytes")]
struct TooLarge;

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => *self.left = left,
            None => return Err(io::Error::other(TooLarge)),
        }
        Ok(read)
    }
}

fn unreadable(error: io::Error) -> Problem {
    let too_large = {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = error.get_ref().map(|error| error as _);
        std::iter::from_fn(|| cause.inspect(|error| cause = error.source())).any(|error| error.is::<TooLarge>())
    };
    if too_large || error.to_string().contains(&TooLarge.to_string()) {
        return refused("chart.too_large", "the chart's archive unpacks to more than a chart may have")
            .found(format!("more than {LARGEST_CHART} bytes"))
            .expected(format!("at most {LARGEST_CHART} bytes, as Helm has it"));
    }
    if error.kind() == io::ErrorKind::UnexpectedEof || error.to_string().contains("unexpected EOF") {
        return refused("chart.truncated", "the chart's archive ends in the middle")
            .found(error.to_string())
            .fix("fetch or copy it again");
    }
    refused("chart.damaged", "the chart's archive cannot be unpacked")
        .found(error.to_string())
        .expected("a `.tgz` as `helm package` makes it")
}

pub(crate) fn refused(code: &'static str, message: &str) -> Problem {
    Problem::new(ErrorKind::Invalid, code, message)
}
