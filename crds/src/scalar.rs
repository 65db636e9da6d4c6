//! Values that people write as a number or as a text: `4090` and `"4090"`, `16` and `"16Gi"`.
//! Pure; decoding refuses fractions, because `1.10` would lose its last digit.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};

/// A whole number or a text, kept as the text that was meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Scalar(String);

impl Scalar {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for Scalar {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Scalar;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a text or a whole number; quote numbers with decimals")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar(text.to_owned()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string()))
            }
        }
        input.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn numbers_and_texts_mean_the_same_and_fractions_are_refused() {
        for value in [json!(4090), json!("4090")] {
            assert_eq!(from_value::<Scalar>(value).unwrap().as_str(), "4090");
        }
        for value in [json!(0.5), json!(true), json!(null), json!([1])] {
            assert!(from_value::<Scalar>(value).is_err());
        }
    }
}
