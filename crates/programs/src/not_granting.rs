//! Builds without BPF have no program that follows granted rates.

use std::os::fd::BorrowedFd;

use narrows_cc::Params;
use narrows_host::HostError;

use crate::grants::{Grant, GrantCounts};
use crate::missing;
use crate::program::Program;

/// Rates of sockets. Builds without BPF have no such rates and refuse every use earlier.
#[derive(Debug)]
pub enum Grants {}

#[allow(missing_docs, reason = "as in builds with BPF")]
impl Grants {
    pub fn open(_: &'static Program) -> Result<Self, HostError> {
        Err(missing(0))
    }

    pub fn load(_: &'static Program, _: &Params) -> Result<Self, HostError> {
        Err(missing(0))
    }

    pub fn name(&self) -> &str {
        match *self {}
    }

    pub fn is_private(&self) -> bool {
        match *self {}
    }

    pub fn set(&self, _: BorrowedFd<'_>, _: Grant) -> Result<(), HostError> {
        match *self {}
    }

    pub fn counts(&self) -> Result<GrantCounts, HostError> {
        match *self {}
    }
}
