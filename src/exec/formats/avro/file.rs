//! Fetching an Avro file piece by piece and decoding its blocks into batches.

use std::sync::Arc;

use arrow::datatypes::{Schema as ArrowSchema, SchemaRef};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};

use super::super::{FileRows, OpenedFile, Piece, StoredFile, Wanted, batch};
use super::column::{Context, Parts};
use super::plan::plan;
use crate::error::{Error, Result};
use crate::spec::avro::{AvroSchema, Block, ContainerReader, Cursor};

/// How much is fetched at once.
const PIECE: u64 = 4 << 20;
/// How much is fetched for the header at first.
const HEADER: u64 = 64 << 10;
/// A batch ends after as many bytes of rows, however few these are.
const BATCH_BYTES: usize = 32 << 20;
/// The markers between blocks.
const SYNC: u64 = 16;

/// Opens an Avro file.
///
/// # Errors
/// `NotFound` and `Io` from the store, `DataInvalid` for a file that is broken or does not fit the
/// schema, `Unsupported` for codecs and types that Iceberg does not use.
pub(crate) async fn open_avro(file: StoredFile, wanted: &Wanted<'_>) -> Result<OpenedFile> {
    let (container, position) = open_header(&file).await?;
    let avro = container.schema()?;
    let (parts, fields) = plan(&avro, wanted)?;
    let schema: SchemaRef = Arc::new(ArrowSchema::new(fields));
    let rows = File {
        file,
        position,
        container,
        avro,
        parts,
        schema: Arc::clone(&schema),
        batch_size: wanted.batch_size.max(1),
        block: None,
    };
    Ok(OpenedFile { schema, rows: Box::new(rows) })
}

/// The header, and how much of the file was fetched for it.
async fn open_header(file: &StoredFile) -> Result<(ContainerReader, u64)> {
    let size = file.size;
    let mut fetched = file.read(0..size.min(HEADER)).await?;
    loop {
        let position = fetched.len() as u64;
        match ContainerReader::open(fetched.clone()) {
            Ok(container) => return Ok((container, position)),
            // It may go on.
            Err(_) if position < size && fetched.starts_with(b"Obj\x01") => {
                let more = file.read(position..size.min(position.saturating_mul(4))).await?;
                fetched = concat(&fetched, &more);
            }
            Err(e) => return Err(e),
        }
    }
}

fn concat(head: &Bytes, tail: &Bytes) -> Bytes {
    let mut all = BytesMut::with_capacity(head.len() + tail.len());
    all.extend_from_slice(head);
    all.extend_from_slice(tail);
    all.freeze()
}

struct File {
    file: StoredFile,
    /// How much of it was fetched.
    position: u64,
    container: ContainerReader,
    avro: AvroSchema,
    parts: Parts,
    schema: SchemaRef,
    batch_size: usize,
    /// The block that is read.
    block: Option<Rows>,
}

/// What is left of a block.
struct Rows {
    count: usize,
    data: Bytes,
    empty_items: usize,
}

impl From<Block> for Rows {
    fn from(block: Block) -> Self {
        Self { count: block.count, empty_items: block.data.len(), data: block.data }
    }
}

#[async_trait]
impl FileRows for File {
    async fn next(&mut self) -> Result<Option<Piece>> {
        let mut rows = 0;
        let mut bytes = 0;
        while rows < self.batch_size && bytes < BATCH_BYTES {
            if self.block.is_none() {
                self.block = self.next_block().await?.map(Rows::from);
            }
            let Some(block) = &mut self.block else { break };
            let mut cursor = Cursor::new(&block.data);
            let mut context = Context { schema: &self.avro, empty_items: block.empty_items };
            while block.count > 0 && rows < self.batch_size && bytes + cursor.position() < BATCH_BYTES {
                self.parts.read(&mut cursor, &mut context)?;
                block.count -= 1;
                rows += 1;
            }
            block.empty_items = context.empty_items;
            let read = cursor.position();
            bytes += read;
            block.data = block.data.slice(read..);
            if block.count == 0 {
                if !block.data.is_empty() {
                    return Err(Error::invalid("avro block has more bytes than rows"));
                }
                self.block = None;
            }
        }
        if rows == 0 {
            return Ok(None);
        }
        let columns = self.parts.finish()?;
        batch(&self.schema, columns, rows).map(|batch| Some(Piece::Rows(batch)))
    }
}

impl File {
    async fn next_block(&mut self) -> Result<Option<Block>> {
        loop {
            let rest = self.container.rest();
            let have = rest.len() as u64;
            let missing = match block_length(rest)? {
                Some(length) if length <= have => 0,
                Some(length) => length - have,
                None => 1,
            };
            let left = self.file.size.saturating_sub(self.position);
            if missing == 0 || (left == 0 && have == 0) {
                return self.container.next_block();
            }
            if missing > left {
                return Err(Error::invalid("the avro file ends within a block"));
            }
            let end = self.position + left.min(missing.max(PIECE));
            let piece = self.file.read(self.position..end).await?;
            self.position = end;
            let rest = if have == 0 { piece } else { concat(rest, &piece) };
            self.container.set_rest(rest);
        }
    }
}

/// How long the block at the start of `rest` is; `None` if too little of it is there to tell.
fn block_length(rest: &[u8]) -> Result<Option<u64>> {
    let mut cursor = Cursor::new(rest);
    let (Ok(_), Ok(length)) = (cursor.long(), cursor.long()) else {
        // Two numbers take no more than twenty bytes.
        return if rest.len() < 20 { Ok(None) } else { Err(Error::invalid("avro block has no length")) };
    };
    let length = u64::try_from(length).map_err(|_| Error::invalid("avro block has a negative length"))?;
    Ok(Some((cursor.position() as u64).saturating_add(length).saturating_add(SYNC)))
}
