-- SPDX-License-Identifier: Apache-2.0
-- Multipath Reliable Connection for Wireshark and tshark, version 3.6 and later.
--
--     tshark -X lua_script:mrc.lua -r lab.pcapng
--     tshark -X lua_script:mrc.lua -r lab.pcapng -Y 'mrc.opcode == 0xdc and mrc.reflected.plane == 2'
--
-- LAYOUTS and NAMES repeat what tests/reference declares; tests/unit/capture holds them to it. Every field of a
-- layout is a filter: BTH fields are mrc.<field>, those of other headers mrc.<header>.<field>.

local mrc = Proto("mrc", "Multipath Reliable Connection")
local srv6 = Proto("mrc_carrier", "MRC SRv6 carrier")
local mrc_udp = Proto("mrc_udp", "UDP of a trimmed MRC packet")

local LAYOUTS = {
   bth = "opcode:8 solicited_event:flag migration_request:flag pad_bytes:2 version:4 p_key:16"
      .. " _:8 destination_qpn:24"
      .. " wants_ack:flag _:1 is_retransmission:flag has_timestamp:flag _:4 psn:24",
   meth = "rqmsn:16 msn:16",
   tseth = "tx_timestamp:16 is_coarse:flag _:11 format_type:4",
   reth = "va:64 r_key:32 message_bytes:32",
   immdt = "immediate:32",
   aeth = "_:1 kind:2 value:5 msn:24",
   seth = "_:9 advice:2 _:3 is_probe_response:flag _:1 ack_psn_offset:s16 entropy:32"
      .. " source_qpn_low:16 destination_qpn_low:16 ports_down:8 cack_psn:24"
      .. " cc_type:4 cc_flags:4 mpr:8 sack_offset:s16 sack_bitmap:64",
   ccstate = "tx_timestamp:16 _:1 out_of_order_count:15 restores_cwnd:flag cwnd_penalty:7 received_units:24",
   ownccstate = "tx_timestamp:16 word:24 received_units:24",
   neth = "_:16 reason:8 vendor_info:8 entropy:32 source_qpn_low:16 destination_qpn_low:16"
      .. " _:8 nack_psn:24 cc_type:4 cc_flags:4 _:8 tx_timestamp:16",
   peth = "_:24 vendor_info:8 probe_id:16 _:16 source_qpn_low:16 destination_qpn_low:16"
      .. " tx_timestamp:16 is_coarse:flag _:11 format_type:4",
   erth = "_:14 operation:2 _:8 vendor_info:8 port_status_mask:32 _:32"
      .. " tx_timestamp:16 is_coarse:flag _:11 format_type:4",
   eeth = "_:12 operation:2 _:2 _:208 tx_timestamp:16 _:48",
   lph = "path:32 round:32 sent_ns:64",
}

local TITLES = {
   bth = "Base transport header",
   meth = "Message header",
   tseth = "Timestamp header",
   reth = "RDMA header",
   immdt = "Immediate",
   aeth = "Transport acknowledge",
   seth = "Selective acknowledgement",
   ccstate = "Congestion state",
   ownccstate = "Congestion state of another algorithm",
   neth = "Negative acknowledgement",
   peth = "Reliability probe",
   erth = "Endpoint request",
   eeth = "Endpoint response",
   lph = "Link probe",
}

