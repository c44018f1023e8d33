//! Congestion control schemes for QUIC: one line in a Rust service that runs [noq] or quinn.
//!
//! ```
//! # #[cfg(feature = "noq")] {
//! let mut transport = noq_proto::TransportConfig::default();
//! transport.congestion_controller_factory(narrows_quic::controller("bbr-gc")?);
//! # }
//! # Ok::<(), narrows_quic::Refused>(())
//! ```
//!
//! [`Scheme`] sets parameters. [`noq::own`] gives the noq library's own controllers by name, for comparison.
//!
//! ## What runs where
//! | stack | schemes |
//! |---|---|
//! | noq (feature `noq`, default) | every stream scheme: noq's pacer follows the scheme's rate |
//! | quinn (feature `quinn`) | window-based schemes: quinn's pacer ignores the rate of a controller |
//!
//! A scheme is refused, with the reason, if it needs something that QUIC does not offer: rates assigned by
//! routers, feedback from a receiver of datagrams, the sibling subflows of a multipath connection, or the
//! number of marked packets (the stacks only report that some packets were marked).
//!
//! ## What a scheme sees
//! The [`Driver`](narrows_cc::Driver) takes the delivery-rate sample, as on every transport of the workshop.
//! For each packet number, the adapter keeps the connection state at the packet's transmission, and reports:
//!
//! * packets sent, delivered and lost; the RTT of the newest packet delivered, including the peer's
//!   acknowledgement delay;
//! * recovery: it begins with the loss (or mark) of a packet sent after the previous recovery began, and ends
//!   when a packet sent after the recovery began is delivered (RFC 9002 section 7.3.2). Schemes that leave
//!   recovery to the transport get proportional rate reduction (RFC 9937);
//! * persistent congestion (RFC 9002 section 7.6), which counts as a timeout;
//! * spurious losses, application-limited times, and sending after an idle time.
//!
//! A new peer address gets a new instance of the scheme from the factory. If only the port changed, the
//! instance stays, and the packets in flight are forgotten. The stacks do not report changes of the local
//! address. Amounts are bytes of QUIC packets, without UDP and IP headers. The segment size is the path's
//! datagram size at the start; a scheme keeps this size even if path MTU discovery later finds a larger one.
//!
//! The window in force is at least two datagrams (RFC 9002 section 7.2). Processing acknowledgements allocates
//! no memory.
//!
//! [noq]: https://docs.rs/noq

mod flow;
#[cfg(feature = "noq")]
pub mod noq;
#[cfg(feature = "noq")]
mod noq_controllers;
#[cfg(feature = "quinn")]
pub mod quinn;
#[cfg(feature = "noq")]
mod records;
mod scheme;

#[cfg(feature = "noq")]
pub use noq::controller;
pub use scheme::{Refused, Scheme, Stack, refusal};
