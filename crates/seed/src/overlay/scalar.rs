//! What a plain scalar of a values file means to Helm.
//!
//! Helm reads values by the rules of YAML 1.1 as `sigs.k8s.io/yaml` implements them (its v2 resolver): `on` and `y` are
//! booleans, `017` and `0o17` are octal, `1_000` is a thousand, `00215e6` is a float, dates stay texts.

use serde_json::{Number, Value};

use crate::yaml::{Scalar, Tag};

/// # Errors
/// Why the scalar has no value that could be handed on unchanged.
pub(super) fn resolve(scalar: &Scalar) -> Result<Value, &'static str> {
    let text = &scalar.text;
    match scalar.tag {
        Some(Tag::Str) => Ok(Value::String(text.clone())),
        None if !scalar.plain => Ok(Value::String(text.clone())),
        None => plain(text),
        Some(tag) => tagged(tag, plain(text)?),
    }
}

fn tagged(tag: Tag, value: Value) -> Result<Value, &'static str> {
    let value = match (tag, value) {
        (Tag::Float, Value::Number(number)) => number.as_f64().and_then(Number::from_f64).map(Value::Number),
        (Tag::Int, Value::Number(number)) if !number.is_f64() => Some(Value::Number(number)),
        (Tag::Bool, Value::Bool(flag)) => Some(Value::Bool(flag)),
        (Tag::Null, Value::Null) => Some(Value::Null),
        _ => None,
    };
    value.ok_or("it is not what its tag says")
}

fn plain(text: &str) -> Result<Value, &'static str> {
    let value = match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Value::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Value::Bool(false),
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf"
        | "-.INF" => return Err("JSON has no such number"),
        _ => match number(text)? {
            Some(number) => Value::Number(number),
            None => Value::String(text.to_owned()),
        },
    };
    Ok(value)
}

fn number(text: &str) -> Result<Option<Number>, &'static str> {
    let starts_number = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-'));
    if !starts_number {
        let float = text.starts_with('.') && is_decimal(text);
        return if float { finite(text).map(Some) } else { Ok(None) };
    }
    let text = text.replace('_', "");
    match integer(&text) {
        Integer::Fits(number) => Ok(Some(number)),
        Integer::TooLarge => Err("the number does not fit into 64 bits"),
        Integer::No if is_decimal(&text) => finite(&text).map(Some),
        Integer::No => Ok(None),
    }
}

enum Integer {
    Fits(Number),
    TooLarge,
    No,
}

/// Sign, prefix (`0x`, `0o`, `0b`, or `0` for octal), digits.
fn integer(text: &str) -> Integer {
    let negative = text.starts_with('-');
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = body.to_ascii_lowercase();
    let (radix, digits) = match lower.as_str() {
        "0" => (10, "0"),
        _ if lower.starts_with("0x") => (16, &lower[2..]),
        _ if lower.starts_with("0o") => (8, &lower[2..]),
        _ if lower.starts_with("0b") => (2, &lower[2..]),
        _ if lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Integer::No;
    }
    let Ok(size) = u64::from_str_radix(digits, radix) else { return Integer::TooLarge };
    if !negative {
        return Integer::Fits(size.into());
    }
    match 0i64.checked_sub_unsigned(size) {
        Some(number) => Integer::Fits(number.into()),
        None => Integer::TooLarge,
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_decimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty()),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    mantissa_fits && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent))
}

fn finite(text: &str) -> Result<Number, &'static str> {
    text.parse().ok().and_then(Number::from_f64).ok_or("the number is too large")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_scalars_mean_what_they_mean_to_helm() {
        let cases = [
            ("17.6", json!(17.6)),
            ("1.10", json!(1.1)),
            ("00215e6", json!(215_000_000.0)),
            ("on", json!(true)),
            ("y", json!(true)),
            ("No", json!(false)),
            ("0o17", json!(15)),
            ("017", json!(15)),
            ("08", json!(8.0)),
            ("0x1F", json!(31)),
            ("-0x10", json!(-16)),
            ("0b101", json!(5)),
            ("1_000", json!(1000)),
            ("0", json!(0)),
            ("-0", json!(0)),
            ("+5", json!(5)),
            ("18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
            (".5", json!(0.5)),
            ("1.", json!(1.0)),
            ("1e3", json!(1000.0)),
            ("~", json!(null)),
            ("", json!(null)),
            ("2001-01-01", json!("2001-01-01")),
            ("2.2.0", json!("2.2.0")),
            ("v0.12.9", json!("v0.12.9")),
            ("9.0.1-alpine3.23", json!("9.0.1-alpine3.23")),
            ("17.6-bookworm", json!("17.6-bookworm")),
            ("-", json!("-")),
            ("12:30", json!("12:30")),
            ("oN", json!("oN")),
            ("0x", json!("0x")),
            (".e5", json!(".e5")),
        ];
        for (text, expect) in cases {
            assert_eq!(plain(text), Ok(expect), "{text}");
        }
        for text in [".inf", "-.Inf", ".nan", "99999999999999999999", "-9223372036854775809", "1e999"] {
            assert!(plain(text).is_err(), "{text}");
        }
    }
}
