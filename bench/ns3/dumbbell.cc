// The benchmark's dumbbell in ns-3, for the ratio beside our own figure: N bulk TCP flows from N hosts over one bottleneck
// of a given rate, round-trip time and buffer. Same segment size, initial window, delayed acknowledgements and duration;
// SACK is on in both. Prints one JSON object: data packets delivered and the wall time of the event loop alone.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "hosts.h"

using namespace ns3;

int main(int argc, char* argv[]) {
    uint32_t flows = 10;
    double rateMbit = 100;
    double rttMs = 40;
    double seconds = 60;
    double spreadSeconds = 0;
    std::string scheme = "TcpCubic";
    CommandLine cmd;
    cmd.AddValue("flows", "number of flows", flows);
    cmd.AddValue("rate", "bottleneck rate in Mbit/s", rateMbit);
    cmd.AddValue("rtt", "round-trip time in ms", rttMs);
    cmd.AddValue("seconds", "duration", seconds);
    cmd.AddValue("spread", "starts spread evenly over this many seconds", spreadSeconds);
    cmd.AddValue("scheme", "TcpCubic, TcpBbr, TcpLinuxReno", scheme);
    cmd.Parse(argc, argv);

    setTcpDefaults();
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::" + scheme)));

    const uint32_t bufferPackets = static_cast<uint32_t>(rateMbit * 1e6 / 8 * rttMs / 1e3 / 1500) + 1;
    NodeContainer routers;
    routers.Create(2);
    PointToPointHelper bottleneck;
    bottleneck.SetDeviceAttribute("DataRate", DataRateValue(DataRate(static_cast<uint64_t>(rateMbit * 1e6))));
    bottleneck.SetChannelAttribute("Delay", TimeValue(Seconds(rttMs / 2e3)));
    bottleneck.SetQueue("ns3::DropTailQueue", "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, bufferPackets)));
    NetDeviceContainer middle = bottleneck.Install(routers);
    const Hosts hosts =
        connectHosts(routers, middle, static_cast<uint64_t>(rateMbit * 1e7), std::vector<Time>(flows, NanoSeconds(1)));
    for (uint32_t i = 0; i < flows; ++i) {
        startBulk(hosts, i, Seconds(spreadSeconds * i / flows));
    }

    Simulator::Stop(Seconds(seconds));
    const auto begin = std::chrono::steady_clock::now();
    Simulator::Run();
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < flows; ++i) {
        bytes += receivedBytes(hosts, i);
    }
    const double packets = static_cast<double>(bytes) / SEGMENT;
    std::printf("{\"data_packets\": %.0f, \"wall_s\": %.4f, \"packets_per_s\": %.0f, \"goodput_mbit_s\": %.3f}\n", packets,
                wall, packets / wall, static_cast<double>(bytes) * 8e-6 / seconds);
    Simulator::Destroy();
    return 0;
}
