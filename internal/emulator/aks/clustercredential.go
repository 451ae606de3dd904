package aks

import (
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// TypeTrustedAccess are the bindings that let a service, such as a backup vault, into a cluster.
const TypeTrustedAccess = arm.TypeCluster + "/trustedAccessRoleBindings"

// renewals has the actions that replace a cluster's login. Each has the profile that the request
// replaces, or "" if AKS makes the new secrets (ManagedClusters in the API's reference). The
// emulator's certificates and keys stay as they are.
var renewals = map[string]string{
	"resetserviceprincipalprofile": "servicePrincipalProfile", "resetaadprofile": "aadProfile",
	"rotateclustercertificates": "", "rotateserviceaccountsigningkeys": "",
}

func (s *APIServers) renew(c *kernel.Call, r *kernel.Resource, action string) (kernel.Reply,
	*kernel.Failure) {
	f := s.checkChangeable(r)
	if field := renewals[action]; f == nil && field != "" {
		var sent kernel.Object
		if sent, f = kernel.DecodeObject(c.Body); f == nil {
			s.kernel.KindOf(r.ID).Accept(sent)
			s.kernel.Remember(r.ID)
			r.Properties()[field] = sent
			dropSecrets(r.Properties())
		}
	}
	s.kernel.Record(c, r.ID, c.Path[8]+"/action", f)
	if f != nil {
		return kernel.Reply{}, f
	}
	s.kernel.Occupy(c, r, "Updating")
	return s.kernel.Accepted(c, nil), nil
}

// dropSecrets removes what AKS never shows (recorded).
func dropSecrets(properties kernel.Object) {
	for profile, secret := range map[string]string{"servicePrincipalProfile": "secret",
		"windowsProfile": "adminPassword", "aadProfile": "serverAppSecret"} {
		delete(kernel.ObjectAt(properties, profile), secret)
	}
}

// showProxy adds the addresses that a cluster's nodes reach without the HTTP proxy (documented for
// effectiveNoProxy). Until 2024, as far as recordings and published clusters show, noProxy was the
// same list.
func showProxy(s *AKS, cl *cluster, r *kernel.Resource, properties kernel.Object) {
	config := kernel.ObjectAt(properties, "httpProxyConfig")
	if config == nil {
		return
	}
	profile := kernel.ObjectAt(properties, "networkProfile")
	direct := slices.Concat([]string{"localhost", "127.0.0.1", "168.63.129.16", "169.254.169.254",
		"konnectivity", kernel.Text(properties, "fqdn"), kernel.Text(profile, "serviceCidr")},
		kernel.List(config, "noProxy"), kernel.List(profile, "podCidrs"))
	for _, p := range cl.Pools {
		if vnet := s.kernel.Store.Get(p.Subnet.Parent()); vnet != nil {
			direct = append(direct,
				kernel.List(vnet.Body, "properties", "addressSpace", "addressPrefixes")...)
		}
	}
	slices.Sort(direct)
	all := []any{}
	for _, host := range slices.Compact(direct) {
		if host != "" { // a private cluster may have no public name
			all = append(all, host)
		}
	}
	config["effectiveNoProxy"] = all
	if !kernel.SinceDate(r.AsOf, "2024-01-01") {
		config["noProxy"] = all
	}
}

func machinesOf(p *pool, pool arm.ID) []kernel.Object {
	out := []kernel.Object{}
	for _, n := range p.Nodes {
		addresses := []kernel.Object{}
		for _, a := range n.Addrs[:min(1, len(n.Addrs))] {
			addresses = append(addresses, kernel.Object{"family": "IPv4", "ip": a.String()})
		}
		out = append(out, kernel.Object{"id": string(pool.Child("machines", n.Name)),
			"name": n.Name, "type": arm.TypeCluster + "/agentPools/machines",
			"properties": kernel.Object{"resourceId": string(p.machine(n)),
				"network": kernel.Object{"ipAddresses": addresses}}})
	}
	return out
}
