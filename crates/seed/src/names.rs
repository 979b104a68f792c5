//! Names that people use for the built-in systems and that are not their codes.

/// Wrong name, folded to letters and digits -> short code. A name here is refused as the name of any system, so words
/// that a system of one's own may well have (`hotel`, `social`) do not belong here.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("hotelreservation", "hs"),
    ("mediamicroservices", "media"),
    ("mm", "media"),
    ("onlineboutique", "ob"),
    ("opentelemetrydemo", "otel-demo"),
    ("oteldemo", "otel-demo"),
    ("socialnetwork", "sn"),
    ("sockshop", "sockshop"),
    ("tea", "teastore"),
    ("teastore", "teastore"),
    ("trainticket", "ts"),
];

/// The short code that is meant by a name which is wrong in every seed.
pub(crate) fn retired(wrong: &str) -> Option<&'static str> {
    let folded: String = wrong.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    OTHER_NAMES.iter().find(|(name, code)| *name == folded && *code != wrong).map(|(_, code)| *code)
}

/// The code that is meant: a known other name of it, else one that goes on after `wrong`, else the nearest.
pub fn meant<'a>(wrong: &str, codes: impl IntoIterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let longer = || codes.clone().into_iter().find(|code| wrong.len() > 2 && code.starts_with(wrong));
    retired(wrong).or_else(longer).or_else(|| model::nearest(wrong, codes.clone()))
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
            ("Tea-Store", Some("teastore")),
            ("med", Some("media")),
            ("shopp", Some("shop")),
            ("warehouse", None),
        ];
        for (wrong, code) in cases {
            assert_eq!(meant(wrong, codes), code, "{wrong}");
        }
        assert_eq!((retired("teastore"), retired("hotel")), (None, None));
    }
}
