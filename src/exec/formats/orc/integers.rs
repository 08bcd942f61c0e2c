//! Run-length encoded integers, both versions (ORC specification, "Integer Run Length Encoding").

use super::input::Input;
use super::{Corrupt, Decoded};

/// The longest run of version 2; those of version 1 are shorter.
const MAX_RUN: usize = 512;

/// A stream of integers.
pub(super) struct Integers {
    input: Input,
    is_signed: bool,
    is_v2: bool,
    run: Vec<i64>,
    at: usize,
}

impl Integers {
    pub(super) fn new(input: Input, is_signed: bool, is_v2: bool) -> Self {
        Self { input, is_signed, is_v2, run: Vec::with_capacity(MAX_RUN), at: 0 }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Decoded<i64> {
        if self.at == self.run.len() {
            self.next_run()?;
        }
        let value = self.run.get(self.at).copied().ok_or(Corrupt("orc run is empty"))?;
        self.at += 1;
        Ok(value)
    }

    /// The next `count` integers.
    pub(super) fn read(&mut self, count: usize) -> Decoded<Vec<i64>> {
        // It grows with the values that are there: the count may be a lie.
        let mut values = Vec::with_capacity(count.min(8192));
        while values.len() < count {
            if self.at == self.run.len() {
                self.next_run()?;
            }
            let end = self.run.len().min(self.at.saturating_add(count - values.len()));
            values.extend_from_slice(self.run.get(self.at..end).unwrap_or_default());
            self.at = end;
        }
        Ok(values)
    }

    fn next_run(&mut self) -> Decoded<()> {
        self.run.clear();
        self.at = 0;
        if !self.is_v2 {
            return self.run_v1();
        }
        let first = self.input.byte()?;
        match first >> 6 {
            0 => self.short_repeat(first),
            1 => self.direct(first),
            2 => self.patched_base(first),
            _ => self.delta(first),
        }
    }

    fn run_v1(&mut self) -> Decoded<()> {
        let control = self.input.byte()?;
        if control < 0x80 {
            let delta = i64::from(self.input.byte()?.cast_signed());
            let mut value = self.varint()?;
            for _ in 0..usize::from(control) + 3 {
                self.run.push(value);
                value = value.wrapping_add(delta);
            }
        } else {
            for _ in 0..0x100 - usize::from(control) {
                let value = self.varint()?;
                self.run.push(value);
            }
        }
        Ok(())
    }

    fn short_repeat(&mut self, first: u8) -> Decoded<()> {
        let width = usize::from(first >> 3 & 7) + 1;
        let count = usize::from(first & 7) + 3;
        let value = self.big_endian(width)?;
        let value = self.sign(value);
        self.run.resize(count, value);
        Ok(())
    }

    fn direct(&mut self, first: u8) -> Decoded<()> {
        let width = bit_width(first >> 1);
        let count = self.run_length(first)?;
        let mut run = std::mem::take(&mut self.run);
        self.unpack(width, count, &mut run)?;
        if self.is_signed {
            run.iter_mut().for_each(|v| *v = zigzag(v.cast_unsigned()));
        }
        self.run = run;
        Ok(())
    }

    fn patched_base(&mut self, first: u8) -> Decoded<()> {
        let width = bit_width(first >> 1);
        let count = self.run_length(first)?;
        let third = self.input.byte()?;
        let fourth = self.input.byte()?;
        let base_width = usize::from(third >> 5) + 1;
        let patch_width = bit_width(third);
        let gap_width = u32::from(fourth >> 5) + 1;
        let patches = usize::from(fourth & 0x1f);

        // The sign is the highest bit, as it is not for any other number.
        let base = self.big_endian(base_width)?;
        let sign = 1u64 << (base_width * 8 - 1);
        let base =
            if base & sign == 0 { base.cast_signed() } else { (base & !sign).cast_signed().wrapping_neg() };

        let mut run = std::mem::take(&mut self.run);
        self.unpack(width, count, &mut run)?;
        let mut list = Vec::with_capacity(patches);
        let entry_width = closest_width(patch_width + gap_width);
        if patch_width + gap_width > 64 || (patches > 0 && width >= 64) {
            return Err(Corrupt("orc patches are too wide"));
        }
        self.unpack(entry_width, patches, &mut list)?;
        let mut at = 0usize;
        for entry in list {
            let entry = entry.cast_unsigned();
            let patch = if patch_width == 64 { entry } else { entry & ((1 << patch_width) - 1) };
            let gap = entry.checked_shr(patch_width).unwrap_or(0);
            at = at.saturating_add(usize::try_from(gap).unwrap_or(usize::MAX));
            // A gap too long for its bits is made of entries without a patch.
            if patch == 0 {
                continue;
            }
            let value = run.get_mut(at).ok_or(Corrupt("orc patch is outside of its run"))?;
            *value |= (patch << width).cast_signed();
        }
        run.iter_mut().for_each(|v| *v = v.wrapping_add(base));
        self.run = run;
        Ok(())
    }

    fn delta(&mut self, first: u8) -> Decoded<()> {
        let code = first >> 1 & 0x1f;
        let count = self.run_length(first)?;
        let base = self.varint()?;
        let delta = zigzag(self.unsigned_varint()?);
        let mut value = base;
        self.run.push(value);
        if code == 0 {
            for _ in 1..count {
                value = value.wrapping_add(delta);
                self.run.push(value);
            }
            return Ok(());
        }
        if count < 2 {
            return Err(Corrupt("orc run of deltas is too short"));
        }
        value = value.wrapping_add(delta);
        self.run.push(value);
        let mut deltas = Vec::with_capacity(count - 2);
        self.unpack(bit_width(code), count - 2, &mut deltas)?;
        for step in deltas {
            value = if delta < 0 { value.wrapping_sub(step) } else { value.wrapping_add(step) };
            self.run.push(value);
        }
        Ok(())
    }

    /// Nine bits, the first of them in the first byte.
    fn run_length(&mut self, first: u8) -> Decoded<usize> {
        Ok((usize::from(first & 1) << 8 | usize::from(self.input.byte()?)) + 1)
    }

    fn big_endian(&mut self, width: usize) -> Decoded<u64> {
        let mut value = 0;
        for _ in 0..width {
            value = value << 8 | u64::from(self.input.byte()?);
        }
        Ok(value)
    }

    fn sign(&self, value: u64) -> i64 {
        if self.is_signed { zigzag(value) } else { value.cast_signed() }
    }

    fn varint(&mut self) -> Decoded<i64> {
        let value = self.unsigned_varint()?;
        Ok(self.sign(value))
    }

    fn unsigned_varint(&mut self) -> Decoded<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.input.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Corrupt("orc integer has more than 64 bits"))
    }

    /// Appends `count` numbers of `width` bits; what is left of the last byte is padding.
    fn unpack(&mut self, width: u32, count: usize, into: &mut Vec<i64>) -> Decoded<()> {
        // Room to load 16 bytes anywhere.
        let mut packed = [0u8; MAX_RUN * 8 + 16];
        let length = (count * width as usize).div_ceil(8);
        self.input.exact(packed.get_mut(..length).ok_or(Corrupt("orc run is too long"))?)?;
        for i in 0..count {
            let bit = i * width as usize;
            let window = packed.get(bit / 8..).and_then(|rest| rest.first_chunk::<16>());
            let window = u128::from_be_bytes(*window.ok_or(Corrupt("orc run is too long"))?);
            let value = window << (bit % 8) >> (128 - width);
            into.push((value as u64).cast_signed());
        }
        Ok(())
    }
}

