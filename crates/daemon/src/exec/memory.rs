//! The largest resident memory of this process since it was last asked to forget it.

use std::fs;

/// Makes the kernel measure from here on. Where it does not let that be, the peak is that of the whole process.
pub fn forget_peak() {
    if let Err(error) = fs::write("/proc/self/clear_refs", "5") {
        eprintln!("the peak of the memory cannot be reset: {error}");
    }
}

/// Bytes.
pub fn peak() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
