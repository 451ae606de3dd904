package emulator

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
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

// probeTime is how long all probes of one call may take.
const probeTime = 20 * time.Second

// What a gateway says of its probes (application-gateway-backend-health-troubleshooting). Behind
// every address answers a server: a probe that arrives is answered with 200.
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

// healthAsked is the gateway whose health a call asks for, or "".
func healthAsked(c *call) arm.ID {
	if c.method != http.MethodPost || len(c.path) != 9 ||
		!strings.EqualFold(c.path[6], "applicationGateways") ||
		!strings.EqualFold(c.path[8], "backendhealth") {
		return ""
	}
	return arm.ID("/" + strings.Join(c.path[:8], "/"))
}

// probe finds out the health of a gateway's servers before the call that asks for it is answered.
// Who traces the probes reads the network as a client does: nothing may be locked meanwhile.
func (s *network) probe(c *call) {
	asked := healthAsked(c)
	if asked == "" {
		return
	}
	c.health = map[Probe][2]string{}
	id, backends := s.lockedBackends(asked)
	for _, b := range backends {
		for _, server := range b.servers {
			if to, err := netip.ParseAddr(server); err == nil {
				c.health[Probe{id, to, b.port}] = [2]string{string(Unknown), ""}
			}
		}
	}
	if s.kernel.opts.Probe == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	for p := range c.health {
		switch health, why := s.kernel.opts.Probe(ctx, p); health {
		case Healthy:
			c.health[p] = [2]string{string(health), probeAnswered}
		case Unhealthy:
			c.health[p] = [2]string{string(health), probeLost}
			s.kernel.log.Debug("a probe is lost", "gateway", id.Name(), "to", p.To, "why", why)
		default:
			c.health[p] = [2]string{string(Unknown), why}
		}
	}
}

func (s *network) lockedBackends(id arm.ID) (arm.ID, []backend) {
	defer s.kernel.lock()()
	if r := s.kernel.store.get(id); r != nil {
		return r.id, backendsOf(r)
	}
	return "", nil
}

// backendsOf are the pools that a gateway's rules send to, each with the settings they name. The
// pool of the ingress add-on, for which no rule is made here, is among them.
func backendsOf(r *resource) []backend {
	properties := objectAt(r.body, "properties")
	part := func(list string, id arm.ID) object {
		for _, p := range listAt(properties, list) {
			if strings.EqualFold(text(p, "name"), id.Name()) {
				return objectAt(p, "properties")
			}
		}
		return nil
	}
	var out []backend
	seen := map[string]bool{}
	add := func(pool, settings arm.ID) {
		b := backend{pool: pool, settings: settings, port: 80}
		if seen[pool.Key()+" "+settings.Key()] || pool == "" {
			return
		}
		seen[pool.Key()+" "+settings.Key()] = true
		if port := numberOf(part("backendHttpSettingsCollection", settings), "port"); port > 0 {
			b.port = port
		}
		for _, a := range listAt(part("backendAddressPools", pool), "backendAddresses") {
			b.servers = append(b.servers, text(a, "ipAddress")+text(a, "fqdn"))
		}
		out = append(out, b)
	}
	of := func(p object, field string) arm.ID { return arm.ID(text(objectAt(p, field), "id")) }
	for _, rule := range listAt(properties, "requestRoutingRules") {
		p := objectAt(rule, "properties")
		add(of(p, "backendAddressPool"), of(p, "backendHttpSettings"))
	}
	for _, paths := range listAt(properties, "urlPathMaps") {
		p := objectAt(paths, "properties")
		add(of(p, "defaultBackendAddressPool"), of(p, "defaultBackendHttpSettings"))
		for _, rule := range listAt(p, "pathRules") {
			inner := objectAt(rule, "properties")
			add(of(inner, "backendAddressPool"), of(inner, "backendHttpSettings"))
		}
	}
	for _, pool := range listAt(properties, "backendAddressPools") {
		if text(pool, "name") == ingressPool {
			add(r.id.Child("backendAddressPools", ingressPool),
				r.id.Child("backendHttpSettingsCollection", strings.Replace(ingressPool, "pool-",
					"bp-", 1)))
		}
	}
	return out
}

// health answers POST {gateway}/backendhealth with what the probes found.
func (s *network) health(c *call, r *resource) (reply, *failure) {
	pools := []any{}
	running := text(objectAt(r.body, "properties"), "operationalState") == "Running"
	for _, b := range backendsOf(r) {
		servers := []any{}
		for _, address := range b.servers {
			found := [2]string{string(Unknown), "The name " + address + " was not resolved."}
			if to, err := netip.ParseAddr(address); err == nil {
				found = c.health[Probe{r.id, to, b.port}]
			}
			if !running {
				found = [2]string{string(Unknown), fmt.Sprintf("%s is stopped.", r.id.Name())}
			}
			servers = append(servers, object{"address": address, "health": found[0],
				"healthProbeLog": found[1]})
		}
		pools = append(pools, object{
			"backendAddressPool": object{"id": string(b.pool)},
			"backendHttpSettingsCollection": []any{object{
				"backendHttpSettings": object{"id": string(b.settings)}, "servers": servers}},
		})
	}
	return s.kernel.accepted(c, encode(object{"backendAddressPools": pools})), nil
}
