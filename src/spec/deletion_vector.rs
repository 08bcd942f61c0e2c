//! Deletion vectors: the Puffin blob `deletion-vector-v1` (Puffin spec, "Blob types").
//!
//! The blob is the length of what follows up to the checksum (big-endian), a magic, a 64-bit
//! Roaring bitmap in the portable format (little-endian), and a CRC-32 (big-endian).

use std::ops::Range;

use roaring::{RoaringBitmap, RoaringTreemap};

use crate::error::{Error, Result};

/// The type of the blobs.
pub const DELETION_VECTOR_BLOB: &str = "deletion-vector-v1";
const MAGIC: [u8; 4] = [0xd1, 0xd3, 0x39, 0x64];
/// Positions have 63 bits, so keys have 31.
const MAX_KEY: u32 = i32::MAX as u32;
/// A key and the smallest bitmap: an empty one is a cookie and a count.
const MIN_ENTRY: u64 = 4 + 8;

/// The set of the deleted positions of a data file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeletionVector {
    positions: RoaringTreemap,
}

impl DeletionVector {
    /// No position.
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses a blob; its number of positions is checked if it is known from elsewhere.
    ///
    /// # Errors
    /// `DataInvalid` for bytes that are no deletion vector, or another number of positions.
    pub fn parse(blob: &[u8], expected_cardinality: Option<u64>) -> Result<Self> {
        let vector = parse_blob(blob).map_err(|e| e.context("deletion vector"))?;
        match expected_cardinality {
            Some(expected) if expected != vector.len() => {
                let found = vector.len();
                Err(Error::invalid(format!("deletion vector has {found} positions instead of {expected}")))
            }
            _ => Ok(vector),
        }
    }

    /// Whether the row at that position is deleted.
    pub fn contains(&self, position: u64) -> bool {
        self.positions.contains(position)
    }

    /// How many positions there are.
    pub fn len(&self) -> u64 {
        self.positions.len()
    }

    /// Whether no row is deleted.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// All positions, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.positions.iter()
    }

    /// The positions in a range, ascending.
    pub fn iter_range(&self, range: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let mut positions = self.positions.iter();
        positions.advance_to(range.start);
        positions.take_while(move |p| *p < range.end)
    }

    /// Clears the bit of each position, the lowest bit of the first word being position 0.
    pub(crate) fn clear_in(&self, words: &mut [u64]) {
        let mut buffer = [0; 1024];
        for (high, bitmap) in self.positions.bitmaps() {
            let Ok(first) = usize::try_from(u64::from(high) << 26) else { return };
            let Some(words) = words.get_mut(first..) else { return };
            let mut positions = bitmap.iter();
            loop {
                let some = positions.next_many(&mut buffer);
                for position in some.iter() {
                    // What lies beyond is no row.
                    if let Some(word) = words.get_mut((position / 64) as usize) {
                        *word &= !(1 << (position % 64));
                    }
                }
                if some.len() < 1024 {
                    break;
                }
            }
        }
    }

    /// How many positions lie in a range.
    pub fn count_range(&self, range: Range<u64>) -> u64 {
        self.positions.range_cardinality(range)
    }

    /// Adds a position; returns whether it is new.
    ///
    /// # Errors
    /// `DataInvalid` for a position above 2^63 - 1.
    pub fn insert(&mut self, position: u64) -> Result<bool> {
        if position > i64::MAX as u64 {
            return Err(Error::invalid(format!("row position {position} has more than 63 bits")));
        }
        Ok(self.positions.insert(position))
    }

    /// Adds all positions of another.
    pub fn union(&mut self, other: &Self) {
        self.positions |= &other.positions;
    }

    /// The blob.
    ///
    /// # Errors
    /// `DataInvalid` if it would be longer than 2 GiB.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut positions = self.positions.clone();
        positions.optimize();
        let length = MAGIC.len() + positions.serialized_size();
        let too_long = || Error::invalid(format!("a deletion vector of {length} bytes is too long"));
        let length_field = i32::try_from(length).map_err(|_| too_long())?;
        let mut blob = Vec::with_capacity(length + 8);
        blob.extend_from_slice(&length_field.to_be_bytes());
        blob.extend_from_slice(&MAGIC);
        positions
            .serialize_into(&mut blob)
            .map_err(|e| Error::invalid("a deletion vector can't be written").with_source(e))?;
        let checksum = crc32fast::hash(blob.get(4..).unwrap_or_default());
        blob.extend_from_slice(&checksum.to_be_bytes());
        Ok(blob)
    }
}

impl Extend<u64> for DeletionVector {
    /// Adds positions; those above 2^63 - 1 don't exist and are left out.
    fn extend<I: IntoIterator<Item = u64>>(&mut self, positions: I) {
        self.positions.extend(positions.into_iter().filter(|p| *p <= i64::MAX as u64));
    }
}

