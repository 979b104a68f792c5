//! Algorithms that somebody brings as a command: good ones, bad ones, and what they can reach.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use testkit::process::{Daemon, Site};
use testkit::{Tool, tool};

use crate::round::{self, FAULT};

/// Writes an answer that names two services of the system.
const ANSWER: &str = r#"
import json, os
def answer(rows):
    with open(os.path.join(os.environ["OUTPUT_PATH"], "result.json"), "w") as file:
        json.dump(rows, file)
GOOD = [{"level": "service", "result": "ts-travel-service", "rank": 1, "confidence": 0.9},
        {"level": "service", "result": "ts-basic-service", "rank": 2, "confidence": 0.1}]
"#;

/// Tries everything that it must not be able to do, and answers only when nothing of it works.
const INTRUDER: &str = r#"
import socket, glob, sys
def works(what):
    try:
        what()
        return True
    except Exception as error:
        print(type(error).__name__, error, file=sys.stderr)
        return False
source = os.environ["INPUT_PATH"]
data = os.environ["SECRET"]
def write(path):
    return lambda: open(path, "w").write("x")
def connect():
    socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), timeout=2).close()
tries = {
    "write into the input": write(os.path.join(source, "env.json")),
    "add to the input": write(os.path.join(source, "new")),
    "write beside the input": write(os.path.join(source, "..", "new")),
    "write into the system": write("/usr/intruder"),
    "write into the configuration": write("/etc/intruder"),
    "write into the root": write("/intruder"),
    "see the data folder": lambda: os.listdir(data),
    "see the sealed part": lambda: os.listdir(os.path.join(source, "..", "sealed")),
    "see the passwords": lambda: open("/etc/shadow").read()[0],
    "see the home": lambda: [one for one in os.listdir(os.environ["REAL_HOME"]) if one != "brought"][0],
    "see other processes": lambda: [p for p in glob.glob("/proc/[0-9]*") if int(p[6:]) > 50][0],
    "reach the server": connect,
    "end its keeper": lambda: os.kill(os.getppid(), 9) or os.stat("/nowhere"),
}
did = [name for name, what in tries.items() if works(what)]
assert open(os.path.join(source, "env.json")).read()
assert not did, did
answer(GOOD)
"#;

/// Hands its answer over by HTTP; the token is good for nothing else.
const POSTER: &str = r#"
import urllib.request, urllib.error
base, token = os.environ["RCABENCH_BASE_URL"], os.environ["RCABENCH_TOKEN"]
def call(path, body=None):
    request = urllib.request.Request(base + path, data=body and json.dumps(body).encode(),
        headers={"Authorization": "Bearer " + token, "Content-Type": "application/json"})
    try:
        return urllib.request.urlopen(request, timeout=10).status
    except urllib.error.HTTPError as error:
        return error.code
own = f"/api/v2/executions/{os.environ['EXECUTION_ID']}/granularity_results"
assert call("/api/v2/board") == 403, "nothing else may be read"
assert call("/api/v2/executions/99999/granularity_results", {"duration": 1, "results": GOOD}) == 403
assert call(own, {"duration": 1, "results": []}) == 400
assert call(own, {"duration": 1, "results": GOOD}) == 200
assert call(own, {"duration": 1, "results": GOOD}) == 401, "an answer is given once"
"#;

struct Case {
    name: &'static str,
    script: &'static str,
    more: &'static [&'static str],
    /// Empty: it succeeds.
    code: &'static str,
}

const fn case(name: &'static str, script: &'static str, code: &'static str) -> Case {
    Case { name, script, more: &[], code }
}

