package emulator

import (
	"encoding/binary"
	"hash/fnv"
	"net/http"
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
)

// publicRange is where public addresses come from here: a range that belongs to nobody (RFC 2544).
var publicRange = [2]netip.Prefix{netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("2001:db8::/32")}

// settlePublicIP gives a public IP address its address. A Basic dynamic one has none until something holds it; Basic ones
// are retired, so that here all have one.
func (e *Emulator) settlePublicIP(c *call, r, old *resource) *failure {
	keepGUID(r, old)
	properties := objectAt(r.body, "properties")
	setDefault(r.body, "sku", object{"name": "Standard", "tier": "Regional"})
	setDefault(properties, "publicIPAddressVersion", "IPv4")
	setDefault(properties, "publicIPAllocationMethod", "Static")
	setDefault(properties, "idleTimeoutInMinutes", 4)
	setDefault(properties, "ipTags", []any{})
	if text(objectAt(r.body, "sku"), "name") == "Standard" && text(properties, "publicIPAllocationMethod") != "Static" {
		return fail(http.StatusBadRequest, "StandardSkuPublicIPAddressesMustBeStatic", "Standard sku publicIp %s must have AllocationMethod set to Static.", r.id)
	}
	delete(properties, "ipAddress")
	if old != nil && text(objectAt(old.body, "properties"), "publicIPAddressVersion") == text(properties, "publicIPAddressVersion") {
		properties["ipAddress"] = objectAt(old.body, "properties")["ipAddress"]
	}
	if properties["ipAddress"] == nil {
		properties["ipAddress"] = e.publicAddress(r.id, text(properties, "publicIPAddressVersion") == "IPv6").String()
	}
	return nil
}

// publicAddress finds a free one, the same for the same name where it can.
func (e *Emulator) publicAddress(id arm.ID, v6 bool) netip.Addr {
	taken := map[string]bool{}
	for _, r := range e.store.byType[kindKey(typePublicIP)] {
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
			low = n&(1<<17-1) | binary.BigEndian.Uint32(tail)
		}
		binary.BigEndian.PutUint32(tail, low)
		if a, _ := netip.AddrFromSlice(slices.Clone(raw)); !taken[a.String()] {
			return a
		}
	}
}

// settleNAT fills in a NAT gateway.
func (e *Emulator) settleNAT(c *call, r, old *resource) *failure {
	keepGUID(r, old)
	setDefault(r.body, "sku", object{"name": "Standard"})
	setDefault(objectAt(r.body, "properties"), "idleTimeoutInMinutes", 4)
	return nil
}
