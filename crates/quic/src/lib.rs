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
//! [`Scheme`] sets parameters. [`noq::own`] gives noq's own controllers by name, for comparison.
//!
//! ## What runs where
//! | stack | schemes |
//! |---|---|
//! | noq (feature `noq`, default) | every stream scheme: noq's pacer follows the scheme's rate |
//! | quinn (feature `quinn`) | window-based schemes: quinn's pacer ignores the rate of a controller |
//!
//! A scheme is refused, with the reason, if it needs what QUIC does not offer: rates assigned by routers,
//! feedback of a receiver of datagrams, the sibling subflows of a multipath connection, or the number of marked
//! packets (the stacks only report that some packets were marked).
//!
//! ## What a scheme sees
//! The [`Driver`](narrows_cc::Driver) takes the delivery-rate sample, as on every transport of the workshop. The
//! adapter keeps the state that each packet carried when it was sent, by packet number, and reports:
//!
//! * packets sent, delivered and lost; the RTT of the newest packet delivered, the peer's delay included;
//! * recovery: it begins with the loss (or mark) of a packet sent after the previous recovery began, and ends
//!   when a packet sent since its beginning is delivered (RFC 9002 section 7.3.2). Schemes that leave recovery
//!   to the transport get proportional rate reduction (RFC 9937);
//! * persistent congestion (RFC 9002 section 7.6), as a timeout;
//! * spurious losses, application-limited times, and sending after an idle time.
//!
//! A new peer address gets a fresh scheme from the factory; if only the port changed, the scheme stays and the packets
//! in flight are forgotten. The stacks do not report changes of the local address. Amounts are bytes of QUIC packets,
//! without UDP and IP headers. The segment size is the path's datagram size at the start; a scheme keeps it if path MTU
//! discovery finds a larger one later.
//!
//! The window in force is at least two datagrams (RFC 9002 section 7.2). Acknowledgements allocate nothing.
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
