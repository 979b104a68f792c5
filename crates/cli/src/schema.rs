//! `schema dump`: every command, argument and exit code as data, read from the parser itself.

use clap::{Arg, ArgAction, Command, CommandFactory};
use serde_json::{Value, json};

use crate::args::Cli;
use crate::error::EXIT_CODES;

/// The document that `contracts/cli.json` holds.
pub fn document() -> Value {
    let mut root = Cli::command();
    root.build();
    let mut commands = Vec::new();
    collect(&root, "aegisctl", &mut commands);
    let global: Vec<Value> = root.get_arguments().filter(|arg| arg.is_global_set()).map(argument).collect();
    let exit_codes: serde_json::Map<String, Value> =
        EXIT_CODES.iter().map(|(code, meaning)| (code.to_string(), json!(meaning))).collect();
    json!({ "version": "1", "global_flags": global, "commands": commands, "exit_codes": exit_codes })
}

fn collect(command: &Command, path: &str, into: &mut Vec<Value>) {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        let path = format!("{path} {}", sub.get_name());
        if sub.has_subcommands() {
            collect(sub, &path, into);
            continue;
        }
        let own = || sub.get_arguments().filter(|arg| !arg.is_global_set() && !is_builtin(arg) && !arg.is_hide_set());
        into.push(json!({
            "path": path,
            "short": sub.get_about().map(ToString::to_string),
            "aliases": sub.get_visible_aliases().collect::<Vec<_>>(),
            "args": own().filter(|arg| arg.is_positional()).map(argument).collect::<Vec<_>>(),
            "flags": own().filter(|arg| !arg.is_positional()).map(argument).collect::<Vec<_>>(),
        }));
    }
}

fn is_builtin(arg: &Arg) -> bool {
    // By what it does: several commands have a `--version` of their own, which takes the version of a thing.
    use clap::ArgAction::{Help, HelpLong, HelpShort, Version};
    matches!(arg.get_action(), Help | HelpShort | HelpLong | Version)
}

fn argument(arg: &Arg) -> Value {
    let takes_value = arg.get_action().takes_values();
    let values: Vec<String> = if takes_value {
        arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
    } else {
        Vec::new()
    };
    let default: Vec<String> = if takes_value {
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect()
    } else {
        Vec::new()
    };
    json!({
        "name": arg.get_long().map_or_else(|| arg.get_id().to_string(), str::to_owned),
        "shorthand": arg.get_short(),
        "type": if takes_value { "value" } else { "flag" },
        "repeatable": matches!(arg.get_action(), ArgAction::Append | ArgAction::Count),
        "required": arg.is_required_set(),
        "default": default,
        "enum_values": values,
        "env": arg.get_env().map(|name| name.to_string_lossy().into_owned()),
        "usage": arg.get_help().map(ToString::to_string),
    })
}
