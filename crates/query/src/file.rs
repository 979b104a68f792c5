//! The packs' files as the scan reads them: by the thread that computes, which has nothing else to do.
//!
//! The library's own reader hands each read to another thread and opens the file anew for it. That is right for a service
//! whose disk is far away; for thousands of small files it is a good part of the time.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::error::Result;
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::errors::{ParquetError, Result as ParquetResult};
use datafusion::parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};

use crate::table::Packs;

/// Where a file is, carried along with it.
pub struct At(pub PathBuf);

#[derive(Debug)]
pub struct Files(pub Arc<Packs>);

impl ParquetFileReaderFactory for Files {
    fn create_reader(
        &self,
        _: usize,
        file: PartitionedFile,
        _: Option<usize>,
        _: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let At(path) = file.extension().expect("each file is made with its place");
        let opened = File::open(self.0.root.join(path))?;
        Ok(Box::new(Reader { size: opened.metadata()?.len(), file: opened }))
    }
}

struct Reader {
    file: File,
    /// Bytes.
    size: u64,
}

impl Reader {
    fn read(&self, range: Range<u64>) -> ParquetResult<Bytes> {
        // What a footer says may be nonsense; no memory is taken for it.
        if range.start > range.end || range.end > self.size {
            return Err(ParquetError::EOF(format!("bytes {range:?} of a file of {} bytes", self.size)));
        }
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.file.read_exact_at(&mut bytes, range.start).map_err(unreadable)?;
        Ok(bytes.into())
    }
}

fn unreadable(error: io::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

impl AsyncFileReader for Reader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        ready(self.read(range)).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        // The files have no index of their pages.
        ready(ParquetMetaDataReader::new().parse_and_finish(&self.file).map(Arc::new)).boxed()
    }
}
