//! The file system that a command sees: programs and libraries read-only, its input read-only, its output, and a little
//! memory. The data folder, the homes and the sockets of this machine are not in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use api::algorithm::Network;
use model::Result;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::pivot_root;
use worker::confine::{HOME, INPUT, OUTPUT, Order};

use super::no_isolation;

/// This program and its order, as the last process sees them. There is nothing in them that the command does not know.
pub const PROGRAM: &str = "/.aegis/program";
pub const ORDER: &str = "/.aegis/order.json";
/// Where the command's connections to the server end.
pub const GATE: &str = "/.aegis/gate";

/// Folders that programs and libraries are in.
const SYSTEM: [&str; 9] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt", "etc"];
/// Files that tell secrets, hidden.
const SECRETS: [&str; 4] = ["etc/shadow", "etc/shadow-", "etc/gshadow", "etc/gshadow-"];
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Makes the new root below the work folder. What is mounted here is seen by this process and those that it starts.
pub fn prepare(order: &Order, program: &Path, file: &Path) -> Result<()> {
    let flags =
        CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
    unshare(flags).map_err(|error| no_isolation(format!("mount and pid namespaces: {error}")))?;
    apply(None, Path::new("/"), None, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None)?;
    let root = root(order);
    make_folder(&root)?;
    memory(&root, "size=64m,mode=755")?;
    for name in SYSTEM {
        system(&root, name)?;
    }
    make_folder(&root.join("dev"))?;
    for device in DEVICES {
        bind(&Path::new("/dev").join(device), &root.join("dev").join(device), MsFlags::empty())?;
    }
    for secret in SECRETS.iter().map(|secret| root.join(secret)).filter(|secret| secret.exists()) {
        bind(Path::new("/dev/null"), &secret, MsFlags::empty())?;
    }
    for (folder, size) in [("dev/shm", "size=256m,mode=1777"), (inside_text(HOME), "size=256m,mode=1777")] {
        make_folder(&root.join(folder))?;
        memory(&root.join(folder), size)?;
    }
    // Below the folder for temporary files there may be some of these.
    for place in named(order) {
        read_only(&place, &root.join(inside(&place)))?;
    }
    // Where a machine keeps the names of its name servers elsewhere, that file is needed to reach anything by name.
    if order.network == Network::All
        && let Ok(names) = fs::canonicalize("/etc/resolv.conf")
        && !names.starts_with("/etc")
    {
        read_only(&names, &root.join(inside(&names)))?;
    }
    read_only(&order.input, &root.join(inside_text(INPUT)).join(&order.datapack))?;
    bind(&order.output, &root.join(inside_text(OUTPUT)), MsFlags::MS_NOSUID | MsFlags::MS_NODEV)?;
    read_only(program, &root.join(inside_text(PROGRAM)))?;
    read_only(file, &root.join(inside_text(ORDER)))?;
    let gate = super::gate::socket(order);
    if gate.exists() {
        bind(&gate, &root.join(inside_text(GATE)), MsFlags::empty())?;
    }
    make_folder(&root.join("proc"))
}

/// Makes `/proc`, and the new root the only one.
pub fn enter(order: &Order) -> Result<()> {
    let root = root(order);
    let wrong = |error: nix::Error| no_isolation(format!("the new root: {error}"));
    // The keeper shares the mounts up to here, and would have its root moved as well.
    unshare(CloneFlags::CLONE_NEWNS).map_err(wrong)?;
    let nothing = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    apply(Some("proc"), &root.join("proc"), Some("proc"), nothing, None)?;
    std::env::set_current_dir(&root).map_err(|error| no_isolation(format!("the new root: {error}")))?;
    // The old root comes to lie over the new one and is taken away from there.
    pivot_root(".", ".").map_err(wrong)?;
    umount2(".", MntFlags::MNT_DETACH).map_err(wrong)?;
    std::env::set_current_dir("/").map_err(|error| no_isolation(format!("the new root: {error}")))?;
    apply(None, Path::new("/"), None, MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY, None)
}

fn root(order: &Order) -> PathBuf {
    order.work.join("root")
}

