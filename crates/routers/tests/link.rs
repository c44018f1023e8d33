//! A router algorithm at the port of a link.

use std::sync::Arc;

use narrows_cc::{Nanos, Params, Random, Rate};
use narrows_net::config::{Htb, HtbClass, Limit, LinkConfig, Queue};
use narrows_net::{Link, Offer};
use narrows_packet::{Flags, Packet};
use narrows_routers::{PortAgent, RateHeader, RouterConfig, RouterFrame, find, link};

/// An algorithm steers packets only into classes of the queue that it supplies, not into those of the scenario's queue.
#[test]
fn router_steers_only_into_its_own_classes() {
    let class = |name: &str| HtbClass::new(name, Rate::from_mbit_per_sec(5.0));
    let stated = Queue::Htb(Arc::new(Htb::new(vec![class("default"), class("other")], 0).unwrap()));
    for (queue, joins) in [(stated, "default"), (Queue::DropTail, "mice")] {
        let entry = find("brf").unwrap();
        let router = RouterConfig::new(entry, Params::defaults(entry.info.params));
        let mut config = LinkConfig::drop_tail(Rate::from_mbit_per_sec(10.0), Limit::Packets(100));
        config.queue = queue;
        let mut link: Link<Packet, PortAgent> = link(&config, Some(&router), Random::stream(1, "link", 0));
        // A flow that offers to obey; BRF steers it to the mice, class 1.
        let mut syn = Packet::new(0);
        syn.flags = Flags::SYN;
        syn.set_rate_header(RateHeader::BrfOffer);
        assert_eq!(link.offer(Nanos::ZERO, &syn), Offer::Queued);
        link.serve(link.next_service());
        let classes = link.classes(Nanos::from_millis(1));
        let sent: Vec<_> = classes.into_iter().filter(|class| class.sent_packets == 1).collect();
        assert_eq!(sent.last().map(|class| class.name.as_str()), Some(joins));
    }
}
