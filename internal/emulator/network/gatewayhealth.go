package network

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// Probe is a health probe of an Application Gateway, to one server of a backend pool.
type Probe struct {
	Gateway arm.ID
	To      netip.Addr
	Port    int
}

// Health is what an Application Gateway says of a server.
type Health string

// The healths of a server (application-gateway-backend-health).
const (
	Healthy   Health = "Healthy"
	Unhealthy Health = "Unhealthy"
	Unknown   Health = "Unknown"
)

// IngressPool is the gateway's backend pool for the service of the pods "web", named as the add-on
// does: pool-<namespace>-<service>-<port>-bp-<port>.
const IngressPool = "pool-default-web-80-bp-80"

// probeTime is how long all probes of one call may take.
const probeTime = 20 * time.Second

// What a gateway says of its probes (application-gateway-backend-health-troubleshooting). A server
// answers at every address: a probe that arrives gets a 200.
const (
	probeAnswered = "Success. Received 200 status code"
	probeLost     = "Time taken by the backend to respond to application gateway's health probe " +
		"is more than the timeout threshold in the probe setting."
)

// backend is a pool of servers with the settings by which a rule sends to it.
type backend struct {
	pool, settings arm.ID
	port           int
	servers        []string // addresses, or names
}

// healthAsked returns the gateway whose health a call asks for, or "".
func healthAsked(c *kernel.Call) arm.ID {
	if c.Method != http.MethodPost || len(c.Path) != 9 || !strings.EqualFold(c.Path[6],
		"applicationGateways") || !strings.EqualFold(c.Path[8], "backendhealth") {
		return ""
	}
	return c.ID(8)
}

// probe finds out the health of a gateway's servers before the call is handled. The function that
// traces the probes reads the network as a client, so the caller must hold no lock.
func (s *gateways) probe(c *kernel.Call) {
	asked := healthAsked(c)
	if asked == "" {
		return
	}
	found := map[Probe][2]string{}
	c.Found = found
	id, backends := s.lockedBackends(asked)
	for _, b := range backends {
		for _, server := range b.servers {
			if to, err := netip.ParseAddr(server); err == nil {
				found[Probe{id, to, b.port}] = [2]string{string(Unknown), ""}
			}
		}
	}
	if s.Opts.Probe == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	for p := range found {
		switch health, why := s.Opts.Probe(ctx, p); health {
		case Healthy:
			found[p] = [2]string{string(health), probeAnswered}
		case Unhealthy:
			found[p] = [2]string{string(health), probeLost}
			s.kernel.Log.Debug("a probe is lost", "gateway", id.Name(), "to", p.To, "why", why)
		default:
			found[p] = [2]string{string(Unknown), why}
		}
	}
}

func (s *gateways) lockedBackends(id arm.ID) (arm.ID, []backend) {
	defer s.kernel.Lock()()
	if r := s.kernel.Store.Get(id); r != nil {
		return r.ID, backendsOf(r)
	}
	return "", nil
}

// backendsOf returns the pools that a gateway's rules send to, each with the settings they name.
// The pool of the ingress add-on, for which no rule is made here, is among them.
func backendsOf(r *kernel.Resource) []backend {
	properties := r.Properties()
	part := func(list string, id arm.ID) kernel.Object {
		p := kernel.Named(kernel.ListAt(properties, list), id.Name())
		return kernel.ObjectAt(p, "properties")
	}
	var out []backend
	seen := map[string]bool{}
	add := func(pool, settings arm.ID) {
		b := backend{pool: pool, settings: settings, port: 80}
		if seen[pool.Key()+" "+settings.Key()] || pool == "" {
			return
		}
		seen[pool.Key()+" "+settings.Key()] = true
		if port := kernel.NumberOf(part("backendHttpSettingsCollection", settings),
			"port"); port > 0 {
			b.port = port
		}
		for _, a := range kernel.ListAt(part("backendAddressPools", pool), "backendAddresses") {
			b.servers = append(b.servers, kernel.Text(a, "ipAddress")+kernel.Text(a, "fqdn"))
		}
		out = append(out, b)
	}
	of := func(p kernel.Object, field string) arm.ID {
		return arm.ID(kernel.Text(p, field, "id"))
	}
	for _, rule := range kernel.ListAt(properties, "requestRoutingRules") {
		p := kernel.ObjectAt(rule, "properties")
		add(of(p, "backendAddressPool"), of(p, "backendHttpSettings"))
	}
	for _, paths := range kernel.ListAt(properties, "urlPathMaps") {
		p := kernel.ObjectAt(paths, "properties")
		add(of(p, "defaultBackendAddressPool"), of(p, "defaultBackendHttpSettings"))
		for _, rule := range kernel.ListAt(p, "pathRules") {
			inner := kernel.ObjectAt(rule, "properties")
			add(of(inner, "backendAddressPool"), of(inner, "backendHttpSettings"))
		}
	}
	if kernel.Named(kernel.ListAt(properties, "backendAddressPools"), IngressPool) != nil {
		add(r.ID.Child("backendAddressPools", IngressPool), r.ID.Child(
			"backendHttpSettingsCollection", strings.Replace(IngressPool, "pool-", "bp-", 1)))
	}
	return out
}

// health answers POST {gateway}/backendhealth with what the probes found.
func (s *gateways) health(c *kernel.Call, r *kernel.Resource) kernel.Reply {
	pools := []any{}
	probed, _ := c.Found.(map[Probe][2]string)
	running := kernel.Text(r.Properties(), "operationalState") == "Running"
	for _, b := range backendsOf(r) {
		servers := []any{}
		for _, address := range b.servers {
			found := [2]string{string(Unknown), "The name " + address + " was not resolved."}
			if to, err := netip.ParseAddr(address); err == nil {
				found = probed[Probe{r.ID, to, b.port}]
			}
			if !running {
				found = [2]string{string(Unknown), fmt.Sprintf("%s is stopped.", r.ID.Name())}
			}
			servers = append(servers,
				kernel.Object{"address": address, "health": found[0], "healthProbeLog": found[1]})
		}
		pools = append(pools, kernel.Object{
			"backendAddressPool": arm.Link(b.pool),
			"backendHttpSettingsCollection": []any{kernel.Object{
				"backendHttpSettings": arm.Link(b.settings), "servers": servers}},
		})
	}
	c.LocationOnly = true
	return s.kernel.Accepted(c, kernel.Encode(kernel.Object{"backendAddressPools": pools}))
}