/// A folder of the system: bound, or the link that it is.
fn system(root: &Path, name: &str) -> Result<()> {
    let (from, to) = (Path::new("/").join(name), root.join(name));
    match fs::read_link(&from) {
        Ok(target) => std::os::unix::fs::symlink(target, &to).map_err(|error| no_isolation(format!("{name}: {error}"))),
        Err(_) if from.is_dir() => read_only(&from, &to),
        Err(_) => Ok(()),
    }
}

/// What the command names by an absolute path and what that really is, with what stands beside it. A program in a `bin`
/// brings along what stands beside that, as the programs of a virtual environment need.
fn named(order: &Order) -> BTreeSet<PathBuf> {
    // The work folder stands in the scratch folder, and that in the data folder.
    let data = order.work.ancestors().nth(2).unwrap_or(&order.work);
    let mut places = BTreeSet::new();
    for path in order.command.iter().map(Path::new).filter(|path| path.is_absolute()) {
        let real = fs::canonicalize(path).ok();
        for path in real.iter().map(PathBuf::as_path).chain([path]).filter(|path| path.exists()) {
            let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
            let folder = if folder.ends_with("bin") { folder.parent().unwrap_or(folder) } else { folder };
            let covered = SYSTEM.iter().any(|name| folder.starts_with(Path::new("/").join(name)));
            // Nobody sees the data folder; what stands above it is shown without its surroundings.
            if folder.starts_with(data) || covered {
                continue;
            }
            places.insert(if data.starts_with(folder) { path.to_owned() } else { folder.to_owned() });
        }
    }
    places.retain(|place| !data.starts_with(place));
    places
}

/// Shows a file or a folder read-only, with everything that is mounted below it.
fn read_only(from: &Path, to: &Path) -> Result<()> {
    bind(from, to, MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV)
}

fn bind(from: &Path, to: &Path, flags: MsFlags) -> Result<()> {
    if from.is_dir() {
        make_folder(to)?;
    } else {
        if let Some(folder) = to.parent() {
            make_folder(folder)?;
        }
        if !to.exists() {
            fs::write(to, "").map_err(|error| no_isolation(format!("{}: {error}", to.display())))?;
        }
    }
    apply(Some(&from.display().to_string()), to, None, MsFlags::MS_BIND | MsFlags::MS_REC, None)?;
    if flags.is_empty() {
        return Ok(());
    }
    // What was mounted below comes along and is closed as well, each with the flags that the kernel holds it to.
    for (place, kept) in mounted_below(to)? {
        apply(None, &place, None, MsFlags::MS_BIND | MsFlags::MS_REMOUNT | flags | kept, None)?;
    }
    Ok(())
}

/// The mounts at and below a place, with those of their flags that may not be taken off.
fn mounted_below(place: &Path) -> Result<Vec<(PathBuf, MsFlags)>> {
    let table = fs::read_to_string("/proc/self/mountinfo").map_err(|error| no_isolation(format!("mounts: {error}")))?;
    let mut found = Vec::new();
    for line in table.lines() {
        let mut fields = line.split(' ').skip(4);
        let (Some(at), Some(options)) = (fields.next(), fields.next()) else { continue };
        // Blanks are written in octal.
        let at = PathBuf::from(at.replace("\\040", " "));
        if at.starts_with(place) {
            let flag = |option: &str| match option {
                "nosuid" => MsFlags::MS_NOSUID,
                "nodev" => MsFlags::MS_NODEV,
                "noexec" => MsFlags::MS_NOEXEC,
                "noatime" => MsFlags::MS_NOATIME,
                "nodiratime" => MsFlags::MS_NODIRATIME,
                "relatime" => MsFlags::MS_RELATIME,
                "ro" => MsFlags::MS_RDONLY,
                _ => MsFlags::empty(),
            };
            found.push((at, options.split(',').map(flag).collect()));
        }
    }
    Ok(found)
}

fn memory(place: &Path, options: &str) -> Result<()> {
    apply(Some("tmpfs"), place, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some(options))
}

fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| no_isolation(format!("{}: {error}", folder.display())))
}

fn apply(from: Option<&str>, to: &Path, kind: Option<&str>, flags: MsFlags, options: Option<&str>) -> Result<()> {
    mount(from, to, kind, flags, options).map_err(|error| no_isolation(format!("mount {}: {error}", to.display())))
}

/// An absolute path in terms of the new root.
fn inside(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

fn inside_text(path: &str) -> &str {
    path.trim_start_matches('/')
}
