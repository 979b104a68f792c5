//! Protobuf as it came: the fields of a message one after another, borrowed from the request's bytes.
//!
//! Nothing is allocated, so that a request needs no more memory than its own bytes, whatever it holds. The frames of a request are checked
//! first ([`records`]); what is wrong inside one record is a matter of that record.

use crate::refusal::Refusal;

/// Bytes that are not the protobuf of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

impl From<Malformed> for Refusal {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// The value of one field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// The fields of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    /// The number and the value of the next field; nothing at the end.
    #[inline]
    pub fn next(&mut self) -> Result<Option<(u64, Field<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let field = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                let (value, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
                self.0 = rest;
                Field::Bytes(value)
            }
            5 => Field::Fixed32(u32::from_le_bytes(self.array()?)),
            // Groups are in no message of OTLP.
            _ => return Err(Malformed),
        };
        Ok(Some((key >> 3, field)))
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Malformed> {
        let (&first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        if first < 0x80 {
            return Ok(first.into());
        }
        let mut value = u64::from(first & 0x7f);
        for shift in (7..70).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(Malformed)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (value, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*value)
    }
}

/// Calls `with` for every sub-message of one number.
///
/// # Errors
/// When the message is malformed, and those of `with`.
pub(crate) fn each<'a, E: From<Malformed>>(
    message: &'a [u8],
    number: u64,
    mut with: impl FnMut(&'a [u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut fields = Fields::of(message);
    while let Some((at, field)) = fields.next()? {
        if let Field::Bytes(inner) = field
            && at == number
        {
            with(inner)?;
        }
    }
    Ok(())
}

/// Checks the frames of a request down to its records: `resource_x = 1` of `scope_x = 2` of records (`2`), in all three signals.
pub(crate) fn check(request: &[u8]) -> Result<(), Malformed> {
    each(request, 1, |resource| each(resource, 2, |scope| each(scope, 2, |_| Ok::<_, Malformed>(()))))
}

/// Calls `with` for every record of a resource.
///
/// # Errors
/// Those of [`each`]; none after [`check`].
pub(crate) fn records<'a>(resource: &'a [u8], mut with: impl FnMut(&'a [u8])) -> Result<(), Malformed> {
    each(resource, 2, |scope| {
        each(scope, 2, |record| {
            with(record);
            Ok(())
        })
    })
}

/// The numbers of a repeated field of eight bytes each, packed or not.
pub(crate) fn eights<T>(field: Field<'_>, into: &mut Vec<T>, number: impl Fn([u8; 8]) -> T) -> Result<(), Malformed> {
    match field {
        Field::Bytes(packed) => {
            let (numbers, rest) = packed.as_chunks();
            if !rest.is_empty() {
                return Err(Malformed);
            }
            into.extend(numbers.iter().map(|&bytes| number(bytes)));
        }
        Field::Fixed64(one) => into.push(number(one.to_le_bytes())),
        _ => {}
    }
    Ok(())
}

/// The text of a field.
#[inline]
pub(crate) fn text(bytes: &[u8]) -> Result<&str, Refusal> {
    str::from_utf8(bytes).map_err(|_| Refusal::NotText)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_every_cut_is_noticed_or_whole() {
        let message = [0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x19, 1, 0, 0, 0, 0, 0, 0, 0, 0x25, 7, 0, 0, 0];
        let mut fields = Fields::of(&message);
        assert_eq!(fields.next(), Ok(Some((1, Field::Varint(150)))));
        assert_eq!(fields.next(), Ok(Some((2, Field::Bytes(b"hi")))));
        assert_eq!(fields.next(), Ok(Some((3, Field::Fixed64(1)))));
        assert_eq!(fields.next(), Ok(Some((4, Field::Fixed32(7)))));
        assert_eq!(fields.next(), Ok(None));
        let read = |bytes: &[u8]| each(bytes, 99, |_| Ok::<_, Malformed>(()));
        for length in 0..message.len() {
            let ends_with_a_field = [0, 3, 7, 16].contains(&length);
            assert_eq!(read(&message[..length]).is_ok(), ends_with_a_field, "cut at {length}");
        }
        assert_eq!(read(&[0x0b]), Err(Malformed), "a group");
        assert_eq!(read(&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]), Err(Malformed));
        assert_eq!(read(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]), Err(Malformed));
    }
}