local NAMES = {
   opcode = {
      [0xC6] = "WRITE_FIRST", [0xC7] = "WRITE_MIDDLE", [0xC8] = "WRITE_LAST", [0xC9] = "WRITE_LAST_IMMEDIATE",
      [0xCA] = "WRITE_ONLY", [0xCB] = "WRITE_ONLY_IMMEDIATE", [0xD1] = "ACKNOWLEDGE",
      [0xD8] = "ENDPOINT_REQUEST", [0xD9] = "ENDPOINT_RESPONSE", [0xDC] = "SACK", [0xDD] = "NACK",
      [0xDE] = "PROBE", [0xE0] = "LINK_PROBE",
   },
   reason = {
      [0x01] = "TRIMMED", [0x02] = "TRIMMED_LASTHOP", [0x06] = "NO_BITMAP", [0x07] = "NO_PACKET_BUFFER",
      [0x0A] = "NO_RESOURCE", [0x0B] = "PSN_OUT_OF_WINDOW", [0x19] = "UNEXPECTED_EVENT",
   },
   kind = { [0] = "ACK", [1] = "RNR_NAK", [2] = "RESERVED", [3] = "NAK" },
   advice = { [0] = "NONE", [1] = "SKIP_ONCE", [2] = "ALWAYS_SKIP", [3] = "RESERVED" },
   operation = { [0] = "PORT_STATUS_UPDATE", [1] = "EV_PROBE" },
   format_type = { [0] = "NONE", [1] = "TIMESTAMP" },
   nak_code = {
      [0] = "PSN_SEQUENCE_ERROR", [1] = "INVALID_REQUEST", [2] = "REMOTE_ACCESS_ERROR",
      [3] = "REMOTE_OPERATIONAL_ERROR",
   },
   dscp = {
      [0] = "NO_TRIM", [4] = "TRIMMABLE", [8] = "TRIMMABLE_RETX", [12] = "TRIMMED", [16] = "TRIMMED_LASTHOP",
      [46] = "CONTROL",
   },
   role = { [1] = "T0", [2] = "T1", [3] = "DL" },
}

-- What follows the BTH, by opcode; TSETH only if BTH.ts says so.
local WRITE = { "meth", "tseth", "reth" }
local WRITE_IMMEDIATE = { "meth", "tseth", "reth", "immdt" }
local FOLLOWING = {
   [0xC6] = WRITE, [0xC7] = WRITE, [0xC8] = WRITE, [0xC9] = WRITE_IMMEDIATE, [0xCA] = WRITE,
   [0xCB] = WRITE_IMMEDIATE, [0xD1] = { "aeth" }, [0xD8] = { "erth" }, [0xD9] = { "eeth" },
   [0xDC] = { "seth", "ccstate" }, [0xDD] = { "neth" }, [0xDE] = { "peth" },
   [0xE0] = { "lph" },
}

-- CC_STATE by SETH.cc_type; of all others the word of the algorithm is shown as it is.
local CC_STATES = { [0] = "ccstate" }

local HEXADECIMAL = {
   opcode = true, p_key = true, entropy = true, va = true, r_key = true, immediate = true, sack_bitmap = true,
   port_status_mask = true, reason = true, word = true,
}

local UDP_BYTES = 8
local ICRC_BYTES = 4
local BITMAP_BITS = 64
local PSN_COUNT = 2 ^ 24
local UNIT_BYTES = 256
local INNER_PREFIX = "fd6d72630000"

-- ---- fields ----------------------------------------------------------------------------------------------

local all_fields = {}

