//! Pods on the wire: [`build`] makes one from a plan and a specification, [`facts`] reads one.
//! Pure; neither can fail.

pub mod build;
pub mod facts;
mod prepare;
#[cfg(test)]
mod tests;
