//! Names that people use for the built-in systems and that are not their codes.

/// Wrong name -> short code.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("hotelreservation", "hs"),
    ("hotel", "hs"),
    ("mediamicroservices", "media"),
    ("mm", "media"),
    ("onlineboutique", "ob"),
    ("boutique", "ob"),
    ("opentelemetrydemo", "otel-demo"),
    ("oteldemo", "otel-demo"),
    ("otel", "otel-demo"),
    ("socialnetwork", "sn"),
    ("social", "sn"),
    ("sock", "sockshop"),
    ("sockshop", "sockshop"),
    ("tea", "teastore"),
    ("teastore", "teastore"),
    ("trainticket", "ts"),
    ("tt", "ts"),
];

/// The short code that is meant by a wrong name, whether or not the seed has it.
pub(crate) fn retired(wrong: &str) -> Option<&'static str> {
    let folded: String = wrong.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    OTHER_NAMES.iter().find(|(name, code)| *name == folded && *code != wrong).map(|(_, code)| *code)
}

/// The code that is meant: a known other name of it, else the nearest of `codes`.
pub(crate) fn meant<'a>(wrong: &str, codes: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    retired(wrong).or_else(|| model::nearest(wrong, codes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_names_lead_to_the_code() {
        let codes = ["hs", "media", "teastore", "shop"];
        let cases = [
            ("mm", Some("media")),
            ("tea", Some("teastore")),
            ("hotelreservation", Some("hs")),
            ("Hotel-Reservation", Some("hs")),
            ("shopp", Some("shop")),
            ("warehouse", None),
        ];
        for (wrong, code) in cases {
            assert_eq!(meant(wrong, codes), code, "{wrong}");
        }
        assert_eq!(retired("teastore"), None);
    }
}
