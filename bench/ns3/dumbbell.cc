// The benchmark's dumbbell in ns-3, for the ratio beside our own figure: N bulk TCP flows from N hosts over one bottleneck
// of a given rate, round-trip time and buffer. Same segment size, initial window, delayed acknowledgements and duration;
// SACK is on in both. Prints one JSON object: data packets delivered and the wall time of the event loop alone.
//
//   h0 ─┐                       ┌─ h0'
//   ... ├─ left ══ rate ══ right ┤ ...
//   hN ─┘                       └─ hN'

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

int main(int argc, char* argv[]) {
    uint32_t flows = 10;
    double rateMbit = 100;
    double rttMs = 40;
    double seconds = 60;
    double spreadSeconds = 0;
    std::string scheme = "TcpCubic";
    const uint32_t segment = 1448;
    CommandLine cmd;
    cmd.AddValue("flows", "number of flows", flows);
    cmd.AddValue("rate", "bottleneck rate in Mbit/s", rateMbit);
    cmd.AddValue("rtt", "round-trip time in ms", rttMs);
    cmd.AddValue("seconds", "duration", seconds);
    cmd.AddValue("spread", "starts spread evenly over this many seconds", spreadSeconds);
    cmd.AddValue("scheme", "TcpCubic, TcpBbr, TcpLinuxReno", scheme);
    cmd.Parse(argc, argv);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::" + scheme)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(segment));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(64 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(64 << 20));

    const uint32_t bufferPackets = static_cast<uint32_t>(rateMbit * 1e6 / 8 * rttMs / 1e3 / 1500) + 1;
    NodeContainer routers;
    routers.Create(2);
    PointToPointHelper bottleneck;
    bottleneck.SetDeviceAttribute("DataRate", DataRateValue(DataRate(static_cast<uint64_t>(rateMbit * 1e6))));
    bottleneck.SetChannelAttribute("Delay", TimeValue(Seconds(rttMs / 2e3)));
    bottleneck.SetQueue("ns3::DropTailQueue", "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, bufferPackets)));
    NetDeviceContainer middle = bottleneck.Install(routers);

    PointToPointHelper access;
    access.SetDeviceAttribute("DataRate", DataRateValue(DataRate(static_cast<uint64_t>(rateMbit * 1e7))));
    access.SetChannelAttribute("Delay", TimeValue(NanoSeconds(1)));
    access.SetQueue("ns3::DropTailQueue", "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, 1000000)));

    NodeContainer left, right;
    left.Create(flows);
    right.Create(flows);
    InternetStackHelper stack;
    stack.Install(routers);
    stack.Install(left);
    stack.Install(right);
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.0.0", "255.255.255.252");
    auto number = [&addresses](NetDeviceContainer devices) {
        Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
        addresses.NewNetwork();
        return interfaces;
    };
    number(middle);
    ApplicationContainer sinks;
    for (uint32_t i = 0; i < flows; ++i) {
        number(access.Install(left.Get(i), routers.Get(0)));
        Ipv4InterfaceContainer far = number(access.Install(right.Get(i), routers.Get(1)));
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9));
        sinks.Add(sink.Install(right.Get(i)));
        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(far.GetAddress(0), 9));
        source.SetAttribute("SendSize", UintegerValue(segment));
        source.Install(left.Get(i)).Start(Seconds(spreadSeconds * i / flows));
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

    Simulator::Stop(Seconds(seconds));
    const auto begin = std::chrono::steady_clock::now();
    Simulator::Run();
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < sinks.GetN(); ++i) {
        bytes += DynamicCast<PacketSink>(sinks.Get(i))->GetTotalRx();
    }
    const double packets = static_cast<double>(bytes) / segment;
    std::printf("{\"data_packets\": %.0f, \"wall_s\": %.4f, \"packets_per_s\": %.0f, \"goodput_mbit_s\": %.3f}\n", packets,
                wall, packets / wall, static_cast<double>(bytes) * 8e-6 / seconds);
    Simulator::Destroy();
    return 0;
}
