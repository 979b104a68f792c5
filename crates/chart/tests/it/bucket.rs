//! Archives in a bucket of an object store.

use std::time::Duration;

use chart::{Bucket, BucketAccess, Charts, Kept, Place, Secret};
use testkit::{ChartFiles, ObjectStore};

use crate::helms;

const KEY: &str = "AKIAEXAMPLE";
const SECRET: &str = "s3cr3t/key+";

fn access(endpoint: &str, secret: &str) -> BucketAccess {
    let (secret, endpoint) = (Some(Secret::new(secret)), Some(endpoint.to_owned()));
    BucketAccess { key: Some(KEY.into()), secret, endpoint, region: Some("eu-west-1".into()), token: None }
}

fn charts(address: &str, access: &BucketAccess) -> Charts {
    Charts::open(Place::Bucket(Box::new(Bucket::open(address, access, Duration::from_secs(5)).unwrap())))
}

#[test]
fn archives_in_a_bucket_are_kept_compared_listed_and_removed() {
    let Some((_, program)) = helms("archives in a bucket").pop() else { return };
    let store = ObjectStore::start("team", KEY, SECRET);
    let right = access(&store.endpoint(), SECRET);
    let kept = charts("s3://team/aegis/charts/", &right);
    let versions = ["1.0.0", "1.0.1", "1.0.2", "1.0.3", "1.0.4"];
    let mut digests = Vec::new();
    for version in versions {
        let packed = ChartFiles::new("shop", version).package(&program);
        let archive = kept.keep(&packed).unwrap();
        assert_eq!(kept.keep(&packed).unwrap().digest, archive.digest, "the same bytes are kept once");
        assert_eq!(kept.read(&archive.digest).unwrap(), packed);
        digests.push(archive.digest);
    }
    store.put("aegis/charts/deeper/x.tgz", b"somebody else's");
    store.put("aegis/chartsX.tgz", b"somebody else's");
    digests.sort();
    let name = |digest: &str| format!("aegis/charts/{digest}.tgz");
    assert!(digests.iter().all(|digest| store.objects().contains_key(&name(digest))));
    let listed = kept.kept_for(Duration::from_secs(60)).unwrap();
    assert_eq!(listed.iter().map(|(digest, _)| digest.clone()).collect::<Vec<_>>(), digests, "over all pages");

    // Another process finds them; what was changed or lost outside is told with its place.
    let other = charts("s3://team/aegis/charts", &right);
    assert!(matches!(other.state(&digests[0]), Kept::Whole(size) if size == listed[0].1));
    store.put(&name(&digests[0]), b"other bytes");
    for charts in [&kept, &other] {
        assert!(matches!(charts.state(&digests[0]), Kept::Changed(_)));
        let problem = charts.read(&digests[0]).unwrap_err();
        assert_eq!(problem.code, "chart.digest_differs");
        assert_eq!(problem.place.unwrap(), format!("s3://team/aegis/charts/{}.tgz", digests[0]));
    }
    store.delete(&name(&digests[1]));
    assert_eq!(kept.state(&digests[1]), Kept::Gone);
    assert_eq!(kept.read(&digests[1]).unwrap_err().code, "chart.archive_gone");
    for digest in &digests {
        kept.remove(digest).unwrap();
    }
    assert_eq!(store.objects().keys().collect::<Vec<_>>(), ["aegis/charts/deeper/x.tgz", "aegis/chartsX.tgz"]);
}

#[test]
fn a_bucket_that_refuses_or_does_not_answer_is_told_without_its_login() {
    let Some((_, program)) = helms("a bucket that refuses").pop() else { return };
    let packed = ChartFiles::new("shop", "1.0.0").package(&program);
    let store = ObjectStore::start("team", KEY, SECRET);
    let told = |charts: &Charts, words: &str| {
        let problem = charts.keep(&packed).unwrap_err();
        let text = format!("{problem:?}{}", problem.chain());
        assert!(problem.code == "chart.not_kept" && text.contains(words), "{text}");
        assert!(!text.contains("s3cr3t") && !text.contains("X-Amz"), "{text}");
        assert!(!format!("{charts:?}").contains("s3cr3t"), "{charts:?}");
    };
    told(&charts("s3://team", &access(&store.endpoint(), "s3cr3t/other")), "SignatureDoesNotMatch");
    told(&charts("s3://nobody", &access(&store.endpoint(), SECRET)), "NoSuchBucket");
    let gone = ObjectStore::start("team", KEY, SECRET).endpoint();
    told(&charts("s3://team", &access(&gone, SECRET)), "refused");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let bucket = Bucket::open("s3://team", &access(&endpoint, SECRET), Duration::from_millis(200)).unwrap();
    assert_eq!(bucket.probe().unwrap_err().code, "chart.bucket_unusable");
    told(&Charts::open(Place::Bucket(Box::new(bucket))), "no answer in time");
    assert!(store.objects().is_empty());

    let open = |address: &str, access: &BucketAccess| Bucket::open(address, access, Duration::from_secs(1));
    let right = access(&endpoint, SECRET);
    for wrong in ["s3://", "s3:///x", "s3://a/../b", "s3://a/b//c", "s3://a b", "gs://a"] {
        assert_eq!(open(wrong, &right).unwrap_err().code, "chart.bucket_malformed", "{wrong}");
    }
    for without in [BucketAccess { secret: None, ..right.clone() }, BucketAccess { key: None, ..right.clone() }] {
        assert_eq!(open("s3://team", &without).unwrap_err().code, "chart.bucket_without_login");
    }
    let without = BucketAccess { region: None, endpoint: None, ..right };
    assert_eq!(open("s3://team", &without).unwrap_err().code, "chart.bucket_without_region");
}
