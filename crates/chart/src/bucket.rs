//! A bucket of an object store that speaks S3: `s3://BUCKET[/PREFIX]`.
//!
//! Five calls of its API are used: HeadObject, GetObject, PutObject, DeleteObject and ListObjectsV2
//! (<https://docs.aws.amazon.com/AmazonS3/latest/API/>), each signed for a minute. An object is there as a whole or not at all, and
//! is seen as soon as writing it was answered.

use std::fmt;
use std::io::{Error, ErrorKind as Io, Result};
use std::time::{Duration, SystemTime};

use model::{ErrorKind, Problem};
use rusty_s3::actions::ListObjectsV2;
use rusty_s3::{Credentials, S3Action, UrlStyle};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::archive::LARGEST_ARCHIVE;
use crate::login::Secret;
use crate::shelf::{About, Listed};

/// How long a signed call may be under way.
const SIGNED: Duration = Duration::from_secs(60);
/// What stores that are not AWS's take for their region when nobody names one.
const OTHER_REGION: &str = "us-east-1";

/// How a bucket is reached: what the programs of AWS take from the environment.
#[derive(Debug, Clone, Default)]
pub struct BucketAccess {
    pub key: Option<String>,
    pub secret: Option<Secret>,
    pub token: Option<Secret>,
    pub region: Option<String>,
    /// Of a store that is not AWS's.
    pub endpoint: Option<String>,
}

/// A bucket, and the beginning of the names in it.
#[derive(Clone)]
pub struct Bucket {
    agent: ureq::Agent,
    bucket: rusty_s3::Bucket,
    credentials: Credentials,
    /// Empty, or ends with `/`.
    prefix: String,
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket.name(), self.prefix.trim_end_matches('/'))
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The credentials are nobody's business.
        write!(f, "Bucket({self})")
    }
}

