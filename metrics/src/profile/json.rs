//! Profiles as text, for keeping and sending.

use std::fmt;

use serde::Deserialize;

use super::model::QueryProfile;

/// What a profile names as its format.
pub const FORMAT: &str = "flightpath-profile";

/// The version of the JSON form that this crate writes. It grows when a reader of the one before
/// would misunderstand the new one.
pub const VERSION: u32 = 1;

/// Why there is no profile, or none that can be relied on.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProfileError {
    /// The text is not JSON, or not of a profile.
    Malformed(serde_json::Error),
    /// The text ends in the middle: the file was cut off.
    CutOff(serde_json::Error),
    /// It is JSON of something else.
    OtherFormat(Option<String>),
    /// It was written by a later release.
    NewerVersion(u32),
    /// It contradicts itself: what and where.
    Inconsistent(Vec<String>),
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(_) => f.write_str("this is not a query profile"),
            Self::CutOff(_) => {
                f.write_str("the profile ends in the middle: the file was cut off while it was written or copied")
            }
            Self::OtherFormat(Some(format)) => write!(
                f,
                "expected a profile, whose format is {FORMAT:?}, and found {format:?}"
            ),
            Self::OtherFormat(None) => write!(
                f,
                "expected a profile, which has \"format\": {FORMAT:?}, and found JSON without a format"
            ),
            Self::NewerVersion(version) => write!(
                f,
                "the profile has version {version}, and this release reads up to version {VERSION}: \
                 read it with the release that wrote it, or a later one"
            ),
            Self::Inconsistent(faults) => {
                write!(f, "the profile contradicts itself: {}", faults.join("; "))
            }
        }
    }
}

impl std::error::Error for ProfileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Malformed(error) | Self::CutOff(error) => Some(error),
            _ => None,
        }
    }
}

impl From<serde_json::Error> for ProfileError {
    fn from(error: serde_json::Error) -> Self {
        match error.is_eof() {
            true => Self::CutOff(error),
            false => Self::Malformed(error),
        }
    }
}

/// What is read before anything else, so that a later version is known as such.
#[derive(Deserialize)]
struct Head {
    format: Option<String>,
    version: Option<u32>,
}

impl QueryProfile {
    /// The profile as JSON, on one line; see [`profile`](super) for its form.
    ///
    /// # Errors
    /// None that is known: all of a profile can be written.
    pub fn to_json(&self) -> Result<String, ProfileError> {
        Ok(serde_json::to_string(self)?)
    }

    /// Reads what [`to_json`](Self::to_json) wrote.
    ///
    /// # Errors
    /// If the text is cut off or something else, of a later version, or contradicts itself: see
    /// [`invariants`](Self::invariants).
    pub fn from_json(text: &str) -> Result<Self, ProfileError> {
        let head: Head = serde_json::from_str(text)?;
        if head.format.as_deref() != Some(FORMAT) {
            return Err(ProfileError::OtherFormat(head.format));
        }
        if let Some(version) = head.version.filter(|version| *version > VERSION) {
            return Err(ProfileError::NewerVersion(version));
        }
        let profile: Self = serde_json::from_str(text)?;
        profile.invariants()?;
        Ok(profile)
    }
}
