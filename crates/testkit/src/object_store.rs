//! An object store on loopback that speaks as much of S3 as charts need: HeadObject, GetObject, PutObject, DeleteObject and
//! ListObjectsV2 (<https://docs.aws.amazon.com/AmazonS3/latest/API/>), of whoever signed the call in its address
//! (<https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html>).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};

use crate::loopback::{Answer, Loopback, Request};

/// Objects of one page of a listing: few, so that every listing has pages.
const PAGE: usize = 2;
/// When every object was written.
const MODIFIED: &str = "2024-05-06T07:08:09.000Z";

type Objects = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// One bucket, which only `key` with `secret` may use.
pub struct ObjectStore {
    server: Loopback,
    objects: Objects,
}

impl ObjectStore {
    pub fn start(bucket: &str, key: &str, secret: &str) -> Self {
        let objects = Objects::default();
        let (own, root) = (Arc::clone(&objects), format!("/{bucket}/"));
        let (key, secret) = (key.to_owned(), secret.to_owned());
        let server = Loopback::start(move |request| {
            let right = signature(&request, &key, &secret);
            if right.is_none() || right != value(&request, "X-Amz-Signature") {
                return problem(403, "SignatureDoesNotMatch");
            }
            let Some(name) = request.path.strip_prefix(&root) else { return problem(404, "NoSuchBucket") };
            answer(&mut own.lock().expect("no holder of this lock panics"), name, &request)
        });
        Self { server, objects }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// What it holds, by name.
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        self.objects.lock().expect("no holder of this lock panics").clone()
    }

    /// Puts other bytes in the place of an object.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        self.objects.lock().expect("no holder of this lock panics").insert(name.to_owned(), bytes.to_vec());
    }

    /// Takes an object away.
    pub fn delete(&self, name: &str) {
        self.objects.lock().expect("no holder of this lock panics").remove(name);
    }
}

fn answer(objects: &mut BTreeMap<String, Vec<u8>>, name: &str, request: &Request) -> Answer {
    match (request.method.as_str(), name) {
        ("GET", "") => list(objects, request),
        ("GET" | "HEAD", name) => match objects.get(name) {
            Some(bytes) => Answer::new(200)
                .header("ETag", format!("\"{}\"", hex::encode(Sha256::digest(bytes))))
                .header("Content-Length", bytes.len().to_string())
                .body(bytes.clone()),
            None => problem(404, "NoSuchKey"),
        },
        ("PUT", name) => {
            objects.insert(name.to_owned(), request.body.clone());
            Answer::new(200)
        }
        ("DELETE", name) => {
            objects.remove(name);
            Answer::new(204)
        }
        _ => problem(405, "MethodNotAllowed"),
    }
}

fn list(objects: &BTreeMap<String, Vec<u8>>, request: &Request) -> Answer {
    let prefix = value(request, "prefix").unwrap_or_default();
    let after = value(request, "continuation-token").unwrap_or_default();
    let mut all = objects.iter().filter(|(name, _)| name.starts_with(&prefix) && **name > after);
    let page: Vec<_> = all.by_ref().take(PAGE).collect();
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
                    <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
        .to_owned();
    for (name, bytes) in &page {
        let size = bytes.len();
        write!(
            text,
            "<Contents><Key>{name}</Key><LastModified>{MODIFIED}</LastModified><Size>{size}</Size></Contents>"
        )
        .expect("a text takes everything");
    }
    let more = all.next().and(page.last());
    write!(text, "<IsTruncated>{}</IsTruncated>", more.is_some()).expect("a text takes everything");
    if let Some((last, _)) = more {
        write!(text, "<NextContinuationToken>{last}</NextContinuationToken>").expect("a text takes everything");
    }
    Answer::new(200).header("Content-Type", "application/xml").body(text + "</ListBucketResult>")
}

fn problem(status: u16, code: &str) -> Answer {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{code} here</Message></Error>");
    Answer::new(status).header("Content-Type", "application/xml").body(body)
}

/// A parameter of the address, decoded.
fn value(request: &Request, name: &str) -> Option<String> {
    let pair = request.raw_query.split('&').find_map(|pair| pair.split_once('=').filter(|(found, _)| *found == name));
    pair.map(|(_, text)| decoded(text))
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let pair = (byte == b'%').then(|| [rest.next(), rest.next()]);
        bytes.push(match pair {
            Some([Some(high), Some(low)]) => {
                let hex = [high, low];
                let hex = std::str::from_utf8(&hex).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok());
                hex.expect("an address is encoded as it must be")
            }
            _ => byte,
        });
    }
    String::from_utf8(bytes).expect("an address is text")
}

/// What the signature must be, in hexadecimal.
fn signature(request: &Request, key: &str, secret: &str) -> Option<String> {
    let scope = value(request, "X-Amz-Credential")?.strip_prefix(&format!("{key}/"))?.to_owned();
    let mut pairs: Vec<&str> =
        request.raw_query.split('&').filter(|pair| !pair.starts_with("X-Amz-Signature=")).collect();
    pairs.sort_unstable();
    let canonical = format!(
        "{}\n{}\n{}\nhost:{}\n\nhost\nUNSIGNED-PAYLOAD",
        request.method,
        request.path,
        pairs.join("&"),
        request.host
    );
    let hash = hex::encode(Sha256::digest(canonical.as_bytes()));
    let text = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{hash}", value(request, "X-Amz-Date")?);
    let secret = format!("AWS4{secret}").into_bytes();
    let key = scope.split('/').fold(secret, |key, part| hmac(&key, part.as_bytes()));
    Some(hex::encode(hmac(&key, text.as_bytes())))
}

/// HMAC-SHA256 (RFC 2104) of a key that is no longer than a block.
fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let padded = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().to_vec()
}