pub(super) fn zigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ (value & 1).cast_signed().wrapping_neg()
}

/// The width that the low five bits stand for.
fn bit_width(code: u8) -> u32 {
    match code & 0x1f {
        code @ 0..=23 => u32::from(code) + 1,
        24 => 26,
        25 => 28,
        26 => 30,
        27 => 32,
        28 => 40,
        29 => 48,
        30 => 56,
        _ => 64,
    }
}

/// The least width that can be encoded and is no less.
fn closest_width(width: u32) -> u32 {
    (0..32).map(bit_width).find(|w| *w >= width).unwrap_or(64)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::super::input::Compression;
    use super::*;

    fn read(bytes: &[u8], is_signed: bool, is_v2: bool, count: usize) -> Decoded<Vec<i64>> {
        let input = Input::new(Bytes::copy_from_slice(bytes), Compression::NONE);
        let mut integers = Integers::new(input, is_signed, is_v2);
        let values = integers.read(count)?;
        assert!(integers.next().is_err(), "nothing follows");
        Ok(values)
    }

    #[test]
    fn the_examples_of_version_1() {
        assert_eq!(read(&[0x61, 0x00, 0x07], false, false, 100), Ok(vec![7; 100]));
        assert_eq!(read(&[0x61, 0xff, 0x64], false, false, 100), Ok((1..=100).rev().collect()));
        assert_eq!(read(&[0xfb, 2, 3, 6, 7, 11], false, false, 5), Ok(vec![2, 3, 6, 7, 11]));
        assert_eq!(read(&[0xfe, 1, 4], true, false, 2), Ok(vec![-1, 2]));
    }

    #[test]
    fn the_examples_of_version_2() {
        assert_eq!(read(&[0x0a, 0x27, 0x10], false, true, 5), Ok(vec![10_000; 5]));
        assert_eq!(
            read(&[0x5e, 0x03, 0x5c, 0xa1, 0xab, 0x1e, 0xde, 0xad, 0xbe, 0xef], false, true, 4),
            Ok(vec![23_713, 43_806, 57_005, 48_879])
        );
        let patched = [
            0x8e, 0x13, 0x2b, 0x21, 0x07, 0xd0, 0x1e, 0x00, 0x14, 0x70, 0x28, 0x32, 0x3c, 0x46, 0x50, 0x5a,
            0x64, 0x6e, 0x78, 0x82, 0x8c, 0x96, 0xa0, 0xaa, 0xb4, 0xbe, 0xfc, 0xe8,
        ];
        let mut expected = vec![2030, 2000, 2020, 1_000_000];
        expected.extend((2040..=2190).step_by(10));
        assert_eq!(read(&patched, false, true, 20), Ok(expected));
        assert_eq!(
            read(&[0xc6, 0x09, 0x02, 0x02, 0x22, 0x42, 0x42, 0x46], false, true, 10),
            Ok(vec![2, 3, 5, 7, 11, 13, 17, 19, 23, 29])
        );
        // A fixed delta: 400 times the same.
        assert_eq!(read(&[0xc1, 0x8f, 0x0e, 0x00], true, true, 400), Ok(vec![7; 400]));
    }

    #[test]
    fn every_width() {
        for code in 0..32u8 {
            let width = bit_width(code);
            let max = if width == 64 { u64::MAX } else { (1 << width) - 1 };
            // Three values: 0, the largest, 0.
            let mut bits = String::new();
            for value in [0, max, 0] {
                bits += &format!("{value:0width$b}", width = width as usize);
            }
            while !bits.len().is_multiple_of(8) {
                bits.push('0');
            }
            let mut bytes = vec![0x40 | code << 1, 2];
            bytes
                .extend((0..bits.len() / 8).map(|i| u8::from_str_radix(&bits[i * 8..i * 8 + 8], 2).unwrap()));
            assert_eq!(read(&bytes, false, true, 3), Ok(vec![0, max.cast_signed(), 0]), "{width}");
        }
        assert_eq!([0, 1, 25, 33, 57].map(closest_width), [1, 1, 26, 40, 64]);
    }

    #[test]
    fn extremes_wrap_as_they_were_written() {
        // v1: a run from i64::MAX on.
        let bytes = [0, 1, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(read(&bytes, true, false, 3), Ok(vec![i64::MAX, i64::MIN, i64::MIN + 1]));
    }

    proptest! {
        #[test]
        fn noise_never_panics(noise: Vec<u8>, signed: bool, v2: bool) {
            let input = Input::new(noise.into(), Compression::NONE);
            let mut integers = Integers::new(input, signed, v2);
            while integers.next().is_ok() {}
        }
    }
}