fn parse_blob(blob: &[u8]) -> Result<DeletionVector> {
    let (length, body) = blob.split_first_chunk::<4>().ok_or_else(|| Error::invalid("has no length"))?;
    let (body, checksum) = body.split_last_chunk::<4>().ok_or_else(|| Error::invalid("has no checksum"))?;
    let length = u32::from_be_bytes(*length);
    if u64::from(length) != body.len() as u64 {
        return Err(Error::invalid(format!("its length is {length}, but it has {} bytes", body.len())));
    }
    let mut rest =
        body.strip_prefix(&MAGIC).ok_or_else(|| Error::invalid("does not begin with its magic number"))?;
    let (found, expected) = (crc32fast::hash(body), u32::from_be_bytes(*checksum));
    if found != expected {
        return Err(Error::invalid(format!("its checksum is {found:08x}, but should be {expected:08x}")));
    }
    let count = u64::from_le_bytes(take(&mut rest)?);
    if count > rest.len() as u64 / MIN_ENTRY {
        return Err(Error::invalid(format!("{} bytes can't hold {count} bitmaps", rest.len())));
    }
    let mut bitmaps = Vec::new();
    let mut last_key = None;
    for _ in 0..count {
        let key = u32::from_le_bytes(take(&mut rest)?);
        if key > MAX_KEY {
            return Err(Error::invalid(format!("key {key} makes positions of more than 63 bits")));
        }
        if last_key.is_some_and(|last| last >= key) {
            return Err(Error::invalid(format!("key {key} is out of order")));
        }
        last_key = Some(key);
        // This checks all that it reads, and allocates at most 256 KiB ahead of reading.
        let bitmap = RoaringBitmap::deserialize_from(&mut rest)
            .map_err(|e| Error::invalid(format!("bitmap {key} is damaged")).with_source(e))?;
        // Java fills gaps between keys with empty bitmaps.
        if !bitmap.is_empty() {
            bitmaps.push((key, bitmap));
        }
    }
    if !rest.is_empty() {
        return Err(Error::invalid(format!("{} bytes follow the last bitmap", rest.len())));
    }
    Ok(DeletionVector { positions: RoaringTreemap::from_bitmaps(bitmaps) })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>().ok_or_else(|| Error::invalid("ends too early"))?;
    *bytes = rest;
    Ok(*taken)
}

#[cfg(test)]
mod tests {
    use super::super::puffin::Footer;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn vector(positions: impl IntoIterator<Item = u64>) -> DeletionVector {
        let mut vector = DeletionVector::new();
        vector.extend(positions);
        vector
    }

    /// A blob around any body, with the right length and checksum.
    fn blob(body: &[u8]) -> Vec<u8> {
        let body = [MAGIC.as_slice(), body].concat();
        let mut blob = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        blob.extend(&body);
        blob.extend(crc32fast::hash(&body).to_be_bytes());
        blob
    }

    fn bitmap(key: u32, values: impl IntoIterator<Item = u32>) -> Vec<u8> {
        let mut bytes = key.to_le_bytes().to_vec();
        RoaringBitmap::from_iter(values).serialize_into(&mut bytes).unwrap();
        bytes
    }

    fn error(body: &[u8]) -> String {
        DeletionVector::parse(&blob(body), None).unwrap_err().to_string()
    }

    #[test]
    fn bytes_written_by_hand() {
        // One bitmap of key 0 with the positions 1 and 3: an array container.
        let body = [
            1_u64.to_le_bytes().as_slice(),
            &[0, 0, 0, 0],
            &12_346_u32.to_le_bytes(),
            &1_u32.to_le_bytes(),
            &[0, 0, 1, 0],
            &16_u32.to_le_bytes(),
            &[1, 0, 3, 0],
        ]
        .concat();
        let parsed = DeletionVector::parse(&blob(&body), Some(2)).unwrap();
        assert_eq!(parsed.iter().collect::<Vec<_>>(), [1, 3]);
        assert_eq!(parsed.to_bytes().unwrap(), blob(&body));
    }

    #[test]
    fn vectors_that_java_wrote() {
        let file = include_bytes!("../../testdata/puffin/java_vectors.puffin");
        let footer = Footer::parse(file, file.len() as u64).unwrap();
        assert!(footer.blobs.len() >= 2);
        for blob in &footer.blobs {
            assert_eq!(blob.blob_type, DELETION_VECTOR_BLOB);
            let at = usize::try_from(blob.offset).unwrap();
            let bytes = &file[at..at + usize::try_from(blob.length).unwrap()];
            let cardinality = blob.properties["cardinality"].parse().unwrap();
            let vector = DeletionVector::parse(blob.contents(bytes).unwrap(), Some(cardinality)).unwrap();
            assert_eq!(vector.to_bytes().unwrap(), bytes, "the same bytes are written");
        }
    }

    #[test]
    fn empty_bitmaps_fill_gaps() {
        let body = [3_u64.to_le_bytes().to_vec(), bitmap(0, [5]), bitmap(1, []), bitmap(2, [7])].concat();
        let parsed = DeletionVector::parse(&blob(&body), Some(2)).unwrap();
        assert_eq!(parsed.iter().collect::<Vec<_>>(), [5, (2 << 32) + 7]);
        assert!(parsed.contains(5) && !parsed.contains(6) && parsed.contains((2 << 32) + 7));
        let none = DeletionVector::parse(&blob(&0_u64.to_le_bytes()), Some(0)).unwrap();
        assert!(none.is_empty());
    }

