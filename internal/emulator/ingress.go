package emulator

import (
	"net/http"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

const (
	ingressAddon = "ingressApplicationGateway"
	// ingressPool is the gateway's backend pool of the service of the pods "web", by the add-on's
	// way of naming: pool-<namespace>-<service>-<port>-bp-<port>.
	ingressPool = "pool-default-web-80-bp-80"
	// ingressTime is how often the controller compares the gateway with the pods.
	ingressTime = 5 * time.Second
)

// playIngress lets a cluster's ingress add-on follow its pods, as long as it has one. It is called
// when nodes have changed.
func (e *Emulator) playIngress(cl *cluster) {
	r := e.store.get(cl.id)
	if cl.ingress || r == nil || !hasAddon(r.body, ingressAddon) {
		return
	}
	cl.ingress = true
	e.at(time.Now().Add(max(e.opts.RouteBatch, time.Millisecond)), func() { e.followPods(cl) })
}

func (e *Emulator) followPods(cl *cluster) {
	r := e.store.get(cl.id)
	if e.closed || e.clusters[cl.id.Key()] != cl || r == nil || !hasAddon(r.body, ingressAddon) {
		cl.ingress = false
		return
	}
	e.fillGateway(cl, r)
	e.at(time.Now().Add(ingressTime), func() { e.followPods(cl) })
}

// fillGateway writes the addresses of the pods "web" into the gateway that the add-on was told to
// drive, in the name of the add-on's identity and with its rights. The rest of the gateway stays:
// the real one writes its listeners and rules, too.
func (e *Emulator) fillGateway(cl *cluster, r *resource) {
	config := objectAt(r.body, "properties", "addonProfiles", ingressAddon, "config")
	gateway := e.store.get(arm.ID(text(config, "applicationGatewayId")))
	identity := e.store.get(cl.addonIdentity(ingressAddon))
	if gateway == nil || identity == nil || powerOf(r) != "Running" || e.isBusy(r) {
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
	fault := e.faults.take(c, true)
	c.fault = fault
	var answer reply
	var f *failure
	if fault != nil && fault.before() {
		f = fault.failure()
	} else if f = cl.provider.admitted(c); f == nil {
		answer, f = e.putCall(c, gateway.id)
	}
	if f != nil {
		answer = f.reply()
	}
	e.requests.add(c, time.Now(), answer, "ingress controller")
}