impl BucketAccess {
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL`.
    pub fn from_env() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        Self {
            key: variable("AWS_ACCESS_KEY_ID"),
            secret: variable("AWS_SECRET_ACCESS_KEY").map(Secret::new),
            token: variable("AWS_SESSION_TOKEN").map(Secret::new),
            region: variable("AWS_REGION"),
            endpoint: variable("AWS_ENDPOINT_URL"),
        }
    }
}

impl Bucket {
    /// Nothing is sent yet; `patience` is how long each call may take.
    ///
    /// # Errors
    /// `chart.bucket_malformed`, `chart.bucket_without_login`, `chart.bucket_without_region`.
    pub fn open(address: &str, access: &BucketAccess, patience: Duration) -> model::Result<Self> {
        let malformed = |found: &str, expected: &str| {
            Problem::new(ErrorKind::Invalid, "chart.bucket_malformed", "the bucket for charts cannot be meant")
                .found(found.to_owned())
                .expected(expected.to_owned())
        };
        let form = "`s3://BUCKET[/PREFIX]`";
        let rest = address.strip_prefix("s3://").ok_or_else(|| malformed(address, form))?;
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
        let is_path = prefix.is_empty() || !prefix.split('/').any(|part| ["", ".", ".."].contains(&part));
        if name.is_empty() || !plain(name) || !plain(prefix) || !is_path {
            return Err(malformed(address, form));
        }
        let (Some(key), Some(secret)) = (&access.key, &access.secret) else {
            let message = "nobody says how to log in to the bucket";
            return Err(Problem::new(ErrorKind::Missing, "chart.bucket_without_login", message)
                .place(address.to_owned())
                .expected("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment of the program"));
        };
        let (endpoint, style, region) = match (&access.endpoint, &access.region) {
            // Other stores are often reached by an address that has no names below it.
            (Some(endpoint), region) => {
                (endpoint.clone(), UrlStyle::Path, region.clone().unwrap_or_else(|| OTHER_REGION.to_owned()))
            }
            (None, Some(region)) => {
                (format!("https://s3.{region}.amazonaws.com"), UrlStyle::VirtualHost, region.clone())
            }
            (None, None) => {
                let message = "nobody says in which region the bucket is";
                return Err(Problem::new(ErrorKind::Missing, "chart.bucket_without_region", message)
                    .place(address.to_owned())
                    .expected("AWS_REGION, or AWS_ENDPOINT_URL of another store, in the environment of the program"));
            }
        };
        let url = endpoint.parse().map_err(|_| malformed(&endpoint, "AWS_ENDPOINT_URL: `https://HOST[:PORT]`"))?;
        let bucket = rusty_s3::Bucket::new(url, style, name.to_owned(), region)
            .map_err(|error| malformed(&endpoint, &error.to_string()))?;
        let credentials = match &access.token {
            Some(token) => Credentials::new_with_token(key, secret.reveal(), token.reveal()),
            None => Credentials::new(key, secret.reveal()),
        };
        let config = ureq::Agent::config_builder().timeout_global(Some(patience)).http_status_as_error(false);
        let agent = ureq::Agent::new_with_config(config.build());
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Self { agent, bucket, credentials, prefix })
    }

    /// Asks whether it can be listed.
    ///
    /// # Errors
    /// `chart.bucket_unusable`.
    pub fn probe(&self) -> model::Result<usize> {
        let listed = self.list().map_err(|error| {
            Problem::new(ErrorKind::Unavailable, "chart.bucket_unusable", "the bucket for charts cannot be used")
                .place(self.to_string())
                .found(error.to_string())
        })?;
        Ok(listed.len())
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub(crate) fn about(&self, name: &str) -> Result<About> {
        let key = self.key(name);
        let url = self.bucket.head_object(Some(&self.credentials), &key).sign(SIGNED);
        let answer = waiting(|| self.agent.head(url.as_str()).call());
        let answer = right(answer)?;
        let header = |name: &str| answer.headers().get(name).and_then(|text| text.to_str().ok()).map(str::to_owned);
        let size = header("content-length").and_then(|text| text.parse().ok());
        match (header("etag"), size) {
            (Some(mark), Some(size)) => Ok(About { mark, size }),
            _ => Err(Error::other("an answer without `ETag` and `Content-Length`")),
        }
    }

    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>> {
        let key = self.key(name);
        let url = self.bucket.get_object(Some(&self.credentials), &key).sign(SIGNED);
        waiting(|| {
            let mut answer = right(self.agent.get(url.as_str()).call())?;
            let limit = u64::try_from(LARGEST_ARCHIVE).unwrap_or(u64::MAX);
            answer.body_mut().with_config().limit(limit).read_to_vec().map_err(|error| told(&error))
        })
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let key = self.key(name);
        let url = self.bucket.put_object(Some(&self.credentials), &key).sign(SIGNED);
        waiting(|| right(self.agent.put(url.as_str()).send(bytes)).map(drop))
    }

    /// One that is not there is answered as one that was removed.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        let key = self.key(name);
        let url = self.bucket.delete_object(Some(&self.credentials), &key).sign(SIGNED);
        match waiting(|| right(self.agent.delete(url.as_str()).call()).map(drop)) {
            Err(error) if error.kind() == Io::NotFound => Ok(()),
            other => other,
        }
    }

    /// All objects below the prefix, page by page.
    pub(crate) fn list(&self) -> Result<Vec<Listed>> {
        let mut found = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let mut action = self.bucket.list_objects_v2(Some(&self.credentials));
            action.with_prefix(self.prefix.as_str());
            if let Some(token) = token.take() {
                action.with_continuation_token(token);
            }
            let url = action.sign(SIGNED);
            let text = waiting(|| {
                let mut answer = right(self.agent.get(url.as_str()).call())?;
                answer.body_mut().read_to_string().map_err(|error| told(&error))
            })?;
            let page = ListObjectsV2::parse_response(&text).map_err(|error| Error::other(error.to_string()))?;
            for object in page.contents {
                // Names below a deeper prefix are somebody else's.
                let Some(name) = object.key.strip_prefix(&self.prefix).filter(|name| !name.contains('/')) else {
                    continue;
                };
                let modified = object.last_modified.as_deref().and_then(|text| text.parse::<jiff::Timestamp>().ok());
                let modified = modified.ok_or_else(|| Error::other(format!("`{}` has no time", object.key)))?;
                let size = object.size.ok_or_else(|| Error::other(format!("`{}` has no size", object.key)))?;
                let seconds = u64::try_from(modified.as_second());
                let seconds = seconds.map_err(|_| Error::other(format!("`{}` is older than 1970", object.key)))?;
                let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
                found.push(Listed { name: name.to_owned(), size, modified });
            }
            match page.next_continuation_token {
                Some(next) => token = Some(next),
                None => return Ok(found),
            }
        }
    }
}

/// Lets the other tasks of the thread go on elsewhere while a call is under way.
fn waiting<T>(call: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(call),
        _ => call(),
    }
}

fn right(
    answer: std::result::Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> Result<ureq::http::Response<ureq::Body>> {
    let mut answer = answer.map_err(|error| told(&error))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    // An object that is not there, and not a bucket that is not there.
    let text = answer.body_mut().read_to_string().map_err(|error| told(&error))?;
    let word = |tag: &str| {
        let (_, rest) = text.split_once(&format!("<{tag}>"))?;
        rest.split_once('<').map(|(word, _)| word.to_owned())
    };
    let code = word("Code");
    if status == 404 && code.as_deref() != Some("NoSuchBucket") {
        return Err(Error::new(Io::NotFound, "no such object"));
    }
    let said = [Some(format!("HTTP {}", status.as_u16())), code, word("Message")];
    Err(Error::other(said.into_iter().flatten().collect::<Vec<_>>().join(": ")))
}

/// What went wrong on the way, without the address: it is signed.
fn told(error: &ureq::Error) -> Error {
    match error {
        ureq::Error::Timeout(_) => Error::new(Io::TimedOut, "no answer in time"),
        ureq::Error::Io(error) => Error::new(error.kind(), error.to_string()),
        other => Error::other(other.to_string()),
    }
}
