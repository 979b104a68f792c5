//! What is kept and what is refused.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use chart::{Archive, Charts, Kept};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use tar::{Builder, EntryType, Header};

const ABOUT: &str = "apiVersion: v2\nname: shop\nversion: 1.2.3\n";

/// An archive of these entries; the paths are written as they are.
fn archive(entries: &[(EntryType, &str, &[u8])]) -> Vec<u8> {
    let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (kind, path, bytes) in entries {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        if matches!(kind, EntryType::Symlink | EntryType::Link) {
            header.set_link_name(std::str::from_utf8(bytes).unwrap()).unwrap();
            header.set_size(0);
            header.set_cksum();
            tar.append(&header, &[][..]).unwrap();
        } else {
            header.set_size(bytes.len() as u64);
            header.set_cksum();
            tar.append(&header, *bytes).unwrap();
        }
    }
    tar.into_inner().unwrap().finish().unwrap()
}

fn file<'a>(path: &'a str, text: &'a str) -> (EntryType, &'a str, &'a [u8]) {
    (EntryType::Regular, path, text.as_bytes())
}

fn good() -> Vec<u8> {
    archive(&[file("shop/Chart.yaml", ABOUT), file("shop/values.yaml", "image: {tag: \"17.6\"}\n")])
}

/// Zeros in one entry, or after the archive's end.
fn zeros(size: u64, inside: bool) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.set_path("shop/zeros").unwrap();
    header.set_size(if inside { size } else { 0 });
    header.set_cksum();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(header.as_bytes()).unwrap();
    std::io::copy(&mut std::io::repeat(0).take(size), &mut gzip).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn what_is_no_chart_is_refused_and_nothing_of_it_stays() {
    let folder = tempfile::tempdir().unwrap();
    let charts = Charts::open(folder.path().join("charts"));
    let whole = good();
    let mut flipped = whole.clone();
    let last = flipped.len() - 6;
    flipped[last] ^= 1;
    let about = |text: &str| archive(&[file("shop/Chart.yaml", text)]);
    let with = |entry: (EntryType, &str, &[u8])| archive(&[file("shop/Chart.yaml", ABOUT), entry]);
    let bomb =
        archive(&[file("shop/Chart.yaml", ABOUT), (EntryType::Regular, "shop/charts/b.tgz", &zeros(200 << 20, false))]);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("nothing", vec![], "chart.not_gzip"),
        ("a page", b"<html>not found</html>".to_vec(), "chart.not_gzip"),
        ("half of it", whole[..whole.len() / 2].to_vec(), "chart.truncated"),
        ("all but its end", whole[..whole.len() - 4].to_vec(), "chart.truncated"),
        ("another checksum", flipped, "chart.damaged"),
        ("no Chart.yaml", archive(&[file("shop/values.yaml", "a: 1\n")]), "chart.no_chart_yaml"),
        ("empty", archive(&[]), "chart.no_chart_yaml"),
        ("no folder", archive(&[file("Chart.yaml", ABOUT)]), "chart.no_folder"),
        ("a path that leaves", with(file("shop/../../etc/passwd", "x")), "chart.path_outside"),
        ("a path that leaves backwards", with(file("shop\\..\\..\\x", "x")), "chart.path_outside"),
        ("an absolute path", with(file("/etc/passwd", "x")), "chart.path_absolute"),
        ("a drive", with(file("C:\\x\\y", "x")), "chart.path_absolute"),
        ("a symbolic link", with((EntryType::Symlink, "shop/values.yaml", b"/etc/passwd")), "chart.link"),
        ("a hard link", with((EntryType::Link, "shop/values.yaml", b"shop/Chart.yaml")), "chart.link"),
        ("a device", with((EntryType::Char, "shop/null", b"")), "chart.special_file"),
        ("a pipe", with((EntryType::Fifo, "shop/pipe", b"")), "chart.special_file"),
        ("a folder that leaves", with((EntryType::Directory, "shop/../../x/", b"")), "chart.path_outside"),
        ("a file of 2 GiB", zeros(2 << 30, true), "chart.file_too_large"),
        ("2 GiB after the end", zeros(2 << 30, false), "chart.too_large"),
        ("200 MiB in a subchart", bomb, "chart.too_large"),
        ("no version", about("apiVersion: v2\nname: shop\n"), "chart.chart_yaml_malformed"),
        ("a number as version", about("apiVersion: v2\nname: shop\nversion: 1.0\n"), "chart.chart_yaml_malformed"),
        ("half a version", about("apiVersion: v2\nname: shop\nversion: \"1.0\"\n"), "chart.version_malformed"),
        ("a path as name", about("apiVersion: v2\nname: ../shop\nversion: 1.0.0\n"), "chart.chart_yaml_malformed"),
        ("no YAML", about("a: [\n"), "chart.chart_yaml_malformed"),
        ("values that are a list", with(file("shop/values.yaml", "- a\n")), "chart.values_malformed"),
    ];
    for (what, bytes, code) in cases {
        let problem = charts.keep(&bytes).expect_err(what);
        assert_eq!(problem.code, code, "{what}: {problem}");
    }
    assert!(!folder.path().join("charts").exists(), "nothing was written");
    let kept = charts.keep(&whole).unwrap();
    assert_eq!((kept.name.as_str(), kept.version.as_str()), ("shop", "1.2.3"));
    let codes = |name, version| kept.require(name, version).map_err(|problem| problem.code.into_owned());
    assert_eq!(codes("shop", "1.2.3"), Ok(()));
    assert_eq!(codes("team/shop", "1.2.3"), Ok(()), "a registry's path ends in the name");
    assert_eq!(codes("cart", "1.2.3"), Err("chart.another_name".into()));
    assert_eq!(codes("shop", "1.2.4"), Err("chart.another_version".into()));
}

