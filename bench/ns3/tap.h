// A tap on the sender of a flow: counts data packets and measures RTTs to the nanosecond. ns-3's own trace has the
// smoothed RTT, from timestamps in ms. A sample is of the packet sent last among those that an acknowledgement delivers,
// or else of the first one, and of no packet sent twice: as the tap on the kernel's TCP takes it.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "ns3/internet-module.h"
#include "ns3/network-module.h"

class Tap {
   public:
    void attach(const ns3::Ptr<ns3::Socket>& socket) {
        socket->TraceConnectWithoutContext("Tx", ns3::MakeCallback(&Tap::onSent, this));
        socket->TraceConnectWithoutContext("Rx", ns3::MakeCallback(&Tap::onReceived, this));
    }

    /// Forgets all counts and samples.
    void clear() {
        packets = again = 0;
        rttMs.clear();
    }

    double retransmitPercent() const { return packets ? 100.0 * again / packets : 0; }

    double meanMs() const {
        double sum = 0;
        for (double rtt : rttMs) {
            sum += rtt;
        }
        return sum / rttMs.size();
    }

    double p95Ms() {
        auto at = rttMs.begin() + 95 * (rttMs.size() - 1) / 100;
        std::nth_element(rttMs.begin(), at, rttMs.end());
        return *at;
    }

    /// Data packets, and how many of them were retransmissions.
    uint64_t packets = 0, again = 0;
    std::vector<double> rttMs;

   private:
    struct Record {
        ns3::Time at;
        /// Number of the transmission among all.
        uint64_t order = 0;
        bool repeated = false;
    };

    struct Delivered {
        Record newest, firstAcked, firstSacked;
        bool any = false, anyAcked = false, anySacked = false, repeated = false;

        void add(const Record& record, bool selective) {
            if (!any || newest.order < record.order) {
                newest = record;
            }
            any = true;
            bool& known = selective ? anySacked : anyAcked;
            if (!record.repeated && !known) {
                (selective ? firstSacked : firstAcked) = record;
                known = true;
            }
            repeated |= record.repeated && !selective;
        }
    };

    void onSent(ns3::Ptr<const ns3::Packet> payload, const ns3::TcpHeader& header,
                ns3::Ptr<const ns3::TcpSocketBase> socket) {
        if (!payload || payload->GetSize() == 0) {
            return;
        }
        const uint32_t begin = header.GetSequenceNumber().GetValue(), end = begin + payload->GetSize();
        const Record record{ns3::Simulator::Now(), ++order, begin < next};
        ++packets;
        again += record.repeated;
        if (record.repeated) {
            for (auto it = sent.upper_bound(begin); it != sent.end() && it->first <= end; ++it) {
                it->second = record;
            }
        }
        if (end > next) {
            sent[end] = record;
            next = end;
        }
    }

    void onReceived(ns3::Ptr<const ns3::Packet> packet, const ns3::TcpHeader& header,
                    ns3::Ptr<const ns3::TcpSocketBase> socket) {
        Delivered delivered;
        if (header.HasOption(ns3::TcpOption::SACK)) {
            auto option = ns3::DynamicCast<const ns3::TcpOptionSack>(header.GetOption(ns3::TcpOption::SACK));
            for (const auto& block : option->GetSackList()) {
                take(sent.upper_bound(block.first.GetValue()), block.second.GetValue(), true, delivered);
            }
        }
        take(sent.begin(), header.GetAckNumber().GetValue(), false, delivered);
        const Record* of = nullptr;
        if (delivered.any && !delivered.newest.repeated) {
            of = &delivered.newest;
        } else if (delivered.anyAcked && !delivered.repeated) {
            of = &delivered.firstAcked;
        } else if (delivered.anySacked) {
            of = &delivered.firstSacked;
        }
        if (of) {
            rttMs.push_back((ns3::Simulator::Now() - of->at).GetSeconds() * 1e3);
        }
    }

    /// Removes the packets from `it` that end at `end` at the latest.
    void take(std::map<uint32_t, Record>::iterator it, uint32_t end, bool selective, Delivered& delivered) {
        while (it != sent.end() && it->first <= end) {
            delivered.add(it->second, selective);
            it = sent.erase(it);
        }
    }

    /// Packets not yet acknowledged, by the number after their last byte.
    std::map<uint32_t, Record> sent;
    uint32_t next = 0;
    uint64_t order = 0;
};
