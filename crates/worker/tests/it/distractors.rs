//! Harmless events are told in the sealed part of a datapack, and whoever looks for a cause is not told which they are.

use std::fs;

use cluster::Distractor;
use datapack::Pack;
use serde_json::json;

use crate::stand::Stand;

#[tokio::test(flavor = "multi_thread")]
async fn harmless_events_of_the_windows_are_in_the_sealed_part_alone() {
    let stand = Stand::new("nothing").await;
    let delay = json!({"target_service": "ts-basic-service", "latency_ms": 500});
    let run = stand.submit(&[("ts-travel-service", "network_delay", delay)]).await;
    stand.work(run).await;
    let injection = stand.store.injection_of(run).await.unwrap();
    let windows = injection.windows.unwrap();

    let folder = stand.packs().join(injection.pack_path.unwrap());
    let sealed = Pack::open(&folder).unwrap().manifest().provenance.more["distractors"].clone();
    let events: Vec<Distractor> = serde_json::from_value(sealed).unwrap();
    let jobs: Vec<&Distractor> = events.iter().filter(|event| event.kind == "periodic_job").collect();
    assert!(jobs.len() > 5, "{events:?}");
    for event in &events {
        assert!(event.from < windows.abnormal_end && event.until > windows.normal_start, "{event:?}");
        assert!(event.pod.starts_with(&event.service), "{event:?}");
        assert_eq!(event.cores.is_some(), event.kind == "periodic_job", "{event:?}");
    }

    let files: Vec<_> = fs::read_dir(folder.join("open")).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 15, "{files:?}");
    for file in files {
        let bytes = fs::read(&file).unwrap();
        for word in ["distractor", "periodic_job", "lost_scrape"] {
            let found = bytes.windows(word.len()).any(|part| part == word.as_bytes());
            assert!(!found, "`{word}` in {}", file.display());
        }
    }
}