#[test]
fn an_archive_is_kept_by_its_digest_and_compared_whenever_it_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = good();
    let digest = {
        let charts = Charts::open(folder.path().to_owned());
        let first = charts.keep(&bytes).unwrap();
        assert_eq!(charts.keep(&bytes).unwrap(), first, "the same bytes are kept once");
        first.digest
    };
    let names = |folder: &Path| fs::read_dir(folder).unwrap().count();
    assert_eq!(names(folder.path()), 1);
    // What a writer left that died long ago goes, what is being written stays.
    let left = [folder.path().join(".writing-old"), folder.path().join(".writing-new")];
    left.iter().for_each(|file| fs::write(file, "half").unwrap());
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    File::options().write(true).open(&left[0]).unwrap().set_modified(long_ago).unwrap();
    let charts = Charts::open(folder.path().to_owned());
    assert_eq!((left[0].exists(), left[1].exists()), (false, true));

    assert_eq!(charts.read(&digest).unwrap(), bytes);
    assert_eq!(charts.state(&digest), Kept::Whole(bytes.len() as u64));
    let file = folder.path().join(format!("{digest}.tgz"));
    let mut changed = bytes.clone();
    changed[20] ^= 1;
    fs::write(&file, &changed).unwrap();
    let problem = charts.read(&digest).unwrap_err();
    assert_eq!(problem.code, "chart.digest_differs");
    assert_eq!(problem.expected.as_deref(), Some(format!("sha256:{digest}").as_str()));
    assert!(matches!(charts.state(&digest), Kept::Changed(_)));
    charts.keep(&bytes).unwrap();
    assert_eq!(charts.state(&digest), Kept::Whole(bytes.len() as u64), "keeping it again heals it");
    fs::remove_file(&file).unwrap();
    assert_eq!(
        (charts.state(&digest), charts.read(&digest).unwrap_err().code),
        (Kept::Gone, "chart.archive_gone".into())
    );
}

#[test]
fn a_chart_s_own_values_are_those_of_its_subcharts_as_well() {
    let sub = archive(&[
        file("db/Chart.yaml", "apiVersion: v2\nname: db\nversion: 0.1.0\n"),
        file("db/values.yaml", "port: 5432\nimage: {tag: \"17.6\", name: postgres}\n"),
    ]);
    let about = format!("{ABOUT}dependencies: [{{name: db, alias: store, version: 0.1.0}}]\n");
    let bytes = archive(&[
        file("shop/Chart.yaml", &about),
        file("shop/values.yaml", "store: {image: {tag: \"1.10\"}}\nweb: {on: yes}\n"),
        (EntryType::Regular, "shop/charts/db-0.1.0.tgz", &sub),
        file("shop/charts/cache/Chart.yaml", "apiVersion: v2\nname: cache\nversion: 0.1.0\n"),
        file("shop/charts/cache/values.yaml", "# nothing\n"),
    ]);
    let values = Archive::read(&bytes).unwrap().values;
    let expect = json!({
        "store": {"image": {"tag": "1.10", "name": "postgres"}, "port": 5432},
        "web": {"true": true},
        "cache": {},
    });
    assert_eq!(values, expect);
}