    #[test]
    fn damaged_blobs_are_errors() {
        let one = |key: u32| [1_u64.to_le_bytes().to_vec(), bitmap(key, [5])].concat();
        assert!(DeletionVector::parse(&blob(&one(MAX_KEY)), Some(1)).is_ok());
        assert!(error(&one(MAX_KEY + 1)).contains("63 bits"));
        assert!(
            error(&[2_u64.to_le_bytes().to_vec(), bitmap(1, [5]), bitmap(1, [6])].concat()).contains("order")
        );
        assert!(error(&u64::MAX.to_le_bytes()).contains("can't hold"));
        assert!(error(&[one(0), vec![0]].concat()).contains("follow"));
        assert!(error(&one(0)[..20]).contains("deletion vector"));
        assert!(error(&[]).contains("ends too early"));
        // An absurd number of containers.
        let absurd =
            [1_u64.to_le_bytes().as_slice(), &[0; 4], &12_346_u32.to_le_bytes(), &[0xff; 4]].concat();
        assert!(error(&absurd).contains("damaged"));
        let good = blob(&one(0));
        for i in 0..good.len() {
            let mut bad = good.clone();
            bad[i] ^= 1;
            assert!(DeletionVector::parse(&bad, None).is_err(), "byte {i}");
            assert!(DeletionVector::parse(&good[..i], None).is_err(), "{i} bytes");
        }
        let error = DeletionVector::parse(&good, Some(2)).unwrap_err().to_string();
        assert!(error.contains("1 positions instead of 2"), "{error}");
    }

    #[test]
    fn positions_have_63_bits() {
        let mut vector = DeletionVector::new();
        assert!(vector.insert(i64::MAX as u64).unwrap());
        assert!(!vector.insert(i64::MAX as u64).unwrap());
        assert!(vector.insert(1 << 63).is_err());
        assert_eq!(DeletionVector::parse(&vector.to_bytes().unwrap(), Some(1)).unwrap(), vector);
    }

    /// Positions near each other, in runs and far apart.
    fn positions() -> impl Strategy<Value = BTreeSet<u64>> {
        let near = proptest::collection::vec(0..300_u64, 0..50);
        let run = (0..200_000_u64, 0..10_000_u64).prop_map(|(a, n)| (a..a + n).collect::<Vec<_>>());
        let far = proptest::collection::vec(0..=i64::MAX as u64, 0..20);
        (near, run, far).prop_map(|(a, b, c)| a.into_iter().chain(b).chain(c).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn bits_are_positions(a in positions(), words in 0..4000_usize) {
            let mut bits = vec![u64::MAX; words];
            vector(a.iter().copied()).clear_in(&mut bits);
            let cleared: BTreeSet<u64> = (0..words as u64 * 64)
                .filter(|p| bits[(p / 64) as usize] >> (p % 64) & 1 == 0)
                .collect();
            prop_assert_eq!(cleared, a.range(..words as u64 * 64).copied().collect::<BTreeSet<u64>>());
        }

        #[test]
        fn a_vector_is_a_set(a in positions(), b in positions(), start in 0..200_000_u64, n in 0..50_000_u64) {
            let va = vector(a.iter().copied());
            let back = DeletionVector::parse(&va.to_bytes().unwrap(), Some(a.len() as u64)).unwrap();
            prop_assert_eq!(&back, &va);
            prop_assert!(back.iter().eq(a.iter().copied()));
            let range = start..start + n;
            prop_assert!(back.iter_range(range.clone()).eq(a.range(range.clone()).copied()));
            prop_assert_eq!(back.count_range(range.clone()), a.range(range.clone()).count() as u64);
            for p in a.iter().chain(&b).chain(&[start]) {
                prop_assert_eq!(back.contains(*p), a.contains(p));
            }
            let mut union = va;
            union.union(&vector(b.iter().copied()));
            prop_assert!(union.iter().eq(a.union(&b).copied()));
        }

        #[test]
        fn damaged_bodies_never_panic(
            a in positions(),
            at in any::<proptest::sample::Index>(),
            byte in any::<u8>(),
            cut in any::<proptest::sample::Index>(),
        ) {
            // With a right checksum, so that the bitmaps themselves are read.
            let bytes = vector(a).to_bytes().unwrap();
            let mut body = bytes[8..bytes.len() - 4].to_vec();
            let i = at.index(body.len());
            body[i] = byte;
            let _ = DeletionVector::parse(&blob(&body), None);
            let _ = DeletionVector::parse(&blob(&body[..cut.index(body.len())]), None);
        }

        #[test]
        fn arbitrary_bodies_never_panic(body in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = DeletionVector::parse(&body, None);
            let _ = DeletionVector::parse(&blob(&body), None);
            let counted = [1_u64.to_le_bytes().as_slice(), &[0; 4], &12_347_u32.to_le_bytes(), &body].concat();
            let _ = DeletionVector::parse(&blob(&counted), None);
        }
    }
}
