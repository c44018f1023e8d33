// A cell of `narrows fidelity` in ns-3: TCP flows over one bottleneck, with ns-3's own TCP. Prints one JSON object with
// the values of each flow after the warm-up, and Jain's index of their goodputs.
//
// The network is that of the cell's scenario: the rate counts IP bytes, random loss comes after the queue, the jitter
// keeps the order, and acknowledgements return over a link of the same rate.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "hosts.h"
#include "ns3/version.h"
#include "tap.h"

using namespace ns3;

namespace {

const uint64_t ACCESS_BIT_S = 100000000000;
/// An IP packet of a full segment, and the header of ns-3's link.
const double FULL_BYTES = 1500, LINK_BYTES = 2;

/// A channel that delays each packet of one device at random, in order.
class JitterChannel : public PointToPointChannel {
   public:
    Ptr<NetDevice> from;
    Time most;

    bool TransmitStart(Ptr<const Packet> packet, Ptr<PointToPointNetDevice> source, Time transmission) override {
        if (source == from && !most.IsZero()) {
            const Time arrival = Simulator::Now() + transmission + Seconds(random->GetValue(0, most.GetSeconds()));
            last = Max(last, arrival);
            transmission = last - Simulator::Now();
        }
        return PointToPointChannel::TransmitStart(packet, source, transmission);
    }

   private:
    Ptr<UniformRandomVariable> random = CreateObject<UniformRandomVariable>();
    Time last;
};

template <typename T>
std::vector<T> list(const std::string& text) {
    std::vector<T> values;
    std::stringstream stream(text);
    for (std::string part; std::getline(stream, part, ',');) {
        T value;
        std::stringstream(part) >> value;
        values.push_back(value);
    }
    return values;
}

struct Settings {
    double rateMbit = 100, lossPercent = 0, jitterUs = 0, seconds = 20, warmupSeconds = 2, spreadSeconds = 1;
    std::string schemes = "TcpCubic", rtts = "40", queue = "droptail";
    uint32_t bufferPackets = 333, count = 1, seed = 1;
};

NetDeviceContainer makeBottleneck(const NodeContainer& routers, const Settings& settings) {
    const bool droptail = settings.queue == "droptail";
    PointToPointHelper link;
    const double bitS = settings.rateMbit * 1e6 * (FULL_BYTES + LINK_BYTES) / FULL_BYTES;
    link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(static_cast<uint64_t>(bitS))));
    link.SetQueue("ns3::DropTailQueue", "MaxSize",
                  QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, droptail ? settings.bufferPackets : 1)));
    NetDeviceContainer middle = link.Install(routers);
    Ptr<PointToPointNetDevice> left = DynamicCast<PointToPointNetDevice>(middle.Get(0));
    Ptr<PointToPointNetDevice> right = DynamicCast<PointToPointNetDevice>(middle.Get(1));
    right->GetQueue()->SetMaxSize(QueueSize(QueueSizeUnit::PACKETS, AMPLE_PACKETS));
    Ptr<JitterChannel> channel = CreateObject<JitterChannel>();
    channel->from = left;
    channel->most = MicroSeconds(settings.jitterUs);
    left->Attach(channel);
    right->Attach(channel);
    Ptr<RateErrorModel> loss = CreateObject<RateErrorModel>();
    loss->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
    loss->SetRate(settings.lossPercent / 100);
    right->SetReceiveErrorModel(loss);
    return middle;
}

}  // namespace