local function declared(field)
   all_fields[#all_fields + 1] = field
   return field
end

-- The fields of one layout: where each lies, and how Wireshark is to show it.
local function parse_layout(header, text)
   local prefix = header == "bth" and "mrc." or "mrc." .. header .. "."
   local layout = { fields = {}, header = header }
   local position = 0
   for name, form in text:gmatch("(%S+):(%S+)") do
      local width = form == "flag" and 1 or tonumber(form:match("%d+"))
      if name ~= "_" then
         local first, last = math.floor(position / 8), math.floor((position + width - 1) / 8)
         local bytes = last - first + 1
         local below = 8 * (last + 1) - position - width
         local mask = width < 8 * bytes and (2 ^ width - 1) * 2 ^ below or nil
         local abbreviation, names = prefix .. name, NAMES[name]
         local base = HEXADECIMAL[name] and base.HEX or base.DEC
         local field
         if form == "flag" then
            field = ProtoField.bool(abbreviation, name, 8, nil, mask)
         elseif form:sub(1, 1) == "s" then
            field = ProtoField["int" .. width](abbreviation, name, base)
         elseif width == 64 then
            field = ProtoField.uint64(abbreviation, name, base)
         else
            field = ProtoField["uint" .. 8 * bytes](abbreviation, name, base, names, mask)
         end
         layout.fields[#layout.fields + 1] = {
            name = name, first = first, bytes = bytes, position = position, width = width,
            is_signed = form:sub(1, 1) == "s", proto_field = declared(field),
         }
      end
      position = position + width
   end
   layout.bytes = position / 8
   layout.proto_field = declared(ProtoField.none("mrc." .. header, TITLES[header]))
   return layout
end

local layouts = {}
for header, text in pairs(LAYOUTS) do
   layouts[header] = parse_layout(header, text)
end

-- What follows from several fields, or from headers below; shown in brackets.
local derived = {
   ev = declared(ProtoField.uint32("mrc.ev", "EV", base.HEX)),
   source_host = declared(ProtoField.string("mrc.source_host", "From")),
   destination_host = declared(ProtoField.string("mrc.destination_host", "To")),
   dscp = declared(ProtoField.uint8("mrc.dscp", "Class", base.DEC, NAMES.dscp)),
   is_trimmed = declared(ProtoField.bool("mrc.is_trimmed", "Trimmed")),
   untrimmed_bytes = declared(ProtoField.uint32("mrc.untrimmed_bytes", "Bytes from BTH to pad before trimming")),
   caused_by_psn = declared(ProtoField.uint24("mrc.caused_by_psn", "Caused by the arrival of PSN", base.DEC)),
   caused_by_probe = declared(ProtoField.uint16("mrc.caused_by_probe", "Caused by probe", base.DEC)),
   acknowledged_psn = declared(ProtoField.uint24("mrc.acknowledged_psn", "Received PSN", base.DEC)),
   unreported_psn = declared(ProtoField.uint24("mrc.unreported_psn", "Unreported PSN", base.DEC)),
   received_bytes = declared(ProtoField.uint64("mrc.received_bytes", "Nominal bytes received", base.DEC)),
   nak_code = declared(ProtoField.uint8("mrc.aeth.nak_code", "NAK code", base.DEC, NAMES.nak_code)),
   payload = declared(ProtoField.bytes("mrc.payload", "Payload")),
   payload_bytes = declared(ProtoField.uint32("mrc.payload_bytes", "Payload bytes", base.DEC)),
   pad = declared(ProtoField.bytes("mrc.pad", "Pad")),
   icrc = declared(ProtoField.uint32("mrc.icrc", "iCRC", base.HEX)),
   icrc_status = declared(ProtoField.string("mrc.icrc.status", "iCRC status")),
}
-- Parts of an EV, of the packet's own and of one that a header reflects.
for _, kind in ipairs({ "ev", "reflected" }) do
   derived[kind .. "_plane"] = declared(ProtoField.uint8("mrc." .. kind .. ".plane", "Plane", base.DEC))
   derived[kind .. "_uplink"] = declared(ProtoField.uint16("mrc." .. kind .. ".uplink", "Uplink", base.DEC))
   derived[kind .. "_copy"] = declared(ProtoField.uint16("mrc." .. kind .. ".copy", "Copy", base.DEC))
   derived[kind .. "_lane"] = declared(ProtoField.uint8("mrc." .. kind .. ".lane", "Lane", base.DEC))
   derived[kind .. "_hashed"] = declared(ProtoField.uint32("mrc." .. kind .. ".hashed", "Hashed bits", base.DEC))
end
mrc.fields = all_fields

local usid_fields = {
   usid = ProtoField.uint16("mrc.usid", "uSID", base.HEX),
   role = ProtoField.uint16("mrc.usid.role", "Role", base.DEC, NAMES.role, 0xC000),
   plane = ProtoField.uint16("mrc.usid.plane", "Plane", base.DEC, nil, 0x3C00),
   index = ProtoField.uint16("mrc.usid.index", "Index", base.DEC, nil, 0x03FF),
   path = ProtoField.string("mrc.carrier", "Hops left"),
}
srv6.fields = usid_fields

local udp_fields = {
   source_port = ProtoField.uint16("mrc.udp.source_port", "Source port", base.DEC),
   destination_port = ProtoField.uint16("mrc.udp.destination_port", "Destination port", base.DEC),
   length = ProtoField.uint16("mrc.udp.length", "Length before trimming", base.DEC),
}
mrc_udp.fields = udp_fields

local malformed = ProtoExpert.new("mrc.malformed", "Malformed MRC packet", expert.group.MALFORMED, expert.severity.ERROR)
local bad_icrc = ProtoExpert.new("mrc.icrc.bad", "Wrong iCRC", expert.group.CHECKSUM, expert.severity.WARN)
mrc.experts = { malformed, bad_icrc }

mrc.prefs.udp_port = Pref.uint("UDP port", 4791, "Destination port of MRC")
mrc.prefs.forwarding = Pref.enum("Forwarding", 0, "How the fabric's switches choose a path, hence what an EV is made of",
   { { 1, "srv6", 0 }, { 2, "stev", 1 }, { 3, "ecmp", 2 } })
srv6.prefs.block = Pref.string("SRv6 block", "fcbb0000", "First 32 bits of every carrier")

local ipv6_class = Field.new("ipv6.tclass.dscp")
local ipv6_flow = Field.new("ipv6.flow")
local ipv6_source = Field.new("ipv6.src")
local ipv6_destination = Field.new("ipv6.dst")
local udp_length = Field.new("udp.length")

-- ---- numbers ---------------------------------------------------------------------------------------------

local function bits_of(value, low, width)
   return math.floor(value / 2 ^ low) % 2 ^ width
end

local function psn_add(psn, distance)
   return (psn + distance) % PSN_COUNT
end

-- Wireshark brings `bit` to every version of Lua it embeds; its results are signed.
local crc_table = {}
for index = 0, 255 do
   local value = index
   for _ = 1, 8 do
      value = bit.bxor(bit.rshift(value, 1), value % 2 == 1 and 0xEDB88320 or 0)
   end
   crc_table[index] = value
end

local function crc_step(crc, octets)
   for index = 1, #octets do
      crc = bit.bxor(bit.rshift(crc, 8), crc_table[bit.band(bit.bxor(crc, octets:byte(index)), 0xFF)])
   end
   return crc
end

local function last_of(field)
   local values = { field() }
   return values[#values]
end

-- CRC-32 over the inner IPv6 header to the pad, ones in place of what may change on the way; nil without
-- IPv6. `octets` is the packet from the BTH to the pad.
local function icrc_of(pinfo, octets)
   local source, destination = last_of(ipv6_source), last_of(ipv6_destination)
   if not source or not destination then
      return nil
   end
   local length = #octets + UDP_BYTES + ICRC_BYTES
   local header = string.char(0x6F, 255, 255, 255, math.floor(length / 256), length % 256, 17, 255)
   local function number16(value)
      return string.char(math.floor(value / 256), value % 256)
   end
   local udp = number16(pinfo.src_port) .. number16(pinfo.dst_port) .. number16(length) .. "\255\255"
   local crc = 0xFFFFFFFF
   for _, part in ipairs({
      ("\255"):rep(8), header, source.range:raw(), destination.range:raw(), udp,
      octets:sub(1, 4), "\255", octets:sub(6),
   }) do
      crc = crc_step(crc, part)
   end
   return bit.bnot(crc) % 2 ^ 32
end

-- ---- parts of a packet -----------------------------------------------------------------------------------

-- Adds one header at `offset` to the tree. Returns its values by name, its tree and its items.
local function add_header(layout, tvb, offset, tree)
   local branch = tree:add(layout.proto_field, tvb(offset, layout.bytes))
   local values, items = {}, {}
   for _, field in ipairs(layout.fields) do
      local range = tvb(offset + field.first, field.bytes)
      items[field.name] = branch:add(field.proto_field, range)
      if field.width < 64 then
         local value = tvb(offset, layout.bytes):bitfield(field.position, field.width)
         if field.is_signed and value >= 2 ^ (field.width - 1) then
            value = value - 2 ^ field.width
         end
         values[field.name] = value
      end
   end
   return values, branch, items
end

-- Parts of an EV: name, lowest bit, width. See docs/reference/protocol.md, "EV format".
local EV_PARTS = {
   [0] = { { "plane", 28, 4 }, { "uplink", 16, 12 }, { "copy", 0, 16 } },
   [1] = { { "plane", 28, 4 }, { "uplink", 16, 12 }, { "lane", 8, 8 }, { "copy", 0, 8 } },
   [2] = { { "plane", 28, 4 }, { "hashed", 0, 28 } },
}

local function ev_text(ev)
   local values = {}
   for _, part in ipairs(EV_PARTS[mrc.prefs.forwarding]) do
      values[#values + 1] = ("%d"):format(bits_of(ev, part[2], part[3]))
   end
   return table.concat(values, ":")
end

local function add_ev_parts(item, ev, kind)
   local names = {}
   for _, part in ipairs(EV_PARTS[mrc.prefs.forwarding]) do
      item:add(derived[kind .. "_" .. part[1]], bits_of(ev, part[2], part[3])):set_generated()
      names[#names + 1] = part[1]
   end
   item:append_text((" (%s %s)"):format(table.concat(names, ":"), ev_text(ev)))
end

-- What one SACK says: see docs/reference/protocol.md, "SACK bitmap".
local function explain_sack(seth, branch, items, bitmap_range)
   if seth.is_probe_response == 1 then
      branch:add(derived.caused_by_probe, seth.ack_psn_offset % 2 ^ 16):set_generated()
   else
      branch:add(derived.caused_by_psn, psn_add(seth.cack_psn, seth.ack_psn_offset)):set_generated()
   end
   local newest = -1
   local is_set = {}
   for position = 0, BITMAP_BITS - 1 do
      is_set[position] = bitmap_range:bitfield(BITMAP_BITS - 1 - position, 1) == 1
      if is_set[position] then
         newest = position
      end
   end
   local received, open = 0, 0
   for position = 0, newest do
      local psn = psn_add(seth.cack_psn, seth.sack_offset + position)
      if is_set[position] then
         items.sack_bitmap:add(derived.acknowledged_psn, psn):set_generated()
         received = received + 1
      elseif seth.sack_offset + position > 0 then
         items.sack_bitmap:add(derived.unreported_psn, psn):set_generated()
         open = open + 1
      end
   end
   items.sack_bitmap:append_text((" (%d received, %d open below the newest)"):format(received, open))
   local text = ("cack %d"):format(seth.cack_psn)
   if received + open > 0 then
      text = text .. (" +%d, %d open"):format(received, open)
   end
   if seth.advice ~= 0 then
      text = text .. " " .. NAMES.advice[seth.advice]
   end
   return text .. (seth.is_probe_response == 1 and " (answers a probe)" or "")
end

-- Text for the info column, by header.
local SUMMARY = {
   meth = function(values) return "MSN " .. values.msn end,
   immdt = function(values) return ("immediate 0x%08x"):format(values.immediate) end,
   aeth = function(values, branch)
      if values.kind == 3 then
         branch:add(derived.nak_code, values.value):set_generated()
         return ("NAK %s MSN %d"):format(NAMES.nak_code[values.value] or values.value, values.msn)
      end
      return ("%s MSN %d"):format(NAMES.kind[values.kind], values.msn)
   end,
   neth = function(values)
      return ("%s PSN %d"):format(NAMES.reason[values.reason] or "reason " .. values.reason, values.nack_psn)
   end,
   peth = function(values) return "probe " .. values.probe_id end,
   lph = function(values) return ("path %d round %d"):format(values.path, values.round) end,
   erth = function(values)
      local name = NAMES.operation[values.operation] or "operation " .. values.operation
      return values.operation == 0 and ("%s 0x%x"):format(name, values.port_status_mask) or name
   end,
}

-- The name of the host whose port has this inner address; nil for an address of another kind.
local function host_name(range)
   local octets = range:bytes():tohex(true)
   if octets:sub(1, 12) ~= INNER_PREFIX or octets:sub(17, 24) ~= "00000000" then
      return nil
   end
   local number = tonumber(octets:sub(25), 16)
   return number > 0 and "h" .. number - 1 or nil
end

-- Host names and EV from the headers below; returns what the info column says about the ends, and the EV.
local function add_surroundings(source_port, tree)
   local ends, ev = "", nil
   local source, destination, flow = last_of(ipv6_source), last_of(ipv6_destination), last_of(ipv6_flow)
   if source and destination then
      local from, to = host_name(source.range), host_name(destination.range)
      if from and to then
         tree:add(derived.source_host, from):set_generated()
         tree:add(derived.destination_host, to):set_generated()
         ends = from .. " > " .. to .. "  "
      end
   end
   if flow then
      ev = flow.value % 2 ^ 16 * 2 ^ 16 + source_port
      local item = tree:add(derived.ev, ev)
      item:set_generated()
      add_ev_parts(item, ev, "ev")
   end
   return ends, ev
end

local function add_icrc(pinfo, tvb, offset, tree)
   local range = tvb(offset, ICRC_BYTES)
   local item = tree:add(derived.icrc, range)
   if range:uint() == 0 then
      item:add(derived.icrc_status, "off"):set_generated()
      return
   end
   local expected = icrc_of(pinfo, tvb:raw(0, offset))
   if not expected then
      item:add(derived.icrc_status, "not checked"):set_generated()
   elseif expected == range:le_uint() then
      item:add(derived.icrc_status, "good"):set_generated()
   else
      item:add(derived.icrc_status, "bad"):set_generated()
      item:add_proto_expert_info(bad_icrc)
   end
end

-- ---- the packet ------------------------------------------------------------------------------------------

-- By the outermost header's class: a switch that trims rewrites that one.
local function was_trimmed()
   local class = ipv6_class()
   return class ~= nil and (class.value == 12 or class.value == 16)
end

-- Dissects what lies between UDP and the end of the packet. Nothing is read before its length is checked.
local function dissect(tvb, pinfo, root, source_port, udp_bytes)
   local captured, sent = tvb:captured_len(), tvb:reported_len()
   local tree = root:add(mrc, tvb())
   pinfo.cols.protocol = "MRC"
   local class, is_trimmed = ipv6_class(), was_trimmed()
   local parts = {}

   local function finish(reason)
      if reason then
         tree:add_proto_expert_info(malformed, reason)
         parts[#parts + 1] = "[malformed: " .. reason .. "]"
      end
      pinfo.cols.info = table.concat(parts, "  ")
      return captured
   end

   -- Whether `bytes` at `offset` can be read; when not, why, unless the capture or a switch cut them off.
   local function missing(offset, bytes, name)
      if offset + bytes <= captured then
         return false, nil
      end
      if is_trimmed or captured < sent then
         parts[#parts + 1] = is_trimmed and "[trimmed]" or "[cut by the capture]"
         return true, nil
      end
      return true, ("%d bytes where %s needs %d"):format(captured - offset, name, bytes)
   end

   local ends, ev = add_surroundings(source_port, tree)
   if class then
      tree:add(derived.dscp, class.value):set_generated()
   end
   tree:add(derived.is_trimmed, is_trimmed):set_generated()
   if is_trimmed and udp_bytes then
      tree:add(derived.untrimmed_bytes, math.max(0, udp_bytes - UDP_BYTES - ICRC_BYTES)):set_generated()
   end

   local is_missing, reason = missing(0, layouts.bth.bytes, "BTH")
   if is_missing then
      return finish(reason)
   end
   local bth, _, bth_items = add_header(layouts.bth, tvb, 0, tree)
   local name = NAMES.opcode[bth.opcode]
   parts[1] = ends .. (name or ("opcode 0x%02x"):format(bth.opcode))
   tree:append_text(", " .. parts[1])
   parts[2] = ("QP %d PSN %d"):format(bth.destination_qpn, bth.psn)
   if ev then
      parts[#parts + 1] = "EV " .. ev_text(ev)
   end
   if bth.wants_ack == 1 then
      parts[#parts + 1] = "[AckReq]"
   end
   if bth.is_retransmission == 1 then
      parts[#parts + 1] = "[Retransmission]"
   end
   if not name then
      bth_items.opcode:add_proto_expert_info(malformed, "no such opcode")
      return finish("no such opcode")
   end
   if bth.version ~= 0 then
      return finish("transport version " .. bth.version)
   end

   local offset, cc_type = layouts.bth.bytes, nil
   for _, header in ipairs(FOLLOWING[bth.opcode]) do
      if header ~= "tseth" or bth.has_timestamp == 1 then
         local layout = layouts[header == "ccstate" and (CC_STATES[cc_type] or "ownccstate") or header]
         is_missing, reason = missing(offset, layout.bytes, header:upper())
         if is_missing then
            return finish(reason)
         end
         local values, branch, items = add_header(layout, tvb, offset, tree)
         if values.entropy then
            add_ev_parts(items.entropy, values.entropy, "reflected")
         end
         local summary
         if header == "seth" then
            cc_type = values.cc_type
            summary = explain_sack(values, branch, items, tvb(offset + 20, 8))
         elseif header == "ccstate" then
            branch:add(derived.received_bytes, UInt64(values.received_units * UNIT_BYTES)):set_generated()
         elseif SUMMARY[header] then
            summary = SUMMARY[header](values, branch)
         end
         parts[#parts + 1] = summary
         offset = offset + layout.bytes
      end
   end
   if is_trimmed then
      parts[#parts + 1] = "[trimmed]"
      return finish(nil)
   end

   local rest = sent - ICRC_BYTES - offset
   local is_write = FOLLOWING[bth.opcode][1] == "meth"
   if is_write then
      rest = rest - bth.pad_bytes
   end
   if rest < 0 then
      return finish("no room for pad and iCRC")
   end
   if not is_write and rest > 0 then
      return finish(rest .. " bytes too many")
   end
   if is_write then
      if (rest + bth.pad_bytes) % 4 ~= 0 then
         return finish("pad does not fill up the payload")
      end
      tree:add(derived.payload_bytes, rest):set_generated()
      parts[#parts + 1] = "len " .. rest
      local visible = math.min(rest, captured - offset)
      if visible > 0 then
         tree:add(derived.payload, tvb(offset, visible))
      end
      offset = offset + rest
      if offset + bth.pad_bytes <= captured and bth.pad_bytes > 0 then
         tree:add(derived.pad, tvb(offset, bth.pad_bytes))
      end
      offset = offset + bth.pad_bytes
   end
   if offset + ICRC_BYTES <= captured then
      add_icrc(pinfo, tvb, offset, tree)
   end
   return finish(nil)
end

-- Lets another dissector go on. What it finds malformed it has shown by the time that Lua returns.
local function call_dissector(dissector, tvb, pinfo, root)
   local is_sound, length = pcall(dissector.call, dissector, tvb, pinfo, root)
   return is_sound and length or tvb:captured_len()
end

-- RoCE and others keep what is theirs: packets of another transport class go to whoever had the port before.
local former = nil

local function is_ours(opcode)
   return bits_of(opcode, 5, 3) == 6 or FOLLOWING[opcode] ~= nil
end

function mrc.dissector(tvb, pinfo, root)
   if former and tvb:captured_len() > 0 and not is_ours(tvb(0, 1):uint()) then
      return call_dissector(former, tvb, pinfo, root)
   end
   local length = last_of(udp_length)
   return dissect(tvb, pinfo, root, pinfo.src_port, length and length.value)
end

local udp = DissectorTable.get("ip.proto"):get_dissector(17)
local udp_ports = DissectorTable.get("udp.port")

-- The source port is half of an EV, not a service, though Wireshark would ask the lower of the two ports first.
local function call_udp(tvb, pinfo, root)
   local source_port = tvb(0, 2):uint()
   local service = udp_ports:get_dissector(source_port)
   if not service or source_port == mrc.prefs.udp_port then
      return call_dissector(udp, tvb, pinfo, root)
   end
   udp_ports:remove(source_port, service)
   local length = call_dissector(udp, tvb, pinfo, root)
   udp_ports:add(source_port, service)
   return length
end

-- A trimmed packet keeps its lengths, which Wireshark's own UDP would call malformed.
function mrc_udp.dissector(tvb, pinfo, root)
   if tvb:captured_len() < UDP_BYTES or tvb(2, 2):uint() ~= mrc.prefs.udp_port then
      return call_dissector(udp, tvb, pinfo, root)
   end
   if not was_trimmed() then
      return call_udp(tvb, pinfo, root)
   end
   local tree = root:add(mrc_udp, tvb(0, UDP_BYTES))
   tree:add(udp_fields.source_port, tvb(0, 2))
   tree:add(udp_fields.destination_port, tvb(2, 2))
   tree:add(udp_fields.length, tvb(4, 2))
   if tvb:captured_len() == UDP_BYTES then
      return UDP_BYTES
   end
   return UDP_BYTES + dissect(tvb(UDP_BYTES):tvb(), pinfo, root, tvb(0, 2):uint(), tvb(4, 2):uint())
end

-- ---- the carrier -----------------------------------------------------------------------------------------

local ipv6_in_ipv6 = DissectorTable.get("ip.proto"):get_dissector(41)

local function add_carrier(root)
   local destination = ipv6_destination()
   if not destination or destination.range:len() ~= 16 then
      return
   end
   local range = destination.range
   if range(0, 4):bytes():tohex(true) ~= srv6.prefs.block then
      return
   end
   local tree = root:add(srv6, range)
   local hops = {}
   for slot = 0, 5 do
      local part = range(4 + 2 * slot, 2)
      local value = part:uint()
      if value == 0 then
         break
      end
      local role = NAMES.role[bits_of(value, 14, 2)] or "role 0"
      if role == "DL" and slot < 5 and range(6 + 2 * slot, 2):uint() ~= 0 then
         role = "T2" -- a downlink ends the route
      end
      local text = ("%s(%d)"):format(role, bits_of(value, 0, 10))
      hops[#hops + 1] = text
      local item = tree:add(usid_fields.usid, part)
      item:append_text((" = %s, plane %d%s"):format(text, bits_of(value, 10, 4), slot == 0 and ", active" or ""))
      item:add(usid_fields.role, part)
      item:add(usid_fields.plane, part)
      item:add(usid_fields.index, part)
   end
   local path = table.concat(hops, " ")
   tree:add(usid_fields.path, path):set_generated()
   tree:append_text(", hops left: " .. path)
end

function srv6.dissector(tvb, pinfo, root)
   add_carrier(root)
   return call_dissector(ipv6_in_ipv6, tvb, pinfo, root)
end

-- ---- registration ----------------------------------------------------------------------------------------

local registered_port = nil

local function register_port()
   if registered_port == mrc.prefs.udp_port then
      return
   end
   if registered_port then
      udp_ports:remove(registered_port, mrc)
      if former then
         udp_ports:add(registered_port, former)
      end
   end
   registered_port = mrc.prefs.udp_port
   former = udp_ports:get_dissector(registered_port)
   udp_ports:add(registered_port, mrc)
end

mrc.prefs_changed = register_port
register_port()
DissectorTable.get("ip.proto"):add(17, mrc_udp)
DissectorTable.get("ip.proto"):add(41, srv6)
