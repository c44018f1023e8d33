// What the programs for ns-3 share: TCP hosts on both sides of two routers, without queue disciplines.
//
//   h0 ─┐                        ┌─ h0'
//   ... ├─ left ══ middle ══ right ┤ ...
//   hN ─┘                        └─ hN'

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

const uint32_t SEGMENT = 1448;
const uint16_t PORT = 9;
const uint32_t AMPLE_PACKETS = 1000000;

struct Hosts {
    ns3::NodeContainer left, right;
    /// The right hosts.
    std::vector<ns3::Ipv4Address> addresses;
    ns3::ApplicationContainer sinks;
};

/// Segments of 1448 bytes, and buffers that limit no window. The rest are ns-3's own defaults: SACK, timestamps, an
/// initial window of ten segments, an acknowledgement per two segments.
inline void setTcpDefaults() {
    using namespace ns3;
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(64 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(64 << 20));
}

/// Connects hosts to two routers that `middle` connects, with a sink on every right host. `delays` are the one-way
/// delays of the right hosts' access links, one per pair of hosts.
inline Hosts connectHosts(const ns3::NodeContainer& routers, const ns3::NetDeviceContainer& middle, uint64_t accessBitS,
                          const std::vector<ns3::Time>& delays) {
    using namespace ns3;
    PointToPointHelper access;
    access.SetDeviceAttribute("DataRate", DataRateValue(DataRate(accessBitS)));
    access.SetQueue("ns3::DropTailQueue", "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, AMPLE_PACKETS)));

    Hosts hosts;
    hosts.left.Create(delays.size());
    hosts.right.Create(delays.size());
    InternetStackHelper stack;
    stack.Install(routers);
    stack.Install(hosts.left);
    stack.Install(hosts.right);
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.0.0", "255.255.255.252");
    auto number = [&addresses](const NetDeviceContainer& devices) {
        Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
        addresses.NewNetwork();
        return interfaces;
    };
    number(middle);
    for (std::size_t i = 0; i < delays.size(); ++i) {
        access.SetChannelAttribute("Delay", TimeValue(NanoSeconds(1)));
        number(access.Install(hosts.left.Get(i), routers.Get(0)));
        access.SetChannelAttribute("Delay", TimeValue(delays[i]));
        hosts.addresses.push_back(number(access.Install(hosts.right.Get(i), routers.Get(1))).GetAddress(0));
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), PORT));
        hosts.sinks.Add(sink.Install(hosts.right.Get(i)));
    }
    // No queue discipline above the device queues: the bottleneck is the plain FIFO that ours is.
    TrafficControlHelper control;
    for (uint32_t i = 0; i < routers.GetN(); ++i) {
        for (uint32_t d = 0; d < routers.Get(i)->GetNDevices(); ++d) {
            Ptr<NetDevice> device = routers.Get(i)->GetDevice(d);
            if (routers.Get(i)->GetObject<TrafficControlLayer>()->GetRootQueueDiscOnDevice(device)) {
                control.Uninstall(device);
            }
        }
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    return hosts;
}

/// Starts a bulk flow from left host `i`.
inline ns3::Ptr<ns3::BulkSendApplication> startBulk(const Hosts& hosts, uint32_t i, ns3::Time at) {
    using namespace ns3;
    BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(hosts.addresses[i], PORT));
    source.SetAttribute("SendSize", UintegerValue(SEGMENT));
    ApplicationContainer sources = source.Install(hosts.left.Get(i));
    sources.Start(at);
    return DynamicCast<BulkSendApplication>(sources.Get(0));
}

/// Payload bytes that the sink of flow `i` has received in order.
inline uint64_t receivedBytes(const Hosts& hosts, uint32_t i) {
    return ns3::DynamicCast<ns3::PacketSink>(hosts.sinks.Get(i))->GetTotalRx();
}
