//! Tests of the shim's parts without the kernel.
