//! What a command must be like to be added.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use api::algorithm::{AddAlgorithmRequest, CommandSpec, Network};
use model::{ErrorKind, Problem, Result};
use store::{Token, TokenRole};

use super::{BUILTIN, DETECTOR};
use crate::app::ExecutionLimits;

/// Variables that the contract sets.
const RESERVED: [&str; 20] = [
    "TIMEZONE",
    "TIMESTAMP",
    "NORMAL_START",
    "NORMAL_END",
    "ABNORMAL_START",
    "ABNORMAL_END",
    "WORKSPACE",
    "INPUT_PATH",
    "OUTPUT_PATH",
    "RCABENCH_BASE_URL",
    "RCABENCH_TOKEN",
    "DATAPACK_ID",
    "EXECUTION_ID",
    "BENCHMARK_SYSTEM",
    "ALGORITHM",
    "HOME",
    "LANG",
    "TZ",
    "PATH",
    "PWD",
];
const LONGEST_HOURS: u64 = 24;
const LEAST_MIB: u64 = 16;

/// # Errors
/// Those of [`super::App::add_algorithm`] that need no store.
pub fn checked(request: &AddAlgorithmRequest, limits: ExecutionLimits) -> Result<CommandSpec> {
    let wrong =
        |code, message: &str, place: &str| Problem::new(ErrorKind::Invalid, code, message).place(place.to_owned());
    for (place, text) in [("name", &request.name), ("version", &request.version)] {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !((1..=64).contains(&text.len()) && text.bytes().all(allowed)) {
            return Err(wrong("algorithm.name_malformed", "this cannot be an algorithm's name or version", place)
                .found(format!("`{text}`"))
                .expected("1 to 64 letters, digits, dots, hyphens and underscores"));
        }
    }
    let built_in = rca::algorithm::algorithms().iter().any(|method| method.name() == request.name);
    if built_in || request.name == DETECTOR || request.version == BUILTIN {
        return Err(wrong("algorithm.name_taken", "this name belongs to what is built in", "name")
            .found(format!("`{}:{}`", request.name, request.version))
            .fix("choose another name"));
    }
    if request.image.is_some() {
        return Err(Problem::new(ErrorKind::Missing, "algorithm.no_container_runtime", "no container runtime")
            .place("image")
            .expected("a command")
            .fix("give the program that the image would run as a command: `--command`"));
    }
    if request.command.is_empty() || request.command[0].is_empty() {
        return Err(wrong("algorithm.no_command", "there is nothing to run", "command").expected("a program"));
    }
    let nul =
        request.command.iter().chain(request.env.keys()).chain(request.env.values()).any(|text| text.contains('\0'));
    if nul || request.env.keys().any(|key| key.is_empty() || key.contains('=')) {
        return Err(wrong("algorithm.variable_malformed", "a word or a variable cannot be given to a program", "env"));
    }
    if let Some(key) = request.env.keys().find(|key| RESERVED.contains(&key.as_str())) {
        return Err(wrong("algorithm.variable_reserved", "the contract sets this variable", "env").found(key.clone()));
    }
    let timeout_seconds = request.timeout_seconds.unwrap_or(limits.seconds);
    let memory_mib = request.memory_mib.unwrap_or(limits.memory_mib);
    if !(1..=LONGEST_HOURS * 3600).contains(&timeout_seconds) {
        return Err(wrong(
            "algorithm.limit_out_of_range",
            "this is no time that a command may have",
            "timeout_seconds",
        )
        .found(timeout_seconds.to_string())
        .expected(format!("1 second to {LONGEST_HOURS} hours")));
    }
    if memory_mib < LEAST_MIB {
        return Err(wrong("algorithm.limit_out_of_range", "no program runs in so little memory", "memory_mib")
            .found(memory_mib.to_string())
            .expected(format!("at least {LEAST_MIB}")));
    }
    Ok(CommandSpec {
        command: request.command.clone(),
        env: request.env.clone(),
        timeout_seconds,
        memory_mib,
        network: request.network,
        no_isolation: request.no_isolation,
    })
}

/// Whoever runs a command with rights of the server must have them.
///
/// # Errors
/// `token.role_too_low`.
pub fn allow(token: &Token, spec: &CommandSpec) -> Result<()> {
    let (role, what) = match (spec.no_isolation, spec.network) {
        (true, _) => (TokenRole::Admin, "a command that nothing keeps apart from the server"),
        (false, Network::All) => (TokenRole::Operator, "a command that reaches what the server reaches"),
        _ => return Ok(()),
    };
    if token.role >= role {
        return Ok(());
    }
    Err(Problem::new(ErrorKind::Denied, "token.role_too_low", "the caller may not do this")
        .place(what)
        .found(format!("role {}", token.role.as_str()))
        .expected(format!("role {} or higher", role.as_str())))
}

/// Whether the program of a command is on this machine. Only the command itself can tell what else it needs.
///
/// # Errors
/// `algorithm.program_missing`.
pub fn program(spec: &CommandSpec) -> Result<()> {
    let name = spec.command.first().map_or("", String::as_str);
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let there = match (Path::new(name).is_absolute(), name.contains('/')) {
        (true, _) => runs(Path::new(name)),
        // It would be looked for in the command's own folder, which is empty.
        (false, true) => false,
        (false, false) => std::env::split_paths(&folders).any(|folder| runs(&folder.join(name))),
    };
    if there {
        return Ok(());
    }
    Err(Problem::new(ErrorKind::Missing, "algorithm.program_missing", "the server has no such program")
        .place("command")
        .found(format!("`{name}`"))
        .expected("an absolute path of a program, or the name of one on the server's PATH")
        .fix("install it on the machine of the server, or name it by its absolute path"))
}

fn runs(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
