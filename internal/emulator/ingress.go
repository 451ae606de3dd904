package emulator

import (
	"net/http"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

const (
	ingressAddon = "ingressApplicationGateway"
	// ingressTime is how often the controller compares the gateway with the pods.
	ingressTime = 5 * time.Second
)

// playIngress lets a cluster's ingress add-on follow its pods, as long as it has one. It is called
// when nodes have changed.
func (s *aks) playIngress(cl *cluster) {
	r := s.kernel.store.get(cl.id)
	if cl.ingress || r == nil || !hasAddon(r.body, ingressAddon) {
		return
	}
	cl.ingress = true
	s.kernel.at(time.Now().Add(max(s.opts.RouteBatch, time.Millisecond)), func() {
		s.followPods(cl)
	})
}

func (s *aks) followPods(cl *cluster) {
	r := s.kernel.store.get(cl.id)
	if s.kernel.closed || s.clusters[cl.id.Key()] != cl || r == nil ||
		!hasAddon(r.body, ingressAddon) {
		cl.ingress = false
		return
	}
	s.fillGateway(cl, r)
	s.kernel.at(time.Now().Add(ingressTime), func() { s.followPods(cl) })
}

// fillGateway writes the addresses of the pods "web" into the gateway that the add-on was told to
// drive, in the name of the add-on's identity and with its rights. The rest of the gateway stays:
// the real one writes its listeners and rules, too.
func (s *aks) fillGateway(cl *cluster, r *resource) {
	config := objectAt(r.body, "properties", "addonProfiles", ingressAddon, "config")
	gateway := s.kernel.store.get(arm.ID(text(config, "applicationGatewayId")))
	identity := s.kernel.store.get(cl.addonIdentity(ingressAddon))
	if gateway == nil || identity == nil || powerOf(r) != "Running" || s.isBusy(r) {
		return
	}
	addresses := []any{}
	for _, p := range cl.pools {
		for _, n := range p.nodes {
			for _, w := range cl.podsOn(p, n, "") {
				if w.workload == "web" && len(w.addrs) > 0 {
					addresses = append(addresses, object{"ipAddress": w.addrs[0].String()})
				}
			}
		}
	}
	body := clone(gateway.body)
	properties := objectAt(body, "properties")
	pools := listAt(properties, "backendAddressPools")
	at := slices.IndexFunc(pools, func(p object) bool { return text(p, "name") == ingressPool })
	if at < 0 {
		at, pools = len(pools), append(pools, object{"name": ingressPool, "properties": object{}})
	}
	inPool := objectAt(pools[at], "properties")
	if inPool == nil {
		inPool = object{}
		pools[at]["properties"] = inPool
	}
	if string(encode(inPool["backendAddresses"])) == string(encode(addresses)) {
		return
	}
	inPool["backendAddresses"], properties["backendAddressPools"] = addresses, items(pools)
	c := cl.call(http.MethodPut, gateway.id, body)
	c.who = identityOf(identity)
	fault := s.kernel.faults.take(c, true)
	c.fault = fault
	var answer reply
	var f *failure
	if fault != nil && fault.before() {
		f = fault.failure()
	} else if f = cl.provider.admitted(c); f == nil {
		answer, f = s.kernel.putCall(c, gateway.id)
	}
	if f != nil {
		answer = f.reply()
	}
	s.kernel.requests.add(c, time.Now(), answer, "ingress controller")
}
