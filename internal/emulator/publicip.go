package emulator

import (
	"encoding/binary"
	"hash/fnv"
	"net/http"
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
)

// publicRange is where public addresses come from here: ranges without an owner (RFC 1112, RFC
// 3849). The one for benchmarks, 198.18.0.0/15, is among the ones that Azure's own routes drop.
var publicRange = [2]netip.Prefix{netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001:db8::/32")}

// settlePublicIP gives a public IP address its address. A dynamic one has none until something
// holds it.
//
// Without a sku it is a Basic dynamic one in all recordings, which end before Basic was retired (30
// September 2025): what Azure makes of it since is not known.
func (s *network) settlePublicIP(c *call, r, old *resource) *failure {
	keepGUID(r, old)
	properties := objectAt(r.body, "properties")
	setDefault(r.body, "sku", object{})
	sku := objectAt(r.body, "sku")
	if sku == nil {
		return fail(http.StatusBadRequest, "InvalidRequestFormat",
			"Cannot parse the request: the sku of %s is no object.", r.id.Name())
	}
	setDefault(sku, "name", "Basic")
	if text(sku, "name") == "Basic" && text(sku, "tier") == "Global" {
		return fail(http.StatusBadRequest,
			"GlobalPublicIPAddressNotSupportedForBasicPublicIpAddress", "Global publicIP "+
				"addresses are only supported for standard SKU public IP addresses. Public IP "+
				"address %s is of Basic SKU.", r.id)
	}
	if prefix := linkOf(r.body, "publicIPPrefix"); prefix != "" &&
		s.kernel.store.get(prefix) == nil {
		return referenceMissing(prefix)
	}
	setDefault(properties, "publicIPAddressVersion", "IPv4")
	setDefault(properties, "publicIPAllocationMethod", "Dynamic")
	setDefault(properties, "idleTimeoutInMinutes", 4)
	setDefault(properties, "ipTags", []any{})
	if text(objectAt(r.body, "sku"), "name") == "Standard" &&
		text(properties, "publicIPAllocationMethod") != "Static" {
		return fail(http.StatusBadRequest, "StandardSkuPublicIPAddressesMustBeStatic",
			"Standard sku publicIp %s must have AllocationMethod set to Static.", r.id)
	}
	delete(properties, "ipAddress")
	if old != nil && text(objectAt(old.body, "properties"),
		"publicIPAddressVersion") == text(properties, "publicIPAddressVersion") {
		properties["ipAddress"] = objectAt(old.body, "properties")["ipAddress"]
	}
	held := len(s.linked[r.id.Key()]) > 0
	if properties["ipAddress"] == nil &&
		(held || text(properties, "publicIPAllocationMethod") == "Static") {
		properties["ipAddress"] = s.publicAddress(r.id,
			text(properties, "publicIPAddressVersion") == "IPv6").String()
	}
	return nil
}

// givePublic gives the dynamic public IP addresses that a resource holds an address.
func (s *network) givePublic(holder *resource) {
	for _, ref := range referencesIn(holder.id, holder.body) {
		if ref.link.to != typePublicIP {
			continue
		}
		if r := s.kernel.store.get(ref.target()); r != nil &&
			objectAt(r.body, "properties")["ipAddress"] == nil {
			p := objectAt(r.body, "properties")
			p["ipAddress"] = s.publicAddress(r.id, text(p, "publicIPAddressVersion") == "IPv6").
				String()
			s.kernel.store.changed(r)
		}
	}
}

// showPublicIP hides the address of a dynamic one that nothing holds: it has none.
func (s *network) showPublicIP(r *resource, doc object, version string) {
	if p := objectAt(doc, "properties"); text(p, "publicIPAllocationMethod") == "Dynamic" &&
		len(s.linked[r.id.Key()]) == 0 {
		delete(p, "ipAddress")
	}
}

// publicAddress finds a free one, the same for the same name where it can.
func (s *network) publicAddress(id arm.ID, v6 bool) netip.Addr {
	taken := map[string]bool{}
	for _, r := range s.kernel.store.byType[kindKey(typePublicIP)] {
		taken[text(objectAt(r.body, "properties"), "ipAddress")] = true
	}
	h := fnv.New32a()
	h.Write([]byte(id.Key()))
	for n := h.Sum32(); ; n++ {
		p := publicRange[0]
		if v6 {
			p = publicRange[1]
		}
		raw := p.Addr().AsSlice()
		tail := raw[len(raw)-4:]
		low := n
		if !v6 {
			low = n&(1<<28-1) | binary.BigEndian.Uint32(tail)
		}
		binary.BigEndian.PutUint32(tail, low)
		if a, _ := netip.AddrFromSlice(slices.Clone(raw)); !taken[a.String()] {
			return a
		}
	}
}

// settleNAT fills in a NAT gateway.
func (s *network) settleNAT(c *call, r, old *resource) *failure {
	keepGUID(r, old)
	setDefault(r.body, "sku", object{"name": "Standard"})
	setDefault(objectAt(r.body, "properties"), "idleTimeoutInMinutes", 4)
	return nil
}