const CASES: &[Case] = &[
    case("good", "answer(GOOD)", ""),
    case(
        "csv",
        r#"open(os.environ["OUTPUT_PATH"] + "/result.csv", "w").write("level,result,rank\nservice,ts-travel-service,1\n")"#,
        "",
    ),
    case("intruder", INTRUDER, ""),
    Case { name: "poster", script: POSTER, more: &["--network", "server"], code: "" },
    case("silent", "pass", "algorithm.no_answer"),
    case("chatty", r#"print("garbage " * 100000)"#, "algorithm.no_answer"),
    case(
        "two",
        r#"answer(GOOD); open(os.environ["OUTPUT_PATH"] + "/result.csv", "w").write("level,result,rank\n")"#,
        "algorithm.answered_twice",
    ),
    case("shell", "raise SystemExit(127)", "algorithm.failed"),
    case("empty", "answer([])", "algorithm.answer_empty"),
    case(
        "garbage",
        r#"open(os.environ["OUTPUT_PATH"] + "/result.json", "wb").write(bytes(range(256)))"#,
        "algorithm.answer_unreadable",
    ),
    case("twice", "answer([GOOD[0], dict(GOOD[0], rank=2)])", "algorithm.named_twice"),
    case("one-rank", "answer([GOOD[0], dict(GOOD[1], rank=1)])", "algorithm.answer_invalid"),
    case("gap", "answer([dict(GOOD[0], rank=99)])", "algorithm.answer_invalid"),
    case("stranger", r#"answer([dict(GOOD[0], result="ts-travel-servise")])"#, "algorithm.unknown_service"),
    case("error", r#"raise SystemExit("no idea")"#, "algorithm.failed"),
    case("crash", "os.abort()", "algorithm.crashed"),
    Case {
        name: "endless",
        // What it leaves behind ends with it.
        script: "import subprocess, time\nsubprocess.Popen(['sleep', '4242'], start_new_session=True)\nwhile True: time.sleep(1)",
        more: &["--timeout", "1s"],
        code: "algorithm.timed_out",
    },
    Case {
        name: "hungry",
        script: "x = []\nwhile True: x.append(bytearray(b'x' * 1000000))",
        more: &["--memory", "100"],
        code: "algorithm.out_of_memory",
    },
    Case {
        name: "hungry-family",
        script: "import time\nfor _ in range(4):\n    if os.fork() == 0: x = bytearray(b'x' * 40000000); time.sleep(60)\ntime.sleep(60)",
        more: &["--memory", "100"],
        code: "algorithm.out_of_memory",
    },
];

fn add(site: &Site, case: &Case, more: &[&str]) {
    let script = site.write(&format!("brought/{}.py", case.name), &format!("{ANSWER}\n{}\n", case.script));
    let command = format!("python3 {}", script.display());
    let data = format!("SECRET={}", site.data().display());
    let home = format!("REAL_HOME={}", site.path().display());
    let port = format!("PORT={}", port(site));
    let arguments = [
        &["algorithm", "add", case.name, "--command", &command, "--env", &data, "--env", &home, "--env", &port],
        case.more,
        more,
    ]
    .concat();
    let added = site.ctl(&arguments).ok().json();
    assert_eq!((&added["kind"], &added["runnable"]), (&json!("command"), &json!(true)), "{added:#}");
}

fn port(site: &Site) -> String {
    let file = std::fs::read_to_string(site.data().join("server.json")).unwrap();
    let server: Value = serde_json::from_str(&file).unwrap();
    server["address"].as_str().unwrap().rsplit(':').next().unwrap().to_owned()
}

fn executions(site: &Site, evaluation: &str) -> BTreeMap<String, Value> {
    let list = site.ctl(&["execution", "list", "--evaluation", evaluation, "--all"]).ok().json();
    let items = list["items"].as_array().unwrap().iter();
    items.map(|one| (one["algorithm_name"].as_str().unwrap().to_owned(), one.clone())).collect()
}

fn pack_digest(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for part in ["open", "sealed"] {
        for entry in std::fs::read_dir(folder.join(part)).unwrap() {
            let path = entry.unwrap().path();
            files.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}

fn processes(word: &str) -> usize {
    let all =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok());
    all.filter(|line| String::from_utf8_lossy(line).contains(word)).count()
}

#[test]
fn every_way_to_fail_is_a_result_of_its_own_and_the_evaluation_goes_on() {
    let (site, _daemon) = round::ts(&[]);
    let run = round::run(&site, FAULT, &["--seed", "7"], 0);
    let pack = round::text(&run["injection_name"]);
    let folder = crate::pack::folder(&site, &run);
    let before = pack_digest(&folder);
    for case in CASES {
        add(&site, case, &[]);
    }
    for missing in ["/nowhere/at-all", "no-such-program", "./rank.py"] {
        let refused = site.ctl(&["algorithm", "add", "missing", "--command", missing]);
        assert_eq!((refused.code, &refused.error()["code"]), (4, &json!("algorithm.program_missing")), "{missing}");
    }
    // A program whose interpreter is not there is a program all the same.
    let program = site.write("brought/gone", "#!/nowhere/at-all\n");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let gone = site.ctl(&["algorithm", "add", "gone", "--command", program.to_str().unwrap()]).ok().json();
    assert_eq!(gone["runnable"], true, "{gone:#}");

    let mut arguments = vec!["evaluation", "create", "--pack", &pack, "--wait", "--algorithm", "gone"];
    for case in CASES {
        arguments.extend(["--algorithm", case.name]);
    }
    let ended = site.ctl(&arguments).ok().json();
    let id = ended["evaluation"]["id"].to_string();
    assert_eq!(ended["evaluation"]["state"], "Completed", "{ended:#}");
    let executions = executions(&site, &id);
    for case in CASES {
        let execution = &executions[case.name];
        let found = execution["reason"].as_str().unwrap_or_default();
        assert_eq!(found, case.code, "{}: {execution:#}", case.name);
        assert_eq!(execution["isolation"], "namespaces", "{}", case.name);
    }
    assert_eq!(executions["gone"]["reason"], "algorithm.not_started", "{:#}", executions["gone"]);
    std::fs::remove_file(&program).unwrap();
    let gone = site.ctl(&["algorithm", "show", "gone"]).ok().json();
    assert_eq!((&gone["runnable"], &gone["reason"]), (&json!(false), &json!("the server has no such program")));
    assert!(executions["error"]["message"].as_str().unwrap().contains("no idea"), "its last words are kept");
    assert!(
        executions["stranger"]["message"].as_str().unwrap().contains("ts-travel-service"),
        "the nearest name is told"
    );
    assert!(
        executions["hungry"]["peak_memory"].is_null() || executions["hungry"]["peak_memory"].as_u64() > Some(1 << 20)
    );
    assert_eq!(pack_digest(&folder), before, "the datapack is as it was");
    assert_eq!(processes("sleep\x004242"), 0, "nothing is left of the one that never ends");
    assert_eq!(std::fs::read_dir(site.data().join("scratch")).unwrap().count(), 0, "nor in the working folder");

    let board = &ended["board"];
    let row = |name: &str| {
        let rows = board["rows"].as_array().unwrap().iter();
        rows.clone()
            .find(|row| row["row"] == "ranking" && row["algorithm"] == name)
            .unwrap_or_else(|| panic!("{name}"))
            .clone()
    };
    assert_eq!(row("good")["ac1"]["value"], 1.0);
    assert_eq!((&row("crash")["ac5"]["value"], &row("crash")["failures"]), (&json!(0.0), &json!(1)));
    assert_eq!(row("random")["baseline"], true, "the trivial baselines are always there");

    // One of them alone, by hand.
    let tested = site.ctl(&["algorithm", "test", "good", &pack]).ok().json();
    assert_eq!(tested["granularity_results"][0]["result"], "ts-travel-service", "{tested:#}");
    assert_eq!(site.ctl(&["algorithm", "test", "error", &pack]).code, 5);
}

#[test]
fn what_may_not_be_added_is_refused_and_what_is_not_isolated_is_marked() {
    let (site, _daemon) = round::ts(&[]);
    let run = round::run(&site, FAULT, &["--seed", "7"], 0);
    let pack = round::text(&run["injection_name"]);
    let refused = |arguments: &[&str], code: &str| {
        let ran = site.ctl(&[&["algorithm", "add"], arguments].concat());
        assert_eq!(ran.error()["code"], code, "{arguments:?}: {}", ran.err);
    };
    refused(&["x", "--image", "registry.example/x:1"], "algorithm.no_container_runtime");
    refused(&["baro", "--command", "true"], "algorithm.name_taken");
    refused(&["a b", "--command", "true"], "algorithm.name_malformed");
    refused(&["x", "--command", "'"], "algorithm.command_malformed");
    refused(&["x", "--command", "true", "--env", "INPUT_PATH=/x"], "algorithm.variable_reserved");
    refused(&["x", "--command", "true", "--memory", "1"], "algorithm.limit_out_of_range");
    let open = &CASES[0];
    add(&site, open, &["--no-isolation"]);
    refused(&["good", "--command", "true"], "algorithm.version_exists");
    site.ctl(&["algorithm", "add", "good:2", "--command", "true"]).ok();
    let versions = site.ctl(&["algorithm", "list"]).ok().json();
    let good = versions.as_array().unwrap().iter().filter(|one| one["name"] == "good").count();
    assert_eq!(good, 2);
    assert_eq!(site.ctl(&["algorithm", "show", "good:1"]).ok().json()["command"]["no_isolation"], true);

    let ended = site.ctl(&["evaluation", "create", "--pack", &pack, "--algorithm", "good:1", "--wait"]).ok().json();
    let rows = ended["board"]["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["algorithm"] == "good").unwrap();
    assert_eq!((&row["not_isolated"], &row["ac1"]["value"], &row["version"]), (&json!(1), &json!(1.0), &json!("1")));
    let id = ended["evaluation"]["id"].to_string();
    assert_eq!(executions(&site, &id)["good"]["isolation"], "none");
    // In the pipeline of a run as well.
    let run = round::run(&site, &[&FAULT[..FAULT.len() - 1], &["good:1"]].concat(), &["--seed", "8"], 0);
    let ranking = round::ranking(&site, &run["injection_name"], "good");
    assert_eq!(ranking[0]["result"], "ts-travel-service", "{run:#}");
}

#[test]
fn the_worked_example_ranks_a_datapack() {
    let Some(python) = tool("the_worked_example_ranks_a_datapack", Tool::Example) else { return };
    let (site, _daemon) = round::ts(&[]);
    let run = round::run(&site, FAULT, &["--seed", "7"], 0);
    let pack = round::text(&run["injection_name"]);
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/python/rank.py").canonicalize().unwrap();
    let command = format!("{} {}", python.display(), example.display());
    site.ctl(&["algorithm", "add", "slow-or-failing", "--command", &command, "--timeout", "2m"]).ok();
    let tested = site.ctl(&["algorithm", "test", "slow-or-failing", &pack]).ok().json();
    let ranking = tested["granularity_results"].as_array().unwrap();
    assert!(ranking.len() > 10, "{tested:#}");
    assert!(ranking.iter().take(3).any(|one| one["result"] == "ts-travel-service"), "{tested:#}");
}

/// Names a pod and a span that have nothing to do with it first, then those that the truth says.
const BELOW: &str = r#"
truth = json.loads(os.environ["TRUTH"])
rows = [{"level": "pod", "result": "nobody-0", "rank": 1}, {"level": "pod", "result": truth["pod"], "rank": 2},
        {"level": "span", "result": truth["span"], "rank": 3},
        {"level": "service", "result": "ts-basic-service", "rank": 4}]
answer(rows)
"#;

#[test]
fn an_algorithm_that_names_pods_and_spans_is_scored_at_those_levels() {
    let (site, _daemon) = round::ts(&[]);
    let run = round::run(&site, FAULT, &["--seed", "7"], 0);
    let pack = round::text(&run["injection_name"]);
    let public = site.ctl(&["datapack", "get", &pack]).ok().json()["ground_truth"].clone();
    // The acting side is named first.
    let truth = json!({"pod": public[0]["pod"][0], "span": public[0]["span"][0]});
    assert!(truth["pod"].is_string() && truth["span"].is_string(), "{public:#}");
    let script = site.write("brought/below.py", &format!("{ANSWER}\n{BELOW}\n"));
    let command = format!("python3 {}", script.display());
    site.ctl(&["algorithm", "add", "below", "--command", &command, "--env", &format!("TRUTH={truth}")]).ok();
    let ended = site.ctl(&["evaluation", "create", "--pack", &pack, "--algorithm", "below", "--wait"]).ok().json();
    let levels = ended["board"]["levels"].as_array().unwrap();
    let rows = |name: &str| levels.iter().find(|level| level["level"] == name).unwrap()["rows"].as_array().unwrap();
    // Ranks count among the answers of a level: the pod is the second of two, the span the only one.
    for (level, ac1, ac3, mrr) in [("pod", 0.0, 1.0, 0.5), ("span", 1.0, 1.0, 1.0)] {
        let [row] = &rows(level)[..] else { panic!("only one method answers at level {level}: {levels:#?}") };
        let found = ["ac1", "ac3", "mrr"].map(|metric| row[metric]["value"].as_f64().unwrap());
        assert_eq!((&row["algorithm"], found), (&json!("below:1"), [ac1, ac3, mrr]), "{row:#}");
    }
    // At service level it named the other end: a miss by the rule `root`, a hit by the rule `public`.
    let evaluation = ended["evaluation"]["id"].to_string();
    for (rule, expect) in [("root", 0.0), ("public", 1.0)] {
        let board = site.ctl(&["board", "--evaluation", &evaluation, "--rule", rule, "--row", "ranking"]).ok().json();
        let row = board["rows"].as_array().unwrap().iter().find(|row| row["algorithm"] == "below").unwrap();
        assert_eq!(row["ac1"]["value"], expect, "{rule}: {row:#}");
    }
}

#[test]
fn where_nothing_can_be_isolated_a_command_is_refused_unless_that_is_said() {
    let site = Site::new();
    // A user namespace in which no further one may be made: the machine's own setting is not touched.
    let inside = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";
    let unshare = |program: &std::ffi::OsStr| {
        let mut command = std::process::Command::new("unshare");
        command.args(["--user", "--map-root-user", "sh", "-c", inside]).arg(program);
        command
    };
    if !unshare("true".as_ref()).status().is_ok_and(|status| status.success()) {
        let test = "where_nothing_can_be_isolated_a_command_is_refused_unless_that_is_said";
        return testkit::not_run(test, "this machine gives no user namespace to take further ones away in");
    }
    // What was added while it could be kept apart is not run without its walls later.
    let earlier = site.serve(&[]);
    round::register(&site);
    site.ctl(&["algorithm", "add", "walled", "--command", "true"]).ok();
    earlier.stop();
    let plain = site.serve_command();
    let mut command = unshare(plain.get_program());
    command.args(plain.get_args()).env_clear().current_dir(site.path());
    command.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let _daemon = Daemon::start(&mut command, &site).ready();
    assert_eq!(site.ctl(&["algorithm", "show", "walled:1"]).ok().json()["runnable"], false);
    let submitted =
        site.ctl(&round::submission(&[&FAULT[..FAULT.len() - 1], &["walled:1"]].concat(), &["--seed", "6"]));
    assert_ne!(submitted.code, 0, "{}", submitted.out);
    let refused = site.ctl(&["algorithm", "add", "good", "--command", "true"]);
    let problem = refused.error();
    assert_eq!((&problem["code"], refused.code), (&json!("algorithm.no_isolation"), 4), "{}", refused.err);
    assert!(problem.to_string().contains("--no-isolation"), "what can be done is told: {problem:#}");
    let listed = site.ctl(&["algorithm", "list"]).ok().json();
    assert!(listed.as_array().unwrap().iter().all(|one| one["name"] != "good"), "nothing of it is stored");
    add(&site, &CASES[0], &["--no-isolation"]);
    let run = round::run(&site, &[&FAULT[..FAULT.len() - 1], &["good:1"]].concat(), &["--seed", "7"], 0);
    assert_eq!(round::ranking(&site, &run["injection_name"], "good")[0]["result"], "ts-travel-service", "{run:#}");
    let board = site.ctl(&["board", "--row", "ranking"]).ok().json();
    let row = board["rows"].as_array().unwrap().iter().find(|row| row["algorithm"] == "good").unwrap();
    assert_eq!((&row["not_isolated"], &row["ac1"]["value"]), (&json!(1), &json!(1.0)));
}
