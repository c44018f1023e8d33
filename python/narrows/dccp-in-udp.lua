-- DCCP in UDP (RFC 6773) for Wireshark and tshark, which decode DCCP only as IP protocol 33:
--
--     tshark -X lua_script:dccp-in-udp.lua -r capture.pcap
--
-- Packets of port 6511 go to the DCCP dissector. So do packets of other ports that look like DCCP with the zero checksum that
-- the RFC demands (section 3.3). If Wireshark assigns a port to another protocol, use `-d udp.port==PORT,dccp`.

local DCCP = 33
local PORT = 6511

local dccp = DissectorTable.get("ip.proto"):get_dissector(DCCP)
local ports = DissectorTable.get("udp.port")
ports:add(PORT, dccp)

-- A zero checksum means that UDP's covers the packet. `-o dccp.check_checksum:TRUE` checks DCCP checksums nevertheless.
if set_preference then
    set_preference("dccp.check_checksum", false)
end

-- Header bytes without options, by type, with 48-bit sequence numbers: Request, Response, Data, Ack, DataAck, CloseReq, Close,
-- Reset, Sync, SyncAck (RFC 4340 section 5).
local LEAST = { [0] = 20, 28, 16, 24, 24, 24, 24, 28, 24, 24 }
-- Types that may have 24-bit sequence numbers, with their header bytes.
local SHORT = { [2] = 12, [3] = 16, [4] = 16 }

local function is_dccp(packet)
    if packet:len() < 12 or packet(6, 2):uint() ~= 0 then
        return false
    end
    local header = 4 * packet(4, 1):uint()
    local kind = packet(8, 1):bitfield(3, 4)
    local long = packet(8, 1):bitfield(7, 1) == 1
    local least = long and LEAST[kind] or not long and SHORT[kind]
    local reserved = packet(8, 1):bitfield(0, 3) + (long and packet(9, 1):uint() or 0)
    return least and header >= least and header <= packet:reported_len() and reserved == 0
end

local finder = Proto("dccp_in_udp", "DCCP in UDP (RFC 6773)")

-- Errors of Wireshark's dissector must not leave this function. At a malformed packet it raises one, which Wireshark would
-- report as an error of the script, although it marks the packet already: `pcall` ends it. At a packet that the capture cut
-- short it leaves without a return to Lua, and after some hundred times no script runs any more (Wireshark 4.0): the bytes
-- that are there get passed as a packet of their own.
finder:register_heuristic("udp", function(packet, about, tree)
    if not is_dccp(packet) then
        return false
    end
    if packet:len() < packet:reported_len() then
        packet = packet:bytes():tvb("DCCP packet, cut by the capture")
    end
    pcall(dccp.call, dccp, packet, about, tree)
    return true
end)