int main(int argc, char* argv[]) {
    Settings settings;
    CommandLine cmd;
    cmd.AddValue("rate", "bottleneck rate in Mbit/s, of IP bytes", settings.rateMbit);
    cmd.AddValue("buffer", "bottleneck buffer in packets", settings.bufferPackets);
    cmd.AddValue("queue", "droptail, codel", settings.queue);
    cmd.AddValue("loss", "random loss after the queue in percent", settings.lossPercent);
    cmd.AddValue("jitter", "greatest additional delay in us", settings.jitterUs);
    cmd.AddValue("schemes", "TcpCubic, TcpBbr, TcpLinuxReno; comma-separated", settings.schemes);
    cmd.AddValue("rtts", "base RTT of each scheme's flows in ms; comma-separated", settings.rtts);
    cmd.AddValue("count", "flows of each scheme", settings.count);
    cmd.AddValue("spread", "the flows of a scheme start spread evenly over this many seconds", settings.spreadSeconds);
    cmd.AddValue("seconds", "duration", settings.seconds);
    cmd.AddValue("warmup", "time that no value counts, in seconds", settings.warmupSeconds);
    cmd.AddValue("seed", "number of the random streams", settings.seed);
    cmd.Parse(argc, argv);
    const auto schemes = list<std::string>(settings.schemes);
    const auto rtts = list<double>(settings.rtts);
    if (schemes.empty() || rtts.size() != schemes.size()) {
        std::fprintf(stderr, "--rtts: accepted: one RTT per scheme\n");
        return 2;
    }
    if (settings.rateMbit / 8 * settings.seconds > 4000) {
        std::fprintf(stderr, "--seconds: accepted: less than 4 GB, the range of TCP's sequence numbers\n");
        return 2;
    }

    RngSeedManager::SetRun(settings.seed);
    setTcpDefaults();
    NodeContainer routers;
    routers.Create(2);
    NetDeviceContainer middle = makeBottleneck(routers, settings);
    std::vector<Time> delays;
    for (double rtt : rtts) {
        delays.insert(delays.end(), settings.count, Seconds(rtt / 2e3));
    }
    const Hosts hosts = connectHosts(routers, middle, ACCESS_BIT_S, delays);
    if (settings.queue == "codel") {
        // ns-3's target and interval are those of RFC 8289. One packet waits below it in the device.
        TrafficControlHelper control;
        control.SetRootQueueDisc("ns3::CoDelQueueDisc", "MaxSize",
                                 QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, settings.bufferPackets)));
        control.Install(middle.Get(0));
    }
    const uint32_t flows = delays.size();
    std::vector<std::unique_ptr<Tap>> taps;
    for (uint32_t i = 0; i < flows; ++i) {
        const TypeIdValue type(TypeId::LookupByName("ns3::" + schemes[i / settings.count]));
        hosts.left.Get(i)->GetObject<TcpL4Protocol>()->SetAttribute("SocketType", type);
        const Time start = Seconds(settings.spreadSeconds * (i % settings.count) / settings.count);
        Ptr<BulkSendApplication> source = startBulk(hosts, i, start);
        taps.push_back(std::make_unique<Tap>());
        Tap* tap = taps.back().get();
        Simulator::Schedule(start + NanoSeconds(1), [source, tap] { tap->attach(source->GetSocket()); });
    }
    std::vector<uint64_t> before(flows);
    Simulator::Schedule(Seconds(settings.warmupSeconds), [&] {
        for (uint32_t i = 0; i < flows; ++i) {
            before[i] = receivedBytes(hosts, i);
            taps[i]->clear();
        }
    });
    Simulator::Stop(Seconds(settings.seconds));
    Simulator::Run();

    double sum = 0, squares = 0;
    std::printf("{\"ns3\": \"%u.%u\", \"flows\": [", Version::Major(), Version::Minor());
    for (uint32_t i = 0; i < flows; ++i) {
        const double bits = 8.0 * static_cast<double>(receivedBytes(hosts, i) - before[i]);
        const double goodput = bits / 1e6 / (settings.seconds - settings.warmupSeconds);
        sum += goodput;
        squares += goodput * goodput;
        Tap& tap = *taps[i];
        std::printf("%s{\"goodput_mbit_s\": %.6f, ", i ? ", " : "", goodput);
        if (tap.rttMs.empty()) {
            std::printf("\"rtt_mean_ms\": null, \"rtt_p95_ms\": null, ");
        } else {
            std::printf("\"rtt_mean_ms\": %.6f, \"rtt_p95_ms\": %.6f, ", tap.meanMs(), tap.p95Ms());
        }
        std::printf("\"packets_sent\": %llu, \"retransmit_percent\": %.6f}",
                    static_cast<unsigned long long>(tap.packets), tap.retransmitPercent());
    }
    std::printf("], \"jain\": %.6f}\n", squares > 0 ? sum * sum / (flows * squares) : 1.0);
    Simulator::Destroy();
    return 0;
}
