package aks

import (
	"net/http"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

const (
	IngressAddon = "ingressApplicationGateway"
	// ingressTime is how often the controller compares the gateway with the pods.
	ingressTime = 5 * time.Second
)

// ingress is the ingress add-on, which fills Application Gateways.
type ingress struct{ *AKS }

// start makes sure that the gateway of a cluster's ingress add-on is kept up to date as long as the
// cluster has the add-on. It is called when nodes have changed.
func (s ingress) start(cl *cluster) {
	r := s.kernel.Store.Get(cl.ID)
	if cl.ingress || r == nil || !hasAddon(r.Body, IngressAddon) {
		return
	}
	cl.ingress = true
	s.kernel.At(time.Now().Add(max(s.opts.RouteBatch, time.Millisecond)), func() {
		s.follow(cl)
	})
}

func (s ingress) follow(cl *cluster) {
	r := s.kernel.Store.Get(cl.ID)
	if s.kernel.Closed || s.Clusters[cl.ID.Key()] != cl || r == nil ||
		!hasAddon(r.Body, IngressAddon) {
		cl.ingress = false
		return
	}
	s.fill(cl, r)
	s.kernel.At(time.Now().Add(ingressTime), func() { s.follow(cl) })
}

// fill writes the addresses of the pods "web" into the add-on's gateway, as the add-on's
// identity and with its rights. The rest of the gateway stays: the real add-on writes listeners and
// rules, too.
func (s ingress) fill(cl *cluster, r *kernel.Resource) {
	config := kernel.ObjectAt(r.Body, "properties", "addonProfiles", IngressAddon, "config")
	gateway := s.kernel.Store.Get(arm.ID(kernel.Text(config, "applicationGatewayId")))
	identity := s.kernel.Store.Get(cl.AddonIdentity(IngressAddon))
	if gateway == nil || identity == nil || powerOf(r) != "Running" || isBusy(r) {
		return
	}
	addresses := []any{}
	for p, n := range cl.nodes() {
		for _, w := range cl.podsOn(p, n, "") {
			if w.Name == "web" && len(w.addrs) > 0 {
				addresses = append(addresses, kernel.Object{"ipAddress": w.addrs[0].String()})
			}
		}
	}
	body := kernel.Clone(gateway.Body)
	properties := kernel.ObjectAt(body, "properties")
	pools := kernel.ListAt(properties, "backendAddressPools")
	at := kernel.IndexOf(pools, network.IngressPool)
	if at < 0 {
		at, pools = len(pools), append(pools,
			kernel.Object{"name": network.IngressPool, "properties": kernel.Object{}})
	}
	inPool := kernel.ObjectAt(pools[at], "properties")
	if inPool == nil {
		inPool = kernel.Object{}
		pools[at]["properties"] = inPool
	}
	if string(kernel.Encode(inPool["backendAddresses"])) == string(kernel.Encode(addresses)) {
		return
	}
	inPool["backendAddresses"], properties["backendAddressPools"] = addresses, kernel.Items(pools)
	c := cl.call(http.MethodPut, gateway.ID, body)
	c.Who = entra.IdentityOf(identity)
	answer, _ := s.admittedPut(c, gateway.ID)
	s.kernel.Requests.Add(c, time.Now(), answer, "ingress controller")
}
