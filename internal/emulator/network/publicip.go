package network

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// PublicRange has the ranges of public addresses here. They have no owner (RFC 1112, RFC 3849). The
// benchmark range, 198.18.0.0/15, does not work, because Azure's own routes drop it.
var PublicRange = [2]netip.Prefix{netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001:db8::/32")}

// settlePublicIP gives a public IP address its address. A dynamic one has none until it is used.
//
// Without a sku it is Basic and dynamic in all recordings. These end before Basic was retired (30
// September 2025), so Azure's default since then is not known.
func (s *Network) settlePublicIP(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	keepGUID(r, old)
	properties := r.Properties()
	kernel.SetDefault(r.Body, "sku", kernel.Object{})
	sku := kernel.ObjectAt(r.Body, "sku")
	if sku == nil {
		return kernel.Unparsable("the sku of %s is not an object.", r.ID.Name())
	}
	kernel.SetDefault(sku, "name", "Basic")
	if kernel.Text(sku, "name") == "Basic" && kernel.Text(sku, "tier") == "Global" {
		return kernel.Bad("GlobalPublicIPAddressNotSupportedForBasicPublicIpAddress",
			"Global publicIP addresses are only supported for standard SKU public IP addresses. "+
				"Public IP address %s is not standard SKU.", r.ID)
	}
	if f := checkDomainLabel(s.kernel, r); f != nil {
		return f
	}
	if prefix := kernel.LinkOf(r.Body, "publicIPPrefix"); prefix != "" &&
		s.kernel.Store.Get(prefix) == nil {
		return referenceMissing(prefix)
	}
	kernel.SetDefault(properties, "publicIPAddressVersion", "IPv4")
	kernel.SetDefault(properties, "publicIPAllocationMethod", "Dynamic")
	kernel.SetDefault(properties, "idleTimeoutInMinutes", 4)
	kernel.SetDefault(properties, "ipTags", []any{})
	if kernel.Text(r.Body, "sku", "name") == "Standard" &&
		kernel.Text(properties, "publicIPAllocationMethod") != "Static" {
		return kernel.Bad("StandardSkuPublicIPAddressesMustBeStatic",
			"Standard sku publicIp %s must have AllocationMethod set to Static.", r.ID)
	}
	if old != nil && kernel.Text(old.Properties(),
		"publicIPAddressVersion") == kernel.Text(properties, "publicIPAddressVersion") {
		properties["ipAddress"] = old.Properties()["ipAddress"]
	}
	if len(s.Linked[r.ID.Key()]) > 0 ||
		kernel.Text(properties, "publicIPAllocationMethod") == "Static" {
		s.giveAddress(r)
	}
	return nil
}

// giveAddress gives a public IP address its address, if it has none.
func (s *Network) giveAddress(r *kernel.Resource) {
	if p := r.Properties(); p["ipAddress"] == nil {
		v6 := kernel.Text(p, "publicIPAddressVersion") == "IPv6"
		p["ipAddress"] = s.PublicAddress(r.ID, v6).String()
	}
}

// domainLabel is the form of the label of a public IP address.
var domainLabel = lazy.Regexp(`^[a-z][a-z0-9-]{1,61}[a-z0-9]$`)

// checkDomainLabel refuses a label that is malformed, or that another address in the region has
// (Azure's pages on deployment errors). The labels of other subscriptions do not count here.
func checkDomainLabel(k *kernel.Kernel, r *kernel.Resource) *kernel.Failure {
	label := kernel.Text(r.Body, "properties", "dnsSettings", "domainNameLabel")
	if label == "" {
		return nil
	}
	if !domainLabel().MatchString(label) {
		return kernel.Bad("InvalidDomainNameLabel", "The domain name label %s is invalid. It "+
			"must conform to the following regular expression: %s.", label, domainLabel())
	}
	for _, other := range k.Store.List(arm.TypePublicIP, "") {
		if !other.ID.Equal(r.ID) && strings.EqualFold(other.ID.Subscription(),
			r.ID.Subscription()) && other.Body["location"] == r.Body["location"] &&
			kernel.Text(other.Body, "properties", "dnsSettings", "domainNameLabel") == label {
			return kernel.Bad("DnsRecordInUse", "DNS record %s.%s.cloudapp.azure.com is already "+
				"used by another public IP.", label, kernel.Text(r.Body, "location"))
		}
	}
	return nil
}

// showPublicIP hides the address of an unused dynamic one: it has none.
func (s *Network) showPublicIP(r *kernel.Resource, doc kernel.Object, version string) {
	if p := kernel.ObjectAt(doc, "properties"); kernel.Text(p,
		"publicIPAllocationMethod") == "Dynamic" && len(s.Linked[r.ID.Key()]) == 0 {
		delete(p, "ipAddress")
	}
}

// PublicAddress finds a free address. The same name gets the same address if possible.
func (s *Network) PublicAddress(id arm.ID, v6 bool) netip.Addr {
	taken := map[string]bool{}
	for _, r := range s.kernel.Store.List(arm.TypePublicIP, "") {
		taken[kernel.Text(r.Properties(), "ipAddress")] = true
	}
	h := fnv.New32a()
	h.Write([]byte(id.Key()))
	for n := h.Sum32(); ; n++ {
		p := PublicRange[0]
		if v6 {
			p = PublicRange[1]
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
func settleNAT(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	keepGUID(r, old)
	kernel.SetDefault(r.Body, "sku", kernel.Object{"name": "Standard"})
	kernel.SetDefault(r.Properties(), "idleTimeoutInMinutes", 4)
	return nil
}
