//! The receiver alone: `receiver serve DIR` takes OTLP over HTTP into a store and prints its process and addresses; `receiver count DIR` opens the
//! store, recovers what was acknowledged and prints how many spans it holds; `receiver send ADDRESS SECONDS PROTOCOL` sends a load to a receiver
//! and prints what became of it.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use telemetry::load::{Load, Protocol};
use telemetry::{Listen, Signal, SignalStore, serve};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", folder] => receive(folder),
        ["count", folder] => {
            let stats = SignalStore::open(folder)?.stats()?;
            println!("{}", stats.rows.get(&Signal::Traces).copied().unwrap_or(0));
            Ok(())
        }
        ["send", address, seconds, protocol] => {
            let protocol = match protocol {
                "http" => Protocol::Http,
                "http-gzip" => Protocol::HttpGzip,
                "grpc" => Protocol::Grpc,
                "grpc-gzip" => Protocol::GrpcGzip,
                other => return Err(format!("unknown protocol {other}").into()),
            };
            let load = Load {
                address: address.parse()?,
                protocol,
                duration: Duration::from_secs(seconds.parse()?),
                bodies: 256,
                connections: 8,
                spans_per_body: 1000,
            };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            println!("{}", serde_json::to_string(&runtime.block_on(load.send())?)?);
            Ok(())
        }
        _ => Err("receiver serve|count DIR, or receiver send ADDRESS SECONDS http|http-gzip|grpc|grpc-gzip".into()),
    }
}

fn receive(folder: &str) -> Result<(), Box<dyn Error>> {
    let store = SignalStore::open(folder)?;
    let ingest = store.ingest()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let stop = async { drop(tokio::signal::ctrl_c().await) };
        let listening = serve(Listen { grpc: any, http: any }, ingest, stop).await?;
        let (http, grpc) = listening.http.zip(listening.grpc).ok_or("no address")?;
        println!("{} {http} {grpc}", std::process::id());
        listening.task.await??;
        Ok(())
    })
}
